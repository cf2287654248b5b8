"""Claims on how `=` finds the values (section 5.2): what it needs from layer 1, and names against places and order."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from assignadd.claims.causal import WITHOUT_LITERAL
from assignadd.claims.evidence import Evidence
from assignadd.claims.measured import Measured, highest, lowest, paired_difference
from assignadd.claims.record import IMPLIED, NOT_REPORTED, OURS, Claim, Measure
from assignadd.interventions.circuit import LOSS
from assignadd.interventions.cues import FARTHER_NAME, NAMES, ONE_PAD, PLACES, REVERSED, TWICE, TWO_NUMBERS, TWO_PADS
from assignadd.interventions.operand_attention import (
    BANNED,
    EXCHANGED,
    NO_FIRST,
    NO_SECOND,
    NO_VARIABLE,
    ONLY_VARIABLE,
    SET_LAYER_2,
    TRAINED,
    TWO,
    UNCHANGED,
    OperandAttention,
)
from assignadd.measures.nameless import has_rule
from assignadd.model.architecture import PAPER_NEEDS, require
from assignadd.verdicts import AtLeast, AtMost, Between

# A change that costs at most this much accuracy is considered harmless.
HARMLESS = 0.05


def found_on(evidence: Evidence, name: str) -> OperandAttention | None:
    """The effect of each change on an evaluation set; None if the network does not bind or has no such set."""
    require(evidence.config, "the changed attention of = in layer 1", *PAPER_NEEDS)
    return evidence.causal.operand_attention.get(name) if evidence.learned_binding else None


def losses(found: OperandAttention, *changes: str) -> list[Measured]:
    """The accuracy that each change costs, with its interval."""
    before = found.correct[UNCHANGED].numpy()
    return [paired_difference(before, found.correct[change].numpy(), "sequences") for change in changes]


def lost(name: str, *changes: str) -> Measure:
    """The accuracy lost on an evaluation set with the change that costs most."""
    return lambda e: None if (found := found_on(e, name)) is None else highest(losses(found, *changes))


def lost_without_either_slot(e: Evidence) -> Measured | None:
    """The accuracy lost on sums with two variables without the slot that costs less."""
    return None if (found := found_on(e, TWO)) is None else lowest(losses(found, NO_FIRST, NO_SECOND))


def literal_above_equals(e: Evidence) -> Measured | None:
    """Layer 1's attention from `=` to the literal's slot minus that to `=` itself."""
    found = found_on(e, TRAINED)
    if found is None:
        return None
    excess = (found.weights["literal"] - found.weights["equals"]).double().numpy()
    return Measured.mean(float(excess.mean()), float(excess.std()), len(excess), "sequences")


def correct_with_layer_2_set(e: Evidence) -> Measured | None:
    """Accuracy on sums with a variable in a banned slot, with half of layer 2's attention on each value."""
    found = found_on(e, BANNED)
    if found is None:
        return None
    return Measured.share(int(found.correct[SET_LAYER_2].sum()), len(found.correct[SET_LAYER_2]), "sequences")


def weights_in_words(e: Evidence) -> str:
    """The mean attention weights of `=` in layer 1, and how often the operand slots are its top two keys."""
    found = found_on(e, TRAINED)
    assert found is not None
    weights = ", ".join(f"{kind} {w.mean():.3f}" for kind, w in found.weights.items())
    before, after = (found.operands_on_top[change].float().mean() for change in (UNCHANGED, EXCHANGED))
    return (
        f"weights in layer 1: {weights}; the slots are the top two keys in {before:.3f} of the sums, in {after:.3f} "
        "with the exchange"
    )


THREE_WAYS = (
    "The value is the largest loss of accuracy in three tests: this weight is set to zero, is given to `=` itself, or "
    "reads the slot of another sequence."
)
ONE, LOST = "On sums with one variable", "The value is the accuracy lost."
OPERAND_ATTENTION = (
    Claim("layer-1-variable-slot-needed", OURS, f"{ONE}, `=` needs its attention to the variable's slot in layer 1.",
          IMPLIED, lost(TRAINED, NO_VARIABLE), AtLeast(LOSS),
          "The value is the accuracy lost with this weight set to zero."),
    Claim("layer-1-variable-slot-enough", OURS,
          f"{ONE}, the variable's slot is all that `=` needs in layer 1: every other weight can be zero.",
          NOT_REPORTED, lost(TRAINED, ONLY_VARIABLE), AtMost(HARMLESS), LOST),
    Claim("layer-1-literal-slot-unneeded", OURS,
          f"{ONE}, `=` does not need its attention to the literal's slot in layer 1.",
          "attends to both operands", lost(TRAINED, *WITHOUT_LITERAL), AtMost(HARMLESS), THREE_WAYS),
    Claim("layer-1-literal-above-equals", OURS,
          f"{ONE}, `=` attends more to the literal's slot than to itself in layer 1.",
          "the two operands, more than anywhere else", literal_above_equals, AtLeast(0.0),
          "The value is the difference of the mean weights."),
    Claim("layer-1-literal-rank-unneeded", OURS,
          f"{ONE}, the attention weights of `=` to the literal's slot and to itself can be exchanged in layer 1.",
          NOT_REPORTED, lost(TRAINED, EXCHANGED), AtMost(HARMLESS), LOST, detail=weights_in_words),
    Claim("layer-1-literal-slot-unneeded-banned", OURS,
          f"{ONE} in a banned slot, `=` does not need its attention to the literal's slot in layer 1.",
          NOT_REPORTED, lost(BANNED, *WITHOUT_LITERAL), AtMost(HARMLESS), THREE_WAYS),
    Claim("layer-1-both-variable-slots-needed", OURS,
          "On sums with two variables, `=` needs its attention to both slots in layer 1.",
          IMPLIED, lost_without_either_slot, AtLeast(LOSS),
          "The value is the accuracy lost without the slot that costs less."),
    Claim("banned-slot-errors-in-layer-2", OURS,
          "With half of layer 2's attention set on each value, sums with one variable in a banned slot are correct.",
          NOT_REPORTED, correct_with_layer_2_set, AtLeast(0.95)),
)  # fmt: skip


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


IF_EXCHANGED = "If two assigned numbers exchange the"
CUES = (
    Claim("cue-name", OURS,
          f"{IF_EXCHANGED} names that layer 1 copied into them, the answer is the sum with the other.",
          NOT_REPORTED, after_exchange(NAMES, other=True), AtLeast(0.95)),
    Claim("cue-place", OURS, f"{IF_EXCHANGED} positions that layer 1 copied into them, the answer stays the same.",
          NOT_REPORTED, after_exchange(PLACES, other=False), AtLeast(0.95)),
    Claim("cue-order", OURS,
          "Of a variable assigned twice, the first and the last number are answered about equally often (the shares "
          "differ by at most 0.1).",
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
