"""The paper's transformer in NumPy: two layers of one head, an MLP after the second, no biases, no norms (section 3).

Vectors are rows. Layer 1 is computed at every position. Layer 2 is computed for the query `=` only, because the answer
is read at the last position and nothing after layer 2 moves information between positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors import safe_open

from tests.independent.sequences import LAST, T

CHUNK = 2048
D_HEAD = 128
CAUSAL = np.tril(np.ones((T, T), dtype=bool))
NAMES = {
    "W_E": "embed.W_E",
    "W_pos": "pos_embed.W_pos",
    "W_U": "unembed.W_U",
    "W_in": "blocks.1.mlp.W_in",
    "W_out": "blocks.1.mlp.W_out",
    **{f"W_{letter}{layer}": f"blocks.{layer - 1}.attn.W_{letter}" for layer in (1, 2) for letter in "QKVO"},
}


@dataclass(frozen=True)
class Network:
    """The weights by the paper's letters, layers counted from 1."""

    W_E: np.ndarray
    W_pos: np.ndarray
    W_Q1: np.ndarray
    W_K1: np.ndarray
    W_V1: np.ndarray
    W_O1: np.ndarray
    W_Q2: np.ndarray
    W_K2: np.ndarray
    W_V2: np.ndarray
    W_O2: np.ndarray
    W_in: np.ndarray
    W_out: np.ndarray
    W_U: np.ndarray

    @cached_property
    def QK1(self) -> np.ndarray:
        """W_Q W_K^T, without the factor 1/sqrt(d_head)."""
        return self.W_Q1 @ self.W_K1.T

    @cached_property
    def QK2(self) -> np.ndarray:
        return self.W_Q2 @ self.W_K2.T

    @cached_property
    def OV1(self) -> np.ndarray:
        return self.W_V1 @ self.W_O1

    @cached_property
    def OV2(self) -> np.ndarray:
        return self.W_V2 @ self.W_O2

    def mlp(self, x: np.ndarray) -> np.ndarray:
        return np.maximum(x @ self.W_in, 0) @ self.W_out


def network(arrays: Mapping[str, np.ndarray]) -> Network:
    """The network from arrays with their names in TransformerLens; the axis of the single head is dropped."""
    return Network(**{ours: np.asarray(arrays[theirs], dtype=np.float32).squeeze() for ours, theirs in NAMES.items()})


def read_pth(path: Path) -> Network:
    """One of the paper's own checkpoints."""
    import torch

    state = torch.load(path, weights_only=True, map_location="cpu")
    return network({name: state[name].numpy() for name in NAMES.values()})


def read_safetensors(path: Path) -> list[Network]:
    """The networks of a checkpoint whose arrays have a leading axis of models."""
    with safe_open(str(path), "np") as file:
        arrays = {name: file.get_tensor(name) for name in NAMES.values()}
    return [network({name: array[i] for name, array in arrays.items()}) for i in range(len(arrays["embed.W_E"]))]


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@dataclass(frozen=True)
class State:
    """The activations of a forward pass; vectors without a position axis are those at `=`."""

    pattern_1: np.ndarray  # (B, T, T)
    output_1: np.ndarray  # (B, T, d), layer 1's output
    pattern_2: np.ndarray  # (B, T), from `=`
    output_2: np.ndarray  # (B, d), layer 2's attention output
    mid: np.ndarray  # (B, d), the residual before MLP2
    post: np.ndarray  # (B, d), the residual after MLP2
    logits: np.ndarray  # (B, N)


def layer_1(net: Network, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The embeddings (B, T, d), the pattern (B, T, T) and the output (B, T, d) of layer 1."""
    x = net.W_E[tokens] + net.W_pos
    scores = (x @ net.QK1) @ x.swapaxes(1, 2) / np.float32(np.sqrt(D_HEAD))
    pattern = softmax(np.where(CAUSAL, scores, -np.inf).astype(np.float32))
    return x, pattern, (pattern @ x) @ net.OV1


def layer_2(net: Network, x: np.ndarray, pattern_1: np.ndarray, output_1: np.ndarray) -> State:
    """The rest of the pass, from the embeddings and a layer-1 output that may have been changed."""
    residual = x + output_1
    own = residual[:, LAST]
    scores = np.matmul(residual, (own @ net.QK2)[:, :, None])[:, :, 0] / np.float32(np.sqrt(D_HEAD))
    pattern = softmax(scores)
    output = np.matmul(pattern[:, None], residual)[:, 0] @ net.OV2
    mid = own + output
    post = mid + net.mlp(mid)
    return State(pattern_1, output_1, pattern, output, mid, post, post @ net.W_U)


def forward(net: Network, tokens: np.ndarray) -> State:
    return layer_2(net, *layer_1(net, tokens))


def chunks(tokens: np.ndarray) -> Iterator[np.ndarray]:
    return (tokens[i : i + CHUNK] for i in range(0, len(tokens), CHUNK))


def answers(net: Network, tokens: np.ndarray) -> np.ndarray:
    """The number with the largest logit, (B,)."""
    return np.concatenate([forward(net, part).logits.argmax(1) for part in chunks(tokens)])


def gathered(net: Network, tokens: np.ndarray, *fields: str) -> tuple[np.ndarray, ...]:
    """These fields of `State` for all sequences."""
    parts = [forward(net, part) for part in chunks(tokens)]
    return tuple(np.concatenate([getattr(part, field) for part in parts]) for field in fields)
