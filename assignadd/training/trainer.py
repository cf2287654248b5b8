"""A stack in training: cut into workers, advanced in step, put together again for checkpoints and evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from assignadd.config import Config, Member
from assignadd.model.accuracy import Exam
from assignadd.model.stack import Stack, concatenate, initial_stack
from assignadd.task.evalsets import DOUBLY_HELD_OUT, EVAL_SETS
from assignadd.training.worker import Worker


def prepare(device: str, threads: int, config: Config) -> None:
    """Sets torch up so that a run depends on its configuration, device and thread count alone."""
    torch.set_num_threads(threads)
    # On ARM, oneDNN hands some matrix products to a library with threads of its own, whatever torch was told: one
    # thread would not be one thread, and models side by side would fight for cores.
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    if device == "cuda":
        precision = "tf32" if config.numerics.tf32 else "ieee"
        torch.backends.cuda.matmul.fp32_precision = precision


class Trainer:
    """The models of a run. On a CPU each has a thread of its own, and trains bit for bit as it would alone."""

    def __init__(self, config: Config, members: Sequence[Member], seen: Tensor, device: str = "cpu", threads: int = 1):
        self.config, self.members = config, list(members)
        configs = [m.config(config) for m in members]
        stack = initial_stack(config, [c.seed.init or 0 for c in configs]).to(device)
        if device == "cpu":
            parts = [slice(i, i + 1) for i in range(len(stack))]
            self._threads = min(threads, len(parts))
            prepare(device, threads if len(parts) == 1 else 1, config)
        else:
            parts, self._threads = [slice(0, len(stack))], 1
            prepare(device, threads, config)
        self.workers = [Worker(stack.models(part), configs[part], seen[part]) for part in parts]
        self.exams = [Exam(configs[part], seen[part], EVAL_SETS + DOUBLY_HELD_OUT, config.record.eval_sequences, device) for part in parts]

    @property
    def step(self) -> int:
        return int(self.workers[0].step)

    @property
    def losses(self) -> list[float]:
        return [x for worker in self.workers for x in worker.loss.tolist()]

    @property
    def diverged_at(self) -> list[int | None]:
        return [None if x < 0 else x for worker in self.workers for x in worker.diverged_at.tolist()]

    def advance(self, steps: int) -> None:
        self._each(lambda worker: worker.advance(steps), self.workers)

    def evaluate(self) -> list[dict[str, object]]:
        """One row per model: its place in the stack, its seed, the loss on the last batch, the accuracy on each set."""
        counts = self._each(lambda pair: pair[0].count_correct(pair[1].stack), zip(self.exams, self.workers, strict=True))
        rows = [row for part in counts for row in part.tolist()]
        exam, step = self.exams[0], self.step
        return [
            {
                "step": step,
                "model": index,
                "seed": member.seed,
                "loss": loss if loss == loss else None,
                "diverged_at": diverged_at,
                "accuracy": {name: right / exam.n for name, right in zip(exam.names, row, strict=True)},
            }
            for index, (member, loss, diverged_at, row) in enumerate(zip(self.members, self.losses, self.diverged_at, rows, strict=True))
        ]

    def stack(self) -> Stack:
        return concatenate([worker.stack for worker in self.workers]).to("cpu")

    def state(self) -> dict[str, Tensor]:
        parts = [worker.state() for worker in self.workers]
        joined = {name: torch.cat([p[name] for p in parts]) for name in parts[0] if name != "step"}
        return {name: t.cpu() for name, t in joined.items()} | {"step": parts[0]["step"].cpu().clone()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        start = 0
        for worker in self.workers:
            part = slice(start, start + len(worker.stack))
            worker.load_state({name: t if name == "step" else t[part] for name, t in state.items()})
            start = part.stop

    def _each(self, do, items):  # type: ignore[no-untyped-def]
        if self._threads == 1:
            return [do(item) for item in items]
        with ThreadPoolExecutor(self._threads) as pool:
            return list(pool.map(do, items))
