"""Claims of section 4: what the trained network gets right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from assignadd.claims.evidence import Evidence
from assignadd.claims.record import AtLeast, Between, Claim, Measured
from assignadd.stats import wilson
from assignadd.task.evalsets import CLASS_SETS, DOUBLY_HELD_OUT, EVAL_SETS, HELD_OUT_CLASSES, EvalSet
from assignadd.task.sampler import distinct_sums

TEST_SETS = [s.name for s in EVAL_SETS if s.pair != "seen" or s.n_banned]
HELD_OUT_PAIRS = [s.name for s in EVAL_SETS if s.pair == "held_out"]
# The paper's tests had 512 sequences (SPEC section 7), so that its percentages stand for these ranges.
PAPER_SEQUENCES = 512
Measure = Callable[[Evidence], Measured | None]


def accuracy_on(sets: Sequence[str]) -> Measure:
    """Accuracy over sets taken together, with Wilson's interval; None where a set is empty under the model's split."""

    def measure(evidence: Evidence) -> Measured | None:
        found = [evidence.accuracies[name] for name in sets if name in evidence.accuracies]
        if len(found) < len(sets):
            return None
        return Measured.share(sum(round(a.accuracy * a.n) for a in found), sum(a.n for a in found), "sequences")

    return measure


def lowest_on(sets: Sequence[str]) -> Measure:
    """The lowest accuracy of some sets, with its own interval; of those that the model's split has."""

    def measure(evidence: Evidence) -> Measured | None:
        found = [found for name in sets if (found := accuracy_on([name])(evidence)) is not None]
        return min(found, key=lambda m: m.value, default=None)

    return measure


def held_out_sums_of_any_form(evidence: Evidence) -> Measured | None:
    """Accuracy on held-out pairs with 0, 1 and 2 variables, in the proportions of the training mix."""
    found = [m for name in HELD_OUT_PAIRS if (m := accuracy_on([name])(evidence)) is not None]
    if len(found) < len(HELD_OUT_PAIRS):
        return None
    zero, first, second, two = evidence.config.task.mix
    weights = np.array([zero, first + second, two]) / sum(evidence.config.task.mix)
    value, low, high = (np.array([getattr(m, end) for m in found]) for end in ("value", "low", "high"))
    mean, below, above = (
        weights @ value,
        np.linalg.norm(weights * (value - low)),
        np.linalg.norm(weights * (high - value)),
    )
    return Measured(float(mean), float(mean - below), float(mean + above), sum(m.n for m in found), "sequences")


def new_positions(evidence: Evidence) -> Measured | None:
    """Accuracy on one-variable sums with the variable in a banned slot and any pair of numbers."""
    found = evidence.accuracy_of(EvalSet("1-var banned slot, any pair", n_vars=1, pair="any", n_banned=1))
    return None if found is None else Measured.share(round(found.accuracy * found.n), found.n, "sequences")


def on_class(evalset: EvalSet) -> Measure:
    """Accuracy on one class of held-out pairs, with the interval over its pairs."""

    def measure(evidence: Evidence) -> Measured | None:
        found, n = evidence.accuracies.get(evalset.name), distinct_sums(evidence.seen, evalset.pair)
        return None if found is None else Measured.share(found.accuracy * n, n, "pairs")

    return measure


def errors_that_are_doubles(evidence: Evidence) -> Measured | None:
    """Of the held-out pairs that are wrong in most contexts as literal sums, the share that are doubles; None where none is wrong."""
    wrong = (evidence.pair_accuracy[0] < 0.5) & ~evidence.seen
    n = int(wrong.sum())
    return Measured.share(int(wrong.diagonal().sum()), n, "wrong pairs") if n else None


def _as_in_the_paper(share: float) -> Between:
    """The range that the paper's percentage stands for, given how many sequences it was counted on."""
    found = wilson(round(share * PAPER_SEQUENCES), PAPER_SEQUENCES)
    return Between(round(found.low, 4), round(found.high, 4))


def slug(name: str) -> str:
    return name.replace(" (", "-").replace(")", "").replace(" ", "-")


RANGE = f"The paper counted it on {PAPER_SEQUENCES} sequences; the rule is the 95 % range that this leaves open."

GENERALISATION = (
    Claim(
        "over-98-all-types", "accuracies", "Test accuracy is over 98 % on every type of addition: the lowest of the six test sets.",
        "over 98 %", lowest_on(TEST_SETS), AtLeast(0.98),
    ),
    *(
        Claim(
            f"over-98-{slug(name)}", "accuracies", f"Test accuracy is over 98 % on every type of addition: {name}.",
            "over 98 %", accuracy_on([name]), AtLeast(0.98),
        )
        for name in TEST_SETS
    ),
    Claim(
        "new-positions-99.6", "section 4",
        "Variables in positions never trained are handled: one-variable sums with the variable in a banned slot, any pair of numbers.",
        "99.6 %", new_positions, _as_in_the_paper(0.996), comment=RANGE,
    ),
    Claim(
        "new-positions-99.6-strict", "ours", "The same, at least as high as the paper's number.",
        "99.6 %", new_positions, AtLeast(0.996),
    ),
    Claim(
        "held-out-pairs-99.4", "section 4", 
        "Sums held out from training are answered in any form: with 0, 1 and 2 variables, mixed as in training.",
        "99.4 %", held_out_sums_of_any_form, _as_in_the_paper(0.994), comment=RANGE,
    ),
    Claim(
        "held-out-pairs-99.4-strict", "ours", "The same, at least as high as the paper's number.",
        "99.4 %", held_out_sums_of_any_form, AtLeast(0.994),
    ),
    *(
        Claim(
            f"held-out-{s.pair.replace('_', '-')}" + (f"-{s.n_vars}-var" if s.n_vars else ""), "ours",
            f"Held-out sums are answered in one class of pairs: {HELD_OUT_CLASSES[s.pair]}, {s.n_vars} variables.",
            "over 98 % over all held-out pairs", on_class(s), AtLeast(0.95),
            comment="The interval is over pairs, n + m and m + n as one: too few pairs to tell 98 % from 100 %.",
        )
        for s in CLASS_SETS
    ),
    Claim(
        "held-out-errors-are-doubles", "ours", "Most held-out literal sums that are wrong in most contexts are doubles n + n.",
        "not reported", errors_that_are_doubles, AtLeast(0.5), comment="About 2 % of the held-out pairs are doubles.",
    ),
    *(
        Claim(
            f"over-98-{slug(s.name)}", "ours", f"The 98 % extend to a held-out sum with a variable in a banned slot: {s.name}.",
            "not reported", accuracy_on([s.name]), AtLeast(0.98),
        )
        for s in DOUBLY_HELD_OUT
    ),
    Claim(
        "no-first-mlp", "section 3", "The first layer needs no MLP: a network without one learns one- and two-variable sums.",
        "unnecessary", accuracy_on(["1-var train", "2-var train"]), AtLeast(0.98),
    ),
)  # fmt: skip
