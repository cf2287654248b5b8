"""Claims about a network that binds: what `=` needs from layer 1."""

from __future__ import annotations

from collections.abc import Callable

from assignadd.dynamics import binds
from assignadd.ledger import AtLeast, AtMost, Claim, Measured, Network, per_network
from assignadd.model import require

from . import attention
from .attention import TRAINED, UNCHANGED, OperandAttention, operand_attention

# A slot is needed if a change costs this much accuracy, as for every part of the circuit, and unneeded up to that much.
NEEDED, HARMLESS = 0.1, 0.05
WITHOUT_LITERAL = (attention.NO_LITERAL, attention.LITERAL_TO_EQUALS, attention.OTHER_LITERAL)
# The changes of layer 1's attention that claims are about, by evaluation set.
CHANGES = {
    TRAINED: (UNCHANGED, attention.NO_VARIABLE, attention.ONLY_VARIABLE, attention.EXCHANGED, *WITHOUT_LITERAL),
    attention.BANNED: (UNCHANGED, attention.SET_LAYER_2, *WITHOUT_LITERAL),
    attention.TWO: (UNCHANGED, attention.NO_FIRST, attention.NO_SECOND),
}


@per_network()
def operand_attention_of(network: Network) -> dict[str, OperandAttention]:
    """The effect of changes of layer 1's attention from `=`, by evaluation set."""
    return operand_attention(network.stack, network.config, network.seen, min(network.n, 5000), CHANGES)


def on_set(network: Network, name: str) -> OperandAttention | None:
    """The effect of each change on an evaluation set; None if the network does not bind or has no such set."""
    require(network.config, "the changed attention of = in layer 1")
    return operand_attention_of(network).get(name) if binds(network) else None


def lost(name: str, *changes: str) -> Callable[[Network], Measured | None]:
    """The accuracy lost on an evaluation set with the change that costs most."""

    def measure(network: Network) -> Measured | None:
        results = on_set(network, name)
        return None if results is None else max(map(results.lost, changes), key=lambda loss: loss.value)

    return measure


def lost_without_either_slot(network: Network) -> Measured | None:
    """The accuracy lost on sums with two variables without the slot that costs less."""
    results = on_set(network, attention.TWO)
    return (
        None
        if results is None
        else min(map(results.lost, (attention.NO_FIRST, attention.NO_SECOND)), key=lambda loss: loss.value)
    )


def literal_above_equals(network: Network) -> Measured | None:
    """Layer 1's attention from `=` to the literal's slot minus that to `=` itself."""
    results = on_set(network, TRAINED)
    if results is None:
        return None
    excess = (results.weights["literal"] - results.weights["equals"]).double().numpy()
    return Measured.mean(float(excess.mean()), float(excess.std()), len(excess), "sequences")


def correct_with_layer_2_set(network: Network) -> Measured | None:
    """Accuracy on sums with a variable in a banned slot, with half of layer 2's attention on each value."""
    results = on_set(network, attention.BANNED)
    if results is None:
        return None
    correct = results.correct[attention.SET_LAYER_2]
    return Measured.share(int(correct.sum()), len(correct), "sequences")


def weights_in_words(network: Network) -> str:
    """The mean attention weights of `=` in layer 1, and how often the operand slots are its top two keys."""
    results = on_set(network, TRAINED)
    assert results is not None
    weights = ", ".join(f"{kind} {w.mean():.3f}" for kind, w in results.weights.items())
    before, after = (results.operands_on_top[change].float().mean() for change in (UNCHANGED, attention.EXCHANGED))
    return (
        f"weights in layer 1: {weights}; the slots are the top two keys in {before:.3f} of the sums, in {after:.3f} "
        "with the exchange"
    )


THREE_WAYS = (
    "The value is the largest loss of accuracy in three tests: this weight is set to zero, is given to `=` itself, or "
    "reads the slot of another sequence."
)
ONE, LOST = "On sums with one variable", "The value is the accuracy lost."
CLAIMS = (
    Claim.ours("layer-1-variable-slot-needed", f"{ONE}, `=` needs its attention to the variable's slot in layer 1.",
               lost(TRAINED, attention.NO_VARIABLE), AtLeast(NEEDED),
               "The value is the accuracy lost with this weight set to zero.", paper="implied"),
    Claim.ours("layer-1-variable-slot-enough",
               f"{ONE}, the variable's slot is all that `=` needs in layer 1: every other weight can be zero.",
               lost(TRAINED, attention.ONLY_VARIABLE), AtMost(HARMLESS), LOST),
    Claim.ours("layer-1-literal-slot-unneeded",
               f"{ONE}, `=` does not need its attention to the literal's slot in layer 1.",
               lost(TRAINED, *WITHOUT_LITERAL), AtMost(HARMLESS), THREE_WAYS, paper="attends to both operands"),
    Claim.ours("layer-1-literal-above-equals",
               f"{ONE}, `=` attends more to the literal's slot than to itself in layer 1.",
               literal_above_equals, AtLeast(0.0), "The value is the difference of the mean weights.",
               paper="the two operands, more than anywhere else"),
    Claim.ours("layer-1-literal-rank-unneeded",
               f"{ONE}, the attention weights of `=` to the literal's slot and to itself can be exchanged in layer 1.",
               lost(TRAINED, attention.EXCHANGED), AtMost(HARMLESS), LOST, detail=weights_in_words),
    Claim.ours("layer-1-literal-slot-unneeded-banned",
               f"{ONE} in a banned slot, `=` does not need its attention to the literal's slot in layer 1.",
               lost(attention.BANNED, *WITHOUT_LITERAL), AtMost(HARMLESS), THREE_WAYS),
    Claim.ours("layer-1-both-variable-slots-needed",
               "On sums with two variables, `=` needs its attention to both slots in layer 1.",
               lost_without_either_slot, AtLeast(NEEDED),
               "The value is the accuracy lost without the slot that costs less.", paper="implied"),
    Claim.ours("banned-slot-errors-in-layer-2",
               "With half of layer 2's attention set on each value, sums with one variable in a banned slot are "
               "correct.",
               correct_with_layer_2_set, AtLeast(0.95)),
)  # fmt: skip
