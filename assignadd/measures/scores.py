"""Attention scores computed from the weights: QK1 between embeddings, QK2 between copied variables (section 5.2)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from assignadd.model.architecture import QK1_NEEDS, QK2_NEEDS, needs
from assignadd.model.circuits import OV, QK
from assignadd.model.stack import Stack
from assignadd.task.roles import operand_slots
from assignadd.task.vocabulary import Vocabulary

Excluded = Literal["self", "two_back"]
# There is no variable at i, where the number is, nor at i - 2: the token before the variable at i - 1 is a PAD or a
# number.
EXCLUDED: tuple[Excluded, ...] = ("self", "two_back")


@needs(*QK1_NEEDS)
def qk1_table(stack: Stack) -> Float[Tensor, "M C C"]:
    """QK1 scores between all C = 90 rows of [W_E; W_pos], (query, key) (figure qk0)."""
    rows = torch.cat([stack.W_E, stack.W_pos], 1)
    return rows @ QK(stack, 1) @ rows.mT


@dataclass(frozen=True)
class QK1Blocks:
    """The effects outlined in figure qk0 as numbers; larger values are a stronger effect."""

    numbers_prefer_variables: Float[Tensor, " M"]
    """Mean score of numbers with variables less that with other tokens (purple)."""
    positions_prefer_variables: Float[Tensor, " M"]
    """Mean score of positions in the prefix with variables less that with other tokens (orange)."""
    positions_increase: Float[Tensor, " M"]
    """Share of neighbouring keys in the prefix, up to the query, of which the later has the higher score (red)."""
    equals_prefers_operands: Float[Tensor, " M"]
    """Lower score of `=` with the two operand slots less its highest score with another position (black)."""


def qk1_blocks(stack: Stack) -> QK1Blocks:
    """The four effects that figure qk0 outlines."""
    task, vocabulary, scores = stack.config.task, Vocabulary(stack.config.task), qk1_table(stack)
    K, first_variable = vocabulary.size, vocabulary.first_variable
    numbers, prefix = scores[:, : task.modulus], scores[:, K : K + task.prefix]
    equals = scores[:, vocabulary.equals, K:] + scores[:, -1, K:]  # the token and its position occur together
    is_slot = torch.zeros(task.length, dtype=torch.bool, device=scores.device)
    is_slot[list(operand_slots(task))] = True
    of_numbers, of_positions = (
        b[..., first_variable:K].mean((1, 2)) - b[..., :first_variable].mean((1, 2)) for b in (numbers, prefix)
    )
    of_equals = equals[:, is_slot].amin(1) - equals[:, ~is_slot].amax(1)
    return QK1Blocks(of_numbers, of_positions, _increasing(qk1_positions(stack)), of_equals)


def _increasing(positions: Tensor) -> Tensor:
    """Share of neighbouring keys, up to the query, of which the later has the higher score, (M,)."""
    rises = positions[..., 1:] > positions[..., :-1]  # (M, query, key)
    causal = torch.ones_like(positions[0], dtype=torch.bool).tril()[:, 1:]
    return rises[:, causal].float().mean(1)


@needs(*QK1_NEEDS)
def qk1_positions(stack: Stack) -> Float[Tensor, "M P P"]:
    """P_i QK1 P_j for all positions i, j of the prefix, without the causal mask (figure qk0pos_and_qk1 a)."""
    P = stack.W_pos[:, : stack.config.task.prefix]
    return P @ QK(stack, 1) @ P.mT


def admissible(n: int, excluded: Collection[Excluded]) -> Bool[Tensor, "n n"]:
    """Which keys j are compared for a query i: those up to i that are not excluded."""
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return (j <= i) & ~((j == i) & ("self" in excluded)) & ~((j == i - 2) & ("two_back" in excluded))


def qk1_num_to_prev_var(
    stack: Stack, excluded: Collection[Excluded] = EXCLUDED, first_row: int = 1
) -> Float[Tensor, " M"]:
    """Share of positions i = first_row..11 whose best admissible key is i - 1 (App. B).

    With both exclusions, rows 1 and 2 have a single key and cannot fail, so random weights reach about 2 of 11.
    """
    positions = qk1_positions(stack)
    n = positions.shape[-1]
    kept = positions.masked_fill(~admissible(n, excluded).to(positions.device), -torch.inf)
    best = kept[:, first_row:].argmax(-1)
    return (best == torch.arange(first_row - 1, n - 1, device=best.device)).float().mean(1)


@needs(*QK2_NEEDS)
def variable_outputs(stack: Stack) -> Float[Tensor, "M V d"]:
    """OV1(e_v): what layer 1 adds to a position that attends only to the variable v."""
    return stack.W_E[:, Vocabulary(stack.config.task).first_variable :] @ OV(stack, 1)


def qk2_ov1_var_scores(stack: Stack) -> Float[Tensor, "M V V"]:
    """Scores (e_v OV1) QK2 (e_u OV1)^T of v copied to `=` and u copied to a number (figure qk0pos_and_qk1 b)."""
    x = variable_outputs(stack)
    return x @ QK(stack, 2) @ x.mT


def qk2_ov1_var_identity(stack: Stack) -> Float[Tensor, " M"]:
    """Share of variables v whose best match under (e_v OV1) QK2 (e_u OV1)^T is v itself (App. B)."""
    scores = qk2_ov1_var_scores(stack)
    return (scores.argmax(-1) == torch.arange(scores.shape[-1], device=scores.device)).float().mean(1)


def qk2_ov1_var_margin(stack: Stack) -> Float[Tensor, "M V"]:
    """Each variable's score with itself less its highest score with another variable."""
    scores = qk2_ov1_var_scores(stack)
    diagonal = scores.diagonal(dim1=1, dim2=2)
    is_self = torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device)
    return diagonal - scores.masked_fill(is_self, -torch.inf).amax(-1)
