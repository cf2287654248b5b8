"""Answer logits of a stack by the fastest exact way there is for its architecture and device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from threading import get_ident
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from assignadd.config import Config
from assignadd.model.reference_trace import reference_trace
from assignadd.model.stack import Stack, single_models, weight_shapes
from assignadd.model.table import TableForward, covers
from assignadd.model.trace import Trace, Weights
from assignadd.model.transformer import reference_logits
from assignadd.task.vocabulary import Vocabulary

if TYPE_CHECKING:
    from assignadd.model.single_model import SingleModelForward

# Sequences in one forward pass: enough to fill the machine, few enough for its caches and memory; on a CPU fewer.
CHUNK, CPU_CHUNK = 2048, 512


@lru_cache(maxsize=16)
def table_forward(config: Config, device: torch.device, stacked: bool = False) -> TableForward:
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
    """The answer of every model to its own sequences, or to shared ones; no more than a chunk's logits are kept."""
    return _for_each_chunk(stack, tokens, largest)


def largest(x: Float[Tensor, "*axes n"]) -> Int[Tensor, "*axes"]:
    """Where each row has its largest entry, the first of several; NaN counts as the largest."""
    if x.device.type == "cpu":  # there, NumPy takes half the time
        return torch.from_numpy(np.asarray(x.detach().numpy().argmax(-1)))
    return x.argmax(-1)


def _for_each_chunk(stack: Stack, tokens: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of the logits, (M, B, ...), computed from those of some sequences at a time."""
    tokens = for_each_model(stack, tokens)
    if not covers(stack.config):
        return torch.cat([function(reference_logits(stack, part)) for part in tokens.split(CHUNK, 1)], 1)
    if stack.flat.device.type == "cpu":  # where batched products of small matrices are slow
        return torch.stack([_of_one(*own, function) for own in zip(single_models(stack), tokens, strict=True)])
    table, weights = table_forward(stack.config, stack.flat.device, stacked=True), Weights.of(stack.weights)
    tables = table.tables(weights)
    return torch.cat([function(table.forward(weights, part, tables).logits) for part in tokens.split(CHUNK, 1)], 1)


def _of_one(one: Stack, tokens: Int[Tensor, "B T"], function: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of the logits of a stack of one model on a CPU, (B, ...)."""
    table, n = table_forward(one.config, one.flat.device), max(1, len(tokens))
    size = -(-n // -(-n // CPU_CHUNK))  # parts are as few as possible and of the same size
    if table.kernels.has_series and one.flat.dtype == torch.float32:
        own, passes = _compiled_forward(one.config, size, torch.get_num_threads(), get_ident())
        own.flat.copy_(one.flat)
        passes.write_tables()
        return passes.answers(tokens) if function is largest else function(passes.logits(tokens))
    weights = unstacked(one)
    tables = table.tables(weights)
    read_out = weights.W_out @ weights.U  # a product of fewer columns takes less time
    return torch.cat([function(table.forward(weights, part, tables).read(read_out)) for part in tokens.split(size)])


@lru_cache(maxsize=4)
@torch.inference_mode(False)  # in which memory could not be written to from outside of it
def _compiled_forward(config: Config, size: int, threads: int, caller: int) -> tuple[Stack, SingleModelForward]:
    """Memory for the weights of one model, and the forward pass of these; every thread that calls has its own.

    To make the calls of a pass takes as long as to answer about 250 sequences.
    """
    from assignadd.model.single_model import SingleModelForward  # which needs Numba

    table, P = table_forward(config, torch.device("cpu")), sum(map(math.prod, weight_shapes(config).values()))
    one = Stack(config, torch.empty(1, P))
    return one, SingleModelForward(unstacked(one), size, table.equals, table.scale)


def traces(stack: Stack, tokens: Int[Tensor, "#M B T"]) -> Iterator[Trace]:
    """The trace of each model's own sequences, or of shared ones, without the axis M."""
    for one, own in zip(single_models(stack), tokens.expand(len(stack), *tokens.shape[1:]), strict=True):
        yield from traces_in_parts(one, [own])


def traces_in_parts(one: Stack, parts: Iterable[Int[Tensor, "_ T"]]) -> Iterator[Trace]:
    """The trace of one model, without the axis M, for each part of its sequences; tables are computed once."""
    trace_of = _trace_of_one(one)
    for part in parts:
        (own,) = for_each_model(one, part.unsqueeze(0))
        with torch.no_grad():  # left before the caller goes on
            found = trace_of(own)
        yield found


@torch.no_grad()
def _trace_of_one(one: Stack) -> Callable[[Int[Tensor, "B T"]], Trace]:
    if not covers(one.config):
        return lambda tokens: reference_trace(one, tokens, CHUNK)
    table, weights = table_forward(one.config, one.flat.device), unstacked(one)
    tables = table.tables(weights)
    return lambda tokens: table.forward(weights, tokens, tables)


def unstacked(one: Stack) -> Weights:
    """The weights of a stack of one model without the axis M."""
    return Weights.of({name: w[0] for name, w in one.weights.items()})


@torch.no_grad()
def trace(stack: Stack, tokens: Int[Tensor, "#M B T"]) -> Trace:
    """The trace of a stack, with the leading axis M."""
    tokens = for_each_model(stack, tokens)
    if covers(stack.config):
        return table_forward(stack.config, stack.flat.device, stacked=True).forward(Weights.of(stack.weights), tokens)
    return reference_trace(stack, tokens, CHUNK)
