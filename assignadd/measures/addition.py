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
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.measures.sequences import sequences
from assignadd.model.architecture import PAPER_NEEDS, needs
from assignadd.model.circuits import OV
from assignadd.model.forward import largest, traces
from assignadd.model.stack import Stack
from assignadd.network import Network, per_network
from assignadd.task.arithmetic import answer_of, tuple_values
from assignadd.task.positions import with_values

# A frequency is one of the network's if its share of the preactivations' power is at least this multiple of 1/F.
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
    """The number with the largest of the logits relu(x_a + x_b) @ readout, for every pair of numbers (a, b).

    x_n is row n of the preactivations. The last two axes are a and b.
    """
    # For each a, the answers by b, (..., N). x_a is (..., 1, h).
    answers_with_a = [largest((x_a + preactivations).relu() @ readout) for x_a in preactivations.split(1, -2)]
    return torch.stack(answers_with_a, -2)


def is_answer(task: Task, answers: Int[Tensor, "*M N N"]) -> Bool[Tensor, "*M N N"]:
    """Which of the answers to all pairs of numbers (n, m), in row n and column m, are right."""
    n = torch.arange(task.modulus, device=answers.device)
    return answers == answer_of(task, (n[:, None], n))


def ov2_mlp2_correct(stack: Stack) -> Bool[Tensor, "M N N"]:
    """Which of the N^2 pairs the circuit adds correctly."""
    return is_answer(stack.config.task, best_answers(number_preactivations(stack), mlp_readout(stack)))


def ov2_mlp2_accuracy(stack: Stack) -> Float[Tensor, " M"]:
    """Share of all pairs that the circuit adds correctly (99.94 % in the paper)."""
    return ov2_mlp2_correct(stack).float().mean((1, 2))


def wrong_pairs(stack: Stack) -> list[list[tuple[int, int]]]:
    """For each model, the pairs (n, m) that the circuit adds wrongly."""
    return [[(n, m) for n, m in is_wrong.nonzero().tolist()] for is_wrong in ~ov2_mlp2_correct(stack)]


def double_preference(stack: Stack) -> Float[Tensor, " M"]:
    """How far the circuit prefers 2n and 2m to other wrong answers to n + m, over all pairs n != m (cf. App. C's M_k).

    It is the mean advantage of their logits over the mean of the other wrong answers, divided by the advantage of the
    right answer: 0 without such a preference, 0.5 in M_k = 2 1{k = n + m} + 1{k = 2n} + 1{k = 2m}.
    """
    task = stack.config.task
    n = torch.arange(task.modulus, device=stack.flat.device)
    right = answer_of(task, (n[:, None], n))  # (N, N): n + m
    double = answer_of(task, (n, n))[:, None].expand(-1, len(n))  # (N, N): 2n; transposed it is 2m
    answers = torch.stack([right, double, double.T], -1)  # (N, N, 3)
    is_different = ~torch.eye(len(n), dtype=torch.bool, device=n.device)  # n != m
    preferences = []
    for preactivations, readout in zip(number_preactivations(stack), mlp_readout(stack), strict=True):
        logits = (preactivations[:, None] + preactivations).relu() @ readout  # (N, N, N)
        is_other = torch.ones_like(logits).scatter_(-1, answers, 0.0)  # 1 for all answers but these three
        mean_of_others = (logits * is_other).sum(-1) / is_other.sum(-1)  # (N, N)
        of_right, *of_doubles = (logits.gather(-1, answers) - mean_of_others[..., None]).unbind(-1)  # (N, N) each
        preference = torch.stack(of_doubles).mean(0) / of_right
        preferences.append(preference[is_different].mean())
    return torch.stack(preferences)


def fourier_basis(N: int) -> Float[Tensor, "N N"]:
    """Orthonormal rows in float64: the constant, then cosine and sine of frequency 1, of frequency 2, and so on."""
    n = torch.arange(N, dtype=torch.float64)
    k = basis_frequencies(N)  # of each row
    angle = 2 * math.pi * ((k[:, None] * n) % N) / N
    is_sine = (torch.arange(N) % 2 == 0)[:, None] & (k > 0)[:, None]  # rows 2, 4, ...; row 0 is the constant
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
    total = by_frequency.sum(1, keepdim=True)
    return by_frequency / total.clamp(min=torch.finfo(power.dtype).tiny)


