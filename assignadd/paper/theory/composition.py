"""Attention and answers with several assignments in context, after the step of theorem C.1 and after further steps.

The appendix's remarks after the theorem: the memory is sufficient also where tau has several variables, and subsequent
steps on such data attenuate the spurious term.

A sequence has K = |tau| assignments of different variables at any of the T - 3 prefix positions, one of them of the
operand's variable; assigned numbers and second operand are uniform. Under a `Symmetric` matrix the attention depends
on K only, and the answer on the attention and the numbers, so only the numbers are drawn at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from assignadd.config import ConfigError
from assignadd.paper.theory.setting import DTYPE, Setting
from assignadd.paper.theory.symmetric import COPIED, OTHER, OWN, P_T, W_0, Symmetric, scores, scores_gradient
from assignadd.paper.theory.theorem import after_step, eta, update
from assignadd.stats import Interval, wilson

DRAWS = 20_000
ASSIGNMENTS = (1, 2, 3, 4, 5, 6)  # the numbers of assignments that are tested


class Attention(NamedTuple):
    """Weights of the last position, each for a single key, in the order of `scores`."""

    target: float
    """The assignment of v*."""
    distractor: float
    """Each of the other K - 1 assignments."""
    second: float
    """The second operand, position T-1."""
    first: float
    pad: float
    last: float


def attention(W: Symmetric, K: int) -> Attention:
    """The softmax over all T keys with K assignments in context."""
    logits = scores(W)
    e = np.exp(logits - logits.max())
    return Attention(*(e / (_keys(W.s, K) @ e)).tolist())


def _keys(s: Setting, K: int) -> np.ndarray:
    """How many keys have each of the weights in `Attention`, with K assignments in context."""
    most = min(s.V, s.T - 3)
    if not 1 <= K <= most:
        accepted = f"a whole number from 1 to {most}: different variables, at the T - 3 prefix positions"
        raise ConfigError("theory.K", K, accepted)
    return np.array([1, K - 1, 1, 1, s.T - 3 - K, 1], dtype=float)


def tested_assignments(s: Setting) -> list[int]:
    """The numbers of assignments among ASSIGNMENTS that fit this setting."""
    return [K for K in ASSIGNMENTS if min(s.V, s.T - 3) >= K]


class Values(NamedTuple):
    """The numbers of some sequences with K assignments."""

    K: int
    y: Tensor  # (draws,) the answers
    pairs: Tensor
    """(6, draws, N): how many ordered pairs of numbers in the sequence sum to k, for pairs of target and target,
    distractor and distractor, second and second, target and distractor, target and second, distractor and second."""


def values_of(N: int, n: Tensor, m: Tensor) -> Values:
    """`Values` of the assigned numbers n (draws, K), that of the operand first, and the second operands m (draws,)."""
    draws, K = n.shape
    kind = torch.tensor([0, *[1] * (K - 1), 2])  # target, distractors, second
    pair = torch.tensor([[0, 3, 4], [3, 1, 5], [4, 5, 2]])[kind[:, None], kind].flatten()
    numbers = torch.cat([n, m[:, None]], 1)
    sums = ((numbers[:, :, None] + numbers[:, None]) % N).flatten(1)  # (draws, (K + 1)^2)
    place = (pair * draws + torch.arange(draws)[:, None]) * N + sums  # in the flattened (6, draws, N)
    counts = torch.bincount(place.flatten(), minlength=6 * draws * N)
    return Values(K, (n[:, 0] + m) % N, counts.to(DTYPE).view(6, draws, N))


@lru_cache(maxsize=4)  # a scan uses the same few repeatedly; 20,000 sequences take 57 MB
def draw_values(N: int, K: int, draws: int, seed: int) -> Values:
    """Uniform numbers of `draws` sequences with K assignments."""
    numbers = torch.randint(N, (draws, K + 1), generator=torch.Generator().manual_seed(seed))
    return values_of(N, numbers[:, :K], numbers[:, K])


def answer_scores(W: Symmetric, values: Values) -> Tensor:
    """M(z), (draws, N): M_k is the sum of products of two attention weights over the pairs of numbers that sum to k."""
    t, d, s, *_ = attention(W, values.K)
    weights = torch.tensor([t * t, d * d, s * s, t * d, t * s, d * s], dtype=DTYPE)
    return (weights @ values.pairs.flatten(1)).view(values.pairs.shape[1:])


def loss_gradient(W: Symmetric, values: Values, alpha: float) -> tuple[float, Symmetric]:
    """The mean cross entropy of alpha M(z) on these values, and its gradient nabla L(W)."""
    log_p, answer = (alpha * answer_scores(W, values)).log_softmax(1), values.y[:, None]
    loss = -float(log_p.gather(1, answer).mean())
    by_M = log_p.exp().scatter_add(1, answer, -torch.ones_like(answer, dtype=DTYPE)) * (alpha / len(answer))
    tt, dd, ss, td, ts, ds = (values.pairs.flatten(1) @ by_M.flatten()).tolist()  # derivatives by products of weights
    t, d, s, *_ = weights = np.array(attention(W, values.K))
    by_weight = np.array([2 * t * tt + d * td + s * ts, 2 * d * dd + t * td + s * ds, 2 * s * ss + t * ts + d * ds])
    by_score = -weights * _keys(W.s, values.K) * (by_weight @ weights[:3])  # the softmax's derivative
    by_score[:3] += weights[:3] * by_weight
    return loss, scores_gradient(W.s, by_score)


def accuracy(M: Tensor, y: Tensor) -> float:
    """Share of sequences in which y alone has the largest of the unscaled logits M (draws, N)."""
    right = M.gather(1, y[:, None]).squeeze(1)
    wrong = M.scatter(1, y[:, None], -1.0).amax(1)
    return float((right > wrong + 1e-12).double().mean())


@dataclass(frozen=True)
class Composition:
    """Attention and accuracy under one matrix with K assignments in context."""

    K: int
    target: float
    distractor: float
    second: float
    accuracy: float
    """Share of sequences in which n + m alone has the largest logit; it does not depend on alpha."""
    draws: int

    @property
    def interval(self) -> Interval:
        """The accuracy's 95 % interval over the drawn sequences."""
        return wilson(round(self.accuracy * self.draws), self.draws)


