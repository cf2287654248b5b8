"""Path attribution: what each single path between two components is worth, by the role of its token.

A path is a sender's message to one receiver. It is patched alone, with its mean over all tokens of the role in the batch;
every other path carries what it carried, and everything behind the receiver is computed again. Its effect is what the
accuracy loses. What a component adds to the logits directly is exact, because logits are a sum (`direct_parts`).

A receiver is a hook of the reference transformer behind the weights that read: without norms, what they read changes by the
change of the residual times these weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assignadd.interventions.pairs import answers
from assignadd.model.circuits import OV
from assignadd.model.stack import Stack
from assignadd.model.table import require_covered
from assignadd.model.transformer import Transformer
from assignadd.task.positions import Positions

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


def token_roles(positions: Positions) -> dict[str, Bool[Tensor, "B T"]]:
    """Where each role of the partition is."""
    operand_variables = positions.mask("first_variable") | positions.mask("second_variable")
    assigned = positions.mask("assigned")
    operand_numbers = assigned & ~positions.mask("distractors")
    masks = (
        operand_variables, operand_numbers, positions.mask("variables") & ~operand_variables, assigned & ~operand_numbers,
        positions.mask("pads"), positions.mask("plus"), positions.mask("first"), positions.mask("second"), positions.mask("equals"),
    )  # fmt: skip
    return dict(zip(TOKEN_ROLES, masks, strict=True))


class PathPatching:
    """One model on one batch of sequences."""

    def __init__(self, one: Stack, tokens: Int[Tensor, "B T"]):
        require_covered(one.config)
        self.model, self.labels = Transformer.from_stack(one, 0).requires_grad_(False), answers(one.config.task, tokens)
        self.roles = token_roles(Positions(one.config.task, tokens))
        _, cache = self.model.run_with_cache(tokens)
        self.x, self.embedding = cache["blocks.1.hook_resid_pre"], cache["blocks.0.hook_resid_pre"]  # (B, T, d)
        self.layer_1, self.pattern = cache["blocks.0.hook_attn_out"], cache["blocks.0.attn.hook_pattern"][:, 0]
        self.layer_2, self.mlp_out = (cache[f"blocks.1.hook_{name}"][:, -1:] for name in ("attn_out", "mlp_out"))
        self.values = self.embedding @ OV(one, 1)[0]
        attention, mlp = "blocks.1.attn", "blocks.1.mlp"
        self.receivers: dict[str, tuple[str, Tensor | None]] = {
            LAYER_1: ("blocks.1.hook_resid_pre", None),
            QUERY: (f"{attention}.hook_q", one[f"{attention}.W_Q"][0, 0]),
            KEY: (f"{attention}.hook_k", one[f"{attention}.W_K"][0, 0]),
            VALUE: (f"{attention}.hook_v", one[f"{attention}.W_V"][0, 0]),
            MLP2: (f"{mlp}.hook_pre", one[f"{mlp}.W_in"][0]),
            LOGITS: ("blocks.1.hook_resid_post", None),
        }

    def answers(self) -> PathAnswers:
        """Which sequences are answered correctly as they are, and with each path patched."""
        return PathAnswers(self._correct(self._logits()), {path: self._correct(logits) for path, logits in self._patched()})

    def direct_parts(self) -> dict[str, Float[Tensor, " B"]]:
        """For each sequence what each component adds by itself to the right answer's logit, above its mean addition to all answers."""
        parts = {EMBEDDING: self.embedding, LAYER_1: self.layer_1, LAYER_2: self.layer_2, MLP2: self.mlp_out}
        logits = {name: self.model.unembed(part[:, -1]) for name, part in parts.items()}
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
        for sender, part, receiver in ((LAYER_2, self.layer_2, MLP2), (LAYER_2, self.layer_2, LOGITS), (MLP2, self.mlp_out, LOGITS)):
            yield Path(sender, "=", receiver), self._logits(receiver, part.mean(0) - part)

    def _into_layer_1(self) -> Iterator[tuple[Path, Tensor]]:
        """What tokens of one role send to tokens of another by layer 1's attention."""
        for role, keys in self.roles.items():
            sent = (self.pattern * keys[:, None]) @ self.values  # (B, T, d)
            received = (self.pattern * keys[:, None]).sum(-1) > 0
            for at, queries in self.roles.items():
                if (queries & received).any():
                    change = queries[:, :, None] * (sent[queries].mean(0) - sent)
                    yield Path(EMBEDDING, role, LAYER_1, at), self._logits(LAYER_1, change)

    def _logits(self, receiver: str | None = None, change: Float[Tensor, "B T d"] | None = None) -> Float[Tensor, "B N"]:
        """Answer logits; where a receiver is given, it alone reads the residual with this change (of all positions, or the last)."""
        if receiver is None or change is None:
            return self.model.last_logits(self.x, layer=1)
        hook, weight = self.receivers[receiver]
        read = change if weight is None else change @ weight
        with self.model.hooks([(hook, lambda activation, point: activation + _like(read, activation))]):
            return self.model.last_logits(self.x, layer=1)


@torch.no_grad()
def path_answers(one: Stack, tokens: Int[Tensor, "T B"]) -> PathAnswers:
    return PathPatching(one, tokens.T.contiguous()).answers()


@torch.no_grad()
def direct_parts(one: Stack, tokens: Int[Tensor, "T B"]) -> dict[str, Float[Tensor, " B"]]:
    return PathPatching(one, tokens.T.contiguous()).direct_parts()


def _like(read: Tensor, activation: Tensor) -> Tensor:
    """The change (B, T, n) for the positions and the one head that an activation has."""
    return read[:, -activation.shape[1] :].unflatten(-1, activation.shape[2:])