def _by_frequency(power: Float[Tensor, "M rows ..."]) -> Float[Tensor, "M F ..."]:
    """The power of each frequency, that of cosine plus sine; `power` is that of the basis without its constant."""
    N = power.shape[1] + 1
    frequency = basis_frequencies(N)[1:].to(power.device)
    by_frequency = power.new_zeros(len(power), N // 2, *power.shape[2:])  # frequency k in entry k - 1
    return by_frequency.index_add_(1, frequency - 1, power)


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
    """The waves of the circuit's preactivations (OV2(n) + OV2(m)) W_in; by symmetry A = B and alpha = beta."""
    of_number = number_preactivations(stack)  # (M, N, h)
    return waves(of_number[:, :, None] + of_number[:, None])


def context_preactivations(
    stack: Stack, configs: Sequence[Config], seen: Bool[Tensor, "M N N"]
) -> Float[Tensor, "M N N h"]:
    """The last MLP's mean preactivations for all pairs, over three sequences as in training, of every type."""
    task, N = stack.config.task, stack.config.task.modulus
    pairs = torch.stack(tuple_values(torch.arange(N * N, device=stack.flat.device), N), 1)  # (N^2, 2)
    total = stack.flat.new_zeros(())  # (M, N^2, h) after the first addition
    for n_vars in (0, 1, 2):
        tokens = with_values(task, sequences(configs, seen, n_vars, N * N).tokens, pairs)  # (M, N^2, T)
        total = total + torch.stack([trace.preactivations for trace in traces(stack, tokens)])  # (M, N^2, h)
    return (total / 3).unflatten(1, (N, N))


def waves(preactivations: Float[Tensor, "M N N h"]) -> Waves:
    """The wave of one frequency that fits each neuron best, by projection of its mean over either operand."""
    N = preactivations.shape[1]
    of_first, of_second = preactivations.mean(2), preactivations.mean(1)  # (M, N, h): the mean over the other operand
    marginals = torch.stack([of_first, of_second], 1)  # (M, 2, N, h)
    mean = of_first.mean(1)[:, None, None]  # (M, 1, 1, h): over all pairs
    variance = (preactivations - mean).square_().sum((1, 2))  # (M, h)
    coefficients = (fourier_basis(N).to(marginals) @ marginals)[:, :, 1:]  # (M, 2, N - 1, h)
    power = N * coefficients.square().sum(1)  # (M, N - 1, h): each value of an operand is in N pairs
    power_of_best, best = _by_frequency(power).max(1)  # (M, h): the frequency minus 1
    frequency = best + 1
    # Entry 2k - 2 of the coefficients is the cosine of frequency k, the next one its sine; k = N/2 has none, so 0.
    padded = torch.cat([coefficients, torch.zeros_like(coefficients[:, :, :1])], 2)
    index_of_cosine = (2 * best)[:, None, None].expand(-1, 2, 1, -1)
    cosine = padded.gather(2, index_of_cosine).squeeze(2)  # (M, 2, h)
    sine = padded.gather(2, index_of_cosine + 1).squeeze(2)
    # The largest entry of a row of the basis, which has norm 1: sqrt(2 / N), and sqrt(1 / N) for the row of k = N/2.
    unit = (torch.where(2 * frequency == N, 1, 2).to(cosine) / N).sqrt()[:, None]
    return Waves(
        frequency,
        share=power_of_best / variance.clamp(min=torch.finfo(variance.dtype).tiny),
        amplitude=unit * torch.hypot(cosine, sine),
        phase=torch.atan2(-sine, cosine),
    )


class Filtered(NamedTuple):
    """Accuracies of the circuit on all N^2 pairs, if OV2(n) has only its constant and some of its frequencies.

    The addition uses the network's frequencies if `restricted` is near 1, and only them if `excluded` is near chance.
    """

    restricted: Float[Tensor, " M"]
    """With only the network's frequencies."""
    excluded: Float[Tensor, " M"]
    """With all other frequencies."""


def filtered_accuracies(stack: Stack) -> Filtered:
    """The accuracies of the circuit with only the network's frequencies, and with only the others."""
    is_of_network, preactivations = network_frequencies(stack), number_preactivations(stack)
    accuracies = []
    # Each part is added up from its own frequencies: a difference from the whole would have rounding errors.
    for is_kept in (is_of_network, ~is_of_network):  # (M, F)
        of_models = zip(preactivations.split(1), is_kept, strict=True)
        filtered = torch.cat([restricted_to(of_model, frequencies) for of_model, frequencies in of_models])
        is_right = is_answer(stack.config.task, best_answers(filtered, mlp_readout(stack)))
        accuracies.append(is_right.to(filtered.dtype).mean((1, 2)))
    return Filtered(*accuracies)


def restricted_to(functions: Float[Tensor, "M N d"], frequencies: Bool[Tensor, " F"]) -> Float[Tensor, "M N d"]:
    """The d functions of a number restricted to the frequencies that a mask chooses, and the constant."""
    return at_frequencies(functions, frequencies) + functions.mean(1, keepdim=True)


def at_frequencies(functions: Float[Tensor, "M N d"], frequencies: Bool[Tensor, " F"]) -> Float[Tensor, "M N d"]:
    """The d functions of a number restricted to the frequencies that a mask chooses, without the constant."""
    basis = fourier_basis(functions.shape[1]).to(functions)
    with_constant = torch.cat([frequencies.new_zeros(1), frequencies])  # (F + 1,): the constant is frequency 0
    rows = basis[with_constant[basis_frequencies(len(basis)).to(frequencies.device)]]
    return rows.T @ (rows @ functions)


@per_network(slow=True)
def waves_of(network: Network) -> Waves:
    """The wave that fits each neuron best, over all pairs in contexts of the training distribution."""
    return waves(context_preactivations(network.stack, [network.config], network.seen[None]))


@per_network(slow=True)
def filtered_of(network: Network) -> Filtered:
    """The accuracies of the network's circuit with only its frequencies, and with only the others."""
    return filtered_accuracies(network.stack)
