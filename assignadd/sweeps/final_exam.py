"""The last evaluation of every model of a population: large enough to decide what its accuracy is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from torch import Tensor

from assignadd.config import Config
from assignadd.measures.stack_progress import AttentionRates
from assignadd.model.accuracy import Exam
from assignadd.model.stack import Stack
from assignadd.model.table import covers
from assignadd.task.evalsets import ALL_SETS
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import EmptySetError

if TYPE_CHECKING:
    from jaxtyping import Bool


def final_column(name: str) -> str:
    """The name under which a sweep's table has an accuracy or a rate of attention from the final exam."""
    return f"{name} (final)"


def final_exam(stack: Stack, configs: Sequence[Config], seen: Bool[Tensor, "M N N"]) -> list[dict[str, float]]:
    """For each model, its accuracy on every evaluation set it has sequences of, and the rates of its attention patterns.

    One set at a time, to bound the memory. Architectures without tables have no rates.
    """
    n = stack.config.record.final_sequences
    found: list[dict[str, float]] = [{} for _ in configs]
    for step, evalset in enumerate(ALL_SETS if n else (), EvalSteps.FINAL_EXAM.start):
        with suppress(EmptySetError):
            exam = Exam(configs, seen, [evalset], n, seen.device, step)
            for row, accuracy in zip(found, exam.accuracies(stack), strict=True):
                row |= {final_column(name): value for name, value in accuracy.items()}
    if n and covers(stack.config):
        types = stack.config.task.variable_counts
        for column, rates in AttentionRates(configs, seen, types, n)(stack).items():
            for row, rate in zip(found, rates.tolist(), strict=True):
                if math.isfinite(rate):  # none where a task has no such sequence
                    row[final_column(column)] = rate
    return found
