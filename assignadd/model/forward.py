"""Answers, logits and traces of a stack by the fastest exact way there is for its architecture and device.

Tables (`table`) serve the paper's architecture; on a CPU, compiled code does their forward pass for one model
(`cpu_step`). Others have `answer` on a CPU, `answer_gpu` on most NVIDIA GPUs, or the reference transformer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from assignadd.config import Config
from assignadd.model.answer import logits_of_answers, transformer_of
from assignadd.model.answer_gpu import StackAnswer, serves
from assignadd.model.heads import HeadForward
from assignadd.model.kernels import has_step
from assignadd.model.own import logits_of_weights
from assignadd.model.stack import Stack
from assignadd.model.table import Forward, TableForward, Weights, covers
from assignadd.model.trace import Trace, reference_trace
from assignadd.model.transformer import reference_logits
from assignadd.task.vocabulary import sizes_of

# Sequences in one forward pass: enough to fill the machine, few enough for its caches and memory. Of compiled code only
# the logits have to fit into memory, as it divides the sequences itself.
CHUNK, COMPILED_CHUNK = 2048, 1 << 16


@lru_cache(maxsize=16)
def table_forward(config: Config, device: str | torch.device = "cpu", stacked: bool = False) -> Forward[Any, Any]:
    """The forward and backward pass by tables for this number of heads."""
    kind = TableForward if config.model.n_heads == 1 else HeadForward
    return kind(config, device, stacked)


def sequences_of_each(stack: Stack, tokens: Int[Tensor, "#M B T"]) -> Int[Tensor, "M B T"]:
    """The sequences of every model of a stack, also where all share those of one (M = 1 in `tokens`).

    Raises a ValueError for tokens outside the vocabulary: compiled kernels would read past the end of an array.
    """
    size = sizes_of(stack.config.task).n_tokens
    if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < size:
        raise ValueError(f"tokens from {int(tokens.min())} to {int(tokens.max())}: expected 0 to {size - 1}")
    return tokens.expand(len(stack), *tokens.shape[1:])


@torch.no_grad()
def answer_logits(stack: Stack, tokens: Int[Tensor, "#M B T"]) -> Float[Tensor, "M B *positions N"]:
    """Logits at `=` for every model's own sequences, or for shared ones; at every position if answers are there."""
    return _for_each_chunk(stack, tokens, lambda logits: logits)


@torch.no_grad()
def answers(stack: Stack, tokens: Int[Tensor, "#M B T"]) -> Int[Tensor, "M B *positions"]:
    """The answer of every model to its own sequences, or to shared ones; only a chunk's logits are in memory."""
    return _for_each_chunk(stack, tokens, largest)


def largest(x: Float[Tensor, "*axes n"]) -> Int[Tensor, "*axes"]:
    """The place of the largest entry of each row, the first of several; NaN counts as the largest."""
    if x.device.type == "cpu":  # there, NumPy takes half the time
        return torch.from_numpy(np.asarray(x.detach().numpy().argmax(-1)))
    return x.argmax(-1)


def _for_each_chunk(stack: Stack, tokens: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """function(logits), (M, B, ...), for the answer logits of every model on its sequences.

    The function is called once for each chunk of the sequences, so that the logits of all are never in memory.
    """
    tokens = sequences_of_each(stack, tokens)  # (M, B, T)
    of_parts = []
    for part, models in stack.parts:
        logits_of, at_once = _forward_pass(models)
        of_parts.append(torch.cat([function(logits_of(chunk)) for chunk in tokens[part].split(at_once, 1)], 1))
    return torch.cat(of_parts)


def _forward_pass(stack: Stack) -> tuple[Callable[[Tensor], Tensor], int]:
    """The function from sequences (M, B, T) to the answer logits of a stack, and how many sequences to give it at once.

    On a CPU the stack has one model.
    """
    config, device = stack.config, stack.flat.device
    if config.model.file is not None:
        return partial(logits_of_weights, config, stack.weights), CHUNK
    if not covers(config):  # the tables do not describe this architecture or task
        if serves(config, stack.flat):
            return partial(StackAnswer(config, device), stack.weights), CHUNK
        if device.type != "cpu":
            return partial(reference_logits, stack), CHUNK
        transformer = transformer_of(stack)
        return lambda chunk: logits_of_answers(transformer, chunk[0])[None], CHUNK
    table = table_forward(config, device, stacked=True)
    if has_step(config, device) and stack.flat.dtype == torch.float32:
        from assignadd.model import cpu_step  # here, as it needs Numba

        model = unstacked(stack)
        return lambda chunk: cpu_step.answer_logits(model, chunk[0], table.equals, table.scale)[None], COMPILED_CHUNK
    weights = Weights.of(stack.weights)
    tables = table.tables(weights)
    return lambda chunk: table.forward(weights, chunk, tables).logits, CHUNK


def unstacked(model: Stack) -> Weights:
    """The weights of a stack of one model without the axis M."""
    return Weights.of(model.of_model(0))


def trace(stack: Stack, tokens: Int[Tensor, "#M B T"]) -> Trace:
    """The trace of all models of a stack, each on its own sequences or on shared ones, with the axis M."""
    return _trace(stack, sequences_of_each(stack, tokens))


def traces(stack: Stack, tokens: Int[Tensor, "#M B T"]) -> Iterator[Trace]:
    """The trace of each model, one after the other, on its own sequences or on shared ones, without the axis M."""
    for model, model_tokens in zip(stack, sequences_of_each(stack, tokens), strict=True):
        yield _trace(model, model_tokens)


@torch.no_grad()
def _trace(stack: Stack, tokens: Int[Tensor, "*M B T"]) -> Trace:
    """The trace of a stack on tokens (M, B, T); on tokens (B, T) that of its only model, without the axis M."""
    if not covers(stack.config):
        return reference_trace(stack, tokens, CHUNK)
    stacked = tokens.ndim == 3
    weights = Weights.of(stack.weights) if stacked else unstacked(stack)
    return table_forward(stack.config, stack.flat.device, stacked).trace(weights, tokens)
