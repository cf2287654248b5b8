"""Answers, logits and traces of a stack by the fastest exact way there is for its architecture and device.

There are two forward passes: the reference transformer (`transformer`), and the tables (`table`) with kernels in tensor
operations, for a CPU and for a GPU. For one model on a CPU, compiled code does that of the tables (`single_model`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from threading import get_ident
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from assignadd.config import Config
from assignadd.model.stack import Stack, single_models, weight_shapes
from assignadd.model.table import TableForward, Weights, covers
from assignadd.model.trace import Trace, reference_trace
from assignadd.model.transformer import reference_logits
from assignadd.task.vocabulary import Vocabulary

if TYPE_CHECKING:
    from assignadd.model.single_model import SingleModelForward

# Sequences in one forward pass: enough to fill the machine, few enough for its caches and memory.
CHUNK, COMPILED_CHUNK = 2048, 512


@lru_cache(maxsize=16)
def table_forward(config: Config, device: torch.device, stacked: bool = False) -> TableForward:
    """The table forward of these models, made once."""
    return TableForward(config, device, stacked)


def for_each_model(stack: Stack, tokens: Int[Tensor, "#M B T"]) -> Int[Tensor, "M B T"]:
    """The sequences of every model, also where all share them (M = 1 in `tokens`)."""
    size = Vocabulary(stack.config.task).size
    if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < size:  # compiled kernels do not look
        raise ValueError(f"tokens from {int(tokens.min())} to {int(tokens.max())}: expected 0 to {size - 1}")
    return tokens.expand(len(stack), *tokens.shape[1:])


@torch.no_grad()
def answer_logits(stack: Stack, tokens: Int[Tensor, "#M B T"]) -> Float[Tensor, "M B N"]:
    """Logits at `=` for every model's own sequences, or for shared ones."""
    return _for_each_chunk(stack, tokens, lambda logits: logits)


@torch.no_grad()
def answers(stack: Stack, tokens: Int[Tensor, "#M B T"]) -> Int[Tensor, "M B"]:
    """The answer of every model to its own sequences, or to shared ones; only a chunk's logits are in memory."""
    return _for_each_chunk(stack, tokens, largest)


def largest(x: Float[Tensor, "*axes n"]) -> Int[Tensor, "*axes"]:
    """Where each row has its largest entry, the first of several; NaN counts as the largest."""
    if x.device.type == "cpu":  # there, NumPy takes half the time
        return torch.from_numpy(np.asarray(x.detach().numpy().argmax(-1)))
    return x.argmax(-1)


def _for_each_chunk(stack: Stack, tokens: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of the logits, (M, B, ...), computed from those of a chunk of the sequences at a time."""
    tokens = for_each_model(stack, tokens)
    if not covers(stack.config):
        return torch.cat([function(reference_logits(stack, part)) for part in tokens.split(CHUNK, 1)], 1)
    table = table_forward(stack.config, stack.flat.device, stacked=True)
    if table.kernels.has_series and stack.flat.dtype == torch.float32:
        return torch.stack([_compiled(*model, function) for model in zip(single_models(stack), tokens, strict=True)])
    weights = Weights.of(stack.weights)
    tables = table.tables(weights)
    return torch.cat([function(table.forward(weights, part, tables).logits) for part in tokens.split(CHUNK, 1)], 1)


def _compiled(model: Stack, tokens: Int[Tensor, "B T"], function: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of the logits of a stack of one model, (B, ...), in compiled code."""
    n = max(1, len(tokens))
    size = -(-n // -(-n // COMPILED_CHUNK))  # chunks are as few as possible and of the same size
    memory, passes = _compiled_forward(model.config, size, torch.get_num_threads(), get_ident())
    memory.flat.copy_(model.flat)
    passes.write_tables()
    return passes.answers(tokens) if function is largest else function(passes.logits(tokens))


@lru_cache(maxsize=4)
@torch.inference_mode(False)  # in which memory could not be written to from outside of it
def _compiled_forward(config: Config, size: int, threads: int, caller: int) -> tuple[Stack, SingleModelForward]:
    """Memory for the weights of one model, and the forward pass of these; every thread that calls has its own.

    To make the calls of a pass takes as long as to answer about 250 sequences.
    """
    from assignadd.model.single_model import SingleModelForward  # which needs Numba

    table, P = table_forward(config, torch.device("cpu")), sum(map(math.prod, weight_shapes(config).values()))
    memory = Stack(config, torch.empty(1, P))
    return memory, SingleModelForward(unstacked(memory), size, table.equals, table.scale)


def unstacked(model: Stack) -> Weights:
    """The weights of a stack of one model without the axis M."""
    return Weights.of({name: weight[0] for name, weight in model.weights.items()})


@torch.no_grad()
def trace(stack: Stack, tokens: Int[Tensor, "#M B T"]) -> Trace:
    """The trace of a stack, with the leading axis M."""
    tokens = for_each_model(stack, tokens)
    if covers(stack.config):
        return table_forward(stack.config, stack.flat.device, stacked=True).trace(Weights.of(stack.weights), tokens)
    return reference_trace(stack, tokens, CHUNK)


def traces(stack: Stack, tokens: Int[Tensor, "#M B T"]) -> Iterator[Trace]:
    """The trace of each model's own sequences, or of shared ones, without the axis M."""
    for model, model_tokens in zip(single_models(stack), for_each_model(stack, tokens), strict=True):
        yield _trace_of(model, model_tokens)


@torch.no_grad()
def _trace_of(model: Stack, tokens: Int[Tensor, "B T"]) -> Trace:
    """The trace of a stack of one model, without the axis M."""
    if covers(model.config):
        return table_forward(model.config, model.flat.device).trace(unstacked(model), tokens)
    return reference_trace(model, tokens, CHUNK)
