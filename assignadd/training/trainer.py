"""A stack in training: cut into groups that train together, put together again for checkpoints and evaluation."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from assignadd.config import Config, Member
from assignadd.config.errors import RunError
from assignadd.model.accuracy import Exam
from assignadd.model.kernels.tensor import Moments, ToMemory
from assignadd.model.stack import Stack, concatenate, initial_stack
from assignadd.model.table import covers
from assignadd.task.evalsets import recorded_sets
from assignadd.task.sampler import Batch
from assignadd.task.vocabulary import sizes_of
from assignadd.training.cuda_graph import CapturedStep
from assignadd.training.gradient import TensorGradient, gradient_of
from assignadd.training.processes import ProcessPool, can_fork, shared
from assignadd.training.schedule import Rates, frozen_of, slot_scores_of, training_sampler

if TYPE_CHECKING:
    from assignadd.model.cpu_step import CompiledGradient

# Sequences drawn at once on a CPU: without Numba a draw is some hundred tensor operations, whatever its size.
SEQUENCES_AHEAD = 131_072
FEWER_AHEAD = 16_384  # where the tables do not serve, steps take longer, and a task of the user's may take more memory
MOST_STEPS_AHEAD = 256
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # the numbers of two settings in glibc's malloc.h
MB = 1 << 20  # in bytes


def prepare(device: str, threads: int, config: Config) -> None:
    """Sets torch up so that a run depends on its configuration, device and thread count alone."""
    torch.set_num_threads(threads)
    # On ARM, oneDNN hands some matrix products to a library with threads of its own, whatever torch was told: one
    # thread would not be one thread, and models side by side would fight for cores.
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    _keep_freed_memory()
    if device == "cuda":
        torch.backends.cuda.matmul.fp32_precision = "tf32" if config.numerics.tf32 else "ieee"


def _keep_freed_memory() -> None:
    """Has glibc keep freed memory for the next tensor (`man mallopt`); to get it from the system again takes time."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, 32 * MB)  # from this size on a block is taken from the system directly
        mallopt(M_TRIM_THRESHOLD, 256 * MB)  # from this size on free memory is given back


