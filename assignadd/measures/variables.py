"""Accuracy and attention scores for each variable in each operand slot (paper, section 6, figure late)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.model.accuracy import Exam
from assignadd.model.architecture import QK1_NEEDS, QK2_NEEDS, SECOND_LAYER, needs
from assignadd.model.circuits import OV, QK
from assignadd.model.forward import trace
from assignadd.model.stack import Stack
from assignadd.task import examples
from assignadd.task.evalsets import EvalSet
from assignadd.task.roles import operand_names, operand_slots, roles
from assignadd.task.sampling_tables import LITERAL, count_banned
from assignadd.task.vocabulary import Vocabulary

SLOTS = ("first", "second")


def variable_sets(task: Task) -> list[EvalSet]:
    """An evaluation set for each slot and variable, in which no other operand is in a slot banned for it.

    Sums have as many variables as the task allows.
    """
    sets, names = [], operand_names(task)
    for slot in names:
        for v, letter in enumerate(task.variables):
            n_banned = count_banned(task, *(v if name == slot else LITERAL for name in names))
            required: dict[str, Any] = {slot: v}
            sets.append(EvalSet(f"{letter} {slot}", task.variable_counts[-1], n_banned=n_banned, **required))
    return sets


def variable_exam(configs: Sequence[Config], seen: Tensor, n: int) -> Exam:
    """An exam of `n` sequences for each variable and slot."""
    return Exam(configs, seen, variable_sets(configs[0].task), n, seen.device)


def variable_accuracy(stack: Stack, exam: Exam) -> Float[Tensor, "M k V"]:
    """Accuracy with each variable in each operand slot; NaN if the task has no such sum."""
    names = [s.name for s in variable_sets(stack.config.task)]
    accuracy = stack.flat.new_full((len(stack), len(names)), torch.nan)
    accuracy[:, [names.index(name) for name in exam.names]] = exam.count_correct(stack).to(accuracy.dtype) / exam.n
    return accuracy.view(len(stack), stack.config.task.operands, -1)


@needs(*QK1_NEEDS)
def qk1_equals_parts(stack: Stack) -> Float[Tensor, "M 2 V"]:
    """[E_=; P_=] QK1 E_v: scores of the token `=` and of its position with each variable (figure late c)."""
    vocabulary = Vocabulary(stack.config.task)
    queries = torch.stack([stack.W_E[:, vocabulary.equals], stack.W_pos[:, -1]], 1)  # (M, 2, d)
    return queries @ QK(stack, 1) @ stack.W_E[:, vocabulary.first_variable :].mT


def qk1_equals_to_variables(stack: Stack) -> Float[Tensor, "M V"]:
    """(E_= + P_=) QK1 E_v: the score of `=` with each variable (figure late a)."""
    return qk1_equals_parts(stack).sum(1)


@needs(SECOND_LAYER)
def attn_l2_equal_to_value(stack: Stack, tokens: Int[Tensor, "#M B T"], slot: int) -> Float[Tensor, " M"]:
    """Share of sequences in which `=` attends to the value of one operand in layer 2 (section 6), of the best head.

    The value must be among the two keys with the most attention. `slot` is 0 for the first operand, 1 for the second.
    """
    top = trace(stack, tokens).attention(2)[..., -1, :].topk(2, -1).indices  # (M, B, heads, 2)
    value = roles(stack.config.task, tokens).value_positions[..., slot, None, None]  # (M, B, 1, 1)
    return (top == value).any(-1).float().mean(1).amax(-1)


@needs(*QK2_NEEDS)
def qk2_path_terms(stack: Stack) -> Float[Tensor, "M 2 V"]:
    """sum_p a1(=, p) a1(n, n - 1) ((E_x + P_p) OV1) QK2 (E_v OV1)^T over both operand slots p, x the token there.

    The part of the layer-2 score between `=` and the number n assigned to v (position 4 in the paper's sequence) that
    is due to what layer 1 copied into both (figure late d), by the slot of v and by v; a1 are attention weights of
    layer 1.
    """
    task = stack.config.task
    tokens = path_sequences(task).to(stack.flat.device)  # (B, T), B = 2 V
    slots = torch.tensor(operand_slots(task), device=tokens.device)
    role, each = roles(task, tokens), torch.arange(len(tokens), device=tokens.device)
    number = role.value_positions[role.is_variable]  # (B,): each sequence has one variable
    attention = trace(stack, tokens[None]).attention(1).squeeze(2)  # (M, B, T, T)
    OV1 = OV(stack, 1)
    in_equals = (stack.W_E[:, tokens[:, slots]] + stack.W_pos[:, None, slots]) @ OV1[:, None]  # (M, B, 2, d)
    in_number = (stack.W_E[:, tokens[each, number - 1]] @ OV1).unsqueeze(2)  # (M, B, 1, d)
    scores = ((in_equals @ QK(stack, 2)[:, None]) * in_number).sum(-1)  # (M, B, 2)
    terms = (attention[:, :, -1, slots] * scores).sum(-1) * attention[:, each, number, number - 1]  # (M, B)
    return terms.view(len(stack), 2, -1)


def path_sequences(task: Task) -> Int[Tensor, "B T"]:
    """`PAD PAD PAD v 7 ... + v 9 =` for every v, then `PAD PAD PAD v 7 ... + 9 v =`, from the sequence of figure
    attention."""
    tokens, vocabulary = examples.fitted(examples.ATTENTION, task), Vocabulary(task)
    if tokens is None:
        raise ValueError("the task has no sums with one variable")
    slots = list(operand_slots(task))
    first = torch.tensor([examples.exchanged(tokens, tokens[slots[0]], v) for v in vocabulary.variables])
    second = first.clone()
    second[:, slots] = first[:, slots].flip(1)
    return torch.cat([first, second])
