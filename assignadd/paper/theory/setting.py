"""The model of appendix C, "Theoretical Analysis of Gradient Dynamics": sizes, inputs, network F_alpha and loss.

The network is one softmax attention from the last position, followed by the complex quadratic MLP that adds mod N.
All embeddings are orthonormal, so a vector is given by its coordinates, in this order: p_1..p_T, e_n (N of them),
e_pad, e_v (V), Phi_1 e_v (V). Phi_2 maps them to another subspace without changing a coordinate, so it is omitted.

The query is x_T = p_T + Phi_1 e_v. So only the columns p_T and Phi_1 e_v of a key-query matrix matter, the gradient
is 0 in all others, and here such a matrix is given by these 1 + V columns: (d, 1 + V).

In all functions s is the setting (sizes, alpha, beta), X the inputs of B sequences, (B, T, d), and W such a matrix.

The modules follow the appendix: this one has its model and data, `theorem` the theorem, `proof` its proof,
`composition` what the step leads to. `real_gradient` looks at real training.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from assignadd.config import ConfigError

DTYPE = torch.float64
FACTOR = 4.0  # rho_1 = Theta(1) and rho_2 = Theta(1/T) are read as within this factor of 1 and of 1/T


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
    """Strength of the initial attention, left free by the paper; log T unless given, so that rho_2 is of order 1/T."""

    def __post_init__(self) -> None:
        """Refuses sizes and scales that are out of range."""
        _check_whole("N", self.N, 2, 1000, "a whole number from 2 to 1000")
        _check_whole("T", self.T, 4, 1 << 16, "a whole number from 4 (an assignment, two operands and `=`) to 2^16")
        _check_whole("V", self.V, 1, self.N, f"a whole number from 1 to theory.N = {self.N}")
        _check_positive("alpha", self.alpha, 500)  # far beyond it e^alpha is no float
        if self.beta is not None:
            _check_positive("beta", self.beta, 300)  # far beyond it e^(2 beta) is no float

    def at(self, beta: float) -> Setting:
        """The same sizes with another beta."""
        return replace(self, beta=beta)

    @property
    def e_beta(self) -> float:
        """e^beta, which is T for the default beta = log T."""
        return float(self.T) if self.beta is None else math.exp(self.beta)

    @property
    def actual_beta(self) -> float:
        """beta, or its default log T."""
        return math.log(self.e_beta)

    @cached_property
    def Z(self) -> float:
        """The softmax's sum at W_0: the second operand has score 2 beta, the assignment and the first operand beta,
        each PAD and `=` 0."""
        return self.e_beta**2 + 2 * self.e_beta + self.T - 3

    @property
    def rho_1(self) -> float:
        """Attention at W_0 to the second operand, position T-1."""
        return self.e_beta**2 / self.Z

    @property
    def rho_2(self) -> float:
        """Attention at W_0 to the assignment, and to the first operand, position T-2."""
        return self.e_beta / self.Z

    @property
    def rho_3(self) -> float:
        """Attention at W_0 to each PAD, and to `=` itself: rho_2^2 / rho_1, not of order 1/T."""
        return 1 / self.Z

    @property
    def meets_conditions(self) -> bool:
        """Whether rho_1 = Theta(1) and rho_2 = Theta(1/T), which theorem C.1 assumes, within `FACTOR`."""
        return self.rho_1 >= 1 / FACTOR and 1 / FACTOR <= self.T * self.rho_2 <= FACTOR

    @property
    def d(self) -> int:
        """Dimension of the embedding space."""
        return self.T + self.N + 1 + 2 * self.V

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
        return slice(self.pad + 1 + self.V, self.d)

    @property
    def query(self) -> list[int]:
        """Coordinates of the query: that of p_T, then those of Phi_1 e_v."""
        return [self.T - 1, *range(self.pad + 1 + self.V, self.d)]


def _check_whole(name: str, value: object, low: int, high: int, accepted: str) -> None:
    """Raises `ConfigError` unless a field is a whole number in this range; `accepted` says so in words."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"theory.{name}", value, accepted)


