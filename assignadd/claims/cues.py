"""Claims on what binds a number to its variable: its name, its place or its order."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from assignadd.claims.evidence import Evidence
from assignadd.claims.measured import Measured, paired_difference
from assignadd.claims.record import NOT_REPORTED, OURS, Claim, Measure
from assignadd.interventions.cues import FARTHER_NAME, NAMES, ONE_PAD, PLACES, REVERSED, TWICE, TWO_NUMBERS, TWO_PADS
from assignadd.measures.nameless import has_rule
from assignadd.verdicts import AtLeast, AtMost, Between


def on_layout(e: Evidence, layout: str) -> Mapping[str, Tensor] | None:
    """The answers of a network that binds to a layout; None for other networks, and tasks that have other layouts."""
    return e.cues.get(layout) if e.learned_binding and has_rule(e.config.task) else None


def answered(layout: str) -> Measure:
    """How often the answer is the sum with the number `x` of the layout."""

    def measure(e: Evidence) -> Measured | None:
        found = on_layout(e, layout)
        return None if found is None else Measured.share(int(found["x"].sum()), len(found["x"]), "sequences")

    return measure


def preferred(layout: str, number: str, over: str) -> Measure:
    """How much more often the answer is the sum with one number of the layout than with the other."""

    def measure(e: Evidence) -> Measured | None:
        found = on_layout(e, layout)
        return None if found is None else paired_difference(found[number].numpy(), found[over].numpy(), "sequences")

    return measure


def after_exchange(kind: str, other: bool) -> Measure:
    """How often the answer is that with the other number, or the sequence's own, after names or places changed."""

    def measure(e: Evidence) -> Measured | None:
        if not e.learned_binding or not has_rule(e.config.task):
            return None
        answers = e.exchanged_tags[kind][int(other)]
        return Measured.share(int(answers.sum()), len(answers), "sequences")

    return measure


def both_numbers(e: Evidence) -> str:
    """How often each number of a variable assigned twice is answered."""
    found = e.cues[TWICE]
    first, last = (found[number].double().mean() for number in ("x", "y"))
    return f"the first number is answered in {first:.3f}, the last in {last:.3f}"


EXCHANGED = "If two assigned numbers exchange the"
CUES = (
    Claim("cue-name", OURS, f"{EXCHANGED} names that layer 1 copied into them, the answer is the sum with the other.",
          NOT_REPORTED, after_exchange(NAMES, other=True), AtLeast(0.95)),
    Claim("cue-place", OURS, f"{EXCHANGED} positions that layer 1 copied into them, the answer stays the same.",
          NOT_REPORTED, after_exchange(PLACES, other=False), AtLeast(0.95)),
    Claim("cue-order", OURS, "Of a variable assigned twice, the first and the last number are answered equally often.",
          NOT_REPORTED, preferred(TWICE, "y", "x"), Between(-0.1, 0.1),
          "The value is how much more often the last one is.", detail=both_numbers),
    Claim("cue-number-first", OURS, "A number that stands before its variable is not bound to it.",
          NOT_REPORTED, answered(REVERSED), AtMost(0.2)),
    Claim("cue-one-pad", OURS, "A number is bound to its variable with one PAD between them.",
          NOT_REPORTED, answered(ONE_PAD), AtLeast(0.5)),
    Claim("cue-two-pads", OURS, "A number is not bound to its variable with two PADs between them.",
          NOT_REPORTED, answered(TWO_PADS), AtMost(0.5)),
    Claim("cue-nearest-name", OURS, "A number is not bound to a variable with another variable between them.",
          NOT_REPORTED, answered(FARTHER_NAME), AtMost(0.2)),
    Claim("cue-nearest-number", OURS, "Of two numbers after a variable, the nearer one is answered more often.",
          NOT_REPORTED, preferred(TWO_NUMBERS, "x", "y"), AtLeast(0.0), "The value is the difference."),
)  # fmt: skip
