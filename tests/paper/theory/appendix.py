"""The model of appendix C on whole sequences, by which the closed forms of the package are tested."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from assignadd.paper.theory.theorem import DTYPE, M, Setting


def query(s: Setting) -> list[int]:
    """The coordinates of the query: that of p_T, then those of Phi_1 e_v."""
    return [s.T - 1, *range(s.copied.start, s.d)]


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


def attention(s: Setting, X: Tensor, W: Tensor) -> Tensor:
    """Attention of the last position, sigma(X^T W x_T), (B, T)."""
    W_x_T = X[:, -1, query(s)] @ W.T  # (B, d)
    return torch.einsum("btd,bd->bt", X, W_x_T).softmax(-1)


def F_alpha(s: Setting, X: Tensor, W: Tensor) -> Tensor:
    """Logits alpha M(Phi_2 X sigma(X^T W x_T)), (B, N): equation simplified_F."""
    z = torch.einsum("bt,btn->bn", attention(s, X, W), X[:, :, s.number])  # attention on each number, (B, N)
    return s.alpha * M(z)


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