def _check_positive(name: str, value: object, high: float) -> None:
    """Raises `ConfigError` unless a field is a number above 0 and at most `high`."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= high:
        raise ConfigError(f"theory.{name}", value, f"a number above 0, up to {high:g}")


def augmented_inputs(s: Setting, tau: Tensor, v: Tensor, n: Tensor, m: Tensor) -> Tensor:
    """X of B sequences, (B, T, d): equation simplified_x.

    Assignment i gives number n[:, i] to variable v[:, i] at position tau[:, i], counted from 0. The first operand is
    the variable of the first assignment, v* = v[:, 0]; the second operand is m.
    """
    B, T = len(m), s.T
    X = torch.zeros(B, T, s.d, dtype=DTYPE)
    sequence = torch.arange(B)
    X[:, range(T), range(T)] = 1  # p_t at every position t
    X[:, : T - 3, s.pad] = 1  # PADs, where no assignment follows below
    for position, variable, value in zip(tau.T, v.T, n.T, strict=True):  # (B,) each
        X[sequence, position, s.pad] = 0
        X[sequence, position, s.number.start + value] = 1
        X[sequence, position, s.copied.start + variable] = 1
    X[sequence, T - 3, s.variable.start + v[:, 0]] = 1  # first operand
    X[sequence, T - 2, s.number.start + m] = 1  # second operand
    X[sequence, T - 1, s.copied.start + v[:, 0]] = 1  # `=`, into which layer 1 has copied v*
    return X


def W_0(s: Setting) -> Tensor:
    """The initial matrix beta (p_{T-2} + p_{T-1}) p_T^T + beta sum_n e_n p_T^T, (d, 1 + V): equation init_w0."""
    W = torch.zeros(s.d, 1 + s.V, dtype=DTYPE)
    W[s.T - 3 : s.T - 1, 0] = s.actual_beta
    W[s.number, 0] = s.actual_beta
    return W


def attention(s: Setting, X: Tensor, W: Tensor) -> Tensor:
    """Attention of the last position, sigma(X^T W x_T), (B, T)."""
    W_x_T = X[:, -1, s.query] @ W.T  # (B, d)
    return torch.einsum("btd,bd->bt", X, W_x_T).softmax(-1)


def F_alpha(s: Setting, X: Tensor, W: Tensor) -> Tensor:
    """Logits alpha M(Phi_2 X sigma(X^T W x_T)), (B, N): equation simplified_F."""
    z = torch.einsum("bt,btn->bn", attention(s, X, W), X[:, :, s.number])  # attention on each number, (B, N)
    return s.alpha * M(s.N, z).real


@lru_cache(maxsize=4)
def fourier(N: int) -> tuple[Tensor, Tensor]:
    """The MLP's weights: v, whose row v_j is e^{2 i pi j n / N} on the coordinate of e_n, (j, n), and u, with
    u_{k,j} = e^{-2 i pi j k / N}, (k, j)."""
    angle = 2 * math.pi * (torch.outer(torch.arange(N), torch.arange(N)) % N).double() / N
    wave = torch.polar(torch.ones_like(angle), angle)
    return wave, wave.conj().resolve_conj()


def M(N: int, z: Tensor) -> Tensor:
    """M_k(z) = (1/N) sum_j u_{k,j} (v_j^T z)^2, complex, for z on the coordinates of e_n, (..., N)."""
    v, u = fourier(N)
    return (z.to(v.dtype) @ v.T) ** 2 @ u.T / N  # (..., N)


def grad_M(N: int, z: Tensor) -> Tensor:
    """nabla M_k(z) on the coordinates of e_n: (2/N) sum_j u_{k,j} (v_j^T z) v_j, (..., k, n)."""
    v, u = fourier(N)
    return 2 / N * (u * (z.to(v.dtype) @ v.T).unsqueeze(-2)) @ v


def one_variable_sequences(s: Setting) -> Iterator[tuple[int, Tensor, Tensor]]:
    """All one-variable sequences, equally likely under p, in batches: one for each t* (counted from 0) and variable.

    Yields t*, and of the N^2 sequences with all (n, m) the inputs X, (N^2, T, d), and the answers y, (N^2,).
    """
    n, m = torch.cartesian_prod(torch.arange(s.N), torch.arange(s.N)).T  # (N^2,) each
    y = (n + m) % s.N
    for t in range(s.T - 3):
        for variable in range(s.V):
            tau = torch.full((len(n), 1), t)
            v = torch.full((len(n), 1), variable)
            yield t, augmented_inputs(s, tau, v, n[:, None], m), y


def population_loss(s: Setting, W: Tensor) -> Tensor:
    """L(W) = E[l(y, F_alpha(x_{1:T}))], differentiable in W: equation population_loss.

    It sums over every one-variable sequence, which is slow; `theorem` has its gradient at W_0 in closed form.
    """
    losses = [cross_entropy(F_alpha(s, X, W), y) for _, X, y in one_variable_sequences(s)]
    return torch.stack(losses).mean()