def composition(W: Symmetric, K: int, draws: int = DRAWS, seed: int = 0) -> Composition:
    """Attention and accuracy under W with K assignments in context, over `draws` random sequences."""
    values, weights = draw_values(W.s.N, K, draws, seed), attention(W, K)
    share = accuracy(answer_scores(W, values), values.y)
    return Composition(K, weights.target, weights.distractor, weights.second, share, draws)


def answer_probability(W: Symmetric, alpha: float, draws: int = 500) -> float:
    """Mean probability of the right answer with one assignment, at this scale of the logits."""
    values = draw_values(W.s.N, 1, draws, 0)
    return float((alpha * answer_scores(W, values)).softmax(1).gather(1, values.y[:, None]).mean())


def operand_lead(W: Symmetric) -> float:
    """Score of the second operand minus that of the first operand's assignment.

    With one assignment M(z) is largest at n + m exactly when neither of the two has more than twice the other's
    attention (2 c_n c_m against c_n^2 and c_m^2), that is, when this is between -log 2 and log 2.
    """
    target, _, second, *_ = scores(W).tolist()
    return second - target


def balancing_length(s: Setting, lead: float = 0.0) -> float | None:
    """The length, as a share of eta, of the step along the negative gradient after which `operand_lead` has this value
    (0: second operand and assignment get the same attention); None if there is none."""
    needed, change = lead - operand_lead(W_0(s)), operand_lead(update(s))
    return needed / change if needed * change > 0 else None


def required_balance(s: Setting) -> float:
    """`balancing_length(s)`; raises an error if beta is too small for one."""
    length = balancing_length(s)
    if length is None:
        sizes = f"N = {s.N}, T = {s.T}, V = {s.V}"
        accepted = f"a larger number: at {sizes} no step along the gradient balances the two operands"
        raise ConfigError("theory.beta", s.beta, accepted)
    return length


@dataclass(frozen=True)
class Moment:
    """One recorded step of gradient descent."""

    step: int
    loss: float
    spurious: float
    """Coefficient of sum_v Phi_1 e_v p_T^T: attention to assignments of any variable."""
    memory: float
    """Row Phi_1 e_v, own column minus any other: how much the assignment of the operand's variable is preferred."""
    accuracy: tuple[float, ...]
    """For each tested number of assignments."""


def descend(
    W: Symmetric,
    train: Sequence[int] = ASSIGNMENTS,
    test: Sequence[int] = ASSIGNMENTS,
    steps: int = 60,
    length: float = 0.05,
    record_every: int = 5,
    draws: int = 1000,
    seed: int = 0,
) -> tuple[Symmetric, list[Moment]]:
    """The last matrix and the recorded steps of gradient descent from W.

    The sequences have |tau| uniform on `train`, and each step has `length` of the theorem's eta. The values are drawn
    once, `draws` for each |tau|, from `seed`; accuracies are measured on other values.
    """
    s, moments = W.s, []
    trained = [draw_values(s.N, K, draws, 2 * (seed + K) + 1) for K in train]
    tested = [draw_values(s.N, K, 2 * draws, 2 * (seed + K)) for K in test]
    for step in range(steps + 1):
        losses, gradients = zip(*(loss_gradient(W, values, s.alpha) for values in trained), strict=True)
        if step % record_every == 0 or step == steps:
            spurious, own, other = W.variable[COPIED, [P_T, OWN, OTHER]].tolist()
            accuracies = tuple(accuracy(answer_scores(W, values), values.y) for values in tested)
            moments.append(Moment(step, sum(losses) / len(losses), spurious, own - other, accuracies))
        if step < steps:
            for gradient in gradients:
                W = W - gradient * (length * eta(s) / len(gradients))
    return W, moments


@dataclass(frozen=True)
class StepNumbers:
    """Attention and accuracies after the step of theorem C.1, after a shorter one and after further steps."""

    s: Setting
    balanced: float
    """The share of eta at which assignment and second operand get the same attention."""
    before: list[Composition]
    """At W_0, for each tested number of assignments, as in the next two."""
    stated: list[Composition]
    """After the step of length eta."""
    shorter: list[Composition]
    """After the balanced step."""
    further: list[Moment]
    """From the balanced step on, on sequences with 1 to 6 assignments."""
    further_one: list[Moment]
    """The same on one assignment: the control for the spurious term."""


def step_numbers(s: Setting) -> StepNumbers:
    """The numbers at this setting, for each tested number of assignments."""
    Ks, balanced = tested_assignments(s), required_balance(s)
    start = after_step(s, balanced)
    matrices = W_0(s), after_step(s), start
    by_K = [[composition(W, K) for W in matrices] for K in Ks]  # the numbers of one K are drawn once
    before, stated, shorter = (list(row) for row in zip(*by_K, strict=True))
    _, further = descend(start, Ks, Ks)
    _, further_one = descend(start, Ks[:1], Ks)
    return StepNumbers(s, balanced, before, stated, shorter, further, further_one)
