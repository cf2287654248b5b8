"""Subspaces of what is passed on: those that the paper names, random ones of the same rank, and those that a search
finds.

Distributed alignment search (Geiger et al., 2023): is there a subspace of `=` that carries a variable of the program?

    first operand, second operand, sum    each of them before MLP2 (the residual after layer 2's attention) and after it

A rotation is trained until exchanging its first directions between two prompts makes the answer the program's, on one
half of the pairs; the other half gives the interchange accuracy. The rotation and its exchange are pyvene's.

Such a search can make a program come true that the network does not run (Makelov et al., 2023), so every subspace has
its controls: as many random directions (`random`), and the answer as if all but this variable had been exchanged
(`complement`). Layer 2 adds what it brings of both operands, OV2(a) + OV2(b): where nothing tells them apart, to
exchange a part of that is to add all four operands of two prompts, and the answer is any of their six pairs, the one
that was asked for no more often than its complement.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, ConfigError
from assignadd.interventions.edits import shuffled
from assignadd.interventions.pairs import Outcome, Pairs, prompts, value_pairs
from assignadd.measures.addition import number_outputs
from assignadd.measures.fourier import kept, network_frequencies
from assignadd.model.circuits import OV
from assignadd.model.stack import Stack
from assignadd.model.stages import Stages
from assignadd.model.table import require_covered
from assignadd.task.randomness import Stream, normals
from assignadd.task.roles import roles
from assignadd.task.vocabulary import Vocabulary

# Directions below this part of the longest are rounding.
RANK_TOLERANCE = 1e-4
VARIABLES = {"first operand": (True, False), "second operand": (False, True), "sum": (True, True)}
"""Each with the operands whose values come from the source."""
PLACES = ("before MLP2", "after MLP2")
SEARCHED, RANDOM, COMPLEMENT = "searched", "random", "complement"
# Pairs, half of them to search on; the optimiser's settings, by which the accuracies no longer change.
PAIRS, STEPS, BATCH, LR = 8000, 250, 512, 1e-2
SEED = 11
Readout = Callable[[Tensor], Tensor]
"""From an activation at `=` to the answer logits."""


def copied_variables(one: Stack) -> Float[Tensor, "r d"]:
    """The span of OV1(e_v): what layer 1 copies of a variable."""
    return span(one.W_E[0, Vocabulary(one.config.task).first_variable :] @ OV(one, 1)[0])


def fetched_values(one: Stack) -> Float[Tensor, "r d"]:
    """The span of OV2(e_n) in the network's frequencies: what layer 2 fetches of a number."""
    return span(_in_frequencies(one, number_outputs(one)))


def read_answers(one: Stack) -> Float[Tensor, "r d"]:
    """The span of W_U's columns in the network's frequencies: what the unembedding reads of the sum."""
    return span(_in_frequencies(one, one.W_U.mT))


def _in_frequencies(one: Stack, functions: Float[Tensor, "1 N d"]) -> Float[Tensor, "N d"]:
    return (kept(functions, network_frequencies(one)[0]) - functions.mean(1, keepdim=True))[0]


def span(vectors: Float[Tensor, "n d"]) -> Float[Tensor, "r d"]:
    """Orthonormal rows that span these."""
    _, lengths, directions = torch.linalg.svd(vectors.double(), full_matrices=False)
    return directions[lengths > RANK_TOLERANCE * lengths[0]].to(vectors.dtype)


def random_directions(like: Float[Tensor, "r d"], seed: int) -> Float[Tensor, "r d"]:
    """As many orthonormal rows, drawn from the uniform law."""
    rank, d = like.shape
    drawn = normals(seed, Stream.DIRECTIONS, torch.arange(rank * d)).view(d, rank)
    return torch.linalg.qr(drawn)[0].T.to(like)


def within(difference: Float[Tensor, "... d"], basis: Float[Tensor, "r d"] | None) -> Float[Tensor, "... d"]:
    """The part of a difference that lies in a subspace; all of it without one."""
    return difference if basis is None else (difference @ basis.T) @ basis


