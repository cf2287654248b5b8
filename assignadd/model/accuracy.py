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
from assignadd.task.own import UserSampler, sampler_of
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import Batch, EmptySetError, Sampler
from assignadd.task.splits import pair_mask


class Exam:
    """`n` fixed sequences of each of several evaluation sets for every model of a stack, drawn from its split and seed.

    A set that no model has a sequence for (no held-out pair, no banned slot) is left out. If only some models have
    none, `offered` (M, sets) is False for them, and none of their answers there counts as correct. The sequences of a
    set are drawn from the step of the evaluation stream that is `first_step` plus its place among the sets. `seen`
    are the splits of the models: which pairs of numbers training adds, (M, N, N) for two operands.
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
        """Draws `n` sequences of each set for every model, from the evaluation stream's step `first_step` on."""
        batches: list[Batch] = []
        offered: list[Tensor] = []
        self.names: list[str] = []
        for step, evalset in enumerate(sets, first_step):
            set_is_offered, batch = _draw(configs, seen, evalset, step, n, device)
            if batch is not None:
                batches.append(batch)
                offered.append(set_is_offered)
                self.names.append(evalset.name)
        if not batches:
            raise EmptySetError(f"this task and split have no sequence of {', '.join(s.name for s in sets)}")
        self.n = n
        self.offered = torch.stack(offered, 1)  # (M, sets)
        self.tokens = torch.cat([batch.tokens for batch in batches], 1)  # (M, sets * n, T)
        self.labels = torch.cat([batch.labels for batch in batches], 1)  # (M, sets * n)

    def count_correct(self, stack: Stack) -> Int[Tensor, "M sets"]:
        """The number of right answers of each model on each set, out of `n`."""
        correct = answers(stack, self.tokens) == self.labels  # (M, sets * n), or (M, sets * n, T)
        if correct.dim() == 3:  # a sequence is right if each of its answers is
            correct = (correct | (self.labels < 0)).all(-1)
        return correct.view(len(stack), len(self.names), self.n).sum(-1)

    def accuracies(self, stack: Stack) -> list[dict[str, float]]:
        """For each model, the share of right answers on each set it has sequences of, by the name of the set."""
        accuracies = []
        for correct, offered in zip(self.count_correct(stack).tolist(), self.offered.tolist(), strict=True):
            sets = zip(self.names, correct, offered, strict=True)
            accuracies.append({name: n_correct / self.n for name, n_correct, is_offered in sets if is_offered})
        return accuracies


# What a network achieves is judged over its last evaluations, as single ones dip: at most this many, from this last
# share of its training, each on fresh sequences.
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
    """The exam for the evaluation that is `back` (0 to 9) places before the last one, on sequences that no other has.

    Each of the ten last evaluations has 100 steps of the evaluation stream, a step for each set. `first` is the index
    of `sets[0]` in the list of all sets: so an exam of some of the sets draws the same sequences as an exam of all.
    """
    step = EvalSteps.END_EXAMS[back * (len(EvalSteps.END_EXAMS) // END_EVALUATIONS) + first]
    return Exam(configs, seen, sets, n, seen.device, step)


def _draw(
    configs: Sequence[Config], seen: Tensor, evalset: EvalSet, step: int, n: int, device: str | torch.device
) -> tuple[Tensor, Batch | None]:
    """Which models have sequences of this set, (M,), and `n` sequences for each model (None where no model has any).

    A model without such sequences gets zeros as tokens, and -1 as labels, which no answer equals.
    """
    M = len(configs)
    sampler = _sampler(configs, seen, evalset, device)
    if sampler is not None:  # nearly always
        return torch.ones(M, dtype=torch.bool), sampler.sample(step, n)
    # Models of a stack differ in their pairs alone: whether there are such variables is the same for all.
    offered = [_has_pairs(config, of_model, evalset) for config, of_model in zip(configs, seen, strict=True)]
    with_sequences = [i for i in range(M) if offered[i]]
    if with_sequences:
        sampler = _sampler([configs[i] for i in with_sequences], seen[with_sequences], evalset, device)
    if sampler is None:
        return torch.zeros(M, dtype=torch.bool), None
    batch = sampler.sample(step, n)
    tokens = batch.tokens.new_zeros(M, *batch.tokens.shape[1:])  # (M, n, T)
    labels = batch.labels.new_full((M, *batch.labels.shape[1:]), -1)  # (M, n)
    tokens[with_sequences] = batch.tokens
    labels[with_sequences] = batch.labels
    return torch.tensor(offered), Batch(tokens, labels)


def _has_pairs(config: Config, seen: Tensor, evalset: EvalSet) -> bool:
    """Whether a model has pairs of values of the kind of a set; not for a task of the user's own, which has none."""
    try:
        return config.task.file is None and bool(pair_mask(seen, evalset.pair).any())
    except EmptySetError:  # of a kind that this number of operands does not have
        return False


def _sampler(
    configs: Sequence[Config], seen: Tensor, evalset: EvalSet, device: str | torch.device
) -> Sampler | UserSampler | None:
    """The sampler of this set for these models; None if one of them has no such sequence."""
    tasks = [config.task for config in configs]
    seeds = [config.seed.data or 0 for config in configs]
    try:
        return sampler_of(tasks, seen, seeds, evalset, device)
    except EmptySetError:
        return None
