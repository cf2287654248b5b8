"""A training step as one would write it in plain PyTorch, which `assignadd bench` times beside ours.

The network is built of torch's own layers, with queries, keys and values in one product. Of the last layer, the MLP and
what follows are computed at `=` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from assignadd.config import Config, Model
from assignadd.model.transformer import ACTIVATIONS, NORM_EPS
from assignadd.task.sampler import Batch
from assignadd.task.vocabulary import sizes_of

Step = Callable[[], object]
"""One training step of another implementation, on a batch of its own."""


def plain_steps(config: Config, batch: Batch) -> Mapping[str, Step]:
    """What most people would write, by the name `plain`."""
    model = PlainTransformer(config)
    return {"plain": step_of(config, batch, model, model)}


def step_of(config: Config, batch: Batch, model: nn.Module, logits: Callable[[Tensor], Tensor]) -> Step:
    """A training step of `model` by autograd and torch's AdamW, on the sequences that a batch has for its first model.

    `logits(tokens)` are the model's logits of the answers, (B, N).
    """
    tokens, labels = batch.tokens[0].long(), batch.labels[0]
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.optim.lr, weight_decay=config.optim.weight_decay)

    def step() -> None:
        loss = F.cross_entropy(logits(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


class PlainTransformer(nn.Module):
    """The transformer of the settings; it returns the logits at `=`, (B, N), of tokens (B, T)."""

    def __init__(self, config: Config):
        super().__init__()
        model, sizes = config.model, sizes_of(config.task)
        self.embedding = nn.Embedding(sizes.n_tokens, model.d_model)
        self.position = nn.Parameter(torch.randn(sizes.length, model.d_model))
        self.layers = nn.ModuleList(PlainLayer(model, width) for width in model.d_mlp)
        self.norm = _norm(model)
        self.unembedding = nn.Linear(model.d_model, sizes.n_answers, bias=model.biases)
        self.direct_path = model.direct_path  # whether the unembedding also reads what is before the last MLP

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.position  # (B, T, d)
        *layers, last = cast(list[PlainLayer], list(self.layers))
        for layer in layers:
            x = x + layer.attention(x)
            if layer.up is not None:  # the layer has an MLP
                x = x + layer.mlp(x)
        x = x[:, -1] + last.attention(x)[:, -1]  # (B, d), at `=`
        if last.up is not None:
            x = (x + last.mlp(x)) if self.direct_path else last.mlp(x)
        return self.unembedding(self.norm(x))


class PlainLayer(nn.Module):
    """Attention and the MLP of a layer. Each reads the residual stream through a norm, where the model has norms."""

    def __init__(self, model: Model, width: int | None):
        super().__init__()
        d = model.d_model
        self.heads = (3, model.n_heads, model.d_head)  # the shape of a position's queries, keys and values
        self.norm_1, self.norm_2 = _norm(model), _norm(model)  # before attention, and before the MLP
        self.activation = ACTIVATIONS[model.activation]
        self.projections = nn.Linear(d, 3 * model.n_heads * model.d_head, bias=model.biases)
        self.output = nn.Linear(model.n_heads * model.d_head, d, bias=model.biases)
        self.up = nn.Linear(d, width, bias=model.biases) if width else None
        self.down = nn.Linear(width or 0, d, bias=model.biases) if width else None

    def attention(self, x: Tensor) -> Tensor:
        """What attention writes at every position, (B, T, d)."""
        q, k, v = self.projections(self.norm_1(x)).unflatten(-1, self.heads).permute(2, 0, 3, 1, 4)  # (B, H, T, dh)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(z.transpose(1, 2).flatten(2))

    def mlp(self, x: Tensor) -> Tensor:
        """What the MLP writes, (..., d), in a layer that has one."""
        assert self.up is not None and self.down is not None
        return self.down(self.activation(self.up(self.norm_2(x))))


def _norm(model: Model) -> nn.Module:
    """torch's norm of the kind that the model has."""
    if model.norm == "layer":
        return nn.LayerNorm(model.d_model, NORM_EPS)
    return nn.RMSNorm(model.d_model, NORM_EPS) if model.norm == "rms" else nn.Identity()
