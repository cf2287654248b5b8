"""Path attribution: what each single path between two components is worth, by the role of its token.

A path is a sender's message to one receiver. It is patched alone, with its mean over all tokens of the role in the batch;
every other path carries what it carried, and everything behind the receiver is computed again. Its effect is what the
accuracy loses. What a component adds to the logits directly is exact, because logits are a sum (`direct_parts`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assignadd.interventions.edits import Edits, Record
from assignadd.interventions.lean import Lean
from assignadd.interventions.pairs import answers
from assignadd.interventions.places import Places
from assignadd.model.stack import Stack

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

# Every token has exactly one of these roles.
TOKEN_ROLES = ("operand variable", "operand number", "other variable", "other number", "PAD", "+", "first", "second", "=")
EMBEDDING, LAYER_1, LAYER_2, MLP2, LOGITS = "embedding", "layer 1", "layer 2", "MLP2", "logits"
QUERY, KEY, VALUE = "query", "key", "value"


@dataclass(frozen=True)
class Path:
    """From a component at tokens of a role to a receiver: layer 1 at a role, layer 2's query, key or value, MLP2, the logits."""

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


def token_roles(places: Places) -> dict[str, Bool[Tensor, "B T"]]:
    """Where each role of the partition is."""
    operand_variables = places.mask("first_variable") | places.mask("second_variable")
    assigned = places.mask("assigned")
    operand_numbers = assigned & ~places.mask("distractors")
    masks = (
        operand_variables, operand_numbers, places.mask("variables") & ~operand_variables, assigned & ~operand_numbers,
        places.mask("pads"), places.mask("plus"), places.mask("first"), places.mask("second"), places.mask("equals"),
    )  # fmt: skip
    return dict(zip(TOKEN_ROLES, masks, strict=True))


class PathPatching:
    """One model on one batch of sequences."""

    def __init__(self, one: Stack, tokens: Int[Tensor, "B T"]):
        self.model, self.labels = Lean(one), answers(one.config.task, tokens)
        self.roles = token_roles(Places(one.config.task, tokens))
        pattern, layer_1 = Record(), Record()
        hooks = {"blocks.0.attn.hook_pattern": pattern, "blocks.0.hook_attn_out": layer_1}
        self.x = self.model.first(tokens, Edits(*hooks.items()))  # (B, T, d)
        self.layer_1, self.pattern = layer_1.value, pattern.value[:, 0]
        self.embedding = self.x - self.layer_1

    def answers(self) -> PathAnswers:
        """Which sequences are answered correctly as they are, and with each path patched."""
        return PathAnswers(self._correct(self._layer_2()), {path: self._correct(logits) for path, logits in self._patched()})

    def direct_parts(self) -> dict[str, Float[Tensor, " B"]]:
        """For each sequence what each component adds by itself to the right answer's logit, above its mean addition to all answers."""
        out, mlp_out = Record(), Record()
        self.model.second(self.x, Edits(("blocks.1.hook_attn_out", out), ("blocks.1.hook_mlp_out", mlp_out)))
        parts = {EMBEDDING: self.embedding[:, -1], LAYER_1: self.layer_1[:, -1], LAYER_2: out.value[:, 0], MLP2: mlp_out.value[:, 0]}
        logits = {name: part @ self.model.weights.U for name, part in parts.items()}
        rows = torch.arange(len(self.labels))
        return {name: x[rows, self.labels] - x.mean(1) for name, x in logits.items()}

    def _correct(self, logits: Float[Tensor, "B N"]) -> Bool[Tensor, " B"]:
        return logits.argmax(-1) == self.labels

    def _patched(self) -> Iterator[tuple[Path, Tensor]]:
        yield from self._into_layer_1()
        for sender, part in ((EMBEDDING, self.embedding), (LAYER_1, self.layer_1)):
            for role, where in self.roles.items():
                if where.any():
                    changed = self.x + where[:, :, None] * (part[where].mean(0) - part)
                    yield Path(sender, role, KEY), self._layer_2(keys=changed)
                    yield Path(sender, role, VALUE), self._layer_2(values=changed)
                    if role == "=":
                        yield Path(sender, role, QUERY), self._layer_2(asks=changed[:, -1:])
                        yield Path(sender, role, MLP2), self._layer_2(to_mlp=changed[:, -1:] - self.x[:, -1:])
                        yield Path(sender, role, LOGITS), self._layer_2(to_logits=changed[:, -1:] - self.x[:, -1:])
        yield from self._from_layer_2()

    def _into_layer_1(self) -> Iterator[tuple[Path, Tensor]]:
        """What tokens of one role send to tokens of another by layer 1's attention."""
        values = self.embedding @ self.model.OV1
        for role, keys in self.roles.items():
            sent = (self.pattern * keys[:, None]) @ values  # (B, T, d)
            received = (self.pattern * keys[:, None]).sum(-1) > 0
            for at, queries in self.roles.items():
                if (queries & received).any():
                    change = queries[:, :, None] * (sent[queries].mean(0) - sent)
                    yield Path(EMBEDDING, role, LAYER_1, at), self._layer_2(x=self.x + change)

    def _from_layer_2(self) -> Iterator[tuple[Path, Tensor]]:
        out, mlp_out = Record(), Record()
        self.model.second(self.x, Edits(("blocks.1.hook_attn_out", out), ("blocks.1.hook_mlp_out", mlp_out)))
        of_attention, of_mlp = (record.value.mean(0) - record.value for record in (out, mlp_out))
        yield Path(LAYER_2, "=", MLP2), self._layer_2(to_mlp=of_attention)
        yield Path(LAYER_2, "=", LOGITS), self._layer_2(to_logits=of_attention)
        yield Path(MLP2, "=", LOGITS), self._layer_2(to_logits=of_mlp)

    def _layer_2(
        self,
        x: Tensor | None = None,
        asks: Tensor | None = None,
        keys: Tensor | None = None,
        values: Tensor | None = None,
        to_mlp: Tensor | None = None,
        to_logits: Tensor | None = None,
    ) -> Float[Tensor, "B N"]:
        """Layer 2 where each receiver may read something else: another residual, or a change of what it reads."""
        x, model = self.x if x is None else x, self.model
        asks, keys, values = (x[:, -1:] if asks is None else asks), (x if keys is None else keys), (x if values is None else values)
        pattern = (keys * (asks @ model.QK2)).sum(-1).softmax(-1)[:, None]
        mid = x[:, -1:] + (pattern @ values) @ model.OV2
        read = mid if to_mlp is None else mid + to_mlp
        post = mid + (read @ model.weights.W_in).relu() @ model.weights.W_out
        return ((post if to_logits is None else post + to_logits) @ model.weights.U)[:, 0]


@torch.no_grad()
def path_answers(one: Stack, tokens: Int[Tensor, "T B"]) -> PathAnswers:
    return PathPatching(one, tokens.T.contiguous()).answers()


@torch.no_grad()
def direct_parts(one: Stack, tokens: Int[Tensor, "T B"]) -> dict[str, Float[Tensor, " B"]]:
    return PathPatching(one, tokens.T.contiguous()).direct_parts()
