"""Subspaces of activations: those that the paper names, random ones of the same rank, and those found by a search.

The search is distributed alignment search (Geiger et al., 2023). It looks for a subspace of the residual of `=` that
holds a variable of the program (first operand, second operand or sum), before MLP2 or after it. Directions are trained
such that exchanging them between two prompts yields the program's answer, on one half of the pairs. The other half
gives the interchange accuracy. Directions are searched and not non-linear maps, which align any network with any
program, also an untrained one (Sutter et al., 2025, arXiv 2507.08802).

Such a search can find a program that the network does not run (Makelov et al., 2023). Every subspace therefore has two
controls: as many random directions (`random`), and how often the answer is the one with all other variables exchanged
(`complement`). Layer 2 adds its outputs for both operands, OV2(a) + OV2(b) (paper, section 5.1). If nothing
distinguishes the operands, exchanging a part of this sum mixes all four operands of the two prompts. The answer can
then be the sum of any two of them, and the intended pair is no more frequent than its complement.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from assignadd.config import Config, ConfigError
from assignadd.interventions.apply import shuffled
from assignadd.measures.addition import at_frequencies, network_frequencies, number_outputs
from assignadd.measures.scores import variable_outputs
from assignadd.model.kernels.tensor import AdamW
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import Stack
from assignadd.paper.causes.pairs import Outcome, Pairs, prompts, value_pairs
from assignadd.task.randomness import Stream, normals

# Singular values below this fraction of the largest are treated as zero.
RANK_TOLERANCE = 1e-4
VARIABLES = {"first operand": (True, False), "second operand": (False, True), "sum": (True, True)}
"""For each variable, which operands take their values from the source (first, second)."""
PLACES = ("before MLP2", "after MLP2")
SEARCHED, RANDOM, COMPLEMENT = "searched", "random", "complement"
# Number of pairs, half of them for the search, and settings of the optimiser with which the accuracies converge.
PAIRS, STEPS, BATCH = 8000, 250, 512
SEED, LR = 11, 1e-2
Readout = Callable[[Tensor], Tensor]
"""Answer logits as a function of an activation at `=`."""


def copied_variables(model: Stack) -> Float[Tensor, "r d"]:
    """A basis of the span of OV1(e_v), what layer 1 copies of a variable (section 5.2)."""
    return span(variable_outputs(model)[0])


def fetched_values(model: Stack) -> Float[Tensor, "r d"]:
    """A basis of the span of OV2(e_n) at the network's frequencies, what layer 2 copies of a number (section 5.1)."""
    return span(at_frequencies(number_outputs(model), network_frequencies(model)[0])[0])


def read_answers(model: Stack) -> Float[Tensor, "r d"]:
    """A basis of the span of W_U's columns at the network's frequencies, what the unembedding reads of the sum."""
    return span(at_frequencies(model.W_U.mT, network_frequencies(model)[0])[0])


def span(vectors: Float[Tensor, "n d"]) -> Float[Tensor, "r d"]:
    """An orthonormal basis, in rows, of the span of these vectors."""
    _, lengths, directions = torch.linalg.svd(vectors.double(), full_matrices=False)
    return directions[lengths > RANK_TOLERANCE * lengths[0]].to(vectors.dtype)


def random_directions(like: Float[Tensor, "r d"], seed: int) -> Float[Tensor, "r d"]:
    """As many orthonormal rows as `like` has, uniformly distributed."""
    rank, d = like.shape
    drawn = normals(seed, Stream.DIRECTIONS, torch.arange(rank * d)).view(d, rank)
    return torch.linalg.qr(drawn)[0].T.to(like)


def within(difference: Float[Tensor, "... d"], basis: Float[Tensor, "r d"] | None) -> Float[Tensor, "... d"]:
    """The projection of a difference onto a subspace; the difference itself if `basis` is None."""
    return difference if basis is None else (difference @ basis.T) @ basis


class Search:
    """Searches for subspaces on fixed pairs of unrelated prompts: even rows for the search, odd ones for the test."""

    def __init__(self, config: Config, seen: Bool[Tensor, "N N"], n: int = PAIRS):
        self.base, self.source = prompts(config, seen, n)
        self.pairs: dict[tuple[bool, bool], Pairs] = {
            operands: value_pairs(config.task, self.base, self.source, operands)
            for operands in ((False, False), *VARIABLES.values())
        }

    def __call__(
        self, model: Stack, variable: str, place: str, rank: int, seed: int = SEED, steps: int = STEPS
    ) -> Outcome:
        """The outcome on the test pairs of the searched subspace and of its two controls."""
        d = model.config.model.d_model
        if not 1 <= rank <= d:
            raise ConfigError("rank", rank, f"a number of directions from 1 to {d}")
        first, second = VARIABLES[variable]
        pairs, complement = self.pairs[first, second], self.pairs[not first, not second]
        readout, base, source = self.activations(model, place)
        is_even = torch.arange(len(base)) % 2 == 0
        train, test = pairs.counts & is_even, pairs.counts & ~is_even
        start = random_directions(base[:rank], seed)
        directions = searched(readout, base[train], source[train], pairs.answer[train], start, steps)

        def answers(basis: Tensor) -> Tensor:
            return readout(base[test] + within(source[test] - base[test], basis)).argmax(-1)

        with_searched = answers(directions)
        hits = {
            SEARCHED: with_searched == pairs.answer[test],
            RANDOM: answers(start) == pairs.answer[test],
            COMPLEMENT: with_searched == complement.answer[test],
        }
        return pairs.outcome(hits, test)

    @torch.no_grad()
    def activations(self, model: Stack, place: str) -> tuple[Readout, Float[Tensor, "B d"], Float[Tensor, "B d"]]:
        """The logits as a function of the activation at a place, and the activations of base and source there."""
        layer = LastLayer(model)
        base, source = layer.trace(self.base), layer.trace(self.source)
        if place == PLACES[0]:
            return layer.logits, base.resid_mid, source.resid_mid
        return layer.unembedded, base.resid_post, source.resid_post


def searched(
    readout: Readout,
    base: Float[Tensor, "n d"],
    source: Float[Tensor, "n d"],
    answer: Int[Tensor, " n"],
    start: Float[Tensor, "r d"],
    steps: int = STEPS,
) -> Float[Tensor, "r d"]:
    """Orthonormal directions, trained from `start`, whose exchange with the source yields these answers."""
    rotation, order = Rotation(start), shuffled(len(base))
    weights = list(rotation.parameters())
    optimiser = AdamW(weights)
    for step in range(steps):
        rows = order[(step * BATCH + torch.arange(BATCH)) % len(base)]
        loss = torch.nn.functional.cross_entropy(readout(rotation(base[rows], source[rows])), answer[rows])
        optimiser.step(torch.autograd.grad(loss, weights), LR * (1 - step / steps * (1 - 1 / steps)))
    return rotation.weight.detach().T.contiguous()


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
