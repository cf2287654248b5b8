"""Attention scores computed from the weights: QK1 between embeddings, QK2 between copied variables (section 5.2), and
those of `=` with each variable (section 6, figure late)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Task
from assignadd.model.architecture import QK1_NEEDS, QK2_NEEDS, needs
from assignadd.model.circuits import OV, QK
from assignadd.model.forward import trace
from assignadd.model.stack import Stack
from assignadd.task import examples
from assignadd.task.positions import operand_slots, roles
from assignadd.task.vocabulary import Vocabulary

Excluded = Literal["self", "two_back"]
# For a number at i, whose variable is at i - 1: neither at i nor at i - 2 is a variable.
EXCLUDED: tuple[Excluded, ...] = ("self", "two_back")


@needs(*QK1_NEEDS)
def qk1_table(stack: Stack) -> Float[Tensor, "M C C"]:
    """QK1 scores between all C = 90 rows of [W_E; W_pos], (query, key) (figure qk0)."""
    rows = torch.cat([stack.W_E, stack.W_pos], 1)
    return rows @ QK(stack, 1) @ rows.mT


def qk1_blocks(stack: Stack) -> dict[str, Float[Tensor, " M"]]:
    """The four effects that figure qk0 outlines, as numbers by name; larger values are a stronger effect.

    numbers_prefer_variables    mean score of numbers with variables minus that with other tokens (purple)
    positions_prefer_variables  the same of positions in the prefix (orange)
    positions_increase          share of neighbouring keys up to the query of which the later has the higher score (red)
    equals_prefers_operands     lower score of `=` with an operand slot minus its highest with another position (black)
    """
    task = stack.config.task
    vocabulary = Vocabulary(task)
    scores = qk1_table(stack)  # (M, C, C): rows of tokens, then of positions
    K, first_variable = vocabulary.size, vocabulary.first_variable
    of_equals = scores[:, vocabulary.equals, K:] + scores[:, -1, K:]  # (M, T): `=` and its position occur together
    is_slot = torch.zeros(task.length, dtype=torch.bool, device=scores.device)
    is_slot[list(operand_slots(task))] = True

    def preference_for_variables(queries: Float[Tensor, "M queries C"]) -> Float[Tensor, " M"]:
        """Mean score of these queries with variables minus that with other tokens."""
        return queries[..., first_variable:K].mean((1, 2)) - queries[..., :first_variable].mean((1, 2))

    of_positions = qk1_positions(stack)  # (M, P, P)
    rises = of_positions[..., 1:] > of_positions[..., :-1]  # (M, P, P - 1): from key j - 1 to key j, from j = 1 on
    is_up_to_query = torch.ones_like(of_positions[0], dtype=torch.bool).tril()[:, 1:]
    return {
        "numbers_prefer_variables": preference_for_variables(scores[:, : task.modulus]),
        "positions_prefer_variables": preference_for_variables(scores[:, K : K + task.prefix]),
        "positions_increase": rises[:, is_up_to_query].float().mean(1),
        "equals_prefers_operands": of_equals[:, is_slot].amin(1) - of_equals[:, ~is_slot].amax(1),
    }


@needs(*QK1_NEEDS)
def qk1_positions(stack: Stack) -> Float[Tensor, "M P P"]:
    """P_i QK1 P_j for all positions i, j of the prefix, without the causal mask (figure qk0pos_and_qk1 a)."""
    P = stack.W_pos[:, : stack.config.task.prefix]
    return P @ QK(stack, 1) @ P.mT


def admissible(n: int, excluded: Collection[Excluded]) -> Bool[Tensor, "n n"]:
    """Which keys j are compared for each query i, [i, j]: those up to i that are not excluded."""
    i, j = torch.arange(n)[:, None], torch.arange(n)
    is_compared = j <= i
    if "self" in excluded:
        is_compared &= j != i
    if "two_back" in excluded:
        is_compared &= j != i - 2
    return is_compared


def qk1_num_to_prev_var(
    stack: Stack, excluded: Collection[Excluded] = EXCLUDED, first_row: int = 1
) -> Float[Tensor, " M"]:
    """Share of positions i of the prefix, from `first_row` on, whose best admissible key is i - 1 (App. B).

    With both exclusions, rows 1 and 2 have a single key and cannot fail, so random weights reach about 2 of 11.
    """
    scores = qk1_positions(stack)  # (M, n, n)
    n = scores.shape[-1]
    compared = scores.masked_fill(~admissible(n, excluded).to(scores.device), -torch.inf)
    best = compared[:, first_row:].argmax(-1)  # (M, n - first_row)
    previous = torch.arange(first_row - 1, n - 1, device=best.device)  # i - 1 for each row i
    return (best == previous).float().mean(1)


@needs(*QK2_NEEDS)
def variable_outputs(stack: Stack) -> Float[Tensor, "M V d"]:
    """OV1(e_v): what layer 1 adds to a position that attends only to the variable v."""
    return stack.W_E[:, Vocabulary(stack.config.task).first_variable :] @ OV(stack, 1)


def qk2_ov1_var_scores(stack: Stack) -> Float[Tensor, "M V V"]:
    """Scores (e_v OV1) QK2 (e_u OV1)^T of v copied to `=` and u copied to a number (figure qk0pos_and_qk1 b)."""
    copied = variable_outputs(stack)  # (M, V, d)
    return copied @ QK(stack, 2) @ copied.mT


def qk2_ov1_var_identity(stack: Stack) -> Float[Tensor, " M"]:
    """Share of variables v whose best match under (e_v OV1) QK2 (e_u OV1)^T is v itself (App. B)."""
    scores = qk2_ov1_var_scores(stack)
    variable = torch.arange(scores.shape[-1], device=scores.device)
    return (scores.argmax(-1) == variable).float().mean(1)


def qk2_ov1_var_margin(stack: Stack) -> Float[Tensor, "M V"]:
    """Each variable's score with itself minus its highest score with another variable."""
    scores = qk2_ov1_var_scores(stack)
    with_itself = scores.diagonal(dim1=1, dim2=2)  # (M, V)
    is_itself = torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device)
    with_best_other = scores.masked_fill(is_itself, -torch.inf).amax(-1)
    return with_itself - with_best_other


