"""Subspaces of activations: those that the paper names, random ones of the same rank, and those found by a search.

The search is distributed alignment search (Geiger et al., 2023). It looks for a subspace of the residual of `=` that
holds a variable of the program (first operand, second operand or sum), before MLP2 or after it. Directions are trained
such that exchanging them between two prompts yields the program's answer, on one half of the pairs. The other half
gives the interchange accuracy. `Search.non_linear` does the same with a reversible network instead of directions.

Such a search can find a program that the network does not run (Makelov et al., 2023). Every subspace therefore has two
controls: as many random directions (`random`), and how often the answer is the one with all other variables exchanged
(`complement`). Layer 2 adds its outputs for both operands, OV2(a) + OV2(b) (paper, section 5.1). If nothing
distinguishes the operands, exchanging a part of this sum mixes all four operands of the two prompts. The answer can
then be the sum of any two of them, and the intended pair is no more frequent than its complement.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.alignment.maps import Readout, Reversible, Rotation, fit
from assignadd.alignment.pairs import Outcome, Pairs, prompts, value_pairs
from assignadd.config import Config, ConfigError
from assignadd.measures.addition import number_outputs
from assignadd.measures.fourier import at_frequencies, network_frequencies
from assignadd.measures.scores import variable_outputs
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import Stack
from assignadd.task.randomness import Stream, normals

# Singular values below this fraction of the largest are treated as zero.
RANK_TOLERANCE = 1e-4
VARIABLES = {"first operand": (True, False), "second operand": (False, True), "sum": (True, True)}
"""For each variable, which operands take their values from the source (first, second)."""
PLACES = ("before MLP2", "after MLP2")
SEARCHED, RANDOM, COMPLEMENT = "searched", "random", "complement"
# Number of pairs, half of them for the search, and settings of the optimiser with which the accuracies converge.
PAIRS, STEPS, BATCH = 8000, 250, 512
SEED = 11
# Hidden units and settings with which a non-linear map is right on nearly all pairs that it is fitted to.
HIDDEN, NON_LINEAR_STEPS, NON_LINEAR_BATCH = 256, 200, 128


def copied_variables(one: Stack) -> Float[Tensor, "r d"]:
    """A basis of the span of OV1(e_v), what layer 1 copies of a variable (section 5.2)."""
    return span(variable_outputs(one)[0])


def fetched_values(one: Stack) -> Float[Tensor, "r d"]:
    """A basis of the span of OV2(e_n) at the network's frequencies, what layer 2 copies of a number (section 5.1)."""
    return span(at_frequencies(number_outputs(one), network_frequencies(one)[0])[0])


def read_answers(one: Stack) -> Float[Tensor, "r d"]:
    """A basis of the span of W_U's columns at the network's frequencies, what the unembedding reads of the sum."""
    return span(at_frequencies(one.W_U.mT, network_frequencies(one)[0])[0])


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
            exchanged: value_pairs(config.task, self.base, self.source, exchanged)
            for exchanged in ((False, False), *VARIABLES.values())
        }

    def __call__(
        self, one: Stack, variable: str, place: str, rank: int, seed: int = SEED, steps: int = STEPS
    ) -> Outcome:
        """The outcome on the test pairs of the subspace found and of its two controls."""
        if not 1 <= rank <= one.config.model.d_model:
            raise ConfigError("rank", rank, f"a number of directions from 1 to {one.config.model.d_model}")
        first, second = VARIABLES[variable]
        pairs, complement = self.pairs[first, second], self.pairs[not first, not second]
        readout, base, source = self.activations(one, place)
        train, test = self._halves(pairs)
        start = random_directions(base[:rank], seed)
        found = searched(readout, base[train], source[train], pairs.answer[train], start, steps)
        own, other = base[test], source[test]
        answers = {
            name: readout(own + within(other - own, basis)).argmax(-1)
            for name, basis in ((SEARCHED, found), (RANDOM, start))
        }
        hits = {name: answer == pairs.answer[test] for name, answer in answers.items()}
        hits[COMPLEMENT] = answers[SEARCHED] == complement.answer[test]
        return pairs.outcome(hits, test)

    def non_linear(
        self, one: Stack, variable: str, place: str, steps: int = NON_LINEAR_STEPS
    ) -> tuple[Outcome, Outcome]:
        """The outcome of a non-linear map on the pairs that it was fitted to, and on the test pairs."""
        pairs = self.pairs[VARIABLES[variable]]
        readout, base, source = self.activations(one, place)
        train, test = self._halves(pairs)
        exchange = Reversible(base.shape[1], HIDDEN, base.std().item()).to(base.dtype)
        fit(exchange, readout, base[train], source[train], pairs.answer[train], steps, NON_LINEAR_BATCH)
        with torch.no_grad():
            right = readout(exchange(base, source)).argmax(-1) == pairs.answer
        fitted, unseen = (pairs.outcome({SEARCHED: right[half]}, half) for half in (train, test))
        return fitted, unseen

    def _halves(self, pairs: Pairs) -> tuple[Bool[Tensor, " B"], Bool[Tensor, " B"]]:
        """The pairs that count for the search and for the test."""
        even = torch.arange(len(self.base)) % 2 == 0
        return pairs.counts & even, pairs.counts & ~even

    @torch.no_grad()
    def activations(self, one: Stack, place: str) -> tuple[Readout, Float[Tensor, "B d"], Float[Tensor, "B d"]]:
        """The logits as a function of the activation at a place, and the activations of base and source there."""
        model = LastLayer(one)
        base, source = (model.trace(tokens) for tokens in (self.base, self.source))
        if place == PLACES[0]:
            return model.logits, base.resid_mid, source.resid_mid
        return model.unembedded, base.resid_post, source.resid_post


def searched(
    readout: Readout,
    base: Float[Tensor, "n d"],
    source: Float[Tensor, "n d"],
    answer: Int[Tensor, " n"],
    start: Float[Tensor, "r d"],
    steps: int = STEPS,
) -> Float[Tensor, "r d"]:
    """Orthonormal directions, trained from `start`, whose exchange with the source yields these answers."""
    rotation = Rotation(start)
    fit(rotation, readout, base, source, answer, steps, BATCH)
    return rotation.weight.detach().T.contiguous()
