"""What a key-query matrix does with several assignments in context: attention, accuracy, loss (appendix C, after the theorem).

A sequence has K = |tau| assignments of different variables at any of the T - 3 prefix positions, the operand's among
them; values and second operand are uniform. Under a `Symmetric` matrix the attention depends on K alone, and the answer
on the values alone: only these are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from assignadd.config import ConfigError
from assignadd.stats import Interval, wilson
from assignadd.theory.setting import Setting
from assignadd.theory.symmetric import COPIED, FIRST, LAST, NUMBER, OTHER, OWN, P_T, PAD, PREFIX, SECOND, VARIABLE, Symmetric, multiplicity

DRAWS = 20_000


class Attention(NamedTuple):
    """Weights of the last position, each for a single key."""

    target: Tensor
    """The assignment of v*."""
    distractor: Tensor
    """Each of the other K - 1 assignments."""
    second: Tensor
    """The second operand, position T-1."""
    first: Tensor
    pad: Tensor
    last: Tensor


def check_assignments(s: Setting, K: int) -> None:
    most = min(s.V, s.T - 3)
    if not 1 <= K <= most:
        raise ConfigError("theory.K", K, f"a whole number from 1 to {most}: different variables, at the T - 3 prefix positions")


def scores(W: Symmetric) -> Tensor:
    """x_t^T W x_T for the kinds of keys in the order of `Attention`, (6,)."""
    plain = W.plain.sum(1)  # the query is p_T + Phi_1 e_v*
    own, other = W.variable[:, P_T] + W.variable[:, OWN], W.variable[:, P_T] + W.variable[:, OTHER]
    return torch.stack(
        [
            plain[PREFIX] + plain[NUMBER] + own[COPIED],
            plain[PREFIX] + plain[NUMBER] + other[COPIED],
            plain[SECOND] + plain[NUMBER],
            plain[FIRST] + own[VARIABLE],
            plain[PREFIX] + plain[PAD],
            plain[LAST] + own[COPIED],
        ]
    )


def attention(W: Symmetric, K: int) -> Attention:
    """The softmax over all T keys."""
    check_assignments(W.s, K)
    how_many = torch.tensor([1, K - 1, 1, 1, W.s.T - 3 - K, 1], dtype=torch.float64)
    found = scores(W)
    e = (found - found.max()).exp()
    return Attention(*(e / (how_many * e).sum()))


def draw_values(s: Setting, K: int, draws: int, seed: int) -> tuple[Tensor, Tensor]:
    """Values n (draws, K), the operand's first, and second operands m (draws,)."""
    check_assignments(s, K)
    values = torch.randint(s.N, (draws, K + 1), generator=torch.Generator().manual_seed(seed))
    return values[:, :K], values[:, K]


def answer_scores(W: Symmetric, n: Tensor, m: Tensor) -> Tensor:
    """M(z) for these values, (draws, N): the numbers' attention convolved with itself, which is what M_k computes."""
    s, a = W.s, attention(W, n.shape[1])
    weight = torch.stack([a.target, *[a.distractor] * (n.shape[1] - 1), a.second]).expand(len(m), -1)
    z = torch.zeros(len(m), s.N, dtype=weight.dtype).scatter_add(1, torch.cat([n, m[:, None]], 1), weight)
    return torch.fft.irfft(torch.fft.rfft(z) ** 2, s.N)


def loss(W: Symmetric, n: Tensor, m: Tensor, alpha: float) -> Tensor:
    """Mean cross entropy of alpha M(z) on these values; differentiable in W's numbers."""
    logits = alpha * answer_scores(W, n, m)
    y = (n[:, 0] + m) % W.s.N
    return (torch.logsumexp(logits, 1) - logits.gather(1, y[:, None]).squeeze(1)).mean()


def loss_gradient(W: Symmetric, n: Tensor, m: Tensor, alpha: float) -> tuple[float, Symmetric]:
    """The loss and nabla L(W): a number of a symmetric matrix has the gradient of its entries' sum, each entry its share."""
    free = Symmetric(W.s, W.plain.clone().requires_grad_(), W.variable.clone().requires_grad_())
    found = loss(free, n, m, alpha)
    grads = torch.autograd.grad(found, (free.plain, free.variable))
    plain, variable = (g / many.clamp(min=1) for g, many in zip(grads, multiplicity(W.s), strict=True))
    return float(found.detach()), Symmetric(W.s, plain, variable)


@dataclass(frozen=True)
class Composition:
    """What W does with K assignments in context."""

    K: int
    target: float
    distractor: float
    second: float
    accuracy: float
    """Share of drawn values whose largest logit is n + m alone; the scale alpha does not enter."""
    excess: float
    """(L - log N) / alpha as alpha vanishes: the mean of M_k over k less M_y."""
    chance: dict[float, float]
    """Mean probability of the right answer for each alpha."""
    draws: int

    @property
    def interval(self) -> Interval:
        """Of the accuracy, 95 %, for the values that were drawn."""
        return wilson(round(self.accuracy * self.draws), self.draws)


def composition(W: Symmetric, K: int, alphas: tuple[float, ...] = (), draws: int = DRAWS, seed: int = 0) -> Composition:
    """Attention, accuracy and loss under W with K assignments in context, over `draws` random values."""
    a, (n, m) = attention(W, K), draw_values(W.s, K, draws, seed)
    M = answer_scores(W, n, m)
    y = ((n[:, 0] + m) % W.s.N)[:, None]
    right = M.gather(1, y).squeeze(1)
    others = M.scatter(1, y, -1.0).amax(1)
    chance = {alpha: float((alpha * M).softmax(1).gather(1, y).mean()) for alpha in alphas}
    accuracy, excess = float((right > others + 1e-12).double().mean()), float((M.mean(1) - right).mean())
    return Composition(K, float(a.target), float(a.distractor), float(a.second), accuracy, excess, chance, draws)
