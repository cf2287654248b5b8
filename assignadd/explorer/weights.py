"""Weights as the page reads them: the paper's circuits in half precision, a script per checkpoint.

A page opened from disk may load scripts but not read files, so each checkpoint is a script that hands over one string.
The page needs only the products QK and OV of each head, which are the paper's own letters and a quarter smaller than the
factors.
"""

from __future__ import annotations

import json
from base64 import b64encode

import torch
from torch import Tensor

from assignadd.errors import RunError
from assignadd.model.circuits import OV, QK
from assignadd.model.stack import Stack


def circuits(one: Stack) -> dict[str, Tensor]:
    """The matrices of a stack of one model, by the page's names and in the page's order, each (rows, columns)."""
    by_layer = {f"{name}{layer}": f(one, layer)[0] for layer in (1, 2) for name, f in (("QK", QK), ("OV", OV))}
    mlp = {"W_in": one["blocks.1.mlp.W_in"][0], "W_out": one["blocks.1.mlp.W_out"][0]}
    return {"W_E": one.W_E[0], "W_pos": one.W_pos[0], **by_layer, **mlp, "W_U": one.W_U[0]}


def shapes(one: Stack) -> list[tuple[str, int, int]]:
    """What the page needs to cut the string into matrices again."""
    return [(name, *matrix.shape) for name, matrix in circuits(one).items()]


def halves(one: Stack) -> Tensor:
    """All matrices in a row, as float16."""
    flat = torch.cat([matrix.flatten() for matrix in circuits(one).values()]).half()
    if not bool(flat.isfinite().all()):
        raise RunError("weights that are not finite, or too large for half precision, cannot be shown")
    return flat


def script(key: str, step: int, one: Stack) -> str:
    """The script of one checkpoint."""
    data = b64encode(halves(one).numpy().astype("<f2").tobytes()).decode()
    return f"assignadd.weights({json.dumps(key)},{step},{json.dumps(data)});\n"
