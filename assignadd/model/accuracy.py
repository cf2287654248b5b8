"""Accuracy on evaluation sets: the share of sequences whose largest logit is the right answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy

import torch
from jaxtyping import Int
from torch import Tensor

from assignadd.config import Config
from assignadd.model.forward import answers
from assignadd.model.stack import Stack
from assignadd.task.evalsets import EvalSet
from assignadd.task.own import UserSampler, sampler_of
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import Batch, EmptySetError, Sampler


class Exam:
    """Fixed sequences of several evaluation sets for every model of a stack, drawn from its split and seed.

    A set that no model has a sequence for (no held-out pair, no banned slot) is left out. Where some models have none,
    `offered` (M, sets) says so, and none of their answers there counts as correct. The sequences of a set are drawn
    from the step of the evaluation stream that is `first_step` plus its place among the sets.
    """

    def __init__(
        self,
        configs: Sequence[Config],
        seen: Tensor,
        sets: Sequence[EvalSet],
        n: int,
        device: str | torch.device = "cpu",
        first_step: int = EvalSteps.EXAMS.start,
    ):
        batches: list[Batch] = []
        offered: list[Tensor] = []
        self.names: list[str] = []
        for step, evalset in enumerate(sets, first_step):
            has_any, batch = _draw(configs, seen, evalset, step, n, device)
            if batch is not None:
                batches.append(batch)
                offered.append(has_any)
                self.names.append(evalset.name)
        if not batches:
            raise EmptySetError(f"this task and split have no sequence of {', '.join(s.name for s in sets)}")
        self.n = n
        self.offered = torch.stack(offered, 1)
        self.tokens = torch.cat([b.tokens for b in batches], 1)  # (M, sets * n, T)
        self.labels = torch.cat([b.labels for b in batches], 1)

    def only(self, names: Collection[str]) -> Exam:
        """The exam without the other sets; those that stay have the same sequences."""
        places = [i for i, name in enumerate(self.names) if name in names]
        part = copy(self)
        part.names = [self.names[i] for i in places]
        part.offered = self.offered[:, places]
        part.tokens = self.tokens.unflatten(1, (-1, self.n))[:, places].flatten(1, 2)
        part.labels = self.labels.unflatten(1, (-1, self.n))[:, places].flatten(1, 2)
        return part

    def count_correct(self, stack: Stack) -> Int[Tensor, "M sets"]:
        """The number of right answers on each set, out of `n`."""
        correct = answers(stack, self.tokens) == self.labels
        if correct.dim() == 3:  # a sequence is right if each of its answers is
            correct = (correct | (self.labels < 0)).all(-1)
        return correct.view(len(stack), len(self.names), self.n).sum(-1)

    def accuracies(self, stack: Stack) -> list[dict[str, float]]:
        """For each model, the share of right answers on each set it has sequences of."""
        accuracies = []
        for counts, offered in zip(self.count_correct(stack).tolist(), self.offered.tolist(), strict=True):
            of_sets = zip(self.names, counts, offered, strict=True)
            accuracies.append({name: correct / self.n for name, correct, has in of_sets if has})
        return accuracies


# What a network achieves is judged over its last evaluations, as single ones dip: at most this many, from this last
# share of its training, each on fresh sequences.
END_EVALUATIONS, END_SHARE = 10, 0.1


def end_of_training(steps: Sequence[int]) -> list[int]:
    """The last evaluations of a run: at most ten of these steps, not before the last tenth of the training."""
    return [step for step in steps if step >= (1 - END_SHARE) * steps[-1]][-END_EVALUATIONS:]


def end_exam(
    configs: Sequence[Config], seen: Tensor, sets: Sequence[EvalSet], n: int, back: int, first: int = 0
) -> Exam:
    """The exam of the evaluation that is `back` places before the last; `first` is the place of the first set."""
    step = EvalSteps.END_EXAMS[back * (len(EvalSteps.END_EXAMS) // END_EVALUATIONS) + first]
    return Exam(configs, seen, sets, n, seen.device, step)


def _draw(
    configs: Sequence[Config], seen: Tensor, evalset: EvalSet, step: int, n: int, device: str | torch.device
) -> tuple[Tensor, Batch | None]:
    """Which models have sequences of this set, (M,), and `n` for each model; None where no model has any.

    A model that has none gets zeros, and no label that an answer could match.
    """
    models = range(len(configs))
    sampler = _sampler(configs, seen, evalset, device)
    if sampler is not None:
        return torch.ones(len(models), dtype=torch.bool), sampler.sample(step, n)
    rows = [i for i in models if _sampler(configs[i : i + 1], seen[i : i + 1], evalset, device) is not None]
    has_any = torch.tensor([i in rows for i in models])
    sampler = _sampler([configs[i] for i in rows], seen[rows], evalset, device) if rows else None
    if sampler is None:
        return has_any, None
    batch = sampler.sample(step, n)
    tokens = batch.tokens.new_zeros(len(models), *batch.tokens.shape[1:])
    labels = batch.labels.new_full((len(models), *batch.labels.shape[1:]), -1)
    tokens[rows], labels[rows] = batch.tokens, batch.labels
    return has_any, Batch(tokens, labels)


def _sampler(
    configs: Sequence[Config], seen: Tensor, evalset: EvalSet, device: str | torch.device
) -> Sampler | UserSampler | None:
    """What draws sequences of this set for these models; None where one of them has no such sequence."""
    seeds = [c.seed.data or 0 for c in configs]
    try:
        return sampler_of([c.task for c in configs], seen, seeds, evalset, device)
    except EmptySetError:
        return None
