"""What the columns mean that the tables of some studies have and others do not."""

from __future__ import annotations

VOTES = {
    "held-out doubles (final)": "accuracy on held-out n + n of literals, one sequence a sum",
    "held-out doubles without votes (final)": "the same after the votes of n for n + n are removed",
    "other pairs without votes (final)": "accuracy on all other pairs after these votes are removed",
    "held-out doubles without the linear part (final)": "accuracy on held-out n + n after the part of the "
    "logits that is linear in the residual is removed",
    "other pairs without the linear part (final)": "accuracy on all other pairs without the linear part",
    "vote of n for n + n, held out (final)": "mean vote of n for n + n, in standard deviations of all "
    "votes, over the n whose double is held out; the vote of an operand is what it adds to a logit "
    "through the linear part, whatever the other operand is",
    "vote of n for n + n, seen (final)": "the same over the n whose double is in training",
    "2n or 2m is the runner-up without the linear part (final)": "share of pairs n + m, n != m, whose "
    "second largest logit without the linear part is that of 2n or 2m",
    "gradient symmetricity (final)": "gradient symmetricity after Zhong et al. (2023)",
    "distance irrelevance (final)": "distance irrelevance after Zhong et al. (2023)",
}
VOTE_CONTROLS = {
    "vote of n for n + m, both orders held out (final)": "mean vote of n for n + m over the pairs n, m, n != m, whose "
    "both orders are held out",
    "vote of n for n + n in the other half (final)": "what n adds on average to the logit of n + n through the part "
    "that is not linear, on pairs n + m, in standard deviations of all votes",
    "doubles less others, linear part (final)": "mean logit of the right answer from the linear part, held-out doubles "
    "less pairs whose both orders are held out, in standard deviations of all votes",
    "doubles less others, other part (final)": "the same from the part that is not linear",
    "held-out doubles without the mean vote (final)": "accuracy on held-out n + n after the mean of the votes of n for "
    "n + n is removed from every one",
    "held-out doubles with the vote of seen ones (final)": "accuracy on held-out n + n with the mean vote of the n "
    "whose double is in training",
    "held-out doubles less another number's vote (final)": "accuracy on held-out n + n after the vote of n for "
    "2 (n + 1) is removed from n + n instead",
    "seen doubles with the vote of held-out ones (final)": "accuracy on seen n + n with the mean vote of the n whose "
    "double is held out",
    "others lowered as doubles are (final)": "accuracy on pairs whose both orders are held out, with the right answer "
    "lowered by the votes that held-out doubles have on average",
}
SPIKES = {
    "sharp rise": "whether the model has a spike",
    "spikes": "number of spikes: rises of the mean accuracy on sums with variables (no banned slots) by "
    ".1 or more within 100 steps, after addition is learned",
    "loss bursts": "number of bursts: losses above twice the median of the 200 steps before and .02 above "
    "it; those within 200 steps are one",
    "spike steps": "the steps of the spikes",
    "burst steps": "the steps of the bursts",
    "saturation before bursts less usual": "mean share of saturated sequences in the 200 steps before a "
    "burst less its median since addition; a sequence is saturated if its gradient at the right answer is "
    "exactly 0 in float32",
    "saturation before bursts less nearby": "mean share of saturated sequences in the 200 steps before a "
    "burst less its median in the 500 steps before and after",
    "saturated at the end": "share of saturated sequences after the last step",
    "first spike at": "the step after the first spike, as `assignadd phases` finds it; null without one",
    "second spike at": "the step after the second spike; null without one",
    "accuracy before the first spike": "the mean accuracy on sums with variables before it",
    "accuracy after the first spike": "the mean accuracy on sums with variables after it",
    "saturated before the first spike": "share of saturated sequences in the 200 steps before it",
    "rise of saturation before the first spike": "that share less its mean in the 800 steps before them",
    "rise of QK2 identity at the first spike": "share of variables that match themselves most in QK2, in "
    "the 200 steps after it less that in the 200 steps before",
    "rise of QK2 margin at the first spike": "the margin of that match, likewise",
}
BOUND_AT = {
    f"binds at {step}": f"whether it answers 95 % of trained one-variable sums at step {step:,}"
    for step in (8000, 9000)
}
TRAINED_SUMS = {
    "answers trained sums": "whether it answers 95 % of the trained sums of one variable and of two in the final exam",
}
