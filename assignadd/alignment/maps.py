"""Maps from an activation to coordinates, some of which are exchanged between two prompts: linear and non-linear ones.

A rotation is what distributed alignment search trains (Geiger et al., 2023). With non-linear maps such a search can
align any network with any program, also an untrained one (Sutter et al., 2025, arXiv 2507.08802): a map that is free
enough computes the answer itself. They serve to see which numbers of a search say something about the network.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from assignadd.interventions.edits import shuffled
from assignadd.model.kernels.tensor import AdamW

LR = 1e-2
Readout = Callable[[Tensor], Tensor]
"""Answer logits as a function of an activation at `=`."""


class Rotation(nn.Module):
    """Exchanges a trainable subspace, which begins as the span of the orthonormal rows of `start`.

    Its directions are the first columns of a product of Householder reflections, in a fixed basis that begins with
    `start`. `torch.nn.utils.parametrizations.orthogonal` has the same parameters, but differentiates the product one
    reflection after the other.
    """

    def __init__(self, start: Float[Tensor, "r d"]):
        super().__init__()
        rank, d = start.shape
        more = torch.randn(d, d - rank, generator=torch.Generator().manual_seed(0)).to(start)
        basis, scales = torch.linalg.qr(torch.cat([start.T, more], 1))
        self.basis = basis * scales.diagonal().sign()
        self.vectors = nn.Parameter(start.new_zeros(d, rank))

    @property
    def weight(self) -> Float[Tensor, "d r"]:
        """The directions, in columns.

        The product of the reflections by the columns of V is 1 - V T V^T. The inverse of T is the upper triangle of
        V^T V with one half of its diagonal (Joffrain et al., 2006).
        """
        rank = self.vectors.shape[1]
        first = torch.eye(*self.vectors.shape).to(self.vectors)
        V = self.vectors.tril(-1) + first
        products = V.T @ V
        inverse = products.triu(1) + products.diagonal().div(2).diag()
        return self.basis @ (V @ torch.linalg.solve_triangular(inverse, V[:rank].T, upper=True) - first)

    def forward(self, base: Float[Tensor, "n d"], source: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        weight = self.weight
        return base + (source - base) @ weight @ weight.T


class Reversible(nn.Module):
    """Exchanges the first half of the coordinates that a reversible network (Gomez et al., 2017) gives an activation.

    With the activation divided by `scale` and split into (a, b), the coordinates are u = a + F(b) and v = b + G(u), of
    which u is exchanged. F and G are networks with one hidden layer, and the map is undone exactly.
    """

    def __init__(self, d: int, hidden: int, scale: float):
        super().__init__()
        first, self.scale = d // 2, scale
        self.sizes = (first, d - first)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.F, self.G = (
                nn.Sequential(nn.Linear(read, hidden), nn.ReLU(), nn.Linear(hidden, written))
                for read, written in (self.sizes[::-1], self.sizes)
            )

    def coordinates(self, x: Float[Tensor, "n d"]) -> tuple[Tensor, Tensor]:
        """Both halves of the coordinates."""
        a, b = (x / self.scale).split(self.sizes, -1)
        u = a + self.F(b)
        return u, b + self.G(u)

    def activation(self, u: Tensor, v: Tensor) -> Float[Tensor, "n d"]:
        """The activation with these coordinates."""
        b = v - self.G(u)
        return torch.cat([u - self.F(b), b], -1) * self.scale

    def forward(self, base: Float[Tensor, "n d"], source: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """`activation` with the source's u and the base's v; each network runs on both prompts at once."""
        a, b = (torch.stack([base, source]) / self.scale).split(self.sizes, -1)
        u = a + self.F(b)
        from_base, from_source = self.G(u)
        new = b[0] + from_base - from_source
        return torch.cat([u[1] - self.F(new), new], -1) * self.scale


def fit(
    exchange: nn.Module,
    readout: Readout,
    base: Float[Tensor, "n d"],
    source: Float[Tensor, "n d"],
    answer: Int[Tensor, " n"],
    steps: int,
    batch: int,
) -> None:
    """Trains an exchange such that these answers are read out of the exchanged activations."""
    weights = list(exchange.parameters())
    optimiser, order = AdamW(weights), shuffled(len(base))
    for step in range(steps):
        rows = order[(step * batch + torch.arange(batch)) % len(base)]
        loss = torch.nn.functional.cross_entropy(readout(exchange(base[rows], source[rows])), answer[rows])
        optimiser.step(torch.autograd.grad(loss, weights), LR * (1 - step / steps * (1 - 1 / steps)))
