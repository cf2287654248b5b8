"""The model of appendix C and its loss: F_alpha, every one-variable sequence there is, and the exact loss and gradient over them.

F_alpha is one softmax attention from the last position under the complex quadratic MLP that adds mod N. This is the appendix as
written, slow and plain; `symmetric` has the same gradient in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from assignadd.theory.setting import Setting, augmented_inputs


def fourier(N: int) -> tuple[Tensor, Tensor]:
    """v_j on the numbers' coordinates, e^{2 i pi j n / N} (j, n), and u_{k,j} = e^{-2 i pi j k / N} (k, j), both (N, N)."""
    angle = 2 * math.pi * (torch.outer(torch.arange(N), torch.arange(N)) % N).double() / N
    wave = torch.polar(torch.ones_like(angle), angle)
    return wave, wave.conj().resolve_conj()


def M(N: int, z: Tensor) -> Tensor:
    """M_k(z) = (1/N) sum_j u_{k,j} (v_j^T z)^2, as complex as it comes, from z on the numbers' coordinates (..., N)."""
    v, u = fourier(N)
    return (z.to(v.dtype) @ v.T) ** 2 @ u.T / N  # (..., N)


def grad_M(N: int, z: Tensor) -> Tensor:
    """nabla M_k(z) on the numbers' coordinates: (2/N) sum_j u_{k,j} (v_j^T z) v_j, (..., k, n)."""
    v, u = fourier(N)
    return 2 / N * (u * (z.to(v.dtype) @ v.T).unsqueeze(-2)) @ v


def attention(X: Tensor, W: Tensor) -> Tensor:
    """sigma(X^T W x_T), (B, T)."""
    return torch.einsum("btd,bd->bt", X, X[:, -1] @ W.T).softmax(-1)


def F_alpha(s: Setting, X: Tensor, W: Tensor) -> Tensor:
    """Logits alpha M(Phi_2 X sigma), (B, N)."""
    z = torch.einsum("bt,btd->bd", attention(X, W), X)
    return s.alpha * M(s.N, z[:, s.number]).real


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """l(y, xi) = -xi_y + log sum_k exp xi_k, (B,)."""
    return torch.logsumexp(logits, -1) - logits.gather(-1, y[:, None]).squeeze(-1)


def one_variable_sequences(s: Setting) -> Iterator[tuple[int, Tensor, Tensor]]:
    """t* (from 0), X (N^2, T, d) and y (N^2,) for every (n, m), one t* and v after another: all equally likely under p."""
    n, m = (x.flatten() for x in torch.meshgrid(torch.arange(s.N), torch.arange(s.N), indexing="ij"))
    for t in range(s.T - 3):
        for v in range(s.V):
            yield t, augmented_inputs(s, torch.full((len(n), 1), t), torch.full((len(n), 1), v), n[:, None], m), (n + m) % s.N


def population_loss(s: Setting, W: Tensor) -> Tensor:
    """L(W) = E[l(y, F_alpha(x_{1:T}))]; differentiable in W."""
    losses = [cross_entropy(F_alpha(s, X, W), y).mean() for _, X, y in one_variable_sequences(s)]
    return torch.stack(losses).mean()


def population_gradient(s: Setting, W: Tensor) -> Tensor:
    """nabla L(W) by the first display of the proof, summed over t*, v, n, m."""
    total, count = torch.zeros_like(W), 0
    for _, X, y in one_variable_sequences(s):
        total += sequence_gradient(s, X, y, W)
        count += 1
    return total / count


def sequence_gradient(s: Setting, X: Tensor, y: Tensor, W: Tensor) -> Tensor:
    """alpha sum_k E[(p_k - 1{y=k}) sum_t sigma_t nabla M_k(z)^T Phi_2 x_t (x_t - x_bar) x_T^T] over these sequences."""
    v, u = fourier(s.N)
    sigma = attention(X, W)  # (B, T)
    x_bar = torch.einsum("bt,btd->bd", sigma, X)
    v_z = x_bar[:, s.number].to(v.dtype) @ v.T  # (B, j)
    p = (s.alpha * (v_z**2 @ u.T).real / s.N).softmax(-1)
    off = (p - torch.nn.functional.one_hot(y, s.N)).to(v.dtype)  # (B, k)
    along = 2 / s.N * ((off @ u) * v_z) @ v  # (B, n): sum_k off_k nabla M_k(z)
    push = sigma * torch.einsum("btn,bn->bt", X[:, :, s.number], along.real)  # (B, T)
    moved = torch.einsum("bt,btd->bd", push, X) - push.sum(-1, keepdim=True) * x_bar
    return s.alpha * moved.T @ X[:, -1] / len(y)
