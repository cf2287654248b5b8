"""The model of appendix C: its sizes, the coordinates of its embeddings, attention at W_0, and the MLP.

The network is one softmax attention from the last position, and the complex quadratic MLP that adds mod N. Embeddings
are orthonormal, so a vector is its coordinates: those of the positions p_1..p_T, of the N numbers e_n, of e_pad, of the
V variables e_v, and of Phi_1 e_v, the copy of a variable that layer 1 has written. The query is p_T + Phi_1 e_v, so of
a key-query matrix only the column of p_T and those of the V copies matter: here a matrix has these alone, (d, 1 + V).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

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
