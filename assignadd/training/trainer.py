"""A stack in training: cut into groups that train together, put together again for checkpoints and evaluation."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from assignadd.config import Config, ConfigError, Member
from assignadd.config.errors import RunError
from assignadd.model.accuracy import Exam
from assignadd.model.stack import Stack, concatenate, initial_stack
from assignadd.task.evalsets import recorded_sets
from assignadd.training.processes import ProcessPool, SameProcess, can_fork, shared
from assignadd.training.step import Group


def check_machine(device: str, threads: int) -> None:
    """Refuses a device or thread count that this machine does not have, in the configuration's words."""
    if device not in ("cpu", "cuda"):
        raise ConfigError("device", device, "cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device", device, "cpu: there is no CUDA device here that torch can use")
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 1024:
        raise ConfigError("threads", threads, "a whole number from 1 to 1024")


# Of glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MB = 1 << 20


def prepare(device: str, threads: int, config: Config) -> None:
    """Sets torch up so that a run depends on its configuration, device and thread count alone."""
    torch.set_num_threads(threads)
    # On ARM, oneDNN hands some matrix products to a library with threads of its own, whatever torch was told: one
    # thread would not be one thread, and models side by side would fight for cores.
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    _keep_freed_memory()
    if device == "cuda":
        precision = "tf32" if config.numerics.tf32 else "ieee"
        torch.backends.cuda.matmul.fp32_precision = precision


def _keep_freed_memory() -> None:
    """Has the C library keep freed memory for the next tensor; to get it from the system again costs page faults.

    Only glibc has such settings (`man mallopt`): the size from which a block is taken from the system directly, and the
    size of free memory from which on it is given back.
    """
    if mallopt := sys.platform == "linux" and getattr(ctypes.CDLL(None), "mallopt", None):
        for setting, size in ((M_MMAP_THRESHOLD, 32 * MB), (M_TRIM_THRESHOLD, 256 * MB)):
            mallopt(setting, size)


# (models on their device, the step) -> what was found, a dict per model.
Observe = Callable[[Stack, int], list[dict[str, Any]]]
# (configuration of each of some models, their splits on the models' device) -> what observes these models.
Observer = Callable[[Sequence[Config], Tensor], Observe]


class Trainer:
    """The models of a run. On a CPU each trains alone, bit for bit as in a run of its own, several in parallel."""

    def __init__(
        self,
        config: Config,
        members: Sequence[Member],
        seen: Tensor,
        device: str = "cpu",
        threads: int = 1,
        observe: Observer | None = None,
    ):
        self.config, self.members, self.device = config, list(members), device
        configs = [m.config(config) for m in members]
        parts = [slice(i, i + 1) for i in range(len(configs))] if device == "cpu" else [slice(0, len(configs))]
        processes = min(threads, len(parts)) if can_fork() else 1
        prepare(device, threads if processes == 1 else 1, config)
        scales = [c.model.init_scale for c in configs]
        stack = initial_stack(config, [c.seed.init or 0 for c in configs], scales).to(device)
        placed = shared if processes > 1 else lambda tensor: tensor
        self.groups = [Group(stack.models(part), configs[part], seen[part], placed) for part in parts]
        sets = recorded_sets(config.task)
        self.exams = [Exam(configs[part], seen[part], sets, config.record.eval_sequences, device) for part in parts]
        self._observers = [observe(configs[part], seen[part].to(device)) for part in parts] if observe else None
        tasks: dict[str, Callable[..., Any]] = {"advance": self._advance, "mark": self._mark, "observe": self._observe}
        items = range(len(parts))
        self._pool = ProcessPool(items, processes, tasks) if processes > 1 else SameProcess(items, tasks)

    def close(self) -> None:
        self._pool.close()

    @property
    def step(self) -> int:
        return int(self.groups[0].step)

    @property
    def losses(self) -> list[float]:
        return [x for group in self.groups for x in group.loss.tolist()]

    @property
    def diverged_at(self) -> list[int | None]:
        return [None if x < 0 else x for group in self.groups for x in group.diverged_at.tolist()]

    def advance(self, steps: int) -> None:
        self._pool.call("advance", steps)

    def _advance(self, index: int, steps: int) -> None:
        self.groups[index].advance(steps)

    def evaluate(self, with_measures: bool = False) -> list[dict[str, object]]:
        """One row per model: its place in the stack, its seed, the loss on the last batch, the accuracy on each set.

        With measures, also what the observer finds.
        """
        marks = [mark for part in self._pool.call("mark") for mark in part]
        models = zip(self.members, self.losses, self.diverged_at, marks, self._measures(with_measures), strict=True)
        step = self.step
        return [
            {
                "step": step,
                "model": index,
                "seed": member.seed,
                "loss": loss if math.isfinite(loss) else None,
                "diverged_at": diverged_at,
                "accuracy": accuracy,
                **measures,
            }
            for index, (member, loss, diverged_at, accuracy, measures) in enumerate(models)
        ]

    def _measures(self, wanted: bool) -> list[dict[str, Any]]:
        if not wanted or self._observers is None:
            return [{} for _ in self.members]
        return [{"measures": found} for part in self._pool.call("observe", self.step) for found in part]

    def _observe(self, index: int, step: int) -> list[dict[str, Any]]:
        assert self._observers is not None
        with torch.no_grad():
            return self._observers[index](self.groups[index].stack, step)

    def _mark(self, index: int) -> list[dict[str, float]]:
        exam = self.exams[index]
        return exam.accuracies(self.groups[index].stack)

    def stack(self) -> Stack:
        return concatenate([group.stack for group in self.groups]).to("cpu")

    def state(self) -> dict[str, Tensor]:
        parts = [group.state() for group in self.groups]
        joined = {name: torch.cat([p[name] for p in parts]) for name in parts[0] if name != "step"}
        return {name: t.cpu() for name, t in joined.items()} | {"step": parts[0]["step"].cpu().clone()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        start, own = 0, self.state()
        if wrong := [name for name in own.keys() | state.keys() if not _alike(own.get(name), state.get(name))]:
            raise RunError(f"the saved state does not fit these models: {min(wrong)} differs in shape or kind")
        for group in self.groups:
            part = slice(start, start + len(group.stack))
            group.load_state({name: t if name == "step" else t[part] for name, t in state.items()})
            start = part.stop


def _alike(one: Tensor | None, other: Tensor | None) -> bool:
    return one is not None and other is not None and one.shape == other.shape and one.dtype == other.dtype
