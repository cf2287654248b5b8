"""Directions that the paper names for what is passed on, and random ones of the same rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assignadd.measures.addition import number_outputs
from assignadd.measures.fourier import kept, network_frequencies
from assignadd.model.circuits import OV
from assignadd.model.stack import Stack
from assignadd.task.randomness import Stream, normals
from assignadd.task.vocabulary import Vocabulary

if TYPE_CHECKING:
    from jaxtyping import Float

# Directions below this part of the longest are rounding.
RANK_TOLERANCE = 1e-4


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
    drawn = normals(seed, Stream.INIT, torch.arange(rank * d)).view(d, rank)
    return torch.linalg.qr(drawn)[0].T.to(like)


def within(difference: Float[Tensor, "... d"], basis: Float[Tensor, "r d"] | None) -> Float[Tensor, "... d"]:
    """The part of a difference that lies in a subspace; all of it without one."""
    return difference if basis is None else (difference @ basis.T) @ basis
