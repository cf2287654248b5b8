"""All the numbers on appendix C in one pass: what `assignadd theory` runs and the verdicts are read from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from assignadd.theory import proof
from assignadd.theory.beta import FACTOR, BetaScan, Together, at, beta_scan, condition_constants, least_remainder, together_over_sizes
from assignadd.theory.composition import Composition, composition
from assignadd.theory.descent import ASSIGNMENTS, Moment, after_step, balanced_length, composing_lengths, descend
from assignadd.theory.network import population_gradient
from assignadd.theory.setting import W_0, Setting
from assignadd.theory.symmetric import gradient, gradient_from, pulls
from assignadd.theory.theorem import Check, check, direction_cosine, grid_checks

# Small enough to sum over every sequence, odd and with more than one of everything.
SUMMED = Setting(N=11, T=9, V=3, alpha=0.05)
SHARPENED = (1.0, 10.0, 100.0, 1000.0)
ALPHAS_UP = (1e-3, 0.1, 1.0, 3.0, 10.0, 100.0)
KEPT, SHARP = 0.99, 0.9  # cosine from which a direction counts as kept; probability from which an answer counts as sharp
Say = Callable[[str], object]


@dataclass(frozen=True)
class ProofNumbers:
    """At a setting small enough to sum over the whole population."""

    s: Setting
    closed_form_error: float
    """Between the summed gradient and the closed form, relative to the largest entry."""
    addition_error: float
    gradient_error: float
    bounds: proof.Bounds
    G_1: float
    G_2: float
    G_3: float
    G_3_error: float
    """Between G_3 as summed and its expression -2 rho_1 rho_2 (N-1)/N E[(x_{t*} + x_{T-1} - 2 x_bar) x_T^T] worked out."""
    R_alpha: float


@dataclass(frozen=True)
class StepNumbers:
    """What W_1 and its shorter and longer relatives do, at one setting."""

    s: Setting
    balanced: float
    """The share of eta at which assignment and second operand draw level."""
    before: list[Composition]
    stated: list[Composition]
    shorter: list[Composition]
    further: list[Moment]
    """From the balanced step on, on sequences with 1 to 6 assignments."""
    further_one: list[Moment]
    """The same on one assignment alone: the control for the spurious term."""
    further_stated: list[Moment]
    """From the theorem's W_1 on, on sequences with 1 to 6 assignments."""


@dataclass(frozen=True)
class AlphaNumbers:
    """The direction of the gradient at W_0 as alpha grows, against its direction as alpha vanishes."""

    cosine: dict[float, float]
    """For each of ALPHAS_UP."""
    kept_up_to: float
    """The largest alpha up to which the cosine stays at KEPT or above."""
    sharp: float
    """The alpha that gives the right answer probability SHARP with one assignment, after the step that balances the attention."""
    sharp_cosine: float
    sharp_by_beta: dict[float, float]
    """The cosine at that alpha for other beta."""


@dataclass(frozen=True)
class Study:
    at: Check
    grid: list[Check]
    proof: ProofNumbers
    step: StepNumbers
    composing: dict[int, tuple[int, int]]
    """V -> the least and the largest T at which W_1 adds a variable and a number."""
    extreme_constant: float
    """The largest constant the bound needs at the far ends of N, T, V and alpha."""
    scan: BetaScan
    constants: dict[float, dict[int, float]]
    """Factor within which the theorem's conditions hold -> T -> the largest constant of the bound over such beta."""
    here_together: Together
    together: tuple[Together, ...]
    """The same over sizes."""
    alpha: AlphaNumbers


def theory_study(s: Setting, say: Say = lambda _: None) -> Study:
    """Everything at setting `s`, and the grid; `say` hears what is being done."""
    say("the proof, summed over every sequence")
    proved = proof_numbers(SUMMED)
    say("the theorem over the grid")
    checks = grid_checks()
    say("the step and those after it")
    step = step_numbers(s)
    say("the theorem and its step over beta")
    scan, constants = beta_scan(s), {factor: condition_constants(s.V, factor) for factor in (2.0, FACTOR)}
    few = sorted(V for V in {1, 2, 3, 6, min(s.V, 30)} if V <= s.N)
    composing = {V: composing_lengths(s.N, V) for V in few}
    both = least_remainder(s), together_over_sizes()
    return Study(check(s), checks, proved, step, composing, extreme_constant(s.V), scan, constants, *both, alpha_numbers(s, step))


def proof_numbers(s: Setting) -> ProofNumbers:
    exact, summed = gradient(s).dense(), population_gradient(s, W_0(s))
    G_1, G_2, G_3 = proof.G(s)
    m_uniform, n_uniform, _, _ = pulls(s)
    return ProofNumbers(
        s,
        float((summed - exact).abs().max() / exact.abs().max()),
        proof.addition_error(s.N),
        proof.gradient_error(s.N),
        proof.bounds(s),
        float(G_1.abs().max()),
        float(G_2.abs().max()),
        float(G_3.abs().max()),
        float((G_3 - gradient_from(s, m_uniform, n_uniform).dense() / s.alpha).abs().max()),
        proof.R_alpha(s),
    )


def step_numbers(s: Setting) -> StepNumbers:
    Ks = [K for K in ASSIGNMENTS if min(s.V, s.T - 3) >= K]
    balanced = balanced_length(s)
    before, stated, shorter = ([composition(after_step(s, length), K, SHARPENED) for K in Ks] for length in (0.0, 1.0, balanced))
    start = after_step(s, balanced)
    further = [descend(W, train, Ks)[1] for W, train in ((start, Ks), (start, Ks[:1]), (after_step(s), Ks))]
    return StepNumbers(s, balanced, before, stated, shorter, *further)


def alpha_numbers(s: Setting, step: StepNumbers) -> AlphaNumbers:
    """How far alpha can grow before the gradient turns, at the beta of `s` and at a few others."""
    tried = np.geomspace(0.1, 500, 200).tolist()
    kept = next((i for i, alpha in enumerate(tried) if direction_cosine(s, alpha) < KEPT), len(tried))
    answers = composition(after_step(s, step.balanced), 1, tuple(tried), draws=500).chance
    sharp = next((alpha for alpha in tried if answers[alpha] >= SHARP), tried[-1])
    others = {beta: direction_cosine(at(s, beta), sharp) for beta in (1.5, math.log(s.T), 2 * math.log(s.T), min(300.0, s.V + 3.0))}
    cosines = {alpha: direction_cosine(s, alpha) for alpha in ALPHAS_UP}
    return AlphaNumbers(cosines, tried[max(kept - 1, 0)], sharp, direction_cosine(s, sharp), others)


def extreme_constant(V: int) -> float:
    far = product((max(V, 2), 9973), (4, 16, 1000, 1 << 40), (1, V), (1e-12, 0.1))
    return max(check(Setting(*sizes)).constant for sizes in far)


def literal_pads(T: int, s: Setting) -> Check:
    """The theorem where PADs do have attention of order 1/T, as its condition says: e^beta = sqrt(T)."""
    return check(Setting(s.N, T, s.V, s.alpha, math.log(T) / 2))
