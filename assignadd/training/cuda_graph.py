"""A training step on a GPU as two CUDA graphs, captured once and replayed: the host only counts.

A CUDA graph is a list of GPU operations on fixed memory, which is launched as one. One graph draws the sequences of
several steps, to fill the device and because a draw without Triton is hundreds of small operations; the other takes one
step on the batch whose turn it is.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch
from torch import Tensor

from assignadd.task.own import UserSampler
from assignadd.task.sampler import Batch
from assignadd.task.vocabulary import Sizes
from assignadd.training.schedule import Drawing

# About this many sequences are drawn at once, which fill the device and take little of its memory. A task of the user's
# own may have long sequences: there, the sequences drawn at once have about this many tokens together.
SEQUENCES_AHEAD = 1 << 20
OWN_TOKENS_AHEAD = 1 << 22
MOST_STEPS_AHEAD = 64


class CapturedStep:
    """Training steps by replaying graphs; a task of the user's own draws its sequences outside of the graphs."""

    def __init__(
        self,
        step: Tensor,
        sampler: Drawing,
        sizes: Sizes,
        batch_size: int,
        dtype: torch.dtype,
        take: Callable[[Batch], None],
    ):
        """Captures the graphs, for which `take` is called a few times: the caller restores what this changes.

        `take` trains on a batch and adds one to `step`, a tensor on the GPU. Tokens are stored as `dtype`.
        """
        self._step, self._sampler, self._batch_size, self._take = step, sampler, batch_size, take
        M, T = len(sampler.seeds), sizes.length
        is_own = isinstance(sampler, UserSampler)
        # The steps whose sequences are drawn together. Step s has place s % steps_ahead in the buffers.
        sequences_ahead = OWN_TOKENS_AHEAD // T if is_own else SEQUENCES_AHEAD
        self.steps_ahead = max(1, min(MOST_STEPS_AHEAD, sequences_ahead // (batch_size * M)))
        self._start: int | None = None  # the first step whose sequences are in the buffers
        self._offsets = torch.arange(self.steps_ahead, device=step.device).view(-1, 1, 1)
        # (steps, M, B, T), with sequences last in memory, as kernels on a GPU read them.
        self._tokens = torch.zeros(self.steps_ahead, M, T, batch_size, dtype=dtype, device=step.device).mT
        # (steps, M, B), or (steps, M, B, T) for a task with an answer at every position.
        positions = (T,) if sizes.everywhere else ()
        self._labels = torch.zeros(self.steps_ahead, M, batch_size, *positions, dtype=torch.int64, device=step.device)
        # The user's code may wait for the device, as `tensor.item()` does, which fails in a capture.
        self._draw_batches: Callable[[], object] = self._draw if is_own else captured(self._draw).replay
        self._step_graph = captured(self._take_step)

    def replay(self, steps: int) -> None:
        """Takes this many training steps from the current one on."""
        first = int(self._step)
        for step in range(first, first + steps):
            start = step - step % self.steps_ahead  # the first of the steps that are drawn together with this one
            if self._start != start:
                self._draw_batches()
                self._start = start
            self._step_graph.replay()

    def _draw(self) -> None:
        """Fills the buffers with the sequences of the current step and of those that are drawn together with it."""
        start = self._step - self._step % self.steps_ahead
        batch = self._sampler.sample(start + self._offsets, self._batch_size)
        self._tokens.copy_(batch.tokens)
        self._labels.copy_(batch.labels)

    def _take_step(self) -> None:
        """Trains on the batch of the current step."""
        # The step's place in the buffers, as a tensor: the graph reads it at every replay.
        place = (self._step % self.steps_ahead).view(1)
        tokens = self._tokens.mT.index_select(0, place)[0].mT  # (M, B, T), in the same order in memory
        labels = self._labels.index_select(0, place)[0]  # (M, B), or (M, B, T)
        self._take(Batch(tokens, labels))


def captured(do: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """A CUDA graph of the operations that `do` launches, after three calls to warm up."""
    warm_up_stream = torch.cuda.Stream()  # not the default stream, as torch's manual asks
    warm_up_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm_up_stream):
        for _ in range(3):  # libraries allocate on first use, which a capture does not allow
            do()
    torch.cuda.current_stream().wait_stream(warm_up_stream)
    graph = torch.cuda.CUDAGraph()
    # A capture fails if a graph of an earlier stack is freed meanwhile: garbage is collected before, and not during it.
    gc.collect()
    gc_was_enabled, stream = gc.isenabled(), torch.cuda.current_stream()
    gc.disable()
    try:
        with torch.cuda.graph(graph):
            do()
    finally:
        torch.cuda.set_stream(stream)  # a capture that fails leaves its own stream as the current one
        if gc_was_enabled:
            gc.enable()
    return graph
