"""The measures of every model of a sweep: after its last step the paper's tests in full, and a large evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from assignadd.config import Config, has_code_of_user
from assignadd.measures.addition import network_frequencies
from assignadd.measures.columns import Columns, ProgressObserver, StackProgress, columns_one_by_one, where_defined
from assignadd.measures.routing import AttentionRates
from assignadd.model.accuracy import END_EVALUATIONS, Exam, end_exam
from assignadd.model.forward import CHUNK, answers
from assignadd.model.stack import Stack
from assignadd.task.evalsets import EvalSet, all_sets
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import EmptySetError, EveryAddition
from assignadd.training.loop import last_evaluations

# Sequences of a test that are drawn at once: a draw is some hundred tensor operations, whatever its size.
ROWS = 4 * CHUNK
SEQUENCES_OF_EXAM = 1 << 18  # about the most sequences in memory together, over the models and sets of an exam
ZERO_VAR = "0-var held out"
TWO_VAR = "2-var test"
FREQUENCIES = "fourier_frequencies"
# Held-out values with variables in slots they were seen in, and seen values with one or two variables in banned slots.
TWO_VAR_PARTS = (
    EvalSet("2-var test held out", n_vars=2, pair="held_out"),
    EvalSet("2-var test banned (1)", n_vars=2, n_banned=1),
    EvalSet("2-var test banned (2)", n_vars=2, n_banned=2),
)


def addition_tests(stack: Stack, configs: Sequence[Config], seen: Bool[Tensor, "M ..."]) -> list[dict[str, float]]:
    """For each model, the accuracy on every held-out pair once, and on the three parts of the two-variable test.

    The parts hold every pair of values with every pair of variables, one sequence each (193,580 in the paper's code);
    their union is "2-var test". A part that is empty for a model is left out for it.
    """
    literals = EvalSet(ZERO_VAR, n_vars=0, pair="held_out")
    tests = (*TWO_VAR_PARTS, literals) if stack.config.task.operands == 2 else (literals,)
    n_right: dict[str, Tensor] = {}  # by the name of the test, (M,) each
    n_sequences: dict[str, Tensor] = {}
    for test, step in zip(tests, EvalSteps.SWEEP_TESTS, strict=False):  # more steps are reserved than there are tests
        n_right[test.name], n_sequences[test.name] = _count_right(stack, configs, seen, test, step)
    parts = [part.name for part in TWO_VAR_PARTS if part.name in n_sequences]
    if parts:
        n_right[TWO_VAR] = torch.stack([n_right[name] for name in parts]).sum(0)
        n_sequences[TWO_VAR] = torch.stack([n_sequences[name] for name in parts]).sum(0)
    accuracies: list[dict[str, float]] = []
    for m in range(len(stack)):
        nonempty = [name for name in n_sequences if n_sequences[name][m] > 0]
        accuracies.append({name: int(n_right[name][m]) / int(n_sequences[name][m]) for name in nonempty})
    return accuracies


def _count_right(
    stack: Stack, configs: Sequence[Config], seen: Tensor, evalset: EvalSet, step: int
) -> tuple[Tensor, Tensor]:
    """How many sequences of a set each model answers right, and how many the set has for it, (M,) each.

    The sequences are drawn at step `step` of the evaluation stream.
    """
    tasks = [config.task for config in configs]
    seeds = [config.seed.data or 0 for config in configs]
    try:
        sampler = EveryAddition(tasks, seen, seeds, evalset, seen.device)
    except EmptySetError:  # the set is empty for at least one of the models: each model is asked alone
        if len(stack) == 1:
            return torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
        single_models = [slice(m, m + 1) for m in range(len(stack))]
        counts = [_count_right(stack.models(m), configs[m], seen[m], evalset, step) for m in single_models]
        return torch.cat([n_right for n_right, _ in counts]), torch.cat([n_sequences for _, n_sequences in counts])
    n_sequences = sampler.n_rows.flatten()  # (M, 1) to (M,)
    n_right = torch.zeros_like(n_sequences)
    most_sequences = int(n_sequences.max())
    for start in range(0, most_sequences, ROWS):
        n = min(ROWS, most_sequences - start)
        batch = sampler.sample(step, n, first_row=start)
        # Of a model whose set has fewer sequences than another's the sampler repeats some: these do not count.
        in_test = torch.arange(start, start + n, device=seen.device) < n_sequences[:, None]  # (M, n)
        n_right += ((answers(stack, batch.tokens) == batch.labels) & in_test).sum(-1)
    return n_right.cpu(), n_sequences.cpu()


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
    """For each model, its accuracy on every evaluation set that is not empty, at one of the last evaluations.

    `back` is the number of evaluations after this one, 0 for the last: each has sequences of its own. The accuracies
    are by column name; there are none if the settings ask for no final exam.
    """
    n = end_sequences(stack.config)
    return _on_every_set(stack, n, lambda sets, first: end_exam(configs, seen, sets, n, back, first), end_column)


def final_exam(stack: Stack, configs: Sequence[Config], seen: Bool[Tensor, "M ..."]) -> list[dict[str, float]]:
    """For each model, its accuracy on every evaluation set that is not empty, and rates of its attention patterns.

    They are by column name. There are no rates if the task or the network is the user's own, and nothing at all if the
    settings ask for no final exam.
    """
    n = stack.config.record.final_sequences

    def exam_of(sets: Sequence[EvalSet], first_set: int) -> Exam:
        # The evaluation stream has a step for each set of the list of all, so each set has sequences of its own.
        return Exam(configs, seen, sets, n, seen.device, EvalSteps.FINAL_EXAM.start + first_set)

    rows = _on_every_set(stack, n, exam_of, final_column)
    if n and not has_code_of_user(stack.config):
        for row, rates in zip(rows, _final_rates(stack, configs, seen, n), strict=True):
            row |= rates
    return rows


def _final_rates(stack: Stack, configs: Sequence[Config], seen: Tensor, n: int) -> list[dict[str, float]]:
    """For each model, by column: rates of its attention patterns, and how many frequencies it has.

    The rates are over `n` sequences of each type. A rate is left out for a model whose task has no such sequence.
    """
    types = stack.config.task.variable_counts  # a type is a number of variables
    models_at_once = len(configs)  # the models whose sequences are in memory together
    if seen.device.type == "cpu":
        models_at_once = max(1, SEQUENCES_OF_EXAM // (n * len(types)))
    rows: list[dict[str, float]] = []
    for first in range(0, len(configs), models_at_once):
        part = slice(first, first + models_at_once)
        models = stack.models(part)
        rates_of = AttentionRates(configs[part], seen[part], types, n)
        # One model at a time, which both do on a CPU alone: there, models in one product change each other's digits.
        columns = rates_of(models, one_by_one=True) | columns_one_by_one(models, _frequency_columns)
        values = {final_column(name): column.tolist() for name, column in columns.items()}
        for m in range(len(models)):  # a rate without sequences is NaN
            rows.append({name: of_models[m] for name, of_models in values.items() if math.isfinite(of_models[m])})
    return rows


def _frequency_columns(stack: Stack) -> Columns:
    """How many frequencies each network has; no column for an architecture for which they are not defined."""
    return where_defined(stack, lambda stack: {FREQUENCIES: network_frequencies(stack).sum(1)})


def _on_every_set(
    stack: Stack, n: int, exam_of: Callable[[Sequence[EvalSet], int], Exam], column: Callable[[str], str]
) -> list[dict[str, float]]:
    """For each model, its accuracy on every evaluation set that is not empty, under the name `column(set name)`.

    `exam_of(sets, first_set)` is an exam with `n` sequences of each of `sets`, which begin at the index `first_set` of
    the list of all sets. There are several, as only the sequences of one exam are in memory together.
    """
    rows: list[dict[str, float]] = [{} for _ in range(len(stack))]
    if n == 0:
        return rows
    sets = all_sets(stack.config.task)
    sets_at_once = max(1, SEQUENCES_OF_EXAM // (n * len(stack)))
    for first_set in range(0, len(sets), sets_at_once):
        with suppress(EmptySetError):  # all of them are empty
            exam = exam_of(sets[first_set : first_set + sets_at_once], first_set)
            for row, accuracies in zip(rows, exam.accuracies(stack), strict=True):
                row |= {column(name): accuracy for name, accuracy in accuracies.items()}
    return rows


class SweepObserver(ProgressObserver):
    """Measures the models of a sweep during training: at each evaluation a row of measures per model.

    A row has, as far as the settings ask for them, the cheap measures, the exams of the last evaluations and, after the
    last step, the paper's tests and the final exam. The accuracies of exams and tests are under "tests".
    """

    takes_stacks = True
    """On a CPU too, where it draws the sequences of all models of a stack together."""

    def __init__(self, configs: Sequence[Config], seen: Tensor):
        super().__init__(configs, seen, StackProgress)

    def __call__(self, stack: Stack, step: int) -> list[dict[str, Any]]:
        """The row of each model at this step."""
        measure_every = stack.config.record.measure_every  # 0 for never
        is_last = step == stack.config.optim.steps
        is_measured = measure_every > 0 and (is_last or step % measure_every == 0)
        rows = super().__call__(stack, step) if is_measured else [{} for _ in self.configs]
        tests = []  # for each test, the accuracies of every model
        if is_last:
            if measure_every:
                tests.append(addition_tests(stack, self.configs, self.seen))
            tests.append(final_exam(stack, self.configs, self.seen))
        end = last_evaluations(stack.config)  # their steps
        if step in end:
            n_evaluations_after = len(end) - 1 - end.index(step)
            tests.append(end_exams(stack, self.configs, self.seen, n_evaluations_after))
        for accuracies_of_models in tests:
            for row, accuracies in zip(rows, accuracies_of_models, strict=True):
                row.setdefault("tests", {}).update(accuracies)
        return rows
