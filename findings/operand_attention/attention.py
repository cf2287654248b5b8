"""Accuracy when the attention weights of `=` in layer 1 are changed, which shows what `=` needs from layer 1.

The paper describes these weights in section 5.2. Nothing is renormalised: setting a weight to zero leaves the others
unchanged. Removing an edge through its score (`Cut`) would raise all other weights, which alone can change the answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd import Config
from assignadd.ledger import Measured
from assignadd.model import OV, QK, Exam, LastLayer, Stack, require
from assignadd.task import EVAL_SETS, Positions

DRAWS = range(8000, 9000)
"""Steps of the evaluation stream that this finding draws its sequences from."""
SEQUENCES, CHUNK = 4000, 2048  # of each set; in one forward pass, where each may read the literal of the one before
UNCHANGED, OTHER_LITERAL, SET_LAYER_2 = "unchanged", "literal slot of another sequence", "layer 2 set to the values"
NO_VARIABLE, NO_LITERAL, LITERAL_TO_EQUALS = "no variable slot", "no literal slot", "literal slot's weight to ="
ONLY_VARIABLE, EXCHANGED, LESS_VARIABLE = "variable slot alone", "literal slot and = exchanged", "variable slot x 0.8"
NO_FIRST, NO_SECOND, NO_SLOTS = "no first slot", "no second slot", "no operand slots"
# The kinds of keys whose weights are reported: attributes of `Keys`.
KINDS = ("variable", "literal", "equals")


class Keys:
    """Masks (B, T) of the keys of each kind."""

    def __init__(self, positions: Positions):
        self.positions = positions
        self.first, self.second = positions.mask("first"), positions.mask("second")
        self.equals = positions.mask("equals")
        first_is_variable, second_is_variable = positions.roles.is_variable[:, None].unbind(-1)  # (B, 1) each
        self.slots = self.first | self.second
        self.variable = (self.first & first_is_variable) | (self.second & second_is_variable)
        self.literal = self.slots & ~self.variable


Row = Float[Tensor, "B T"]
"""Layer 1's attention weights from `=`."""
Change = Callable[[Row, Keys], Row]


def without(kind: str) -> Change:
    """Sets the weights on keys of one kind to zero."""
    return lambda row, keys: row.masked_fill(getattr(keys, kind), 0.0)


def alone(kind: str) -> Change:
    """Sets the weights on all other keys to zero."""
    return lambda row, keys: row.masked_fill(~getattr(keys, kind), 0.0)


def literal_to_equals(row: Row, keys: Keys) -> Row:
    """Moves the weight on the literal's slot to `=`."""
    weight = (row * keys.literal).sum(1, keepdim=True)
    return row.masked_fill(keys.literal, 0.0) + weight * keys.equals


def exchanged(row: Row, keys: Keys) -> Row:
    """Exchanges the weights on the literal's slot and on `=`, for sums with one literal."""
    literal, equals = ((row * mask).sum(1, keepdim=True) for mask in (keys.literal, keys.equals))
    return torch.where(keys.literal, equals, torch.where(keys.equals, literal, row))


