"""Accuracy when the attention weights of `=` in layer 1 are changed, which shows what `=` needs from layer 1.

The paper describes these weights in section 5.2. Nothing is renormalised: setting a weight to zero leaves the others
unchanged. Removing an edge through its score (`Cut`) would raise all other weights, which alone can change the answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd import Config
from assignadd.ledger import Measured
from assignadd.model import Exam, LastLayer, Stack, require
from assignadd.task import EVAL_SETS, Positions

DRAWS = range(8000, 9000)
"""Steps of the evaluation stream that this finding draws its sequences from."""
SEQUENCES = 4000  # of each evaluation set
UNCHANGED, OTHER_LITERAL, SET_LAYER_2 = "unchanged", "literal slot of another sequence", "layer 2 set to the values"
NO_VARIABLE, NO_LITERAL, LITERAL_TO_EQUALS = "no variable slot", "no literal slot", "literal slot's weight to ="
ONLY_VARIABLE, EXCHANGED = "variable slot alone", "literal slot and = exchanged"
NO_FIRST, NO_SECOND, NO_SLOTS = "no first slot", "no second slot", "no operand slots"
# The kinds of keys whose weights are reported.
KINDS = ("variable", "literal", "equals")

Row = Float[Tensor, "B T"]
"""Layer 1's attention weights from `=`."""
Keys = Mapping[str, Bool[Tensor, "B T"]]
"""Masks of the keys of each kind."""
Change = Callable[[Row, Keys], Row]


def keys_by_kind(positions: Positions) -> Keys:
    """Masks of the two operand slots, of both, of those with a variable and with a literal, and of `=`."""
    first, second, equals = (positions.mask(role) for role in ("first", "second", "equals"))
    first_is_variable, second_is_variable = positions.roles.is_variable[:, None].unbind(-1)  # (B, 1) each
    slots, variable = first | second, (first & first_is_variable) | (second & second_is_variable)
    of_operands = {"first": first, "second": second, "slots": slots, "variable": variable, "literal": slots & ~variable}
    return {**of_operands, "equals": equals}


def without(kind: str) -> Change:
    """Sets the weights on keys of one kind to zero."""
    return lambda row, keys: row.masked_fill(keys[kind], 0.0)


def literal_to_equals(row: Row, keys: Keys) -> Row:
    """Moves the weight on the literal's slot to `=`."""
    weight = (row * keys["literal"]).sum(1, keepdim=True)
    return row.masked_fill(keys["literal"], 0.0) + weight * keys["equals"]


def exchanged(row: Row, keys: Keys) -> Row:
    """Exchanges the weights on the literal's slot and on `=`, for sums with one literal."""
    literal, equals = ((row * keys[kind]).sum(1, keepdim=True) for kind in ("literal", "equals"))
    return torch.where(keys["literal"], equals, torch.where(keys["equals"], literal, row))


# What each change does to the weights; `changed_logits` adds another sequence's literal and sets layer 2.
CHANGES: dict[str, Change] = {
    UNCHANGED: lambda row, keys: row,
    NO_VARIABLE: without("variable"), NO_LITERAL: without("literal"), LITERAL_TO_EQUALS: literal_to_equals,
    ONLY_VARIABLE: lambda row, keys: row * keys["variable"], EXCHANGED: exchanged,
    NO_FIRST: without("first"), NO_SECOND: without("second"), NO_SLOTS: without("slots"),
    OTHER_LITERAL: without("literal"), SET_LAYER_2: lambda row, keys: row,
}  # fmt: skip
ONE_VARIABLE = (
    UNCHANGED, NO_VARIABLE, NO_LITERAL, LITERAL_TO_EQUALS, OTHER_LITERAL, ONLY_VARIABLE, EXCHANGED, SET_LAYER_2,
)  # fmt: skip
LITERALS, TRAINED, BANNED, TWO = "0-var train", "1-var train", "1-var var-restricted", "2-var train"
CHANGES_OF_SET: dict[str, tuple[str, ...]] = {
    LITERALS: (UNCHANGED, NO_SLOTS),
    TRAINED: ONE_VARIABLE,
    BANNED: ONE_VARIABLE,
    TWO: (UNCHANGED, NO_FIRST, NO_SECOND),
}
"""The changes that are tested on each evaluation set."""


@dataclass(frozen=True)
class OperandAttention:
    """Results of one model on the sequences of one evaluation set."""

    correct: dict[str, Bool[Tensor, " n"]]
    """Whether the answer is right under each change."""
    weights: dict[str, Float[Tensor, " n"]]
    """Layer 1's unchanged attention from `=` to the keys of each kind."""

    def lost(self, change: str) -> Measured:
        """The accuracy that a change costs, with its interval."""
        return Measured.paired_difference(self.correct[UNCHANGED].numpy(), self.correct[change].numpy(), "sequences")


@torch.no_grad()
def operand_attention(
    model: Stack, config: Config, seen: Bool[Tensor, "N N"], n: int = SEQUENCES
) -> dict[str, OperandAttention]:
    """The results of one model for each evaluation set; sets without sequences are left out."""
    require(config, "the changed attention of = in layer 1")
    sets = {s.name: s for s in EVAL_SETS}
    exam = Exam([config], seen[None], [sets[name] for name in CHANGES_OF_SET], n, first_step=DRAWS[0])
    layer, results = LastLayer(model), {}
    for name, tokens, labels in zip(exam.names, exam.tokens[0].split(n), exam.labels[0].split(n), strict=True):
        row, keys = layer.trace(tokens).attention(1)[:, 0, -1], keys_by_kind(Positions(config.task, tokens))
        results[name] = OperandAttention(
            {change: changed_logits(layer, tokens, change).argmax(-1) == labels for change in CHANGES_OF_SET[name]},
            {kind: (row * keys[kind]).sum(1) for kind in KINDS},
        )
    return results


def changed_logits(layer: LastLayer, tokens: Int[Tensor, "B T"], change: str) -> Float[Tensor, "B N"]:
    """Answer logits of one model under a change, which reaches the answer through the residual of `=` alone."""
    trace, copied = layer.trace(tokens), layer.copied(tokens)
    positions = Positions(layer.stack.config.task, tokens)
    row, keys = trace.attention(1)[:, 0, -1], keys_by_kind(positions)

    def read(weights: Row) -> Float[Tensor, "B d"]:
        """What layer 1 writes into `=` with these weights."""
        return (weights[:, None] @ copied)[:, 0]

    at_equals = layer.embedded(tokens)[:, -1] + read(CHANGES[change](row, keys))
    if change == OTHER_LITERAL:
        at_equals = at_equals + read(row * keys["literal"])[previous_of_kind(positions.roles.is_variable[:, 0])]
    before = torch.cat([layer.before(trace)[:, :-1], at_equals[:, None]], 1)
    pattern = layer.pattern(before)
    if change == SET_LAYER_2:  # one half on each operand's value
        values = positions.mask("first_value").to(row.dtype) + positions.mask("second_value")
        pattern = values[:, None] / 2
    return layer.logits(at_equals + layer.attention_output(pattern, before))


def previous_of_kind(kind: Bool[Tensor, " B"]) -> Int[Tensor, " B"]:
    """For each sequence the index of the one before it that is of the same kind; of the last one for the first."""
    index = torch.arange(len(kind))
    for chosen in (kind, ~kind):
        index[chosen] = index[chosen].roll(1, 0)
    return index
