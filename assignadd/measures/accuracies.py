"""Accuracy on every evaluation set, with its interval, and for every pair of numbers (paper, figure accuracies)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from assignadd.config import Config
from assignadd.model.accuracy import Exam
from assignadd.model.forward import answers
from assignadd.model.stack import Stack, single_models
from assignadd.stats import Interval, wilson
from assignadd.task.arithmetic import answer_of
from assignadd.task.evalsets import HELD_OUT_CLASSES, EvalSet, all_sets, any_sums
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import EveryPair, Sampler
from assignadd.task.splits import distinct_sums

# Number of sequences in which each pair of numbers is added.
CONTEXTS = 24


@dataclass(frozen=True)
class Accuracy:
    """The accuracy on one evaluation set, with its 95 % interval."""

    accuracy: float
    n: int
    """Number of sequences."""
    interval: Interval
    pairs: int | None = None
    """Number of pairs of numbers, if the interval is for a sample of pairs and not of sequences; n + m and m + n count
    as one pair."""


def set_accuracies(
    stack: Stack,
    configs: Sequence[Config],
    seen: Tensor,
    n: int,
    sets: Sequence[EvalSet] | None = None,
    only: Collection[str] | None = None,
) -> list[dict[str, Accuracy]]:
    """For each model, the accuracy on `n` sequences of every set that is not empty (figure accuracies).

    The sets are all of the task's unless given. With `only`, sets with other names are not evaluated; those that are
    have the sequences that they have among all.

    For a class of held-out pairs with fewer pairs than sequences, the sample size of the interval is the number of
    pairs, since many sequences that add the same pair say little about other pairs of the class.
    """
    sets = all_sets(stack.config.task) if sets is None else sets
    results, by_name = [], {s.name: s for s in sets}
    for model, config, own_seen in zip(single_models(stack), configs, seen.unsqueeze(1), strict=True):
        exam = Exam([config], own_seen, sets, n)
        exam = exam if only is None else exam.only(only)
        counts = exam.count_correct(model)[0].tolist()
        results.append(
            {name: _accuracy(k, n, by_name[name], own_seen[0]) for name, k in zip(exam.names, counts, strict=True)}
        )
    return results


def _accuracy(correct: int, n: int, evalset: EvalSet, seen: Tensor) -> Accuracy:
    """The accuracy from the number of correct answers, with its interval."""
    pairs = distinct_sums(seen, evalset.pair) if evalset.pair in HELD_OUT_CLASSES else n
    if pairs >= n:
        return Accuracy(correct / n, n, wilson(correct, n))
    return Accuracy(correct / n, n, wilson(correct / n * pairs, pairs), pairs)


def pair_accuracy(one: Stack, config: Config, n_vars: int, contexts: int = CONTEXTS) -> Float[Tensor, "N N"]:
    """One model's accuracy on each pair (n, m), over `contexts` sequences with `n_vars` variables in any slot."""
    N = config.task.modulus
    all_pairs = torch.ones(1, N, N, dtype=torch.bool)
    sampler = EveryPair([config.task], all_pairs, [config.seed.data or 0], any_sums(n_vars), one.flat.device)
    batch = sampler.sample(EvalSteps.EVERY_PAIR[n_vars], N * N * contexts)  # row i adds pair i modulo N * N
    correct = answers(one, batch.tokens)[0] == batch.labels[0]
    return correct.view(contexts, N, N).float().mean(0)


def on_three_literals(one: Stack, config: Config, n: int) -> tuple[float, float]:
    """How often a model of two operands, given three literals, answers with all three and with the last two alone.

    The sequence stays as long as in training: the operator comes a position earlier, and the last two operands are in
    the slots that training used.
    """
    task = replace(config.task, operands=3)
    task = replace(task, max_assignments=min(task.max_assignments, task.prefix // 2))
    any_triple = torch.ones(1, *task.tuples, dtype=torch.bool, device=one.flat.device)
    sampler = Sampler([task], any_triple, [config.seed.data or 0], any_sums(0), one.flat.device)
    batch = sampler.sample(EvalSteps.THREE_OPERANDS[0], n)
    given = answers(one, batch.tokens)
    _, *last_two = batch.tokens[..., -4:-1].long().unbind(-1)
    expected = batch.labels, answer_of(config.task, last_two)
    return tuple(float((given == those).float().mean()) for those in expected)  # type: ignore[return-value]
