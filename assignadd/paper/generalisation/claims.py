"""Claims of section 4: the accuracy of the trained network on sums and positions that training did not show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from assignadd.dynamics.phases import Curves
from assignadd.dynamics.trajectory import curves_of
from assignadd.ledger.claim import Claim, Measure, Reading, uses
from assignadd.measures.accuracies import Accuracy, banned_slot_accuracy, end_accuracies_of, end_steps
from assignadd.network import Network
from assignadd.stats import AtLeast, Measured, lowest, wilson
from assignadd.task.evalsets import CLASS_SETS, EVAL_SETS, EvalSet

# The paper's six test sets: with held-out pairs, or with variables in banned slots.
TEST_SETS = [evalset for evalset in EVAL_SETS if evalset.pair != "seen" or evalset.n_banned]
SIX_SETS = [evalset.name for evalset in TEST_SETS]
# The names of the sets with held-out pairs and 0, 1 and 2 variables, in this order.
HELD_OUT_PAIRS = [evalset.name for evalset in EVAL_SETS if evalset.pair == "held_out"]
# The paper's tests have 512 sequences, so its percentages stand for ranges.
PAPER_SEQUENCES = 512
PAIRS = {
    "seen": "trained pairs",
    "held_out": "held-out pairs",
    "mirror_seen": "pairs held out in one order and trained in the other",
    "neither_order": "pairs n != m held out in both orders",
    "doubles": "held-out doubles n + n",
}
# By the number of variables in the sum and of those in banned slots.
VARIABLES = {
    (0, 0): "no variables", (1, 0): "one variable", (2, 0): "two variables", (1, 1): "one variable in a banned slot",
    (2, 1): "two variables, one of them in a banned slot", (2, 2): "two variables, both in banned slots",
}  # fmt: skip


def in_words(evalset: EvalSet) -> str:
    """The plain name of an evaluation set, such as `held-out pairs with one variable`."""
    pairs = PAIRS[evalset.pair]
    if evalset in CLASS_SETS:  # their pairs are described by a phrase, which a comma ends
        pairs += ","
    return f"{pairs} with {VARIABLES[evalset.n_vars, evalset.n_banned or 0]}"


def slug(name: str) -> str:
    """The name of an evaluation set as part of an id: for `2-var var-restricted (1)` `2-var-var-restricted-1`."""
    return name.replace(" (", "-").replace(")", "").replace(" ", "-")


def achieved(accuracy: Accuracy | None, over_pairs: bool = False) -> Measured | None:
    """The accuracy that a network achieves on a set: the median of its accuracies at the last evaluations.

    The interval is over evaluations and sequences, or, with `over_pairs`, over evaluations and pairs of numbers. None
    for None, which stands for a set without sequences.
    """
    if accuracy is None:
        return None
    if over_pairs:
        n_pairs = accuracy.pairs or accuracy.n  # without a number of pairs there is one for every sequence
        return Measured.over_evaluations_and_pairs(accuracy.shares, n_pairs)
    return Measured.over_evaluations(accuracy.shares, accuracy.n * len(accuracy.shares))


# The decorator of measures that look at the checkpoints of the last evaluations.
at_the_end = uses(end_steps)


def on_set(name: str, over_pairs: bool = False) -> Measure:
    """The measure of the accuracy that a network achieves on one set; None if its split has no such sequences."""
    return at_the_end(lambda network: achieved(end_accuracies_of(network).get(name), over_pairs))


def lowest_on(sets: Sequence[EvalSet]) -> Measure:
    """The measure of the lowest accuracy that a network achieves on these sets, without those that its split lacks."""
    return at_the_end(lambda network: lowest(achieved(end_accuracies_of(network).get(s.name)) for s in sets))


def mean_over_sets(network: Network, weights: Mapping[str, float]) -> Measured | None:
    """The mean accuracy that a network achieves on sets with these weights; None if its split lacks one of them."""
    if not weights.keys() <= end_accuracies_of(network).keys():
        return None
    of_sets = [end_accuracies_of(network)[name] for name in weights]
    shares_of_sets = [accuracy.shares for accuracy in of_sets]  # (sets, evaluations)
    shares = np.average(shares_of_sets, axis=0, weights=list(weights.values()))  # (evaluations,)
    n_at_each_evaluation = sum(accuracy.n for accuracy in of_sets)
    return Measured.over_evaluations(shares.tolist(), n_at_each_evaluation * len(shares))


@at_the_end
def trained_with_variables(network: Network) -> Measured | None:
    """Accuracy on trained sums with one and with two variables together."""
    return mean_over_sets(network, {"1-var train": 1, "2-var train": 1})


@at_the_end
def held_out_sums_of_any_form(network: Network) -> Measured | None:
    """Accuracy on held-out pairs with 0, 1 and 2 variables, weighted as in the training mix."""
    literals, variable_first, variable_second, two_variables = network.config.task.mix
    weights = (literals, variable_first + variable_second, two_variables)
    return mean_over_sets(network, dict(zip(HELD_OUT_PAIRS, weights, strict=True)))


@at_the_end
def new_positions(network: Network) -> Measured | None:
    """Accuracy on one-variable sums with the variable in a banned slot and any pair of numbers."""
    return achieved(banned_slot_accuracy(network))


WINDOW = 1000  # steps


def in_best_window(curves: Curves, names: Sequence[str]) -> float | None:
    """The accuracy on the lowest of these sets in the best window of 1,000 steps, which may begin at any evaluation.

    In a window, a set has the median of its evaluations. None where a set is missing or no window has evaluations over
    half of it. As the best of many windows, the number is above what the network achieves as a rule.
    """
    if not all(name in curves.accuracy for name in names):
        return None
    steps = curves.steps
    shares = np.stack([curves.accuracy[name] for name in names])  # (sets, evaluations)
    # For each window the index of its first evaluation, and that of the first evaluation after it.
    begins = np.flatnonzero(steps <= steps[-1] - WINDOW)
    ends = np.searchsorted(steps, steps[begins] + WINDOW, side="right")
    covers_half = steps[ends - 1] - steps[begins] >= WINDOW / 2
    lengths = (ends - begins)[covers_half]  # numbers of evaluations
    begins = begins[covers_half]
    best = []
    for length in np.unique(lengths):  # windows of the same length at once
        windows = sliding_window_view(shares, length, axis=1)[:, begins[lengths == length]]  # (sets, windows, length)
        medians = np.median(windows, axis=2)  # (sets, windows)
        best.append(float(medians.min(0).max()))  # of the lowest set, in the best window
    return max(best, default=None)


def six_sets_in_best_window(curves: Curves) -> Measured | None:
    """The accuracy on the lowest of the six test sets in the best 1,000 steps of a training; None as above."""
    best = in_best_window(curves, SIX_SETS)
    return None if best is None else Measured.exactly(best, 1, "network")


def _at_least_as_in_the_paper(share: float) -> AtLeast:
    """The rule that a number is at least the lower end of the 95 % range that a percentage of the paper stands for."""
    correct = round(share * PAPER_SEQUENCES)
    return AtLeast(round(wilson(correct, PAPER_SEQUENCES).low, 4))


BANNED = "A banned slot is an operand slot in which training never puts this variable."
OVER_THE_END = "The value is the median over the last ten evaluated checkpoints, the interval over them and sequences."
INTERVAL_OF_LOWEST = "The interval has the lowest low end and the lowest high end of any set, so every set has to hold."
IN_BEST_WINDOW = "In the best 1,000 steps of its training."
RANGE = f"The paper counted it on {PAPER_SEQUENCES} sequences; the rule is the lower end of its 95 % range."
NEW_POSITIONS = "Sums with one variable, in a slot where training never puts it, are answered correctly"
ANY_FORM = "Sums of held-out pairs with 0, 1 or 2 variables, mixed as in training, are answered correctly"
CLASSES = tuple(
    Reading(evalset.pair.replace("_", "-"),
            f"Accuracy is at least 95 % on {in_words(evalset)} (interval over pairs).",
            AtLeast(0.95), on_set(evalset.name, over_pairs=True))
    for evalset in CLASS_SETS if evalset.n_vars == 0
)  # fmt: skip

GENERALISATION = (
    Claim("over-98-all-types", "accuracies",
          "Test accuracy exceeds 98 % on each of the six test sets (the lowest counts).",
          "over 98 %", lowest_on(TEST_SETS), AtLeast(0.98), f"{OVER_THE_END} {INTERVAL_OF_LOWEST}",
          readings=(Reading("best-window", IN_BEST_WINDOW, AtLeast(0.98),
                            lambda network: six_sets_in_best_window(curves_of(network))),)),
    *(
        Claim(f"over-98-{slug(evalset.name)}", "accuracies", f"Test accuracy exceeds 98 % on {in_words(evalset)}.",
              "over 98 %", on_set(evalset.name), AtLeast(0.98),
              f"{OVER_THE_END} {BANNED}" if evalset.n_banned else OVER_THE_END,
              if_binding=evalset.n_vars > 0)
        for evalset in TEST_SETS
    ),
    *(
        Claim(id, "section 4", f"{sentence} as often as the paper reports.", paper, measure,
              _at_least_as_in_the_paper(share), f"{RANGE} {OVER_THE_END}",
              readings=(Reading("strict", "At least as often as the paper reports.", AtLeast(share)), *more))
        for id, paper, share, sentence, measure, more in (
            ("new-positions-99.6", "99.6 %", 0.996, NEW_POSITIONS, new_positions, ()),
            ("held-out-pairs-99.4", "99.4 %", 0.994, ANY_FORM, held_out_sums_of_any_form, CLASSES),
        )
    ),
    Claim("no-first-mlp", "section 3",
          "A network without an MLP in its first layer learns sums with one and two variables.",
          "unnecessary", trained_with_variables, AtLeast(0.98), OVER_THE_END),
)  # fmt: skip
