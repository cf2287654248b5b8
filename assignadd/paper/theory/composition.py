"""What the step of theorem C.1 leads to: attention and answers with several assignments in context, and over beta.

The appendix's remarks after the theorem: the memory is sufficient also where tau has several variables, and subsequent
steps on such data attenuate the spurious term.

A sequence has K = |tau| assignments of different variables at any of the T - 3 prefix positions, one of them of the
operand's variable; assigned numbers and second operand are uniform. Under a `Symmetric` matrix the attention depends
on K only, and the answer on the attention and the numbers, so only the numbers are drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

from assignadd.config import ConfigError
from assignadd.paper.theory.setting import DTYPE, Setting
from assignadd.paper.theory.symmetric import COPIED, OTHER, OWN, P_T, W_0, Symmetric, scores, scores_gradient
from assignadd.paper.theory.theorem import Check, after_step, check, eta, fitted_constant, update
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
    log_p = (alpha * answer_scores(W, values)).log_softmax(1)
    answer = values.y[:, None]
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
    before, stated, shorter = [], [], []
    for K in Ks:  # the numbers of one K are drawn once
        before.append(composition(W_0(s), K))
        stated.append(composition(after_step(s), K))
        shorter.append(composition(start, K))
    _, further = descend(start, Ks, Ks)
    _, further_one = descend(start, Ks[:1], Ks)
    return StepNumbers(s, balanced, before, stated, shorter, further, further_one)


# How the theorem depends on beta, the scale of W_0, which the paper leaves free: its conditions, bound and step.

FACTOR = 4.0  # rho_1 = Theta(1) and rho_2 = Theta(1/T) are read as within this factor of 1 and of 1/T
SCAN_DRAWS = 2000
LEADS = tuple(np.linspace(-0.6, 0.6, 7).tolist())  # within log 2 of 0, where a single assignment is added correctly

Range = tuple[float, float]
"""The ends of an interval of beta."""


def beta_grid(s: Setting) -> np.ndarray:
    """From near 0 to well above the larger beta at which the step composes, which is near V + 3 for large T."""
    return np.arange(0.01, min(300.0, s.V + math.log(s.T) + 8), 0.01)


def intervals(inside: Callable[[float], float], grid: np.ndarray) -> list[Range]:
    """The intervals in which `inside` is at least 0, between the ends of the grid; none is narrower than its steps."""
    values = [inside(x) >= 0 for x in grid.tolist()]
    padded = np.array([False, *values, False])
    ends = []
    for i in np.flatnonzero(padded[1:] != padded[:-1]).tolist():  # inside begins or ends between points i - 1 and i
        outermost = i in (0, len(grid))
        ends.append(grid[min(i, len(grid) - 1)] if outermost else brentq(inside, grid[i - 1], grid[i], xtol=1e-14))
    return [(float(low), float(high)) for low, high in zip(ends[::2], ends[1::2], strict=True)]


def condition_intervals(s: Setting) -> list[Range]:
    """The beta that meet the conditions of theorem C.1 within `FACTOR`."""
    return intervals(lambda beta: FACTOR - s.at(beta).theta_factor, beta_grid(s))


def composing_intervals(s: Setting) -> list[Range]:
    """The beta at which the step of the stated length makes the model add one variable and one number."""
    return intervals(lambda beta: math.log(2) - abs(operand_lead(after_step(s.at(beta)))), beta_grid(s))


def spaced(bands: Sequence[Range], n: int) -> list[float]:
    """`n` evenly spaced beta in each interval, its ends included."""
    return [beta for low, high in bands for beta in np.linspace(low, high, n).tolist()]


def listed(bands: Sequence[Range]) -> str:
    """Intervals in words, such as `1.47 to 1.61 and 15.31 to 16.69`."""
    return " and ".join(f"{low:.2f} to {high:.2f}" for low, high in bands) or "none"


@dataclass(frozen=True)
class BetaPoint:
    """Theorem C.1 and its step at one beta."""

    check: Check
    stated: tuple[float, float]
    """Accuracy after the stated step, with one assignment and with the most."""
    length: float | None
    """Share of eta at which assignment and second operand get the same attention; None if there is none."""
    balanced: tuple[float, float]
    """Accuracy after a step of that length; NaN if there is none."""
    preference: float
    """Attention to the right assignment over that to each other one, after the stated step."""

    @property
    def beta(self) -> float:
        return self.check.s.actual_beta


def beta_point(s: Setting, most: int) -> BetaPoint:
    """The theorem's numbers and accuracies at the beta of `s`, with one and with `most` assignments."""

    def accuracies(length: float) -> tuple[float, float]:
        W = after_step(s, length)
        return composition(W, 1, SCAN_DRAWS).accuracy, composition(W, most, SCAN_DRAWS).accuracy

    stated, length = after_step(s).variable[COPIED], balancing_length(s)
    balanced = (math.nan, math.nan) if length is None else accuracies(length)
    return BetaPoint(check(s), accuracies(1.0), length, balanced, math.exp(stated[OWN] - stated[OTHER]))