@needs(*QK1_NEEDS)
def qk1_equals_parts(stack: Stack) -> Float[Tensor, "M 2 V"]:
    """[E_=; P_=] QK1 E_v: scores of the token `=` and of its position with each variable (figure late c)."""
    vocabulary = Vocabulary(stack.config.task)
    queries = torch.stack([stack.W_E[:, vocabulary.equals], stack.W_pos[:, -1]], 1)  # (M, 2, d)
    return queries @ QK(stack, 1) @ stack.W_E[:, vocabulary.first_variable :].mT


def qk1_equals_to_variables(stack: Stack) -> Float[Tensor, "M V"]:
    """(E_= + P_=) QK1 E_v: the score of `=` with each variable (figure late a)."""
    return qk1_equals_parts(stack).sum(1)


@needs(*QK2_NEEDS)
def qk2_path_terms(stack: Stack) -> Float[Tensor, "M 2 V"]:
    """sum_p a1(=, p) a1(n, n - 1) ((E_x + P_p) OV1) QK2 (E_v OV1)^T over both operand slots p, x the token there.

    The part of the layer-2 score between `=` and the number n assigned to v that is due to what layer 1 copied into
    both (figure late d), by the slot of v and by v; a1 is the attention of layer 1 on `path_sequences`.
    """
    task = stack.config.task
    tokens = path_sequences(task).to(stack.flat.device)  # (B, T), B = 2 V
    sequence = torch.arange(len(tokens), device=tokens.device)
    slots = torch.tensor(operand_slots(task), device=tokens.device)  # p
    role = roles(task, tokens)
    number = role.value_positions[role.is_variable]  # (B,): the position n, as each sequence has one variable
    attention = trace(stack, tokens[None]).attention(1).squeeze(2)  # (M, B, T, T), query and key of the only head
    OV1 = OV(stack, 1)
    copied_to_equals = (stack.W_E[:, tokens[:, slots]] + stack.W_pos[:, None, slots]) @ OV1[:, None]  # (M, B, 2, d)
    copied_to_number = (stack.W_E[:, tokens[sequence, number - 1]] @ OV1).unsqueeze(2)  # (M, B, 1, d)
    scores = ((copied_to_equals @ QK(stack, 2)[:, None]) * copied_to_number).sum(-1)  # (M, B, 2)
    of_equals = attention[:, :, -1, slots]  # (M, B, 2)
    of_number = attention[:, sequence, number, number - 1]  # (M, B)
    terms = (of_equals * scores).sum(-1) * of_number  # (M, B)
    return terms.view(len(stack), 2, -1)


def path_sequences(task: Task) -> Int[Tensor, "B T"]:
    """The sequence of figure attention, `PAD PAD PAD v 7 ... + v 9 =`, for every v, then with `+ 9 v =`."""
    tokens = examples.fitted(examples.ATTENTION, task)
    if tokens is None:
        raise ValueError("the task has no sums with one variable")
    slots = list(operand_slots(task))
    variable = tokens[slots[0]]  # exchanged with each variable of the task in turn
    variable_first = torch.tensor([examples.exchanged(tokens, variable, v) for v in Vocabulary(task).variables])
    variable_second = variable_first.clone()
    variable_second[:, slots] = variable_first[:, slots].flip(1)
    return torch.cat([variable_first, variable_second])
