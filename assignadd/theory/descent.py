"""Beyond the one step of the theorem: shorter steps along its gradient, and further steps on multi-variable data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assignadd.config import ConfigError
from assignadd.theory.composition import composition, draw_values, loss_gradient, scores
from assignadd.theory.setting import Setting
from assignadd.theory.symmetric import COPIED, OTHER, OWN, P_T, W_0, Symmetric
from assignadd.theory.theorem import eta, update

ASSIGNMENTS = (1, 2, 3, 4, 5, 6)


def after_step(s: Setting, length: float = 1.0) -> Symmetric:
    """W_0 - length eta nabla L(W_0); the theorem's W_1 for length 1."""
    return W_0(s) + update(s) * length


def operand_lead(W: Symmetric) -> float:
    """Score of the second operand less that of the operand's assignment.

    With one assignment M(z) is largest at n + m just when neither of the two has more than twice the other's attention
    (2 c_n c_m against c_n^2 and c_m^2), that is, when this is between -log 2 and log 2.
    """
    target, _, second, *_ = scores(W).tolist()
    return second - target


def balanced_length(s: Setting) -> float:
    """The length, as a share of eta, of the step after which assignment and second operand get the same attention."""
    if (change := operand_lead(update(s))) >= 0:
        sizes = f"N = {s.N}, T = {s.T}, V = {s.V}"
        raise ConfigError("theory.beta", s.beta, f"a larger number: at {sizes} no step along the gradient balances the two operands")
    return operand_lead(W_0(s)) / -change


def composing_lengths(N: int, V: int, longest: int = 1 << 60) -> tuple[int, int]:
    """The least and the largest T at which W_1 adds one variable and one number, e^beta being T."""

    def first(lead: float) -> int:
        low, high = 4, longest  # the lead grows with T: log T - (2 rho_1 - 1)(V + 1) - 2, up to terms of order V/T
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if operand_lead(after_step(Setting(N, middle, V, 1e-9))) > lead else (middle + 1, high)
        return low

    return first(-math.log(2)), first(math.log(2)) - 1


@dataclass(frozen=True)
class Moment:
    """A point of the descent."""

    step: int
    loss: float
    spurious: float
    """Coefficient of sum_v Phi_1 e_v p_T^T: attention to assignments of whatever variable."""
    memory: float
    """Own less other column of Phi_1 e_v: how much the operand's own variable is preferred."""
    operand_lead: float
    accuracy: tuple[float, ...]
    """For each number of assignments asked for."""


def descend(
    W: Symmetric,
    train: Sequence[int] = ASSIGNMENTS,
    test: Sequence[int] = ASSIGNMENTS,
    steps: int = 60,
    length: float = 0.05,
    record_every: int = 5,
    draws: int = 1000,
    seed: int = 0,
    each: Callable[[], object] = lambda: None,
) -> tuple[Symmetric, list[Moment]]:
    """Gradient descent from W on sequences with |tau| uniform on `train`, each step `length` of the theorem's eta.

    The values are drawn once, `draws` for each |tau|, from `seed`; accuracies are of other values.
    """
    s, moments = W.s, []
    data = [draw_values(s, K, draws, 2 * (seed + K) + 1) for K in train]
    for step in range(steps + 1):
        found = [loss_gradient(W, n, m, s.alpha) for n, m in data]
        if step % record_every == 0 or step == steps:
            row = W.variable[COPIED].tolist()
            accuracy = tuple(composition(W, K, draws=2 * draws, seed=2 * (seed + K)).accuracy for K in test)
            loss = sum(value for value, _ in found) / len(found)
            moments.append(Moment(step, loss, row[P_T], row[OWN] - row[OTHER], operand_lead(W), accuracy))
        if step < steps:
            for _, g in found:
                W = W - g * (length * eta(s) / len(found))
        each()
    return W, moments
