"""Accuracy on every evaluation set, with its uncertainty (paper, figure "accuracies" and section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from assignadd.config import Config
from assignadd.model.accuracy import Exam
from assignadd.model.stack import Stack, single_models
from assignadd.stats import Interval, wilson
from assignadd.task.evalsets import ALL_SETS, HELD_OUT_CLASSES, EvalSet
from assignadd.task.sampler import distinct_sums


@dataclass(frozen=True)
class Accuracy:
    accuracy: float
    n: int
    """Sequences."""
    interval: Interval
    pairs: int | None = None
    """How many pairs of numbers the interval is over, where it is over pairs and not over sequences; n + m and m + n are one."""


def set_accuracies(
    stack: Stack, configs: Sequence[Config], seen: Tensor, n: int, sets: Sequence[EvalSet] = ALL_SETS
) -> list[dict[str, Accuracy]]:
    """For each model, the accuracy on `n` sequences of every set that has any; `configs` and `seen` are the models' own.

    The interval of a class of held-out pairs is over its pairs, if there are fewer of them than sequences: many sequences
    that add one pair say little about the next pair of the class.
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
