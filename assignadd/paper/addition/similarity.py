"""Cosine similarities of the residual of `=` before MLP2 (paper, section 5.1, figure cosine_sim_combined)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from assignadd.config import Config
from assignadd.measures.addition import number_outputs
from assignadd.measures.sequences import sequences
from assignadd.model.forward import traces
from assignadd.model.stack import Stack
from assignadd.network import Network, per_network
from assignadd.task import examples
from assignadd.task.positions import roles, with_values

PAIRS_OF_TYPES = ((0, 1), (0, 2), (1, 2))  # types of sequences, by the number of variables in the sum
CONTEXTS = 2000  # sequences of each type; cosines vary little between sequences


class CosineSummary(NamedTuple):
    """Mean and standard deviation of cosines over pairs of vectors, and the number of pairs, for each model."""

    mean: Float[Tensor, " M"]
    std: Float[Tensor, " M"]
    n: Int[Tensor, " M"]


class Matching(NamedTuple):
    """Cosines between sequences of two types (figure cosine_sim_combined a)."""

    matched: CosineSummary  # both add the same two values in the same slots
    mismatched: CosineSummary  # they add different values; n + m and m + n are not different


class Shuffles(NamedTuple):
    """Cosines of a vector at `=` with OV2(a) + OV2(b)."""

    matched: CosineSummary  # a and b are the two values of the sequence
    second_shuffled: CosineSummary  # b is that of another sequence (baseline of the paper's code)
    both_shuffled: CosineSummary  # a and b are those of two other sequences


class AgainstOV2(NamedTuple):
    """Cosines with OV2(a) + OV2(b) (figure cosine_sim_combined b), for both vectors that the text could mean."""

    residual: Shuffles  # the whole residual at `=` before MLP2
    attention_output: Shuffles  # only the output of layer 2's attention there


def random_contexts(
    configs: Sequence[Config], seen: Bool[Tensor, "M N N"], n: int
) -> dict[int, Int[Tensor, "M {n} T"]]:
    """`n` sequences of each model by number of variables; these are in any slot, as the claim is about any sequence."""
    without_bans = [replace(config, task=replace(config.task, banned_first="", banned_second="")) for config in configs]
    return {n_vars: sequences(without_bans, seen, n_vars, n).tokens for n_vars in (0, 1, 2)}


def across_types(stack: Stack, contexts: Mapping[int, Int[Tensor, "#M B T"]]) -> dict[tuple[int, int], Matching]:
    """Cosines between sequences of two types, by the numbers of variables (figure cosine_sim_combined a).

    `contexts` has random sequences of each type. Sequence i of every type gets the values of sequence i of type 0.
    Sequence i of both types is then a matched pair; sequence i of one type and sequence i + 1 of the other, which have
    nothing in common, are a mismatched pair, unless they happen to add the same values.
    """
    task = stack.config.task
    values = roles(task, contexts[0]).values  # (M, B, 2)
    residuals = {n_vars: _residuals(stack, with_values(task, tokens, values)) for n_vars, tokens in contexts.items()}
    next_values = values.roll(-1, dims=1)
    # Sorted, since n + m and m + n are not different.
    is_different = (values.sort(-1).values != next_values.sort(-1).values).any(-1)  # (M, B)
    cosines = {}
    for x, y in PAIRS_OF_TYPES:
        matched = cosine_similarity(residuals[x], residuals[y], -1)  # (M, B)
        mismatched = cosine_similarity(residuals[x], residuals[y].roll(-1, dims=1), -1)
        cosines[x, y] = Matching(_summary(matched), _summary(mismatched, is_different))
    return cosines


def against_ov2(stack: Stack, tokens: Int[Tensor, "#M B T"]) -> AgainstOV2:
    """Cosines of both vectors at `=` with OV2(a) + OV2(b) (figure cosine_sim_combined b).

    The sequences are in random order, so an operand is shuffled by taking that of the next sequence, or of the one
    after it where both operands are to be from different sequences.
    """
    values = roles(stack.config.task, tokens).values.expand(len(stack), -1, -1)  # (M, B, 2)
    cosines_by_model = []
    for trace, values_of_model, ov2 in zip(traces(stack, tokens), values, number_outputs(stack), strict=True):
        first, second = values_of_model.unbind(-1)  # (B,) each
        # The numbers of the three shuffles, in the order of the fields of `Shuffles`.
        a = torch.stack([first, first, first.roll(-2)])  # (3, B)
        b = torch.stack([second, second.roll(-1), second.roll(-1)])  # (3, B)
        at_equals = normalize(torch.stack([trace.resid_mid, trace.attention_output]), dim=-1)  # (2 vectors, B, d)
        # Products with OV2(n) for all N numbers are fewer than those with a vector for each sequence and shuffle.
        products = at_equals @ ov2.T  # (2, B, N)
        sequence = torch.arange(len(first), device=first.device)  # (B,)
        # |OV2(a) + OV2(b)| for all a and b, (N, N); not 0, as it is divided by.
        lengths = (ov2.unsqueeze(1) + ov2).norm(dim=-1).clamp(min=1e-12)
        cosines_by_model.append((products[:, sequence, a] + products[:, sequence, b]) / lengths[a, b])  # (2, 3, B)
    cosines = torch.stack(cosines_by_model, 2)  # (vectors, shuffles, M, B)
    residual, attention_output = [Shuffles(*map(_summary, of_shuffles)) for of_shuffles in cosines]
    return AgainstOV2(residual, attention_output)


def on_template(stack: Stack) -> Matching:
    """Cosines between types on one template with all N^2 pairs of values (figure cosine_sim_combined a).

    All pairs of sequences with different values are mismatched. The paper does not give its template; ours is
    `task.examples.template`.
    """
    N = stack.config.task.modulus
    with_variables, with_literals = examples.template(stack.config.task)  # (N^2, T): row a N + b has the values (a, b)
    u = normalize(_residuals(stack, with_variables[None].to(stack.flat.device)).double(), dim=-1)  # (M, N^2, d)
    v = normalize(_residuals(stack, with_literals[None].to(stack.flat.device)).double(), dim=-1)
    row = torch.arange(N * N, device=u.device)
    mirror = row.view(N, N).T.flatten()  # for the row of (a, b) the row of (b, a)
    matched = (u * v).sum(-1)  # (M, N^2)
    mirrored = (u * v[:, mirror]).sum(-1)[:, mirror != row]  # a double is its own mirror image
    # The sum of all N^4 cosines is (sum u).(sum v), the sum of their squares is <U^T U, V^T V>: no N^4 numbers are
    # needed. From both sums those of matched and mirrored rows are subtracted.
    excluded = torch.cat([matched, mirrored], 1)
    n = len(row) ** 2 - excluded.shape[1]  # number of mismatched pairs of sequences
    total = torch.stack([sum_u @ sum_v for sum_u, sum_v in zip(u.sum(1), v.sum(1), strict=True)])  # (M,)
    mean = (total - excluded.sum(1)) / n
    mean_square = (((u.mT @ u) * (v.mT @ v)).sum((1, 2)) - excluded.square().sum(1)) / n
    deviation = (mean_square - mean**2).clamp(min=0).sqrt()
    return Matching(_summary(matched), CosineSummary(mean, deviation, torch.full_like(mean, n, dtype=torch.int64)))


def _residuals(stack: Stack, tokens: Tensor) -> Tensor:
    """The residual of `=` before MLP2 in each sequence, (M, B, d)."""
    return torch.stack([trace.resid_mid for trace in traces(stack, tokens)])


def _summary(cosines: Float[Tensor, "M B"], counted: Bool[Tensor, "#M B"] | None = None) -> CosineSummary:
    """Mean, standard deviation and number of each model's cosines: of those marked in `counted`, of all for None."""
    counted = torch.ones_like(cosines, dtype=torch.bool) if counted is None else counted
    weight = counted.expand_as(cosines).to(cosines.dtype)  # (M, B): 1 where it counts, 0 elsewhere
    n = weight.sum(-1)  # (M,)
    mean = (cosines * weight).sum(-1) / n
    variance = ((cosines - mean[:, None]).square() * weight).sum(-1) / (n - 1)
    return CosineSummary(mean, variance.sqrt(), n.long())


@per_network()
def _contexts(network: Network) -> dict[int, Tensor]:
    """The random sequences that a network's cosines are measured on, by their number of variables, (1, B, T) each."""
    return random_contexts([network.config], network.seen[None], min(network.n, CONTEXTS))


@per_network(slow=True)
def across_types_of(network: Network) -> dict[tuple[int, int], Matching]:
    """Cosines between the residuals of a network's random sequences of two types (`across_types`), by the two types."""
    return across_types(network.stack, _contexts(network))


@per_network(slow=True)
def on_template_of(network: Network) -> Matching:
    """Cosines between the residuals of a network's sequences of two types on one fixed template (`on_template`)."""
    return on_template(network.stack)


@per_network(slow=True)
def against_ov2_of(network: Network) -> dict[int, AgainstOV2]:
    """A network's cosines with OV2(a) + OV2(b), by the number of variables."""
    return {n_vars: against_ov2(network.stack, tokens) for n_vars, tokens in _contexts(network).items()}
