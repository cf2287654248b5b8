"""Cosine similarities of the residual of `=` before MLP2 (paper, section 5.1, figure cosine_sim_combined)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from assignadd.config import Config
from assignadd.measures.addition import number_outputs
from assignadd.measures.sequences import sequences
from assignadd.model.forward import traces
from assignadd.model.stack import Stack, single_models
from assignadd.network import Network, per_network
from assignadd.task import examples
from assignadd.task.positions import roles, with_values


@dataclass(frozen=True)
class Cosine:
    """Mean and standard deviation of cosines over pairs of vectors, and the number of pairs, for each model."""

    mean: Float[Tensor, " M"]
    std: Float[Tensor, " M"]
    n: Int[Tensor, " M"]


@dataclass(frozen=True)
class Matching:
    """Cosines between sequences of different types (figure cosine_sim_combined a)."""

    matched: Cosine
    """Both add the same two values in the same slots."""
    mismatched: Cosine
    """They add different values; a pair of values and its mirror image are not different."""


@dataclass(frozen=True)
class Shuffles:
    """Cosines of a vector at `=` with OV2(a) + OV2(b)."""

    matched: Cosine
    """a and b are the two values of the sequence."""
    second_shuffled: Cosine
    """a is the first value of the sequence, b the second value of another one (baseline of the paper's code)."""
    both_shuffled: Cosine
    """a and b are the first and second value of two other sequences."""


@dataclass(frozen=True)
class AgainstOV2:
    """Cosines with OV2(a) + OV2(b) (figure cosine_sim_combined b), for both vectors that the text could mean."""

    residual: Shuffles
    """The whole residual at `=` before MLP2."""
    attention_output: Shuffles
    """Only the output of layer 2's attention there."""


PAIRS_OF_TYPES = ((0, 1), (0, 2), (1, 2))


def random_contexts(
    configs: Sequence[Config], seen: Bool[Tensor, "M N N"], n: int
) -> dict[int, Int[Tensor, "M {n} T"]]:
    """`n` sequences with 0, 1 and 2 variables for each model.

    The claim is about any sequence, so variables are in any slot, banned or not, as for the reference numbers.
    """
    configs = [
        dataclasses.replace(c, task=dataclasses.replace(c.task, banned_first="", banned_second="")) for c in configs
    ]
    return {n_vars: sequences(configs, seen, n_vars, n).tokens for n_vars in (0, 1, 2)}


def across_types(stack: Stack, contexts: Mapping[int, Int[Tensor, "#M B T"]]) -> dict[tuple[int, int], Matching]:
    """Cosines between two types (by numbers of variables) on random contexts (figure cosine_sim_combined a).

    Sequence i of every type gets the values of sequence i of type 0. Sequence i of both types is a matched pair,
    sequence i of one type and the unrelated sequence i + 1 of the other a mismatched one.
    """
    task, values = stack.config.task, roles(stack.config.task, contexts[0]).values  # (M, B, 2)
    residuals = {n_vars: _residuals(stack, with_values(task, tokens, values)) for n_vars, tokens in contexts.items()}
    different = (values.sort(-1).values != values.roll(-1, 1).sort(-1).values).any(-1)  # (M, B)
    return {
        (x, y): Matching(
            _over(cosine_similarity(residuals[x], residuals[y], -1)),
            _over(cosine_similarity(residuals[x], residuals[y].roll(-1, 1), -1), different),
        )
        for x, y in PAIRS_OF_TYPES
    }


def against_ov2(stack: Stack, tokens: Int[Tensor, "#M B T"]) -> AgainstOV2:
    """Cosines with OV2(a) + OV2(b) (figure cosine_sim_combined b).

    The sequences are in random order, so an operand is shuffled by taking that of the next sequence.
    """
    values = roles(stack.config.task, tokens).values
    vectors = number_outputs(stack)  # (M, N, d)
    cosines = []
    for i, trace in enumerate(traces(stack, tokens)):
        first, second = values[i % len(values)].unbind(-1)  # (B,) each
        a = torch.stack([first, first, first.roll(-2)])  # (shuffle, B)
        b = torch.stack([second, second.roll(-1), second.roll(-1)])
        at_equals = normalize(torch.stack([trace.resid_mid, trace.attention_output]), dim=-1)  # (vector, B, d)
        # Products with OV2(n) for all N numbers are fewer than those with a vector for each sequence and shuffle.
        products = at_equals @ vectors[i].T  # (vector, B, N)
        rows = torch.arange(len(first), device=first.device)
        lengths = (vectors[i].unsqueeze(1) + vectors[i]).norm(dim=-1).clamp(min=1e-12)  # (N, N)
        cosines.append((products[:, rows, a] + products[:, rows, b]) / lengths[a, b])  # (vector, shuffle, B)
    by_vector = torch.stack(cosines, 2)  # (vector, shuffle, M, B)
    return AgainstOV2(*(Shuffles(*map(_over, by_shuffle)) for by_shuffle in by_vector))


def on_template(stack: Stack) -> Matching:
    """Cosines between types on one template with all N^2 pairs of values (figure cosine_sim_combined a).

    Every two different pairs of values are mismatched. The paper does not give its template ("b 3 + b 4 =" and
    "+ 3 4 ="); ours is `task.examples.template`.
    """
    with_variables, with_literals = examples.template(stack.config.task)
    matched, means, deviations = [], [], []
    for model in single_models(stack):
        x = _residuals(model, with_variables[None].to(stack.flat.device))[0]
        y = _residuals(model, with_literals[None].to(stack.flat.device))[0]
        of_same_values, mean, deviation, n_mismatched = _all_pairs(x, y)
        matched.append(of_same_values)
        means.append(mean)
        deviations.append(deviation)
    n = torch.full((len(means),), n_mismatched, device=stack.flat.device)
    return Matching(_over(torch.stack(matched)), Cosine(torch.stack(means), torch.stack(deviations), n))


def _all_pairs(x: Float[Tensor, "N2 d"], y: Float[Tensor, "N2 d"]) -> tuple[Tensor, Tensor, Tensor, int]:
    """The cosine of each row of x with the row of y that has the same values (a, b); then the mean, the standard
    deviation and the number of all other cosines, without those of mirror images (b, a)."""
    u = normalize(x.double(), dim=-1)
    v = normalize(y.double(), dim=-1)
    row = torch.arange(len(u), device=u.device)
    mirror = row.view(math.isqrt(len(u)), -1).T.flatten()  # the row of (b, a)
    matched = (u * v).sum(-1)
    mirrored = (u * v[mirror]).sum(-1)[mirror != row]  # a double is its own mirror image
    # Sums over all N^4 cosines need no N^4 numbers: that of the cosines is (sum u).(sum v), that of their squares
    # <U^T U, V^T V>. The cosines of matched and mirrored rows are subtracted.
    excluded = torch.cat([matched, mirrored])
    n = len(u) ** 2 - len(excluded)
    mean = (u.sum(0) @ v.sum(0) - excluded.sum()) / n
    square = (((u.T @ u) * (v.T @ v)).sum() - excluded.square().sum()) / n
    return matched, mean, (square - mean**2).clamp(min=0).sqrt(), n


def _residuals(stack: Stack, tokens: Tensor) -> Tensor:
    """The residual of `=` before MLP2, (M, B, d)."""
    return torch.stack([trace.resid_mid for trace in traces(stack, tokens)])


def _over(cosines: Float[Tensor, "M B"], among: Bool[Tensor, "#M B"] | None = None) -> Cosine:
    """Mean and standard deviation over the pairs of sequences, or over those marked in `among`."""
    weight = torch.ones_like(cosines) if among is None else among.expand_as(cosines).to(cosines.dtype)
    n = weight.sum(-1)
    mean = (cosines * weight).sum(-1) / n
    variance = ((cosines - mean[:, None]).square() * weight).sum(-1) / (n - 1)
    return Cosine(mean, variance.sqrt(), n.long())


# Sequences of each type for the cosines, which vary little between sequences.
CONTEXTS = 2000


@per_network()
def _contexts(network: Network) -> dict[int, Tensor]:
    return random_contexts([network.config], network.seen[None], min(network.n, CONTEXTS))


@per_network(slow=True)
def across_types_of(network: Network) -> dict[tuple[int, int], Matching]:
    """Figure cosine_sim_combined (a) on random contexts, by the two types of sequences."""
    return across_types(network.stack, _contexts(network))


@per_network(slow=True)
def on_template_of(network: Network) -> Matching:
    """Figure cosine_sim_combined (a) on one fixed template."""
    return on_template(network.stack)


@per_network(slow=True)
def against_ov2_of(network: Network) -> dict[int, AgainstOV2]:
    """Figure cosine_sim_combined (b), by the number of variables in the sum."""
    return {n_vars: against_ov2(network.stack, tokens) for n_vars, tokens in _contexts(network).items()}
