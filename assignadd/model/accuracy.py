"""Accuracy on evaluation sets: the share of sequences whose largest logit is the right answer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from assignadd.config import Config
from assignadd.model.forward import answers
from assignadd.model.stack import Stack
from assignadd.task.evalsets import EvalSet
from assignadd.task.own import sampler_of
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import Batch, EmptySetError


class Exam:
    """`n` fixed sequences of each of several evaluation sets for every model of a stack, drawn from its split and seed.

    A set that no model has a sequence for (no held-out pair, no banned slot) is left out. If only some models have
    none, `offered` (M, sets) is False for them, and none of their answers there counts as correct.
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
        """`seen` says for each model which pairs of numbers training adds, (M, N, N) for two operands.

        The first set is drawn from step `first_step` of the evaluation stream, the next one from the step after it.
        """
        batches: dict[str, Batch] = {}  # by the name of the set
        for step, evalset in enumerate(sets, first_step):
            batch = _draw(configs, seen, evalset, step, n, device)
            if batch is not None:
                batches[evalset.name] = batch
        if not batches:
            raise EmptySetError(f"this task and split have no sequence of {', '.join(s.name for s in sets)}")
        self.names = list(batches)
        self.n = n
        self.tokens = torch.cat([batch.tokens for batch in batches.values()], 1)  # (M, sets * n, T)
        self.labels = torch.cat([batch.labels for batch in batches.values()], 1)  # (M, sets * n)
        self.offered = (self.labels >= 0).view(len(configs), len(batches), -1).any(-1)  # (M, sets)

    def count_correct(self, stack: Stack) -> Int[Tensor, "M sets"]:
        """The number of right answers of each model on each set, out of `n`."""
        correct = answers(stack, self.tokens) == self.labels  # (M, sets * n), or (M, sets * n, T)
        if correct.dim() == 3:  # a sequence is right if each of its answers is; a label -1 is a position without one
            correct = (correct | (self.labels < 0)).all(-1)
        return correct.view(len(stack), len(self.names), self.n).sum(-1)

    def accuracies(self, stack: Stack) -> list[dict[str, float]]:
        """For each model, the share of right answers on each set it has sequences of, by the name of the set."""
        accuracies = []
        for counts, are_offered in zip(self.count_correct(stack).tolist(), self.offered.tolist(), strict=True):
            sets = zip(self.names, counts, are_offered, strict=True)
            accuracies.append({name: n_correct / self.n for name, n_correct, is_offered in sets if is_offered})
        return accuracies


# A network is judged over its last evaluations, as single ones dip: at most this many, from this last share of its
# training, each on fresh sequences.
END_EVALUATIONS, END_SHARE = 10, 0.1


def end_of_training(steps: Sequence[int]) -> list[int]:
    """The steps of the last evaluations, by which a run is judged; `steps` are those of all its evaluations.

    They are at most ten, and none is before the last tenth of the training.
    """
    in_last_tenth = [step for step in steps if step >= (1 - END_SHARE) * steps[-1]]
    return in_last_tenth[-END_EVALUATIONS:]


def end_exam(
    configs: Sequence[Config], seen: Tensor, sets: Sequence[EvalSet], n: int, back: int, first: int = 0
) -> Exam:
    """The exam for the evaluation that `back` (0 to 9) others follow, on sequences that no other exam has.

    Each of the ten last evaluations has 100 steps of the evaluation stream, a step for each set. `first` is the index
    of `sets[0]` in the list of all sets: so an exam of some of the sets draws the same sequences as an exam of all.
    """
    step = EvalSteps.END_EXAMS[back * (len(EvalSteps.END_EXAMS) // END_EVALUATIONS) + first]
    return Exam(configs, seen, sets, n, seen.device, step)


def _draw(
    configs: Sequence[Config], seen: Tensor, evalset: EvalSet, step: int, n: int, device: str | torch.device
) -> Batch | None:
    """`n` sequences of this set for each model; None where no model has any.

    A model without such sequences gets zeros as tokens, and -1 as labels, which no answer equals.
    """
    tasks = [config.task for config in configs]
    seeds = [config.seed.data or 0 for config in configs]  # None counts as seed 0
    try:
        return sampler_of(tasks, seen, seeds, evalset, device).sample(step, n)
    except EmptySetError:  # the set is empty for at least one of the models: each model is asked alone
        if len(configs) == 1:
            return None
    single_models = [slice(m, m + 1) for m in range(len(configs))]
    of_models = [_draw(configs[m], seen[m], evalset, step, n, device) for m in single_models]
    drawn = next((batch for batch in of_models if batch is not None), None)
    if drawn is None:
        return None
    nothing = Batch(torch.zeros_like(drawn.tokens), torch.full_like(drawn.labels, -1))
    batches = [nothing if batch is None else batch for batch in of_models]
    return Batch(torch.cat([batch.tokens for batch in batches]), torch.cat([batch.labels for batch in batches]))
