"""A training step on a GPU as two CUDA graphs, captured once and replayed: the host only counts.

One graph draws the sequences of several steps, to fill the device and because a draw without Triton is hundreds of
small kernels; the other takes one step on the batch whose turn it is.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch
from torch import Tensor

from assignadd.task.sampler import Batch, Sampler
from assignadd.training.schedule import LiteralsLater

# About this many sequences are drawn at once: enough to fill the device, little beside its memory.
SEQUENCES_AHEAD = 1 << 20
MOST_STEPS_AHEAD = 64


class CapturedStep:
    """`step` counts on the device; `take` trains on a batch and adds one to it."""

    def __init__(
        self,
        step: Tensor,
        sampler: Sampler | LiteralsLater,
        batch_size: int,
        dtype: torch.dtype,
        take: Callable[[Batch], None],
    ):
        self._step, self._sampler, self._batch_size, self._take = step, sampler, batch_size, take
        M, T = len(sampler.seeds), sampler.task.length
        self.steps_ahead = max(1, min(MOST_STEPS_AHEAD, SEQUENCES_AHEAD // (batch_size * M)))
        self._start: int | None = None
        """The first step whose sequences are in the buffers."""
        self._offsets = torch.arange(self.steps_ahead, device=step.device).view(-1, 1, 1)
        self._tokens = torch.zeros(self.steps_ahead, M, T, batch_size, dtype=dtype, device=step.device).mT
        self._labels = torch.zeros(self.steps_ahead, M, batch_size, dtype=torch.int64, device=step.device)
        self._draw_graph, self._step_graph = captured(self._draw), captured(self._take_step)

    def replay(self, steps: int) -> None:
        first = int(self._step)
        for step in range(first, first + steps):
            start = step - step % self.steps_ahead
            if self._start != start:
                self._draw_graph.replay()
                self._start = start
            self._step_graph.replay()

    def _draw(self) -> None:
        start = self._step - self._step % self.steps_ahead
        batch = self._sampler.sample(start + self._offsets, self._batch_size)
        self._tokens.copy_(batch.tokens)
        self._labels.copy_(batch.labels)

    def _take_step(self) -> None:
        turn = (self._step % self.steps_ahead).view(1)
        tokens = self._tokens.mT.index_select(0, turn)[0].mT  # keeps the order in memory
        self._take(Batch(tokens, self._labels.index_select(0, turn)[0]))


def captured(do: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """A CUDA graph of what `do` launches, after three calls to warm up."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):  # libraries allocate on first use, which a capture does not allow
            do()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    gc.collect()  # a graph of an earlier stack that is freed during a capture makes it fail
    collects = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph):
            do()
    finally:
        if collects:
            gc.enable()
    return graph
