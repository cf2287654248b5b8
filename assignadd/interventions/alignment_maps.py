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
from torch.nn.utils.parametrizations import orthogonal

from assignadd.interventions.edits import shuffled

LR = 1e-2
Readout = Callable[[Tensor], Tensor]
"""Answer logits as a function of an activation at `=`."""


class Rotation(nn.Module):
    """Exchanges a trainable subspace, which begins as the span of the orthonormal rows of `start`."""

    weight: Tensor

    def __init__(self, start: Float[Tensor, "r d"]):
        super().__init__()
        self.weight = nn.Parameter(start.T.clone())
        with torch.random.fork_rng(devices=[]):  # torch draws the directions that complete the rotation
            torch.manual_seed(0)
            orthogonal(self)
            self.weight = start.T

    def forward(self, base: Float[Tensor, "n d"], source: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return base + (source - base) @ self.weight @ self.weight.T


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
        return self.activation(self.coordinates(source)[0], self.coordinates(base)[1])


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
    optimiser = torch.optim.Adam(exchange.parameters(), lr=LR)
    slower = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 1 / steps, steps)
    order = shuffled(len(base))
    for step in range(steps):
        rows = order[(step * batch + torch.arange(batch)) % len(base)]
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(readout(exchange(base[rows], source[rows])), answer[rows]).backward()
        optimiser.step()
        slower.step()
