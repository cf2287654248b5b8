"""Attention scores read off the weights: QK1 on all embeddings, on positions, and QK2 on copied variables (paper,
section 5.2)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from assignadd.model.circuits import OV, QK
from assignadd.model.stack import Stack
from assignadd.task.roles import operand_slots
from assignadd.task.vocabulary import Vocabulary

Excluded = Literal["self", "two_back"]
# A number at i cannot attend to a variable at i itself, nor at i - 2: before the variable at i - 1 stands a PAD or a
# number.
EXCLUDED: tuple[Excluded, ...] = ("self", "two_back")


def qk1_table(stack: Stack) -> Float[Tensor, "M C C"]:
    """C QK1 C^T over the C = 90 rows of [W_E; W_pos] (figure qk0), rows asking, columns answering."""
    rows = torch.cat([stack.W_E, stack.W_pos], 1)
    return rows @ QK(stack, 1) @ rows.mT


@dataclass(frozen=True)
class QK1Blocks:
    """The effects named in figure qk0, each as the difference of two mean scores; positive where the paper's effect is
    there."""

    numbers_prefer_variables: Float[Tensor, " M"]
    """A number asks for a variable rather than for another token (purple)."""
    positions_prefer_variables: Float[Tensor, " M"]
    """A position of the prefix asks for a variable rather than for another token (orange)."""
    positions_increase: Float[Tensor, " M"]
    """Share of (query, key, next key) in the prefix, all causal, where the later key has the higher score (red)."""
    equals_prefers_operands: Float[Tensor, " M"]
    """`=` asks for the two operand slots rather than for other positions: lowest of the two less the highest other
    (black)."""


def qk1_blocks(stack: Stack) -> QK1Blocks:
    task, vocabulary, scores = stack.config.task, Vocabulary(stack.config.task), qk1_table(stack)
    K, first_variable = vocabulary.size, vocabulary.first_variable
    numbers, prefix = scores[:, : task.modulus], scores[:, K : K + task.prefix]
    equals = scores[:, vocabulary.equals, K:] + scores[:, -1, K:]  # the token and its position ask together
    is_slot = torch.zeros(task.length, dtype=torch.bool, device=scores.device)
    is_slot[list(operand_slots(task))] = True
    of_numbers, of_positions = (
        b[..., first_variable:K].mean((1, 2)) - b[..., :first_variable].mean((1, 2)) for b in (numbers, prefix)
    )
    of_equals = equals[:, is_slot].amin(1) - equals[:, ~is_slot].amax(1)
    return QK1Blocks(of_numbers, of_positions, _increasing(qk1_positions(stack)), of_equals)


def _increasing(positions: Tensor) -> Tensor:
    rises = positions[..., 1:] > positions[..., :-1]  # (M, query, key)
    causal = torch.ones_like(positions[0], dtype=torch.bool).tril()[:, 1:]
    return rises[:, causal].float().mean(1)


def qk1_positions(stack: Stack) -> Float[Tensor, "M P P"]:
    """P_i QK1 P_j over the positions i, j of the prefix (figure qk0pos_and_qk1 a), j > i included."""
    P = stack.W_pos[:, : stack.config.task.prefix]
    return P @ QK(stack, 1) @ P.mT


def admissible(n: int, excluded: Collection[Excluded]) -> Bool[Tensor, "n n"]:
    """Keys j that count for a query i: none ahead of it, and neither of the excluded ones."""
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return (j <= i) & ~((j == i) & ("self" in excluded)) & ~((j == i - 2) & ("two_back" in excluded))


def qk1_num_to_prev_var(
    stack: Stack, excluded: Collection[Excluded] = EXCLUDED, first_row: int = 1
) -> Float[Tensor, " M"]:
    """Share of positions i = first_row..11 whose best admissible key is i - 1 (App. B).

    With both exclusions the rows 1 and 2 have one key each and cannot fail: 2 of 11 for random weights, none from row 3
    on.
    """
    positions = qk1_positions(stack)
    n = positions.shape[-1]
    kept = positions.masked_fill(~admissible(n, excluded).to(positions.device), -torch.inf)
    best = kept[:, first_row:].argmax(-1)
    return (best == torch.arange(first_row - 1, n - 1, device=best.device)).float().mean(1)


def qk2_ov1_var_scores(stack: Stack) -> Float[Tensor, "M V V"]:
    """(E_var OV1) QK2 (E_var OV1)^T: `=` holding one copied variable asks a number holding another (figure
    qk0pos_and_qk1 b)."""
    x = stack.W_E[:, Vocabulary(stack.config.task).first_variable :] @ OV(stack, 1)
    return x @ QK(stack, 2) @ x.mT


def qk2_ov1_var_identity(stack: Stack) -> Float[Tensor, " M"]:
    """Share of variables v whose best match under (e_v OV1) QK2 (e_u OV1)^T is v itself (App. B)."""
    scores = qk2_ov1_var_scores(stack)
    return (scores.argmax(-1) == torch.arange(scores.shape[-1], device=scores.device)).float().mean(1)


def qk2_ov1_var_margin(stack: Stack) -> Float[Tensor, "M V"]:
    """By how much each variable's score with itself beats its best score with another one."""
    scores = qk2_ov1_var_scores(stack)
    diagonal = scores.diagonal(dim1=1, dim2=2)
    return diagonal - scores.masked_fill(
        torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device), -torch.inf
    ).amax(-1)
