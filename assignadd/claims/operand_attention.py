"""Claims on what `=` needs from layer 1: the slot of a variable, and not that of a literal (section 5.2, figure attention)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assignadd.claims.evidence import Evidence
from assignadd.claims.paired import paired_difference
from assignadd.claims.record import AtLeast, AtMost, Claim, Measured
from assignadd.interventions.circuit import LOSS
from assignadd.interventions.operand_attention import (
    BANNED,
    EXCHANGED,
    LITERAL_TO_EQUALS,
    NO_FIRST,
    NO_LITERAL,
    NO_SECOND,
    NO_VARIABLE,
    ONLY_VARIABLE,
    OTHER_LITERAL,
    SET_LAYER_2,
    TRAINED,
    TWO,
    UNCHANGED,
    OperandAttention,
    operand_attention,
)

Measure = Callable[[Evidence], Measured | None]
OURS, IMPLIED, NOT_REPORTED = "ours", "implied", "not reported"
# A change that costs no more than this is taken to do nothing.
HARMLESS = 0.05


def found_on(evidence: Evidence, name: str) -> OperandAttention | None:
    """What the changes do on an evaluation set; None for a network that does not bind, or without such sequences."""
    if not evidence.learned_binding:
        return None
    kept = vars(evidence)  # measured once for all claims
    if "operand_attention" not in kept:
        kept["operand_attention"] = operand_attention(evidence.stack, evidence.config, evidence.seen, evidence.n)
    return kept["operand_attention"].get(name)


def losses(found: OperandAttention, *changes: str) -> list[Measured]:
    """The accuracy that each change costs, with its interval."""
    before = found.correct[UNCHANGED].numpy()
    return [paired_difference(before, found.correct[change].numpy(), "sequences") for change in changes]


def lost(name: str, *changes: str, least: bool = False) -> Measure:
    """The accuracy lost on an evaluation set with the change that costs most, or least."""

    def measure(e: Evidence) -> Measured | None:
        found = found_on(e, name)
        return None if found is None else (min if least else max)(losses(found, *changes), key=lambda m: m.value)

    return measure


def literal_above_equals(e: Evidence) -> Measured | None:
    """Layer 1's attention from `=` to the literal's slot less that to `=` itself."""
    found = found_on(e, TRAINED)
    if found is None:
        return None
    difference = (found.weights["literal"] - found.weights["equals"]).double().numpy()
    return Measured.mean(float(difference.mean()), float(np.std(difference)), len(difference), "sequences")


def accuracy(name: str, change: str) -> Measure:
    def measure(e: Evidence) -> Measured | None:
        found = found_on(e, name)
        return (
            None
            if found is None
            else Measured.share(int(found.correct[change].sum()), len(found.correct[change]), "sequences")
        )

    return measure


def in_words(e: Evidence) -> str:
    found = found_on(e, TRAINED)
    assert found is not None
    weights = ", ".join(f"{kind} {w.mean():.3f}" for kind, w in found.weights.items())
    before, after = (found.operands_on_top[change].float().mean() for change in (UNCHANGED, EXCHANGED))
    return f"weights in layer 1: {weights}; the slots are the top two keys in {before:.3f} of the sums, in {after:.3f} with the exchange"


OPERAND_ATTENTION = (
    Claim(
        "layer-1-variable-slot-needed", OURS, "On sums with one variable `=` needs its attention to the variable's slot in layer 1.",
        IMPLIED, lost(TRAINED, NO_VARIABLE), AtLeast(LOSS), comment="Accuracy lost with that weight set to zero.",
    ),
    Claim(
        "layer-1-variable-slot-enough", OURS, "There the variable's slot alone is enough: every other weight may be zero.",
        NOT_REPORTED, lost(TRAINED, ONLY_VARIABLE), AtMost(HARMLESS), comment="Accuracy lost.",
    ),
    Claim(
        "layer-1-literal-slot-unneeded", OURS, "There `=` does not need its attention to the literal's slot in layer 1.",
        "attends to both operands", lost(TRAINED, NO_LITERAL, LITERAL_TO_EQUALS, OTHER_LITERAL), AtMost(HARMLESS),
        comment="The most lost in three ways: that weight set to zero; given to `=` itself; the slot of another sequence read instead.",
    ),
    Claim(
        "layer-1-literal-above-equals", OURS, "There the literal's slot has more attention than `=` itself has.",
        "the two operands, more than anywhere else", literal_above_equals, AtLeast(0.0), comment="Difference of the mean weights.",
    ),
    Claim(
        "layer-1-literal-rank-unneeded", OURS, "There the order of these two does not matter: their weights may be exchanged.",
        NOT_REPORTED, lost(TRAINED, EXCHANGED), AtMost(HARMLESS), comment="Accuracy lost.", detail=in_words,
    ),
    Claim(
        "layer-1-literal-slot-unneeded-banned", OURS, "Nor does `=` need the literal's slot where the variable stands in a banned slot.",
        NOT_REPORTED, lost(BANNED, NO_LITERAL, LITERAL_TO_EQUALS, OTHER_LITERAL), AtMost(HARMLESS),
        comment="The most lost in the same three ways.",
    ),
    Claim(
        "layer-1-both-variable-slots-needed", OURS, "On sums with two variables `=` needs its attention to both slots in layer 1.",
        IMPLIED, lost(TWO, NO_FIRST, NO_SECOND, least=True), AtLeast(LOSS), comment="Accuracy lost without the slot that costs less.",
    ),
    Claim(
        "banned-slot-errors-in-layer-2", OURS,
        "Sums with a variable in a banned slot fail, where they fail, by layer 2's attention: with half of it on each value they succeed.",
        NOT_REPORTED, accuracy(BANNED, SET_LAYER_2), AtLeast(0.95),
    ),
)  # fmt: skip
