"""The data dictionary: the meaning of every column of the tables that come with the package and of your own sweeps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from assignadd.measures.columns import VARIABLE_ACCURACY, column_label, measure_of
from assignadd.measures.progress import STACK_SEQUENCES, TRAINING_LAW
from assignadd.sweeps.final_tests import TWO_VAR, TWO_VAR_PARTS, ZERO_VAR, end_column, final_column
from assignadd.sweeps.settings import SECTIONS
from assignadd.sweeps.shipped_tables import ShippedTable
from assignadd.task.evalsets import LABELS

FACTS = {
    "lr": "learning rate of AdamW",
    "weight_decay": "weight decay of AdamW",
    "seen_fraction": "f: share of all ordered pairs of numbers that training may add",
    "one_var_ratio": "one-variable sequences for each literal one in training",
    "two_var_ratio": "r: two-variable sequences for each literal one in training",
    "seed": "seed of the initial weights, the split of pairs and the data",
    "step": "updates made",
    "loss": "cross entropy on the batch of the last update, before it; null at step 0",
    "diverged_at": "the step at which the loss was no longer finite; null if it always was",
}
"""Columns of a sweep that are not results of a test."""
OF_STUDIES = {
    "cell": "the cell of the study: what differs from its base",
    "steps": "updates made",
    "diverged": "whether the loss stopped being finite",
    "binds": "whether the model answers at least 95 % of one-variable training sums at the end",
    "adds": "whether the model answers at least 90 % of held-out sums of literals at the end",
    "refines": "whether the model answers at least 95 % of every set with a variable in a banned slot at the end",
    "follows 1 link": "whether the model answers at least 95 % of the sums with variables one link from their number",
    "follows 2 links": "whether the model answers at least 95 % of the sums with variables two links from their number",
    "addition at": "the step from which held-out sums of literals stay at 90 %; null if never",
    "binding at": "the step from which trained sums with variables stay at 95 %; null if never",
    "refinement at": "the step from which sums with variables in banned slots stay at 95 %; null if never",
    "frequencies": "frequencies of the numbers that the MLP uses; null for other architectures",
    "doubles minus others": "accuracy on held-out doubles (n, n) less that on others held out in both orders, literals",
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
    **{
        f"binds at {step}": f"whether it answers 95 % of trained one-variable sums at step {step:,}"
        for step in (8000, 9000)
    },
    "answers trained sums": "whether it answers 95 % of the trained sums of one variable and of two in the final exam",
    "late bursts": "number of bursts after step 8,000",
    "difference of the operands (final)": "|A - B| / |A + B| with the mean residuals before the last MLP of literal "
    "sums with n first (A) and second (B), less the mean of all, over all n",
    "names exchanged, the other number (final)": "share of one-variable sums whose answer is that with another "
    "assigned number after the two numbers exchange the names that layer 1 copied into them",
    "places exchanged, its own number (final)": "share of such sums whose answer stays right after the two exchange "
    "the positions that layer 1 copied into them",
    "v x | v y, y less x (final)": "the second of the columns `v x | v y, ...` less the first",
}
"""Columns of a study, which has a row per model."""
_BOTH = "every pair of values with every pair of variables that the test allows, one sequence each"
TESTS = {
    ZERO_VAR: "accuracy on literal sums, every held-out pair once",
    **{s.name: f"accuracy, {s.label}: {_BOTH}" for s in TWO_VAR_PARTS},
    TWO_VAR: f"accuracy on the union of the three parts `{TWO_VAR} ...`, the two-variable test of the paper's sweeps",
}
"""The tests after the last update, which are the paper's in full."""
LAST_ROW = "in the row of the last step, null in others"
LAST_ROWS = "only at the last ten evaluations, null at others"


@dataclass(frozen=True)
class Column:
    """A column of a table, or all columns that differ in a field in braces such as `{variable}`."""

    name: str
    meaning: str
    sample: str = ""
    """What each value was counted on; empty where nothing is sampled."""


def columns_of(table: ShippedTable) -> list[Column]:
    """The columns of a table that comes with the package, in its order."""
    names = table.frame().columns
    if table.meanings:
        return [Column(name, table.meanings[name]) for name in names]
    about = table.document
    n_end = about.get("sequences_in_end_exams", 0)  # tables of an earlier version have no such exams
    columns = sweep_columns(names, about["sequences_per_set"], about["sequences_in_final_exam"], n_end)
    if "study" in about:  # a row per model
        columns = [replace(c, sample=c.sample.removesuffix(LAST_ROW).removesuffix("; ")) for c in columns]
    return columns


def sweep_columns(names: Iterable[str], n: int, n_final: int, n_end: int = 0) -> list[Column]:
    """The columns of a sweep with `n` sequences of each evaluation set and `n_final` in the final exam.

    The exams of the last ten evaluations have `n_end` each. Columns that differ only in variable and slot are one
    entry.
    """
    return list(dict.fromkeys(sweep_column(name, n, n_final, n_end=n_end) for name in names))


def sweep_column(name: str, n: int, n_final: int, n_rates: int = STACK_SEQUENCES, n_end: int = 0) -> Column:
    """The meaning of one column of a sweep; a ValueError if no column of a sweep has this name.

    Rates of attention patterns are counted on `n_rates` sequences.
    """
    if name in FACTS | OF_STUDIES:
        return Column(name, (FACTS | OF_STUDIES)[name])
    if name in TESTS:
        return Column(name, TESTS[name], LAST_ROW)
    if name.endswith(final_column("")):
        exam = sweep_column(name.removesuffix(final_column("")), n_final, n_final, n_final)
        return Column(name, exam.meaning, "; ".join(filter(None, (exam.sample, LAST_ROW))))
    if name.endswith(end_column("")):
        exam = sweep_column(name.removesuffix(end_column("")), n_end, n_final)
        return Column(name, f"{exam.meaning}, at this evaluation", f"{n_end:,} fresh sequences; {LAST_ROWS}")
    if name in LABELS:
        return Column(name, f"accuracy: {LABELS[name]}", f"{n:,} sequences")
    if match := re.fullmatch(r"(.+) at (\d+)", name):
        early = sweep_column(match[1], n, n_final, n_rates)
        return Column(name, f"{early.meaning}, at step {int(match[2]):,}", early.sample)
    if match := re.fullmatch(r"([vwxy.| ]+), ([xy])", name):
        layout = (
            f"sequences with {match[1]} (v is the variable that is asked for, w another one, x and y are numbers, a "
        )
        return Column(name, f"share of {layout}dot is PAD) whose answer is the sum with {match[2]}")
    if match := re.fullmatch(r"(\d+) assignments", name):
        return Column(name, f"accuracy on trained one-variable sums with {match[1]} assignments")
    if match := re.fullmatch(r"\d-var (\d links?|rebound|once)", name):
        return Column(name, f"accuracy: {match[0]}, as docs/tasks.md defines it", f"{n:,} sequences")
    if name.partition(".")[0] in SECTIONS:
        return Column(name, f"the setting {name} (`assignadd train --help`)")
    measure = measure_of(name)
    if measure is VARIABLE_ACCURACY:
        meaning = "accuracy: two variables, {variable} in the {slot} slot, the other in no banned slot"
        return Column(measure.name, meaning, f"{measure.n} sequences")
    sample = f"{n_rates:,} sequences" if measure.n else ""
    sample += ", those of them that training could contain" if TRAINING_LAW in name else ""
    return Column(name, f"{column_label(name)} ({measure.unit})", sample)