class Group:
    """Models that train together, one on a CPU or a whole stack on a GPU: weights, moments, data and step.

    There is a configuration and a split (`seen`) for each model. All that training changes is in what `to_memory`
    returns: the tensor itself or, if the models train in another process, a copy in memory that processes share.
    """

    def __init__(
        self, stack: Stack, configs: Sequence[Config], seen: Tensor, to_memory: ToMemory = lambda tensor: tensor
    ):
        device = stack.flat.device
        optims = [config.optim for config in configs]
        self.stack = Stack(stack.config, to_memory(stack.flat))
        self.batch_size = optims[0].batch
        self.step = to_memory(torch.zeros((), dtype=torch.int64, device=device))
        slot_scores = slot_scores_of(configs, self.step)  # what settings add to layer 1's scores; None without any
        self.gradient = gradient_of(self.stack, slot_scores)
        self.moments = Moments.zeros(self.stack.flat, optims, to_memory)
        self._rates = Rates(optims, device)
        self._frozen = frozen_of(configs, device)
        self.sampler = training_sampler(configs, seen, device)
        self.loss = to_memory(torch.full((len(stack),), torch.nan, dtype=stack.flat.dtype, device=device))
        self.diverged_at = to_memory(torch.full((len(stack),), -1, device=device))
        """The first step of each model whose loss was not finite; -1 where all were."""
        sequences_ahead = SEQUENCES_AHEAD if covers(stack.config) else FEWER_AHEAD
        self.steps_ahead = max(1, min(MOST_STEPS_AHEAD, sequences_ahead // (self.batch_size * len(stack))))
        """How many steps' sequences are drawn at once on a CPU."""
        self._drawn: tuple[int, Batch] | None = None
        """The first step whose sequences are drawn, and the sequences of `steps_ahead` steps from there on."""
        self._has_graph = device.type == "cuda"
        self._captured: CapturedStep | None = None

    def advance(self, steps: int) -> None:
        """Takes this many training steps."""
        if captured := self._captured_step():
            captured.replay(steps)
            return
        step = int(self.step)
        end = step + steps
        while step < end and not self._all_diverged():
            batches = self._batches(step, end)  # of one or more steps
            if isinstance(self.gradient, TensorGradient) or self._frozen:  # a step at a time, with work in between
                for tokens, labels in zip(batches.tokens, batches.labels, strict=True):
                    self.update(Batch(tokens, labels))
                    if self._all_diverged():
                        break
            else:
                self._take_compiled_steps(self.gradient, batches)
            step += len(batches.tokens)
            self.step.fill_(step)
        self.step.fill_(end)  # also where all models have diverged before

    def _all_diverged(self) -> bool:
        """Whether no model is left to train."""
        return bool((self.diverged_at >= 0).all())

    def update(self, batch: Batch) -> None:
        """Takes a step on tokens (M, B, T). A model whose loss is not finite stops and keeps its weights."""
        flat, gradient = self.stack.flat, self.gradient
        before = flat.clone() if self._frozen else flat
        if isinstance(gradient, TensorGradient):
            if self._rates.change:
                self._rates.write(self.step, self.moments)
            self.loss.copy_(gradient(batch))  # which also writes `gradient.flat`
            self.step.add_(1)  # AdamW reads the number of updates, this one included
            gradient.kernels.adamw(flat, gradient.flat, self.moments, self.loss, self.diverged_at, self.step)
        else:
            self._take_compiled_steps(gradient, Batch(batch.tokens[None], batch.labels[None]))
            self.step.add_(1)
        if self._frozen:
            self._frozen.restore(self.step, flat, before)

    def _take_compiled_steps(self, gradient: CompiledGradient, batches: Batch) -> None:
        """Takes a step with each of these batches, (n, 1, B, T), in one call; the caller adds n to `self.step`."""
        first = int(self.step)
        rates = self._rates(torch.arange(first, first + len(batches.tokens)))[0]  # (n,), of the only model
        gradient.train(batches, self.loss, self.diverged_at, self.moments, rates, first)

    def state(self) -> dict[str, Tensor]:
        """The tensors that training needs to go on, by name (no copies); models are the first axis, but for `step`."""
        return {
            "weights": self.stack.flat,
            "mean": self.moments.mean,
            "square": self.moments.square,
            "loss": self.loss,
            "diverged_at": self.diverged_at,
            "step": self.step,
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Goes back to what `state` returned, here or in another group of as many models."""
        for name, tensor in self.state().items():
            tensor.copy_(state[name])

    def _batches(self, first: int, end: int) -> Batch:
        """The batches of the n steps from `first` to `end` - 1, or to the last that is drawn together with the first.

        Tokens are (n, M, B, T).
        """
        start = first - first % self.steps_ahead  # the first of the steps that are drawn together
        if self._drawn is None or self._drawn[0] != start:
            steps = torch.arange(start, start + self.steps_ahead, device=self.step.device).view(-1, 1, 1)
            self._drawn = start, self.sampler.sample(steps, self.batch_size)
        _, batches = self._drawn
        asked_for = slice(first - start, end - start)  # which ends with the drawn steps, if `end` is beyond them
        return Batch(batches.tokens[asked_for], batches.labels[asked_for])

    def _captured_step(self) -> CapturedStep | None:
        """The CUDA graphs of a training step on a GPU, captured at the first call.

        None for a network of the user's that cannot be captured, which trains without graphs.
        """
        if self._captured is None and self._has_graph:
            before = {name: tensor.clone() for name, tensor in self.state().items()}
            assert isinstance(self.gradient, TensorGradient), "compiled code is for CPUs"
            dtype, sizes = self.gradient.kernels.token_dtype, sizes_of(self.stack.config.task)
            try:
                self._captured = CapturedStep(self.step, self.sampler, sizes, self.batch_size, dtype, self.update)
            except RuntimeError as error:
                network = self.stack.config.model.file
                if network is None:
                    raise
                self._has_graph = False
                reason = " ".join(str(error).split())[:120]
                print(f"assignadd: {network.name} trains without a CUDA graph, slower ({reason})", file=sys.stderr)
            self.load_state(before)  # the warm-up of a capture has taken a few steps
        return self._captured


Observe = Callable[[Stack, int], list[dict[str, Any]]]
"""Measures models at a step: (models on their device, the step) -> measures by name, a dict per model."""
Observer = Callable[[Sequence[Config], Tensor], Observe]
"""Makes an `Observe`: (the configuration of each model, their splits on the models' device) -> what measures them.

If its attribute `at_every_evaluation` is true, it measures at every evaluation, otherwise when measures are due;
if `takes_stacks` is true, it measures all models of a process together, otherwise each group.
"""


class Examined:
    """Groups of models that one process trains and evaluates together; `stack` has all their models."""

    def __init__(
        self, groups: Sequence[Group], stack: Stack, configs: Sequence[Config], seen: Tensor, observe: Observer | None
    ):
        device, task, n = stack.flat.device, stack.config.task, stack.config.record.eval_sequences
        self.groups, self.stack = groups, stack
        self._exam = Exam(configs, seen, recorded_sets(task), n, device)
        self._observe = observe(configs, seen.to(device)) if observe else None

    def advance(self, steps: int) -> None:
        """Takes this many training steps."""
        for group in self.groups:
            group.advance(steps)

    def accuracies(self) -> list[dict[str, float]]:
        """The accuracy of each model on each set of the exam."""
        return self._exam.accuracies(self.stack)

    @torch.no_grad()
    def measures(self) -> list[dict[str, Any]]:
        """The measures of each model by name, as the observer takes them at the current step."""
        assert self._observe is not None
        return self._observe(self.stack, int(self.groups[0].step))


class Trainer:
    """The models of a run, in groups that train together, and the exams in which they are evaluated.

    On a CPU each model is a group, which trains bit for bit as in a run of its own; several groups train in parallel
    processes. On a GPU all models are one group. `seen` are the models' splits, (M, N, N), and `observe` is their
    observer, if they have one.
    """

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
        configs = [member.config(config) for member in members]
        init_seeds = [of_model.seed.init or 0 for of_model in configs]
        scales = [of_model.model.init_scale for of_model in configs]
        n_groups = len(configs) if device == "cpu" else 1  # as `Stack.parts` divides the models
        processes = min(threads, n_groups) if can_fork() else 1
        prepare(device, threads if processes == 1 else 1, config)  # before anything is computed
        stack = initial_stack(config, init_seeds, scales).to(device)
        to_memory = shared if processes > 1 else lambda tensor: tensor
        self.groups = [Group(part, configs[models], seen[models], to_memory) for models, part in stack.parts]
        # What the pool divides among its processes: all models as one item, or each group.
        if processes == 1 and getattr(observe, "takes_stacks", False):  # the weights of the groups are views of `stack`
            items = [Examined(self.groups, stack, configs, seen, observe)]
        else:
            items = []
            for (models, _), group in zip(stack.parts, self.groups, strict=True):
                items.append(Examined([group], group.stack, configs[models], seen[models], observe))
        self._observes = observe is not None
        self._always_observes = getattr(observe, "at_every_evaluation", False)
        self._pool = ProcessPool(items, processes)

    def close(self) -> None:
        """Ends the processes."""
        self._pool.close()

    @property
    def step(self) -> int:
        """How many steps were taken."""
        return int(self.groups[0].step)

    @property
    def losses(self) -> list[float]:
        """The loss of each model on its last batch."""
        return [loss for group in self.groups for loss in group.loss.tolist()]

    @property
    def diverged_at(self) -> list[int | None]:
        """The first step of each model whose loss was not finite; None where all were."""
        steps = [step for group in self.groups for step in group.diverged_at.tolist()]
        return [step if step >= 0 else None for step in steps]

    def advance(self, steps: int) -> None:
        """Takes this many training steps with every model."""
        self._pool.call("advance", steps)

    def evaluate(self, with_measures: bool = False) -> list[dict[str, object]]:
        """A row for each model: loss, accuracies, and measures if these are asked for or always taken."""
        rows: list[dict[str, object]] = []
        accuracies = chain(*self._pool.call("accuracies"))  # of every model, in the order of the models
        models = zip(self.members, self.losses, self.diverged_at, accuracies, strict=True)
        for index, (member, loss, diverged_at, accuracy) in enumerate(models):
            rows.append({
                "step": self.step, "model": index, "seed": member.seed, "loss": loss if math.isfinite(loss) else None,
                "diverged_at": diverged_at, "accuracy": accuracy,
            })  # fmt: skip
        if self._observes and (with_measures or self._always_observes):
            for row, measures in zip(rows, chain(*self._pool.call("measures")), strict=True):
                row["measures"] = measures
        return rows

    def stack(self) -> Stack:
        """All models as they are now, copied, as one stack on the CPU."""
        return concatenate([group.stack for group in self.groups]).to("cpu")

    def state(self) -> dict[str, Tensor]:
        """A copy of all that training needs to go on, by name (`Group.state`), on the CPU."""
        of_groups = [group.state() for group in self.groups]
        names = [name for name in of_groups[0] if name != "step"]
        state = {name: torch.cat([of_group[name] for of_group in of_groups]).cpu() for name in names}
        return state | {"step": of_groups[0]["step"].cpu().clone()}  # the same in all groups

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Goes back to what `state` returned earlier; raises a RunError where that does not fit these models."""
        expected = {name: (tensor.shape, tensor.dtype) for name, tensor in self.state().items()}
        saved = {name: (tensor.shape, tensor.dtype) for name, tensor in state.items()}
        differing = [name for name in expected.keys() | saved.keys() if expected.get(name) != saved.get(name)]
        if differing:
            raise RunError(f"the saved state does not fit these models: {min(differing)} differs in shape or kind")
        start = 0  # the first model of the group
        for group in self.groups:
            end = start + len(group.stack)
            of_group = {name: tensor[start:end] for name, tensor in state.items() if name != "step"}
            group.load_state(of_group | {"step": state["step"]})
            start = end
