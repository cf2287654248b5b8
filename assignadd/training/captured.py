"""A worker's step on a GPU as two graphs, captured once and replayed: the host only counts.

One graph draws the data of the next several steps, where a draw for each step would be hundreds of tiny kernels; the
other takes one step on the batch whose turn it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from assignadd.task.sampler import Batch
from assignadd.training.fused import has_kernels

if TYPE_CHECKING:
    from assignadd.training.worker import Worker

# About so many sequences are drawn at once: enough to fill the device, little beside its memory.
SEQUENCES_AHEAD = 1 << 20
MOST_STEPS_AHEAD = 64


class Captured:
    def __init__(self, worker: Worker):
        self.worker, B, M = worker, worker.batch_size, len(worker.stack)
        self.steps_ahead = max(1, min(MOST_STEPS_AHEAD, SEQUENCES_AHEAD // (B * M)))
        device, T = worker.step.device, worker.stack.config.task.length
        self._start: int | None = None
        """The first step whose data lie in the buffers."""
        self._offsets = torch.arange(self.steps_ahead, device=device).view(-1, 1, 1)
        small = torch.int32 if has_kernels(worker.stack.flat) else torch.int64  # which tensor operations index with
        self._tokens = torch.zeros(self.steps_ahead, M, T, B, dtype=small, device=device)
        self._labels = torch.zeros(self.steps_ahead, M, B, dtype=torch.int64, device=device)
        before = {name: t.clone() for name, t in worker.state().items()}
        self._draw, self._take = _graph(self._draw_ahead), _graph(self._take_step)
        worker.load_state(before)

    def advance(self, steps: int) -> None:
        first = int(self.worker.step)
        for step in range(first, first + steps):
            start = step - step % self.steps_ahead
            if self._start != start:
                self._draw.replay()
                self._start = start
            self._take.replay()

    def _draw_ahead(self) -> None:
        start = self.worker.step - self.worker.step % self.steps_ahead
        batch = self.worker.sampler.sample(start + self._offsets, self.worker.batch_size)
        self._tokens.copy_(batch.tokens.mT)
        self._labels.copy_(batch.labels)

    def _take_step(self) -> None:
        turn = (self.worker.step % self.steps_ahead).view(1)
        self.worker.update(Batch(self._tokens.index_select(0, turn)[0].mT, self._labels.index_select(0, turn)[0]))


def _graph(do: Callable[[], None]) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):  # libraries allocate on first use, which a capture does not allow
            do()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        do()
    return graph
