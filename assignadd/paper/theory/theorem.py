"""The model of appendix C, and theorem C.1: the exact gradient at W_0, the step along it, and the remainder.

The model is one softmax attention from the last position, and the complex quadratic MLP that adds mod N. Embeddings
are orthonormal, so a vector is its coordinates: those of the positions p_1..p_T, of the N numbers e_n, of e_pad, of the
V variables e_v, and of Phi_1 e_v, the copy of a variable that layer 1 has written. The query is p_T + Phi_1 e_v, so of
a key-query matrix only the column of p_T and those of the V copies matter: here a matrix has these alone, (d, 1 + V).
Its rows are coordinates, which count from 0: row T - 2 is that of p_{T-1}, the second operand's position.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import torch
from torch import Tensor

from assignadd.config import ConfigError

DTYPE = torch.float64
FACTOR = 4.0  # rho_1 = Theta(1) and rho_2 = Theta(1/T) are read as within this factor of 1 and of 1/T
# The values of N, T, V and alpha at which the bound is checked, in all combinations.
GRID = (
    (13, 29, 59, 97, 149, 199),
    (8, 16, 32, 64, 128, 256),
    (1, 2, 4, 6, 8, 12),
    (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
)
# N and alpha at which the constant is measured over beta: the bound is large in the first and small in the second.
EXTREMES = ((59, 1e-3), (499, 1e-9))
MEMORY_NORM = 2.0  # each row Phi_1 e_v of the associative memory has two ones


@dataclass(frozen=True)
class Setting:
    """Sizes and scales; the paper's own experiment has N = 59, T = 16, V = 12."""

    N: int = 59
    """Numbers, added mod N."""
    T: int = 16
    """Positions; the last three are first operand, second operand and `=`."""
    V: int = 12
    """Variables."""
    alpha: float = 1e-3
    """Scale of the final logits."""
    beta: float | None = None
    """Strength of the initial attention, left free by the paper; None for log T, with which rho_2 is of order 1/T.
    `actual_beta` is the number in either case."""

    def __post_init__(self) -> None:
        """Raises a ConfigError for the first number out of range."""
        for name, fits, accepted in (
            ("N", 2 <= self.N <= 1000, "from 2 to 1000"),
            ("T", 4 <= self.T <= 1 << 16, "from 4 (an assignment, two operands and `=`) to 2^16"),
            ("V", 1 <= self.V <= self.N, f"from 1 to theory.N = {self.N}"),
            ("alpha", 0 < self.alpha <= 500, "a number above 0, up to 500"),  # far beyond it e^alpha is no float
            ("beta", self.beta is None or 0 < self.beta <= 300, "a number above 0, up to 300"),
        ):
            if not fits:
                raise ConfigError(f"theory.{name}", getattr(self, name), accepted)

    def __str__(self) -> str:
        return f"N = {self.N}, T = {self.T}, V = {self.V}"

    @property
    def actual_beta(self) -> float:
        """beta, or its default log T."""
        return math.log(self.T) if self.beta is None else self.beta

    @property
    def rho_1(self) -> float:
        """Attention at W_0 to the second operand, position T-1, which has score 2 beta."""
        return math.exp(2 * self.actual_beta) * self.rho_3

    @property
    def rho_2(self) -> float:
        """Attention at W_0 to the assignment, and to the first operand, which have score beta."""
        return math.exp(self.actual_beta) * self.rho_3

    @property
    def rho_3(self) -> float:
        """Attention at W_0 to each PAD and to `=`, which have score 0: rho_2^2 / rho_1, not of order 1/T."""
        e_beta = math.exp(self.actual_beta)
        return 1 / (e_beta**2 + 2 * e_beta + self.T - 3)

    @property
    def meets_conditions(self) -> bool:
        """Whether rho_1 = Theta(1) and rho_2 = Theta(1/T), which theorem C.1 assumes, within `FACTOR`."""
        return self.rho_1 >= 1 / FACTOR and 1 / FACTOR <= self.T * self.rho_2 <= FACTOR

    @property
    def number(self) -> slice:
        """Coordinates of e_n."""
        return slice(self.T, self.T + self.N)

    @property
    def pad(self) -> int:
        """Coordinate of e_pad."""
        return self.T + self.N

    @property
    def variable(self) -> slice:
        """Coordinates of e_v."""
        return slice(self.pad + 1, self.pad + 1 + self.V)

    @property
    def copied(self) -> slice:
        """Coordinates of Phi_1 e_v."""
        return slice(self.variable.stop, self.d)

    @property
    def d(self) -> int:
        """Dimension of the embedding space."""
        return self.T + self.N + 1 + 2 * self.V


