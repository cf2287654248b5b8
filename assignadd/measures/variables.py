"""Variable by variable: how well each is looked up from each operand slot, and how strongly `=` asks for it (paper, figure late)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.model.accuracy import Exam
from assignadd.model.circuits import QK
from assignadd.model.stack import Stack
from assignadd.task.evalsets import EvalSet
from assignadd.task.operands import LITERAL, count_banned
from assignadd.task.vocabulary import Vocabulary

if TYPE_CHECKING:
    from jaxtyping import Float

SLOTS = ("first", "second")


def variable_sets(task: Task) -> list[EvalSet]:
    """For every variable and slot the sums with it there, and nothing banned beside it: two-variable ones where the task has them."""
    n_vars = min(2, task.max_assignments)
    first = [EvalSet(f"{task.variables[v]} first", n_vars, n_banned=count_banned(task, v, LITERAL), first=v) for v in range(task.n_vars)]
    second = [EvalSet(f"{task.variables[v]} second", n_vars, n_banned=count_banned(task, LITERAL, v), second=v) for v in range(task.n_vars)]
    return first + second


def variable_exam(configs: Sequence[Config], seen: Tensor, n: int) -> Exam:
    """`n` sequences for each variable and slot."""
    return Exam(configs, seen, variable_sets(configs[0].task), n, seen.device)


def variable_accuracy(stack: Stack, exam: Exam) -> Float[Tensor, "M 2 V"]:
    """Accuracy with each variable in the first and in the second slot; NaN where the task has no such sum."""
    names = [s.name for s in variable_sets(stack.config.task)]
    accuracy = stack.flat.new_full((len(stack), len(names)), torch.nan)
    accuracy[:, [names.index(name) for name in exam.names]] = exam.count_correct(stack).to(accuracy.dtype) / exam.n
    return accuracy.view(len(stack), 2, -1)


def qk1_equals_parts(stack: Stack) -> Float[Tensor, "M 2 V"]:
    """[E_=; P_=] QK1 E_v: what the token `=` and its position ask of each variable by its name."""
    vocabulary = Vocabulary(stack.config.task)
    asks = torch.stack([stack.W_E[:, vocabulary.equals], stack.W_pos[:, -1]], 1)  # (M, 2, d)
    return asks @ QK(stack, 1) @ stack.W_E[:, vocabulary.first_variable :].mT


def qk1_equals_to_variables(stack: Stack) -> Float[Tensor, "M V"]:
    """(E_= + P_=) QK1 E_v: how strongly `=` asks for each variable by its name (figure late a)."""
    return qk1_equals_parts(stack).sum(1)