@dataclass(frozen=True)
class Best:
    """The beta and step length with the highest accuracy among several candidates."""

    beta: float
    length: float
    result: Composition
    """On other random numbers than those on which it was chosen."""


def best_of(s: Setting, K: int, candidates: Sequence[tuple[float, float]]) -> Best:
    """The candidate (beta, length) with the highest accuracy with K assignments."""

    def after(candidate: tuple[float, float], **drawn: int) -> Composition:
        beta, length = candidate
        return composition(after_step(s.at(beta), length), K, **drawn)

    best = max(candidates, key=lambda candidate: after(candidate, draws=SCAN_DRAWS, seed=1).accuracy)
    return Best(*best, after(best))


@dataclass(frozen=True)
class BetaScan:
    """Theorem C.1 and its step over beta, at the sizes of one setting."""

    s: Setting
    most: int
    """The largest number of assignments in context."""
    points: list[BetaPoint]
    conditions: list[Range]
    """The beta that meet the theorem's conditions."""
    composing: list[Range]
    """The beta at which the stated step adds one variable and one number."""
    stated_one: Best
    """Stated step, one assignment: the middle of the widest `composing` interval, or log T without any."""
    stated_many: Best
    """Stated step, `most` assignments."""
    any_length_many: Best
    """`most` assignments, among the beta that meet the conditions, at the best length of the step."""


def beta_scan(s: Setting, points: int = 60) -> BetaScan:
    """The theorem's numbers, intervals and best accuracies over beta, at the sizes of `s`."""
    most, log_T = tested_assignments(s)[-1], math.log(s.T)
    composing, conditions = composing_intervals(s), condition_intervals(s)
    just_inside = [(low + 1e-3, high - 1e-3) for low, high in composing]
    just_outside = [(low - 1e-3, high + 1e-3) for low, high in composing]
    along = np.geomspace(0.2, beta_grid(s)[-1], points).tolist()
    shown = sorted({*along, *spaced(just_inside, 9), *spaced(just_outside, 2), log_T})
    low, high = max(composing, key=lambda band: band[1] - band[0], default=(log_T, log_T))
    middle = (low + high) / 2
    stated = [(beta, 1.0) for beta in [*spaced(composing, 9), middle]]
    lengths = []
    for beta, lead in product(spaced(conditions, 31), LEADS):
        length = balancing_length(s.at(beta), lead)
        if length is not None and length < 10:
            lengths.append((beta, length))
    return BetaScan(
        s,
        most,
        [beta_point(s.at(beta), most) for beta in shown],
        conditions,
        composing,
        Best(middle, 1.0, composition(after_step(s.at(middle)), 1)),
        best_of(s, most, stated),
        best_of(s, most, lengths or stated),
    )


def condition_constants(V: int) -> dict[int, float]:
    """T -> the largest constant of the bound over N, alpha and the beta that meet the conditions within `FACTOR`."""
    constants = {}
    for T in (8, 16, 64, 256, 1024, 4096):
        sizes = [Setting(N, T, V, alpha) for N in (max(59, V), 9973) for alpha in (1e-9, 1e-3)]
        tried = spaced(condition_intervals(sizes[0]), 7)
        constants[T] = fitted_constant([check(s.at(beta)) for s in sizes for beta in tried])
    return constants
