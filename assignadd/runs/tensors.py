"""Named tensors as safetensors bytes: no code in them, and the same bytes for the same tensors."""

from __future__ import annotations

from collections.abc import Mapping

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from assignadd.errors import RunError


def encode(tensors: Mapping[str, Tensor]) -> bytes:
    # Copies, because the weights of a stack are interleaved views of one tensor. One metadata key only: the order of
    # several would differ from one process to the next.
    own = {name: t.detach().cpu().clone(memory_format=torch.contiguous_format) for name, t in tensors.items()}
    return safetensors.torch.save(own, metadata={"format": "pt"})


def decode(data: bytes, name: str) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise RunError(f"{name} is not a safetensors file: {error}") from error
