"""Accuracy on evaluation sets: the share of sequences whose largest logit is the right answer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from assignadd.config import Config
from assignadd.model.forward import answers
from assignadd.model.stack import Stack
from assignadd.task.evalsets import EvalSet
from assignadd.task.own import sampler_of
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import Batch, EmptySetError
from assignadd.task.splits import pair_mask


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
        batches: list[Batch] = []
        offered: list[Tensor] = []
        self.names: list[str] = []
        for step, evalset in enumerate(sets, first_step):
            drawn = _draw(configs, seen, evalset, step, n, device)
            if drawn is not None:
                has_sequences, batch = drawn
                batches.append(batch)
                offered.append(has_sequences)
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
) -> tuple[Tensor, Batch] | None:
    """Which models have sequences of this set, (M,), and `n` sequences for each model; None where no model has any.

    A model without such sequences gets zeros as tokens, and -1 as labels, which no answer equals.
    """
    tasks = [config.task for config in configs]
    seeds = [config.seed.data or 0 for config in configs]  # None counts as seed 0
    try:
        batch = sampler_of(tasks, seen, seeds, evalset, device).sample(step, n)
        return torch.ones(len(configs), dtype=torch.bool), batch
    except EmptySetError:  # at least one of the models has no such sequence
        has_pairs = _has_pairs(configs, seen, evalset)
    with_pairs = has_pairs.nonzero().flatten().tolist()  # the indices of these models in the stack
    # If all models have pairs, the set has no sequence as it asks for variables that the task does not have, which is
    # the same for all.
    if len(with_pairs) in (0, len(configs)):
        return None
    drawn = _draw([configs[m] for m in with_pairs], seen[with_pairs], evalset, step, n, device)
    if drawn is None:
        return None
    _, batch = drawn
    tokens = batch.tokens.new_zeros(len(configs), *batch.tokens.shape[1:])  # (M, n, T)
    labels = batch.labels.new_full((len(configs), *batch.labels.shape[1:]), -1)  # (M, n)
    tokens[with_pairs], labels[with_pairs] = batch.tokens, batch.labels
    return has_pairs, Batch(tokens, labels)


def _has_pairs(configs: Sequence[Config], seen: Tensor, evalset: EvalSet) -> Bool[Tensor, " M"]:
    """Which models have pairs of numbers of the kind of a set; none for a task of the user's own."""
    try:
        has_pairs = [
            config.task.file is None and bool(pair_mask(seen_of_model, evalset.pair).any())
            for config, seen_of_model in zip(configs, seen, strict=True)
        ]
        return torch.tensor(has_pairs)
    except EmptySetError:  # this number of operands has no pairs of this kind
        return torch.zeros(len(configs), dtype=torch.bool)
