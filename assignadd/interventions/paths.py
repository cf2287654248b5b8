"""Path attribution: what each single path between two components is worth, by the role of its token.

A path is a sender's message to one receiver. It is patched alone, with its mean over all tokens of the role in the
batch; every other path carries what it carried, and everything behind the receiver is computed again. Its effect is
what the accuracy loses. What a component adds to the logits directly is exact, because logits are a sum
(`direct_parts`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.model.stack import Stack
from assignadd.model.stages import Stages
from assignadd.model.table import require_covered
from assignadd.task.roles import Positions, answers

# Every token has exactly one of these roles.
TOKEN_ROLES = (
    "operand variable",
    "operand number",
    "other variable",
    "other number",
    "PAD",
    "+",
    "first",
    "second",
    "=",
)
EMBEDDING, LAYER_1, LAYER_2, MLP2, LOGITS = "embedding", "layer 1", "layer 2", "MLP2", "logits"
QUERY, KEY, VALUE = "query", "key", "value"


@dataclass(frozen=True)
class Path:
    """From a component at tokens of a role to a receiver: layer 1 at a role, layer 2's query, key or value, MLP2, the
    logits."""

    sender: str
    role: str
    receiver: str
    at: str = "="
    """The role of the tokens that receive, in layer 1."""


@dataclass(frozen=True)
class PathAnswers:
    """Which sequences are answered correctly: by the network, and with each path patched."""

    whole: Bool[Tensor, " B"]
    patched: dict[Path, Bool[Tensor, " B"]]

    @property
    def effects(self) -> dict[Path, float]:
        """The accuracy that each path is worth."""
        full = self.whole.double().mean().item()
        return {path: full - correct.double().mean().item() for path, correct in self.patched.items()}


def token_roles(positions: Positions) -> dict[str, Bool[Tensor, "B T"]]:
    """Where each role of the partition is."""
    operand_variables = positions.mask("first_variable") | positions.mask("second_variable")
    assigned = positions.mask("assigned")
    operand_numbers = assigned & ~positions.mask("distractors")
    masks = (
        operand_variables,
        operand_numbers,
        positions.mask("variables") & ~operand_variables,
        assigned & ~operand_numbers,
        *(positions.mask(role) for role in ("pads", "plus", "first", "second", "equals")),
    )
    return dict(zip(TOKEN_ROLES, masks, strict=True))


class PathPatching:
    """One model on one batch of sequences."""

    def __init__(self, one: Stack, tokens: Int[Tensor, "B T"]):
        require_covered(one.config)
        self.model, self.labels = Stages(one), answers(one.config.task, tokens)
        self.roles = token_roles(Positions(one.config.task, tokens))
        self.trace = self.model.trace(tokens)
        self.pattern = self.trace.attention_1.contiguous()  # (B, T, T)
        self.embedding, self.values = (  # (B, T, d)
            self.model.at_positions(self.trace.tokens, rows.own) for rows in (self.model.embedded, self.model.copied)
        )
        self.layer_1 = self.pattern @ self.values

    def answers(self) -> PathAnswers:
        """Which sequences are answered correctly as they are, and with each path patched."""
        return PathAnswers(
            self._correct(self.trace.logits), {path: self._correct(logits) for path, logits in self._patched()}
        )

    def direct_parts(self) -> dict[str, Float[Tensor, " B"]]:
        """For each sequence what each component adds by itself to the right answer's logit, above its mean addition to
        all answers."""
        at_equals = {EMBEDDING: self.embedding[:, -1], LAYER_1: self.layer_1[:, -1]}
        at_equals |= {LAYER_2: self.trace.attention_output_2, MLP2: self.trace.mlp_out}
        logits = {name: part @ self.model.weights.U for name, part in at_equals.items()}
        rows = torch.arange(len(self.labels))
        return {name: x[rows, self.labels] - x.mean(1) for name, x in logits.items()}

    def _correct(self, logits: Float[Tensor, "B N"]) -> Bool[Tensor, " B"]:
        return logits.argmax(-1) == self.labels

    def _patched(self) -> Iterator[tuple[Path, Tensor]]:
        """Every path with the answer logits where it alone carries its mean."""
        yield from self._into_layer_1()
        for sender, part in ((EMBEDDING, self.embedding), (LAYER_1, self.layer_1)):
            for role, where in self.roles.items():
                if where.any():
                    change = where[:, :, None] * (part[where].mean(0) - part)
                    for receiver in (KEY, VALUE, QUERY, MLP2, LOGITS) if role == "=" else (KEY, VALUE):
                        yield Path(sender, role, receiver), self._logits(receiver, change)
        layer_2, mlp_out = self.trace.attention_output_2, self.trace.mlp_out
        for sender, part, receiver in ((LAYER_2, layer_2, MLP2), (LAYER_2, layer_2, LOGITS), (MLP2, mlp_out, LOGITS)):
            yield Path(sender, "=", receiver), self._logits(receiver, (part.mean(0) - part)[:, None])

    def _into_layer_1(self) -> Iterator[tuple[Path, Tensor]]:
        """What tokens of one role send to tokens of another by layer 1's attention."""
        for role, keys in self.roles.items():
            sent = (self.pattern * keys[:, None]) @ self.values  # (B, T, d)
            received = (self.pattern * keys[:, None]).sum(-1) > 0
            for at, queries in self.roles.items():
                if (queries & received).any():
                    change = queries[:, :, None] * (sent[queries].mean(0) - sent)
                    yield Path(EMBEDDING, role, LAYER_1, at), self._logits(LAYER_1, change)

    def _logits(self, receiver: str, change: Float[Tensor, "B T d"]) -> Float[Tensor, "B N"]:
        """Answer logits where the receiver alone reads the residual with this change, of all positions or of `=`
        alone."""
        model, trace, at_equals = self.model, self.trace, change[:, -1]
        if receiver == LOGITS:
            return trace.logits + at_equals @ model.weights.U
        if receiver == MLP2:
            return model.logits(trace.resid_mid, model.mlp(trace.resid_mid + at_equals))
        own, layer_1 = trace.resid_before_2, model.layer_1(trace)
        asks = own + at_equals if receiver in (QUERY, LAYER_1) else own
        keys, values = (change if receiver in (part, LAYER_1) else None for part in (KEY, VALUE))
        pattern = model.pattern(asks, trace.tokens, layer_1, change=keys)
        out = model.attention_output(pattern, trace.tokens, layer_1, change=values)
        return model.logits((own + at_equals if receiver == LAYER_1 else own) + out)


@torch.no_grad()
def path_answers(one: Stack, tokens: Int[Tensor, "B T"]) -> PathAnswers:
    return PathPatching(one, tokens).answers()


@torch.no_grad()
def direct_parts(one: Stack, tokens: Int[Tensor, "B T"]) -> dict[str, Float[Tensor, " B"]]:
    return PathPatching(one, tokens).direct_parts()
