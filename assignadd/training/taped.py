"""A worker's steps on a CPU: data drawn many steps ahead, and one step, written down once and played back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from assignadd.model.table import covers
from assignadd.task.sampler import Batch
from assignadd.training.tape import Tape

if TYPE_CHECKING:
    from assignadd.training.worker import Worker

# At most so many sequences are drawn at once: small tensor operations cost more than their arithmetic. The paper's batch
# comes to as many steps; a smaller one gains little from more, and a short run would draw what it never reads.
SEQUENCES_AHEAD = 131_072
MOST_STEPS_AHEAD = 256


def steps_ahead(worker: Worker) -> int:
    return max(1, min(MOST_STEPS_AHEAD, SEQUENCES_AHEAD // (worker.batch_size * len(worker.stack))))


class Taped:
    """Advances a worker by playing back its step, where the tables cover its architecture; autograd cannot be taped."""

    def __init__(self, worker: Worker):
        self.worker, B, M = worker, worker.batch_size, len(worker.stack)
        self._n_ahead = steps_ahead(worker)
        self._start: int | None = None
        """The first step whose data are drawn."""
        tokens = torch.zeros(M, worker.stack.config.task.length, B, dtype=torch.int64)
        self._batch = Batch(tokens.mT, torch.zeros(M, B, dtype=torch.int64))
        self._tape: Tape[None] | None = None

    def advance(self, steps: int) -> None:
        first = int(self.worker.step)
        for step in range(first, first + steps):
            if self._tape is None and (self.worker.diverged_at >= 0).all():
                self.worker.step += 1  # nothing is left to train
            else:
                self._load(step)
                self._take_step()

    def _load(self, step: int) -> None:
        start = step - step % self._n_ahead
        if self._start != start:
            steps = torch.arange(start, start + self._n_ahead).view(-1, 1, 1)
            ahead = self.worker.sampler.sample(steps, self.worker.batch_size)
            self._start, self._ahead = start, list(zip(ahead.tokens, ahead.labels, strict=True))
        tokens, labels = self._ahead[step - start]
        self._batch.tokens.copy_(tokens)
        self._batch.labels.copy_(labels)

    def _take_step(self) -> None:
        if self._tape is not None and self._tape.play():
            return
        # The first step, or one on another way: the forward pass changes how it goes, or a model has diverged.
        self._tape = None
        update = partial(self.worker.update, self._batch)
        if covers(self.worker.stack.config):
            tape = Tape(update)
            self._tape = None if (self.worker.diverged_at >= 0).all() else tape
        else:
            update()
