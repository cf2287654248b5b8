"""A stack in training: cut into groups that train together, put together again for checkpoints and evaluation."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from assignadd.config import Config, Member
from assignadd.config.errors import RunError
from assignadd.model.accuracy import Exam
from assignadd.model.kernels.tensor import Moments, Placed
from assignadd.model.stack import Stack, concatenate, initial_stack
from assignadd.task.evalsets import recorded_sets
from assignadd.task.sampler import Batch
from assignadd.training.cuda_graph import CapturedStep
from assignadd.training.gradient import TensorGradient, gradient_of
from assignadd.training.processes import ProcessPool, can_fork, shared
from assignadd.training.schedule import Rates, frozen_of, rates_of, slot_scores_of, training_sampler

if TYPE_CHECKING:
    from assignadd.model.cpu_step import CompiledGradient

# Sequences drawn at once on a CPU: without Numba a draw is some hundred tensor operations, whatever its size.
SEQUENCES_AHEAD = 131_072
MOST_STEPS_AHEAD = 256
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


class Group:
    """Models that train together, one on a CPU or a whole stack on a GPU: weights, moments, data and step."""

    def __init__(self, stack: Stack, configs: Sequence[Config], seen: Tensor, placed: Placed = lambda tensor: tensor):
        device, optims = stack.flat.device, [c.optim for c in configs]
        self.stack, self.batch_size = Stack(stack.config, placed(stack.flat)), optims[0].batch
        self.step = placed(torch.zeros((), dtype=torch.int64, device=device))
        self.gradient = gradient_of(self.stack, slot_scores_of(configs, self.step))
        self.moments = Moments.zeros(self.stack.flat, optims, placed)
        self._rates, self._frozen = rates_of(configs, device), frozen_of(configs, device)
        self.sampler = training_sampler(configs, seen, device)
        self.loss = placed(torch.full((len(stack),), torch.nan, dtype=stack.flat.dtype, device=device))
        self.diverged_at = placed(torch.full((len(stack),), -1, device=device))
        self._captured: CapturedStep | None = None
        self.steps_ahead = max(1, min(MOST_STEPS_AHEAD, SEQUENCES_AHEAD // (self.batch_size * len(stack))))
        """How many steps' sequences are drawn at once on a CPU."""
        self._drawn: tuple[int, Batch] | None = None
        """The first step whose sequences are drawn ahead, and those of the steps from there on."""

    def advance(self, steps: int) -> None:
        """Takes this many training steps."""
        if self.stack.flat.device.type == "cuda":
            self._captured_step().replay(steps)
            return
        step, last = int(self.step), int(self.step) + steps
        while step < last and not self._all_diverged():
            batches = self._batches(step, last)
            if isinstance(self.gradient, TensorGradient) or self._frozen:
                for batch in zip(batches.tokens, batches.labels, strict=True):
                    self.update(Batch(*batch))
                    if self._all_diverged():
                        break
            else:
                self._take_compiled_steps(self.gradient, batches)
            step += len(batches.tokens)
            self.step.fill_(step)
        self.step.fill_(last)  # also where nothing is left to train

    def _all_diverged(self) -> bool:
        return bool((self.diverged_at >= 0).all())

    def update(self, batch: Batch) -> None:
        """One step. A model whose loss is not finite stops before its update and keeps its weights."""
        before = self.stack.flat.clone() if self._frozen else None
        gradient = self.gradient
        if isinstance(gradient, TensorGradient):
            if self._rates:
                self._rates.write(self.step, self.moments)
            self.loss.copy_(gradient(batch))
            self.step.add_(1)
            adamw = gradient.kernels.adamw
            adamw(self.stack.flat, gradient.flat, self.moments, self.loss, self.diverged_at, self.step)
        else:
            self._take_compiled_steps(gradient, Batch(batch.tokens.unsqueeze(0), batch.labels.unsqueeze(0)))
            self.step.add_(1)
        if self._frozen and before is not None:
            self._frozen.restore(self.step, self.stack.flat, before)

    def _take_compiled_steps(self, gradient: CompiledGradient, batches: Batch) -> None:
        """Takes a step with each of these batches, (n, 1, B, T), in one call of compiled code."""
        first, n = int(self.step), len(batches.tokens)
        rates = Rates(self.moments.optims, self.step.device)(torch.arange(first, first + n))[0]
        gradient.train(batches, self.loss, self.diverged_at, self.moments, rates, first)

    def state(self) -> dict[str, Tensor]:
        """All that training needs to go on, by name; models along the first axis except for `step`."""
        return {
            "weights": self.stack.flat,
            "mean": self.moments.mean,
            "square": self.moments.square,
            "loss": self.loss,
            "diverged_at": self.diverged_at,
            "step": self.step,
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])

    def _batches(self, first: int, last: int) -> Batch:
        """The sequences of the steps from `first` on, (n, M, B, T), for as many before `last` as are drawn at once."""
        start = first - first % self.steps_ahead
        if self._drawn is None or self._drawn[0] != start:
            steps = torch.arange(start, start + self.steps_ahead).view(-1, 1, 1)
            self._drawn = start, self.sampler.sample(steps, self.batch_size)
        ahead, wanted = self._drawn[1], slice(first - start, last - start)
        return Batch(ahead.tokens[wanted], ahead.labels[wanted])

    def _captured_step(self) -> CapturedStep:
        if self._captured is None:
            before = {name: t.clone() for name, t in self.state().items()}
            assert isinstance(self.gradient, TensorGradient), "compiled code is for CPUs"
            dtype = self.gradient.kernels.token_dtype
            self._captured = CapturedStep(self.step, self.sampler, self.batch_size, dtype, self.update)
            self.load_state(before)  # capturing takes a few steps
        return self._captured


# (models on their device, the step) -> what was found, a dict per model.
Observe = Callable[[Stack, int], list[dict[str, Any]]]
# (configuration of each of some models, their splits on the models' device) -> what observes these models. One with a
# true attribute `at_every_evaluation` is called at every evaluation (`measures.own`), another when measures are due.
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
        self._always_observes = getattr(observe, "at_every_evaluation", False)
        self._observers = [observe(configs[part], seen[part].to(device)) for part in parts] if observe else None
        tasks: dict[str, Callable[..., Any]] = {"advance": self._advance, "mark": self._mark, "observe": self._observe}
        self._pool = ProcessPool(range(len(parts)), processes, tasks)

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
        if self._observers is None or not (wanted or self._always_observes):
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
        start, expected = 0, self.state()
        names = expected.keys() | state.keys()
        if wrong := [name for name in names if not _alike(expected.get(name), state.get(name))]:
            raise RunError(f"the saved state does not fit these models: {min(wrong)} differs in shape or kind")
        for group in self.groups:
            part = slice(start, start + len(group.stack))
            group.load_state({name: t if name == "step" else t[part] for name, t in state.items()})
            start = part.stop


def _alike(a: Tensor | None, b: Tensor | None) -> bool:
    return a is not None and b is not None and a.shape == b.shape and a.dtype == b.dtype
