"""Path patching: the accuracy lost when a single path between two components is replaced by its mean.

A path is what one component contributes to the input of another at tokens of one role. It is replaced by its mean over
all tokens of this role in the batch. All other paths keep their values, and everything after the receiver is computed
again. The direct contribution of each component to the logits is exact, since logits are a sum.
The paper does not patch paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.model.architecture import PAPER_NEEDS, require
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import Stack
from assignadd.task.roles import Positions, answers

# Every token has exactly one of these roles.
TOKEN_ROLES = (
    "operand variable", "operand number", "other variable", "other number", "PAD", "+", "first", "second", "=",
)  # fmt: skip
EMBEDDING, LAYER_1, LAYER_2, MLP2, LOGITS = "embedding", "layer 1", "layer 2", "MLP2", "logits"
QUERY, KEY, VALUE = "query", "key", "value"


@dataclass(frozen=True)
class Path:
    """A path from a component at tokens of a role to layer 1, layer 2's query, key or value, MLP2, or the logits."""

    sender: str
    role: str
    receiver: str
    at: str = "="
    """The role of the receiving tokens; `=` unless the receiver is layer 1."""


@dataclass(frozen=True)
class PathAnswers:
    """Which sequences are answered correctly by the whole network, and with each path patched."""

    whole: Bool[Tensor, " B"]
    patched: dict[Path, Bool[Tensor, " B"]]

    @property
    def effects(self) -> dict[Path, float]:
        """The accuracy lost when each path is patched."""
        full = self.whole.double().mean().item()
        return {path: full - correct.double().mean().item() for path, correct in self.patched.items()}


def token_roles(positions: Positions) -> dict[str, Bool[Tensor, "B T"]]:
    """A mask of the tokens with each of `TOKEN_ROLES`."""
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
    """Forward passes of one model on one batch of sequences in which single paths are patched."""

    @torch.no_grad()
    def __init__(self, one: Stack, tokens: Int[Tensor, "B T"]):
        require(one.config, "path patching", *PAPER_NEEDS)
        self.model, self.labels = LastLayer(one), answers(one.config.task, tokens)
        self.roles = token_roles(Positions(one.config.task, tokens))
        self.trace = self.model.trace(tokens)
        self.pattern = self.trace.attention(1)[:, 0].contiguous()  # (B, T, T)
        self.embedding, self.values = self.model.embedded(tokens), self.model.copied(tokens)  # (B, T, d)
        self.layer_1 = self.pattern @ self.values

    @torch.no_grad()
    def answers(self) -> PathAnswers:
        """Which sequences are answered correctly as they are, and with each path patched."""
        patched = {path: self._correct(logits) for path, logits in self._patched()}
        return PathAnswers(self._correct(self.trace.logits), patched)

    @torch.no_grad()
    def direct_parts(self) -> dict[str, Float[Tensor, " B"]]:
        """The contribution of each component to the right answer's logit, less its mean contribution to all logits."""
        at_equals = {EMBEDDING: self.embedding[:, -1], LAYER_1: self.layer_1[:, -1]}
        at_equals |= {LAYER_2: self.trace.attention_output, MLP2: self.trace.mlp_out}
        logits = {name: self.model.unembedded(part) for name, part in at_equals.items()}
        rows = torch.arange(len(self.labels))
        return {name: x[rows, self.labels] - x.mean(1) for name, x in logits.items()}

    def _correct(self, logits: Float[Tensor, "B N"]) -> Bool[Tensor, " B"]:
        return logits.argmax(-1) == self.labels

    def _patched(self) -> Iterator[tuple[Path, Tensor]]:
        """The answer logits with each single path replaced by its mean."""
        yield from self._into_layer_1()
        for sender, part in ((EMBEDDING, self.embedding), (LAYER_1, self.layer_1)):
            for role, where in self.roles.items():
                if where.any():
                    change = where[:, :, None] * (part[where].mean(0) - part)
                    for receiver in (KEY, VALUE, QUERY, MLP2, LOGITS) if role == "=" else (KEY, VALUE):
                        yield Path(sender, role, receiver), self._logits(receiver, change)
        layer_2, mlp_out = self.trace.attention_output, self.trace.mlp_out
        for sender, part, receiver in ((LAYER_2, layer_2, MLP2), (LAYER_2, layer_2, LOGITS), (MLP2, mlp_out, LOGITS)):
            yield Path(sender, "=", receiver), self._logits(receiver, (part.mean(0) - part)[:, None])

    def _into_layer_1(self) -> Iterator[tuple[Path, Tensor]]:
        """The same for paths from tokens of one role to tokens of another through layer 1's attention."""
        for role, keys in self.roles.items():
            sent = (self.pattern * keys[:, None]) @ self.values  # (B, T, d)
            received = (self.pattern * keys[:, None]).sum(-1) > 0
            for at, queries in self.roles.items():
                if (queries & received).any():
                    change = queries[:, :, None] * (sent[queries].mean(0) - sent)
                    yield Path(EMBEDDING, role, LAYER_1, at), self._logits(LAYER_1, change)

    def _logits(self, receiver: str, change: Float[Tensor, "B T d"]) -> Float[Tensor, "B N"]:
        """Answer logits if only the receiver reads the residual with this change, at all positions or only at `=`."""
        model, trace, at_equals = self.model, self.trace, change[:, -1]
        if receiver == LOGITS:
            return trace.logits + model.unembedded(at_equals)
        if receiver == MLP2:
            return model.logits(trace.resid_mid, model.mlp(trace.resid_mid + at_equals))
        before = self.embedding + self.layer_1
        changed = before + change
        if receiver == LAYER_1:
            return model.answer(changed)
        own, keys, values = before[:, -1], *(changed if receiver == part else before for part in (KEY, VALUE))
        pattern = model.pattern(keys, own + at_equals if receiver == QUERY else own)
        return model.logits(own + model.attention_output(pattern, values))