def W_0(s: Setting) -> Tensor:
    """The initial matrix beta (p_{T-2} + p_{T-1}) p_T^T + beta sum_n e_n p_T^T, (d, 1 + V): equation init_w0."""
    W = torch.zeros(s.d, 1 + s.V, dtype=DTYPE)
    W[s.T - 3 : s.T - 1, 0] = s.actual_beta
    W[s.number, 0] = s.actual_beta
    return W


def M(z: Tensor) -> Tensor:
    """The MLP's outputs M_k(z) = (1/N) sum_j u_{k,j} (v_j^T z)^2, for z on the coordinates of e_n, (..., N).

    The waves v_j and u_j are those of Fourier transforms: M(z) is the circular convolution of z with itself.
    """
    return z.shape[-1] * torch.fft.fft(torch.fft.ifft(z) ** 2).real


@lru_cache(maxsize=4)
def gradient(s: Setting) -> Tensor:
    """nabla L(W_0) of the population loss L, (d, 1 + V), exactly.

    With p_k the softmax of the logits and q_k = p_k - 1{y=k}, the proof's expansion of A_k gives nabla L = alpha
    E[(a_m (x_{T-1} - x_bar) + a_n (x_{t*} - x_bar)) x_T^T]: t* is the position of the assignment, x_bar the mean of
    the inputs x_t under the attention, a_m = 2 rho_1^2 q_{2m} + 2 rho_1 rho_2 q_{n+m}, and a_n = 2 rho_2^2 q_{2n} +
    2 rho_1 rho_2 q_{n+m}. As a_m and a_n depend on n - m alone, they can be averaged apart from the inputs.
    """
    q_2m, q_sum, q_2n = mean_errors(s)
    a_m = 2 * s.rho_1**2 * q_2m + 2 * s.rho_1 * s.rho_2 * q_sum
    a_n = 2 * s.rho_2**2 * q_2n + 2 * s.rho_1 * s.rho_2 * q_sum
    second, assignment, x_bar = mean_inputs(s)
    keys = a_m * (second - x_bar) + a_n * (assignment - x_bar)  # (V, d)
    query = torch.cat([torch.ones(s.V, 1, dtype=DTYPE), torch.eye(s.V, dtype=DTYPE)], 1)  # x_T by v, (V, 1 + V)
    return ((s.alpha * keys.T) @ query) / s.V


def mean_errors(s: Setting) -> tuple[float, float, float]:
    """The means over n and m of the error q_k = p_k - 1{y=k} at k = 2m, k = n+m and k = 2n, at W_0.

    The MLP's output M_k is rho_1^2, 2 rho_1 rho_2 and rho_2^2 there, summed where they coincide, and 0 elsewhere. As
    only n - m matters, m = 0 stands for all m; then 2m = 0 and n+m = n, the answer y.
    """
    n = torch.arange(s.N)
    double = 2 * n % s.N
    outputs = torch.zeros(s.N, s.N, dtype=DTYPE)  # M_k for each n: (n, k)
    outputs[n, 0] += s.rho_1**2
    outputs[n, n] += 2 * s.rho_1 * s.rho_2
    outputs[n, double] += s.rho_2**2
    p = (s.alpha * outputs).softmax(1)
    # 2m and 2n are the answer where n = m, once in N.
    q_2m = float(p[n, 0].mean() - 1 / s.N)
    q_sum = float(p[n, n].mean() - 1)
    q_2n = float(p[n, double].mean() - 1 / s.N)
    return q_2m, q_sum, q_2n


