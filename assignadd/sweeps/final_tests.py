"""The tests of every model of a sweep after its last step: the paper's tests in full, and a large evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress

import torch
from jaxtyping import Bool
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.measures.addition import network_frequencies
from assignadd.measures.columns import where_defined
from assignadd.measures.routing import AttentionRates
from assignadd.model.accuracy import END_EVALUATIONS, Exam, end_exam
from assignadd.model.forward import CHUNK, answers
from assignadd.model.stack import Stack
from assignadd.task.evalsets import EvalSet, all_sets
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import EmptySetError, EveryAddition

# Sequences of a test that are drawn at once: a draw is some hundred tensor operations, whatever its size.
ROWS = 4 * CHUNK
ZERO_VAR = "0-var held out"
TWO_VAR = "2-var test"
FREQUENCIES = "fourier_frequencies"
# Held-out values with variables in slots they were seen in, and seen values with one or two variables in banned slots.
TWO_VAR_PARTS = (
    EvalSet("2-var test held out", n_vars=2, pair="held_out"),
    EvalSet("2-var test banned (1)", n_vars=2, n_banned=1),
    EvalSet("2-var test banned (2)", n_vars=2, n_banned=2),
)


def _tests(task: Task) -> tuple[EvalSet, ...]:
    """The sets of the paper's tests; with other than two operands, that of literals alone."""
    return (*(TWO_VAR_PARTS if task.operands == 2 else ()), EvalSet(ZERO_VAR, n_vars=0, pair="held_out"))


def addition_tests(stack: Stack, configs: Sequence[Config], seen: Bool[Tensor, "M ..."]) -> list[dict[str, float]]:
    """For each model, the accuracy on every held-out pair once, and on the three parts of the two-variable test.

    The parts hold every pair of values with every pair of variables, one sequence each (193,580 in the paper's code);
    their union is "2-var test". A part that is empty for a model is left out for it.
    """
    right: dict[str, Tensor] = {}
    n: dict[str, Tensor] = {}
    for evalset, step in zip(_tests(stack.config.task), EvalSteps.SWEEP_TESTS, strict=False):
        right[evalset.name], n[evalset.name] = _count(stack, configs, seen, evalset, step)
    if parts := [evalset.name for evalset in TWO_VAR_PARTS if evalset.name in n]:
        right[TWO_VAR] = torch.stack([right[name] for name in parts]).sum(0)
        n[TWO_VAR] = torch.stack([n[name] for name in parts]).sum(0)
    return [{name: int(right[name][m]) / int(n[name][m]) for name in n if n[name][m]} for m in range(len(stack))]


def _count(stack: Stack, configs: Sequence[Config], seen: Tensor, evalset: EvalSet, step: int) -> tuple[Tensor, Tensor]:
    """Right answers and sequences for each model, (M,) each."""
    try:
        seeds = [c.seed.data or 0 for c in configs]
        sampler = EveryAddition([c.task for c in configs], seen, seeds, evalset, seen.device)
    except EmptySetError:  # for one of the models at least
        if len(stack) == 1:
            return torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
        models = range(len(stack))
        counts = [_count(stack.models(i), configs[i : i + 1], seen[i : i + 1], evalset, step) for i in models]
        return torch.cat([right for right, _ in counts]), torch.cat([n for _, n in counts])
    n = sampler.n_rows.flatten()
    right = torch.zeros_like(n)
    for start in range(0, int(n.max()), ROWS):
        batch = sampler.sample(step, ROWS, first_row=start)
        in_test = torch.arange(start, start + ROWS, device=n.device) < n[:, None]
        right += ((answers(stack, batch.tokens) == batch.labels) & in_test).sum(-1)
    return right.cpu(), n.cpu()


def final_column(name: str) -> str:
    """The name under which a sweep's table has an accuracy or a rate of attention from the final exam."""
    return f"{name} (final)"


def end_column(name: str) -> str:
    """The name under which a sweep's table has an accuracy from the exams of the last evaluations."""
    return f"{name} (end)"


def end_sequences(config: Config) -> int:
    """Sequences per set at each of the last evaluations: as many in all as in the final exam."""
    return config.record.final_sequences // END_EVALUATIONS


def end_exams(
    stack: Stack, configs: Sequence[Config], seen: Bool[Tensor, "M ..."], back: int
) -> list[dict[str, float]]:
    """For each model, its accuracy on every evaluation set, at the evaluation `back` places before the last."""
    n = end_sequences(stack.config)
    if n == 0:
        return [{} for _ in configs]
    return _on_every_set(stack, lambda s, place: end_exam(configs, seen, [s], n, back, place), end_column)


def final_exam(stack: Stack, configs: Sequence[Config], seen: Bool[Tensor, "M ..."]) -> list[dict[str, float]]:
    """For each model, its accuracy on every evaluation set that is not empty, and rates of its attention patterns."""
    n = stack.config.record.final_sequences
    if n == 0:
        return [{} for _ in configs]
    first = EvalSteps.FINAL_EXAM.start
    rows = _on_every_set(stack, lambda s, place: Exam(configs, seen, [s], n, seen.device, first + place), final_column)
    rates = AttentionRates(configs, seen, stack.config.task.variable_counts, n)(stack)
    frequencies = where_defined(stack, lambda s: {FREQUENCIES: network_frequencies(s).sum(1)})
    for column, values in (rates | frequencies).items():
        for row, value in zip(rows, values.tolist(), strict=True):
            if math.isfinite(value):  # no rate where a task has no such sequence
                row[final_column(column)] = value
    return rows


def _on_every_set(
    stack: Stack, exam_of: Callable[[EvalSet, int], Exam], column: Callable[[str], str]
) -> list[dict[str, float]]:
    """For each model, its accuracy on every evaluation set that is not empty, one at a time to bound the memory."""
    rows: list[dict[str, float]] = [{} for _ in range(len(stack))]
    for place, evalset in enumerate(all_sets(stack.config.task)):
        with suppress(EmptySetError):
            for row, accuracies in zip(rows, exam_of(evalset, place).accuracies(stack), strict=True):
                row |= {column(name): accuracy for name, accuracy in accuracies.items()}
    return rows
