"""Accuracy on every evaluation set, with its interval, and for every pair of numbers (paper, figure "accuracies",
section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from assignadd.config import Config
from assignadd.model.accuracy import Exam
from assignadd.model.forward import CHUNK, answer_logits
from assignadd.model.stack import Stack, single_models
from assignadd.stats import Interval, wilson
from assignadd.task.evalsets import ALL_SETS, HELD_OUT_CLASSES, EvalSet, PairKind, any_sums
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import EveryPair, distinct_sums, pair_codes

# Sequences in which each pair of numbers is added.
CONTEXTS = 24


@dataclass(frozen=True)
class Accuracy:
    accuracy: float
    n: int
    """Sequences."""
    interval: Interval
    pairs: int | None = None
    """How many pairs of numbers the interval is over, where it is over pairs and not over sequences; n + m and m + n
    are one."""


def set_accuracies(
    stack: Stack, configs: Sequence[Config], seen: Tensor, n: int, sets: Sequence[EvalSet] = ALL_SETS
) -> list[dict[str, Accuracy]]:
    """For each model, the accuracy on `n` sequences of every set that has any; `configs` and `seen` are the models'
    own.

    The interval of a class of held-out pairs is over its pairs, if there are fewer of them than sequences: many
    sequences that add one pair say little about the next pair of the class.
    """
    results, by_name = [], {s.name: s for s in sets}
    for model, config, own_seen in zip(single_models(stack), configs, seen.unsqueeze(1), strict=True):
        exam = Exam([config], own_seen, sets, n)
        counts = exam.count_correct(model)[0].tolist()
        results.append(
            {name: _accuracy(k, n, by_name[name], own_seen[0]) for name, k in zip(exam.names, counts, strict=True)}
        )
    return results


def _accuracy(correct: int, n: int, evalset: EvalSet, seen: Tensor) -> Accuracy:
    """The accuracy of one model on one set, with its 95 % interval."""
    pairs = distinct_sums(seen, evalset.pair) if evalset.pair in HELD_OUT_CLASSES else n
    if pairs >= n:
        return Accuracy(correct / n, n, wilson(correct, n))
    return Accuracy(correct / n, n, wilson(correct / n * pairs, pairs), pairs)


def pair_accuracy(one: Stack, config: Config, n_vars: int, contexts: int = CONTEXTS) -> Float[Tensor, "N N"]:
    """One model's share of right answers for each pair (n, m), in `contexts` sequences with `n_vars` variables in any
    slot."""
    N = config.task.modulus
    everything = torch.ones(1, N, N, dtype=torch.bool)
    sampler = EveryPair([config.task], everything, [config.seed.data or 0], any_sums(n_vars), one.flat.device)
    right = torch.zeros(N * N, device=one.flat.device)
    for start in range(0, N * N * contexts, CHUNK):
        rows = torch.arange(start, min(start + CHUNK, N * N * contexts), device=right.device)
        batch = sampler.sample(EvalSteps.EVERY_PAIR[n_vars], len(rows), first_row=start)
        correct = answer_logits(one, batch.tokens).argmax(-1)[0] == batch.labels[0]
        right.index_add_(0, rows % (N * N), correct.float())
    return (right / contexts).view(N, N)


def class_pairs(seen: Bool[Tensor, "N N"], kind: PairKind) -> Bool[Tensor, "N N"]:
    """The pairs of one kind as a mask."""
    mask = torch.zeros_like(seen).flatten()
    mask[pair_codes(seen, kind)] = True
    return mask.view_as(seen)
