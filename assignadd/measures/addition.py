"""The isolated addition circuit W_U MLP2(OV2(a) + OV2(b)), without attention and residual, and its Fourier features
(section 5.1; App. B; figure preacts shows one neuron of MLP2).

Functions of a number n are written in the orthonormal real basis over Z_N: the constant, then cos(2 pi k n / N) and
sin(2 pi k n / N) for k = 1..F, where F = N // 2 (for even N the last one has no sine). Every preactivation of the
circuit is a function of the first operand plus a function of the second, so a spectrum over numbers describes it.
Entry k - 1 of an axis F is frequency k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.measures.sequences import sequences
from assignadd.model.architecture import PAPER_NEEDS, needs
from assignadd.model.circuits import OV
from assignadd.model.forward import largest, traces
from assignadd.model.stack import Stack
from assignadd.model.table import covers
from assignadd.network import Network, per_network
from assignadd.task.arithmetic import answer_of, tuple_values
from assignadd.task.positions import with_values

# Shifts b - a for which the neurons of all pairs (a, b) are in memory at once: 1 MB for the paper's sizes.
SHIFTS = 8
# A frequency is one of the network's if its share of the preactivations' power is at least this multiple of 1/F. On the
# paper's network the weakest of its ten frequencies has 2.1 / F, the strongest of the rest .015 / F.
LEAST_SHARE = 0.5


@needs(*PAPER_NEEDS)
def number_outputs(stack: Stack) -> Float[Tensor, "M N d"]:
    """OV2(e_n): what layer 2 adds to `=` if it attends only to the number n."""
    return stack.W_E[:, : stack.config.task.modulus] @ OV(stack, 2)


def number_preactivations(stack: Stack) -> Float[Tensor, "M N h"]:
    """OV2(e_n) W_in: what the number n alone gives to each neuron of MLP2."""
    return number_outputs(stack) @ stack["blocks.1.mlp.W_in"]


def mlp_readout(stack: Stack) -> Float[Tensor, "M h N"]:
    """W_out W_U: what each neuron of MLP2 adds to the logits."""
    return stack["blocks.1.mlp.W_out"] @ stack.W_U


def best_answers(preactivations: Float[Tensor, "*M N h"], readout: Float[Tensor, "*M h N"]) -> Int[Tensor, "*M N N"]:
    """The answer with the largest logit relu(x_a + x_b) `readout` for all pairs (a, b); x has a row for every number.

    x_a + x_b = x_b + x_a is computed once: with b = a + shift mod N, for all a and the shifts 0..N/2.
    """
    x, N = preactivations, preactivations.shape[-2]
    shifted = torch.cat([x, x], -2).unfold(-2, N, 1)[..., : N // 2 + 1, :, :].mT  # (..., shift, a, h)
    best = []
    for part in shifted.split(SHIFTS, -3):
        neurons = (x.unsqueeze(-3) + part).relu_()
        best.append(largest(neurons.flatten(-3, -2) @ readout))  # (..., shifts N)
    return torch.cat(best, -1)[..., _row_of_pair(N).to(x.device)]


@lru_cache(maxsize=8)
def _row_of_pair(N: int) -> Int[Tensor, "N N"]:
    """N shift + a for the pair (a, a + shift mod N) and for its mirror image, where the shift is 0..N/2."""
    n = torch.arange(N)
    up, down = (n - n[:, None]) % N, (n[:, None] - n) % N  # b - a and a - b
    return torch.where(up <= N // 2, N * up + n[:, None], N * down + n)


def is_answer(task: Task, answers: Int[Tensor, "*M N N"]) -> Bool[Tensor, "*M N N"]:
    """Which of the answers to all pairs of numbers are right."""
    n = torch.arange(task.modulus, device=answers.device)
    return answers == answer_of(task, (n[:, None], n))


def ov2_mlp2_correct(stack: Stack) -> Bool[Tensor, "M N N"]:
    """Which of the N^2 pairs the circuit adds correctly."""
    x, readout = number_preactivations(stack), mlp_readout(stack)
    if stack.flat.device.type == "cpu":  # one model after the other stays in the caches
        best = torch.stack([best_answers(*of_model) for of_model in zip(x, readout, strict=True)])
    else:
        best = best_answers(x, readout)
    return is_answer(stack.config.task, best)


def ov2_mlp2_accuracy(stack: Stack) -> Float[Tensor, " M"]:
    """Share of all pairs that the circuit adds correctly (99.94 % in the paper)."""
    return ov2_mlp2_correct(stack).float().mean((1, 2))


def double_preference(stack: Stack) -> Float[Tensor, " M"]:
    """How far the circuit prefers 2n and 2m to other wrong answers to n + m, over all pairs n != m (cf. App. C's M_k).

    The mean advantage of their logits over the mean of the other wrong answers, divided by that of the right answer:
    0 without such a preference, 0.5 in M_k = 2 1{k = n + m} + 1{k = 2n} + 1{k = 2m}.
    """
    task, preferences = stack.config.task, []
    n = torch.arange(task.modulus, device=stack.flat.device)
    right = answer_of(task, (n[:, None], n))
    double = answer_of(task, (n, n))[:, None].expand(-1, len(n))  # 2n for the pair (n, m)
    named = torch.stack([right, double, double.T], -1)  # (N, N, 3)
    different = ~torch.eye(len(n), dtype=torch.bool, device=n.device)
    for x, readout in zip(number_preactivations(stack), mlp_readout(stack), strict=True):
        logits = (x[:, None] + x).relu() @ readout  # (N, N, N)
        is_other = torch.ones_like(logits).scatter_(-1, named, 0.0)
        advantage = logits.gather(-1, named) - ((logits * is_other).sum(-1) / is_other.sum(-1))[..., None]
        preferences.append((advantage[..., 1:].mean(-1) / advantage[..., 0])[different].mean())
    return torch.stack(preferences)


def wrong_pairs(stack: Stack) -> list[list[tuple[int, int]]]:
    """For each model, the pairs that the circuit adds wrongly."""
    return [[(n, m) for n, m in pairs.nonzero().tolist()] for pairs in ~ov2_mlp2_correct(stack)]


@lru_cache(maxsize=8)
def fourier_basis(N: int) -> Float[Tensor, "N N"]:
    """Orthonormal rows in float64: the constant, then cosine and sine of frequency 1, of frequency 2, and so on."""
    n, k = torch.arange(N, dtype=torch.float64), basis_frequencies(N)
    angle = 2 * math.pi * ((k[:, None] * n) % N) / N
    is_sine = (torch.arange(N) % 2 == 0)[:, None] & (k > 0)[:, None]
    rows = torch.where(is_sine, angle.sin(), angle.cos())
    return rows / rows.norm(dim=1, keepdim=True)


def basis_frequencies(N: int) -> Int[Tensor, " N"]:
    """The frequency of every row of the basis: 0, 1, 1, 2, 2, ..."""
    return (torch.arange(N) + 1) // 2


def spectrum(functions: Float[Tensor, "M N d"]) -> Float[Tensor, "M F"]:
    """Share of each frequency in the power of d functions of a number without their means; 0 if they are constant."""
    N = functions.shape[1]
    centred = functions - functions.mean(1, keepdim=True)
    power = (fourier_basis(N)[1:].to(functions) @ centred).square().sum(-1)  # (M, N - 1)
    by_frequency = _by_frequency(power)
    return by_frequency / by_frequency.sum(1, keepdim=True).clamp(min=torch.finfo(power.dtype).tiny)


def _by_frequency(power: Float[Tensor, "M rows ..."]) -> Float[Tensor, "M F ..."]:
    """The power of each frequency: the sum over its cosine and its sine, the rows of the basis after the constant."""
    N = power.shape[1] + 1
    frequency = basis_frequencies(N)[1:].to(power.device)
    return power.new_zeros(len(power), N // 2, *power.shape[2:]).index_add_(1, frequency - 1, power)


def preactivation_spectrum(stack: Stack) -> Float[Tensor, "M F"]:
    """The spectrum of the neurons' preactivations OV2(n) W_in as functions of one operand n."""
    return spectrum(number_preactivations(stack))


def network_frequencies(stack: Stack) -> Bool[Tensor, "M F"]:
    """Which frequencies are the network's: those with a share of at least 1 / (2F) of its preactivations' power."""
    shares = preactivation_spectrum(stack)
    return shares >= LEAST_SHARE / shares.shape[1]


@dataclass(frozen=True)
class Waves:
    """Every neuron's best fit A cos(2 pi k n / N + alpha) + B cos(2 pi k m / N + beta) with one frequency k."""

    frequency: Int[Tensor, "M h"]
    share: Float[Tensor, "M h"]
    """Share of the variance over the N^2 pairs that this fit explains (0 for a constant neuron)."""
    amplitude: Float[Tensor, "M 2 h"]
    """A for the first operand, B for the second."""
    phase: Float[Tensor, "M 2 h"]
    """alpha, beta in (-pi, pi]."""


def circuit_waves(stack: Stack) -> Waves:
    """The waves of the preactivations (OV2(n) + OV2(m)) W_in; by symmetry A = B and alpha = beta."""
    x = number_preactivations(stack)
    mean = x.mean(1, keepdim=True)
    variance = 2 * x.shape[1] * (x - mean).square().sum(1)  # that of x_n and of x_m, over all pairs
    return _fitted_waves((x + mean).unsqueeze(1).expand(-1, 2, -1, -1), variance)


def context_preactivations(
    stack: Stack, configs: Sequence[Config], seen: Bool[Tensor, "M N N"]
) -> Float[Tensor, "M N N h"]:
    """The last MLP's mean preactivations for all pairs (n, m), over a training sequence of each type."""
    task, N = stack.config.task, stack.config.task.modulus
    pairs = torch.stack(tuple_values(torch.arange(N * N, device=stack.flat.device), N), 1)
    of_types = [with_values(task, sequences(configs, seen, n_vars, N * N).tokens, pairs) for n_vars in (0, 1, 2)]

    def mean_of(part: str) -> Tensor:
        thirds = [torch.stack([getattr(trace, part) / 3 for trace in traces(stack, tokens)]) for tokens in of_types]
        return thirds[0] + thirds[1] + thirds[2]

    # Where the preactivations are linear in the residual, its mean has fewer numbers.
    linear = covers(stack.config)
    mean = mean_of("resid_mid") @ stack["blocks.1.mlp.W_in"] if linear else mean_of("preactivations")
    return mean.unflatten(1, (N, N))


def waves(preactivations: Float[Tensor, "M N N h"]) -> Waves:
    """The wave of one frequency that fits each neuron best, by projection of its mean over either operand."""
    marginals = torch.stack([preactivations.mean(2), preactivations.mean(1)], 1)  # (M, 2, N, h)
    mean = marginals[:, :1].mean(2, keepdim=True)  # (M, 1, 1, h)
    return _fitted_waves(marginals, (preactivations - mean).square_().sum((1, 2)))


def _fitted_waves(marginals: Float[Tensor, "M 2 N h"], variance: Float[Tensor, "M h"]) -> Waves:
    """The best waves, from each neuron's mean over either operand and its sum of squares about the mean over pairs."""
    N = marginals.shape[2]
    coefficients = (fourier_basis(N).to(marginals) @ marginals)[:, :, 1:]  # (M, 2, N - 1, h)
    power = N * coefficients.square().sum(1)  # (M, N - 1, h)
    by_frequency = _by_frequency(power)
    best = by_frequency.argmax(1)  # (M, h)
    share = by_frequency.amax(1) / variance.clamp(min=torch.finfo(variance.dtype).tiny)
    # Row 2k - 1 is the cosine of frequency k, row 2k its sine (which k = N/2 does not have).
    padded = torch.cat([coefficients, torch.zeros_like(coefficients[:, :, :1])], 2)
    at = (2 * best)[:, None, None].expand(-1, 2, 1, -1)
    cosine, sine = padded.gather(2, at).squeeze(2), padded.gather(2, at + 1).squeeze(2)  # (M, 2, h)
    unit = (torch.where(2 * (best + 1) == N, 1, 2).to(share) / N).sqrt()[:, None]  # the amplitude of a row of the basis
    return Waves(best + 1, share, unit * torch.hypot(cosine, sine), torch.atan2(-sine, cosine))


@dataclass(frozen=True)
class Filtered:
    """Accuracy of the OV2-MLP2 circuit on all N^2 pairs with a part of the frequencies of OV2(n), and its constant."""

    restricted: Float[Tensor, " M"]
    """With only the network's frequencies."""
    excluded: Float[Tensor, " M"]
    """With all other frequencies."""


def filtered_accuracies(stack: Stack) -> Filtered:
    """The accuracies of the circuit with frequencies removed.

    The addition uses the network's frequencies if `restricted` is near 1, and only them if `excluded` is near chance.
    """
    of_models = zip(network_frequencies(stack), number_preactivations(stack), mlp_readout(stack), strict=True)
    accuracies = []
    for is_own, x, readout in of_models:
        # With no frequency left this is a constant; a difference would leave rounding errors, which can be told apart.
        parts = torch.cat([restricted_to(x[None], is_own), restricted_to(x[None], ~is_own)])
        best = torch.stack([best_answers(part, readout) for part in parts])
        accuracies.append(is_answer(stack.config.task, best).to(x.dtype).mean((1, 2)))
    restricted, excluded = torch.stack(accuracies, 1)
    return Filtered(restricted, excluded)


def restricted_to(functions: Float[Tensor, "M N d"], keep: Bool[Tensor, " F"]) -> Float[Tensor, "M N d"]:
    """The functions of a number restricted to these frequencies and the constant."""
    return at_frequencies(functions, keep) + functions.mean(1, keepdim=True)


def at_frequencies(functions: Float[Tensor, "M N d"], keep: Bool[Tensor, " F"]) -> Float[Tensor, "M N d"]:
    """The functions of a number restricted to these frequencies, without the constant."""
    basis = fourier_basis(functions.shape[1]).to(functions)
    rows = torch.cat([keep.new_zeros(1), keep])[basis_frequencies(len(basis)).to(keep.device)]
    return basis[rows].T @ (basis[rows] @ functions)


@per_network(slow=True)
def waves_of(network: Network) -> Waves:
    """The best wave of every neuron, over all pairs in contexts of the training distribution."""
    return waves(context_preactivations(network.stack, [network.config], network.seen[None]))


@per_network(slow=True)
def filtered_of(network: Network) -> Filtered:
    """The accuracies of the network's circuit with frequencies removed."""
    return filtered_accuracies(network.stack)