CHANGES: dict[str, Change] = {
    UNCHANGED: lambda row, keys: row,
    NO_VARIABLE: without("variable"), NO_LITERAL: without("literal"), LITERAL_TO_EQUALS: literal_to_equals,
    ONLY_VARIABLE: alone("variable"), EXCHANGED: exchanged,
    LESS_VARIABLE: lambda row, keys: torch.where(keys.variable, 0.8 * row, row),
    NO_FIRST: without("first"), NO_SECOND: without("second"), NO_SLOTS: without("slots"),
}  # fmt: skip
ONE_VARIABLE = (
    UNCHANGED, NO_VARIABLE, NO_LITERAL, LITERAL_TO_EQUALS, OTHER_LITERAL, ONLY_VARIABLE, EXCHANGED, LESS_VARIABLE,
    SET_LAYER_2,
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


def operand_attention(
    model: Stack, config: Config, seen: Bool[Tensor, "N N"], n: int = SEQUENCES
) -> dict[str, OperandAttention]:
    """The results of one model for each evaluation set; sets without sequences are left out."""
    require(config, "the changed attention of = in layer 1")
    sets = {s.name: s for s in EVAL_SETS}
    exam = Exam([config], seen[None], [sets[name] for name in CHANGES_OF_SET], n, first_step=DRAWS[0])
    return {
        name: changed_attention(model, tokens, labels, CHANGES_OF_SET[name])
        for name, tokens, labels in zip(exam.names, exam.tokens[0].split(n), exam.labels[0].split(n), strict=True)
    }


@torch.no_grad()
def changed_attention(
    model: Stack, tokens: Int[Tensor, "B T"], labels: Int[Tensor, " B"], changes: Sequence[str]
) -> OperandAttention:
    """The results of one model on these sequences under each of the changes."""
    layer = LastLayer(model)
    correct: dict[str, list[Tensor]] = {change: [] for change in changes}
    weights: dict[str, list[Tensor]] = {kind: [] for kind in KINDS}
    for part, right in zip(tokens.split(CHUNK), labels.split(CHUNK), strict=True):
        batch = EqualsAttention(layer, Keys(Positions(model.config.task, part)))
        for change, logits in zip(changes, batch.logits(changes), strict=True):
            correct[change].append(logits.argmax(-1) == right)
        for kind in KINDS:
            weights[kind].append((batch.row * getattr(batch.keys, kind)).sum(1))
    return OperandAttention(
        {change: torch.cat(parts) for change, parts in correct.items()},
        {kind: torch.cat(parts) for kind, parts in weights.items()},
    )


class EqualsAttention:
    """Forward passes of one model on a batch of sequences with changed attention of `=`."""

    def __init__(self, layer: LastLayer, keys: Keys):
        self.layer, self.keys = layer, keys
        tokens = keys.positions.tokens
        trace = layer.trace(tokens)
        self.row: Row = trace.attention(1)[:, 0, -1]  # layer 1's unchanged attention weights from `=`
        self.before, self.copied = layer.before(trace), layer.copied(tokens)
        self.embedding = layer.embedded(tokens)[:, -1]

    def logits(self, changes: Sequence[str]) -> Float[Tensor, "changes B N"]:
        """Answer logits under each of the changes.

        Only the residual of `=` differs between them. All of them read the same residuals of the other positions.
        """
        changes, before, model = list(changes), self.before, self.layer.stack
        rows = torch.stack([self._weights(change) for change in changes], 1)  # (B, changes, T)
        at_equals = self.embedding[:, None] + rows @ self.copied  # (B, changes, d)
        if OTHER_LITERAL in changes:
            at_equals[:, changes.index(OTHER_LITERAL)] += self._literals_of_others()
        queries = at_equals @ QK(model, 2)[0]
        scores = (before @ queries.mT.contiguous()).mT  # a product with a transposed view is slow
        scores[..., -1] = (queries * at_equals).sum(-1)
        pattern = scores.softmax(-1)
        if SET_LAYER_2 in changes:
            pattern[:, changes.index(SET_LAYER_2)] = self._on_values()
        mixed = pattern @ before + pattern[..., -1:] * (at_equals - before[:, -1:])
        after = at_equals + mixed @ OV(model, 2)[0]
        return torch.stack([self.layer.logits(x) for x in after.transpose(0, 1).contiguous()])

    def _weights(self, change: str) -> Row:
        """Layer 1's attention weights from `=` under a change; without those that read another sequence."""
        if change == SET_LAYER_2:
            return self.row
        return CHANGES[NO_LITERAL if change == OTHER_LITERAL else change](self.row, self.keys)

    def _literals_of_others(self) -> Float[Tensor, "B d"]:
        """What layer 1 writes into `=` from the literal's slot of another sequence.

        The other sequence is the previous one in the batch that has its literal in the same slot.
        """
        order = torch.arange(len(self.row))
        first_is_variable = self.keys.positions.roles.is_variable[:, 0]
        for chosen in (first_is_variable, ~first_is_variable):
            order[chosen] = order[chosen].roll(1, 0)
        return (alone("literal")(self.row, self.keys)[:, None] @ self.copied)[order, 0]

    def _on_values(self) -> Float[Tensor, "B T"]:
        """An attention pattern of `=` in layer 2 with one half on each operand's value."""
        first, second = (self.keys.positions.mask(f"{operand}_value") for operand in ("first", "second"))
        return (first.to(self.row.dtype) + second) / 2