def mean_inputs(s: Setting) -> tuple[Tensor, Tensor, Tensor]:
    """The means over t*, n and m of x_{T-1}, of x_{t*} and of x_bar at W_0, for each variable v, (V, d) each.

    Positions count from 0 here: the operands are at T-3 and T-2, `=` is at T-1, and t* is any position before T-3.
    """
    each_variable = torch.eye(s.V, dtype=DTYPE)
    second = torch.zeros(s.V, s.d, dtype=DTYPE)  # x_{T-1}: the second operand
    second[:, s.T - 2] = 1
    second[:, s.number] = 1 / s.N
    assignment = torch.zeros(s.V, s.d, dtype=DTYPE)  # x_{t*}
    assignment[:, : s.T - 3] = 1 / (s.T - 3)
    assignment[:, s.number] = 1 / s.N
    assignment[:, s.copied] = each_variable
    x_bar = s.rho_1 * second + s.rho_2 * assignment
    x_bar[:, s.T - 3] += s.rho_2  # the first operand
    x_bar[:, s.variable] += s.rho_2 * each_variable
    x_bar[:, : s.T - 3] += s.rho_3 * (s.T - 4) / (s.T - 3)  # the T - 4 PADs, at any position but t*
    x_bar[:, s.pad] += s.rho_3 * (s.T - 4)
    x_bar[:, s.T - 1] += s.rho_3  # `=`
    x_bar[:, s.copied] += s.rho_3 * each_variable
    return second, assignment, x_bar


def eta(s: Setting) -> float:
    """The learning rate of theorem C.1, V N / (2 alpha rho_1 rho_2 (N - 1))."""
    return s.V * s.N / (2 * s.alpha * s.rho_1 * s.rho_2 * (s.N - 1))


def after_step(s: Setting, length: float = 1.0) -> Tensor:
    """W_0 - length eta nabla L(W_0), where `length` is a share of the theorem's step; its W_1 for length 1."""
    return W_0(s) - length * eta(s) * gradient(s)


def memory(s: Setting) -> Tensor:
    """The associative memory sum_v Phi_1 e_v (Phi_1 e_v + p_T)^T, (d, 1 + V): column 0 is p_T, the others Phi_1 e_v."""
    term = torch.zeros(s.d, 1 + s.V, dtype=DTYPE)
    term[s.copied, 0] = 1
    term[s.copied, 1:] = torch.eye(s.V, dtype=DTYPE)
    return term


def attenuation(s: Setting) -> Tensor:
    """W~_0 - W_0 = -(2 rho_1 - 1) p_{T-1} (V p_T + sum_v Phi_1 e_v)^T, (d, 1 + V).

    The theorem writes W_1 as W~_0 + `memory` + a remainder; rho_1 is the attention at W_0 to the second operand, at
    position T-1. If it is above 1/2, this term lowers the score of that position.
    """
    term = torch.zeros(s.d, 1 + s.V, dtype=DTYPE)
    term[s.T - 2, 0] = -(2 * s.rho_1 - 1) * s.V
    term[s.T - 2, 1:] = -(2 * s.rho_1 - 1)
    return term


def remainder(s: Setting) -> Tensor:
    """W_1 - W~_0 - memory: what the theorem's displayed terms leave of the step, (d, 1 + V)."""
    return -eta(s) * gradient(s) - attenuation(s) - memory(s)


@dataclass(frozen=True)
class Check:
    """Theorem C.1 at one setting: the infinity norms (largest row sums) of its remainder and of `attenuation`.

    That is the term that it displays beside `memory`, whose own norm is MEMORY_NORM.
    """

    s: Setting
    remainder: float
    attenuation: float

    @property
    def bound(self) -> float:
        """V (1/N + 1/T + T alpha), to which the remainder is compared."""
        return self.s.V * (1 / self.s.N + 1 / self.s.T + self.s.T * self.s.alpha)

    @property
    def constant(self) -> float:
        """The least constant with which the theorem's bound holds here."""
        return self.remainder / self.bound


def check(s: Setting) -> Check:
    """The norms of the theorem's `remainder` and `attenuation` at this setting."""
    remainder_norm = float(remainder(s).abs().sum(1).max())
    attenuation_norm = float(attenuation(s).abs().sum(1).max())
    return Check(s, remainder_norm, attenuation_norm)


@lru_cache
def grid_checks() -> list[Check]:
    """The theorem at every combination of the numbers in `GRID`, at beta = log T."""
    return [check(Setting(N, T, V, alpha)) for N, T, V, alpha in product(*GRID)]


@lru_cache
def constants_over_beta(V: int) -> dict[int, float]:
    """By T, the largest constant of the bound over `EXTREMES` and over the beta that meet the theorem's conditions."""
    quarters = [i / 4 for i in range(1, 60)]
    constants = {}
    for T in (16, 64, 256, 1024, 4096):
        betas = [beta for beta in quarters if Setting(T=T, beta=beta).meets_conditions]  # not empty for any T
        # N is at least V.
        settings = [Setting(max(N, V), T, V, alpha, beta) for N, alpha in EXTREMES for beta in betas]
        constants[T] = max(check(s).constant for s in settings)
    return constants
