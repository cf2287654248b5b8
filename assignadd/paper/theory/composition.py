"""After the step of theorem C.1: attention and accuracy with several assignments in context, and over beta.

A sequence has K = |tau| assignments of different variables at any of the T - 3 positions before the operands, one of
them of the first operand, which is a variable; the assigned numbers and the second operand are uniform. W_0 and its
gradient treat all variables, numbers and these positions alike, so the attention depends on K only, and only the
numbers are drawn at random. W is a key-query matrix, (d, 1 + V) as in `theorem`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from assignadd.config import ConfigError
from assignadd.paper.theory.theorem import DTYPE, W_0, Check, M, Setting, after_step, check, eta, gradient
from assignadd.stats import Measured

DRAWS, SCAN_DRAWS = 20_000, 300  # sequences for an accuracy: at one beta, and at each of many
MOST_V_OF_GRID = 40  # the range of beta that is scanned grows with V up to here


def most_assignments(s: Setting) -> int:
    """The largest number of assignments that is tested at these sizes: six, or as many as fit if six do not."""
    return min(6, s.V, s.T - 3)


def scores_with(s: Setting, W: Tensor, K: int) -> Tensor:
    """Scores x_t^T W x_T of the last position with each position t of a sequence with K assignments, (T,).

    The first K positions assign numbers, the very first one to the operand's variable; PADs fill the positions up to
    the operands. All numbers have the same score.
    """
    score_of = W[:, 0] + W[:, 1]  # W x_T for the first variable, x_T = p_T + Phi_1 e_v: one for each coordinate, (d,)
    number = score_of[s.number][0]
    copied = score_of[s.copied]  # (V,)
    scores = score_of[: s.T].clone()  # of p_t, which is a part of every x_t
    scores[:K] += number + copied[:K]
    scores[K : s.T - 3] += score_of[s.pad]
    scores[s.T - 3] += score_of[s.variable][0]  # first operand
    scores[s.T - 2] += number  # second operand
    scores[s.T - 1] += copied[0]  # `=`
    return scores


def attention_with(s: Setting, W: Tensor, K: int) -> Tensor:
    """Attention of the last position to the keys of `scores_with`, (T,)."""
    return scores_with(s, W, K).softmax(0)


def accuracy(s: Setting, W: Tensor, K: int, draws: int = DRAWS) -> Measured:
    """Share of random sequences with K assignments in which n + m alone has the largest logit; alpha has no effect."""
    # Of each sequence the K assigned numbers, that of the operand first, and the second operand: (draws, K + 1).
    numbers = torch.randint(s.N, (draws, K + 1), generator=torch.Generator().manual_seed(0))
    positions_of_numbers = [*range(K), s.T - 2]
    weights = attention_with(s, W, K)[positions_of_numbers].expand(draws, -1)  # (draws, K + 1)
    z = torch.zeros(draws, s.N, dtype=DTYPE).scatter_add(1, numbers, weights)  # attention on each number
    logits = M(z)
    answer = (numbers[:, :1] + numbers[:, -1:]) % s.N  # (draws, 1)
    right = logits.gather(1, answer)
    best_wrong = logits.scatter(1, answer, -1.0).amax(1, keepdim=True)  # without the answer; no logit is negative
    n_right = int((right > best_wrong + 1e-12).sum())  # equal up to rounding is not the largest
    return Measured.share(n_right, draws, "sequences")


def operand_lead(s: Setting, W: Tensor) -> float:
    """Score of the second operand minus that of the first operand's assignment.

    With one assignment M(z) is largest at n + m exactly when neither of the two has more than twice the other's
    attention (M is 2 c_n c_m there, for attentions c_n and c_m, and c_n^2 at 2n and c_m^2 at 2m), that is, when this
    lead is between -log 2 and log 2.
    """
    scores = scores_with(s, W, 1)
    return float(scores[s.T - 2] - scores[0])


def balancing_length(s: Setting) -> float | None:
    """The share of eta after which a step along the gradient gives both operands equal attention; None if none does."""
    lead_at_start = operand_lead(s, W_0(s))
    lowered_by_step = operand_lead(s, eta(s) * gradient(s))  # by a whole step, as scores are linear in W
    return lead_at_start / lowered_by_step if lead_at_start * lowered_by_step > 0 else None


def required_balance(s: Setting) -> float:
    """`balancing_length(s)`; an error if beta is too small for one."""
    length = balancing_length(s)
    if length is None:
        raise ConfigError(
            "theory.beta", s.beta, f"a larger number: at {s} no step along the gradient balances the two operands"
        )
    return length


class Accuracies(NamedTuple):
    """Accuracies with one assignment in context, and with the most."""

    with_one: float
    with_most: float


@dataclass(frozen=True)
class BetaPoint:
    """The bound of theorem C.1 at one beta, and what its step leads to."""

    check: Check
    stated: Accuracies
    """Accuracies after the stated step."""
    length: float | None
    """Share of eta at which assignment and second operand get the same attention; None if there is none."""
    balanced: Accuracies
    """Accuracies after a step of that length; NaN if there is none."""
    preference: float
    """Attention to the right assignment over that to another one, after the stated step; NaN if there is no other."""

    @property
    def s(self) -> Setting:
        """The sizes, with this beta."""
        return self.check.s

    @property
    def beta(self) -> float:
        return self.s.actual_beta

    @property
    def composes(self) -> bool:
        """Whether the stated step makes the model add one variable and one number."""
        return self.stated.with_one == 1


@lru_cache
def beta_points(s: Setting) -> list[BetaPoint]:
    """The theorem and its step on a grid of beta, in twentieths, and at the beta of `s`, in ascending order.

    The beta at which the step composes are in two ranges, the upper one near V + 3. The grid ends just below V + 8, or
    at what that is for V = MOST_V_OF_GRID.
    """
    grid_end = min(s.V, MOST_V_OF_GRID) + 8
    grid = np.arange(1, 20 * grid_end) / 20
    return [_at_beta(replace(s, beta=beta)) for beta in sorted({*grid.tolist(), s.actual_beta})]


def _at_beta(s: Setting) -> BetaPoint:
    """The theorem's bound and the accuracies after the stated and the balancing step, at the beta of `s`."""
    most = most_assignments(s)
    length = balancing_length(s)
    attention = attention_with(s, after_step(s), most)  # position 0 has the right assignment, position 1 another one
    return BetaPoint(
        check=check(s),
        stated=_accuracies(s, 1.0),
        length=length,
        balanced=Accuracies(math.nan, math.nan) if length is None else _accuracies(s, length),
        preference=float(attention[0] / attention[1]) if most > 1 else math.nan,
    )


def _accuracies(s: Setting, length: float) -> Accuracies:
    """The accuracies after a step of this length, a share of the stated one."""
    W = after_step(s, length)
    with_most = accuracy(s, W, most_assignments(s), SCAN_DRAWS)
    return Accuracies(accuracy(s, W, 1, SCAN_DRAWS).value, with_most.value)


def beta_in_words(points: Sequence[BetaPoint], chosen: Sequence[bool]) -> str:
    """The beta of the chosen points as ranges of neighbours, such as `1.50 to 1.60 and 15.35 to 16.65`, or `none`."""
    # In turn the index of the first point of a range, and that of the first point behind the range.
    changes = np.flatnonzero(np.diff([False, *chosen, False]))
    firsts, lasts = changes[::2], changes[1::2] - 1
    ranges = [f"{points[i].beta:.2f} to {points[j].beta:.2f}" for i, j in zip(firsts, lasts, strict=True)]
    return " and ".join(ranges) or "none"