class Search:
    """Fixed pairs of unrelated prompts, as many of each pair of types; those in even rows are searched on."""

    def __init__(self, config: Config, seen: Bool[Tensor, "N N"], n: int = PAIRS):
        self.base, self.source = prompts(config, seen, n)
        self.pairs: dict[tuple[bool, bool], Pairs] = {
            exchanged: value_pairs(config.task, self.base, self.source, exchanged)
            for exchanged in ((False, False), *VARIABLES.values())
        }

    def __call__(
        self, one: Stack, variable: str, place: str, rank: int, seed: int = SEED, steps: int = STEPS
    ) -> Outcome:
        """On pairs that were not searched on: the subspace found, a random one, and what the found one does instead."""
        if not 1 <= rank <= one.config.model.d_model:
            raise ConfigError("rank", rank, f"a number of directions from 1 to {one.config.model.d_model}")
        first, second = VARIABLES[variable]
        pairs, complement = self.pairs[first, second], self.pairs[not first, not second]
        readout, base, source = self.activations(one, place)
        even = torch.arange(len(base)) % 2 == 0
        shown, held_out = pairs.counts & even, pairs.counts & ~even
        start = random_directions(base[:rank], seed)
        found = searched(readout, base[shown], source[shown], pairs.answer[shown], start, steps)
        own, other = base[held_out], source[held_out]
        answers = {
            name: readout(own + within(other - own, basis)).argmax(-1)
            for name, basis in ((SEARCHED, found), (RANDOM, start))
        }
        hits = {name: answer == pairs.answer[held_out] for name, answer in answers.items()}
        hits[COMPLEMENT] = answers[SEARCHED] == complement.answer[held_out]
        first_is_variable = roles(one.config.task, pairs.base).is_variable[:, 0]
        return Outcome(hits, *(x[held_out] for x in (pairs.base_vars, pairs.source_vars, first_is_variable)))

    @torch.no_grad()
    def activations(self, one: Stack, place: str) -> tuple[Readout, Float[Tensor, "B d"], Float[Tensor, "B d"]]:
        """What follows a place, and what base and source have there."""
        require_covered(one.config)
        model = Stages(one)
        base, source = (model.trace(tokens) for tokens in (self.base, self.source))
        if place == PLACES[0]:
            return model.logits, base.resid_mid, source.resid_mid
        return lambda x: x @ model.weights.U, base.resid_post, source.resid_post


def searched(
    readout: Readout,
    base: Float[Tensor, "n d"],
    source: Float[Tensor, "n d"],
    answer: Int[Tensor, " n"],
    start: Float[Tensor, "r d"],
    steps: int = STEPS,
) -> Float[Tensor, "r d"]:
    """Orthonormal directions, found from `start`, along which the source's activation makes the answer this one."""
    rotation = _rotation(start)
    optimiser = torch.optim.Adam(rotation.parameters(), lr=LR)
    slower = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 1 / steps, steps)
    order = shuffled(len(base))
    for step in range(steps):
        rows = order[(step * BATCH + torch.arange(BATCH)) % len(base)]
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(readout(rotation(base[rows], source[rows])), answer[rows]).backward()
        optimiser.step()
        slower.step()
    return rotation.rotate_layer.weight.detach().T.contiguous()


def _rotation(start: Float[Tensor, "r d"]) -> Any:
    if importlib.util.find_spec("pyvene") is None:
        raise ConfigError("search", "subspaces", "pyvene to be installed: pip install 'assignadd[das]'")
    # It speaks when imported, and draws the directions that complete a rotation.
    with contextlib.redirect_stdout(io.StringIO()), torch.random.fork_rng(devices=[]):
        import pyvene

        torch.manual_seed(SEED)
        rotation = pyvene.LowRankRotatedSpaceIntervention(
            embed_dim=start.shape[1], low_rank_dimension=start.shape[0]
        ).to(start.dtype)
        rotation.rotate_layer.weight = start.T
    return rotation
