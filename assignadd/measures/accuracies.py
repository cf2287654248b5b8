"""Accuracy on every evaluation set, with its uncertainty (paper, figure "accuracies" and section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from assignadd.config import Config
from assignadd.model.accuracy import Exam
from assignadd.model.stack import Stack, single_models
from assignadd.stats import Interval, wilson
from assignadd.task.evalsets import ALL_SETS, EvalSet


@dataclass(frozen=True)
class Accuracy:
    accuracy: float
    n: int
    interval: Interval


def set_accuracies(
    stack: Stack, configs: Sequence[Config], seen: Tensor, n: int, sets: Sequence[EvalSet] = ALL_SETS
) -> list[dict[str, Accuracy]]:
    """For each model, the accuracy on `n` sequences of every set that has any; `configs` and `seen` are the models' own."""
    results = []
    for model, config, own_seen in zip(single_models(stack), configs, seen.unsqueeze(1), strict=True):
        exam = Exam([config], own_seen, sets, n)
        counts = exam.count_correct(model)[0].tolist()
        results.append({name: Accuracy(k / n, n, wilson(k, n)) for name, k in zip(exam.names, counts, strict=True)})
    return results
