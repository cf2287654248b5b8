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
    """The answer to every pair (a, b): the one with the largest of the logits relu(x_a + x_b) `readout`.

    x_n, row n of the preactivations, is what the number n alone gives to each neuron. As x_a + x_b = x_b + x_a, half of
    the pairs are enough: (a, b) with b = a + shift mod N, for all a and the shifts 0..N/2.
    """
    N = preactivations.shape[-2]
    twice = torch.cat([preactivations, preactivations], -2)  # row a + shift is that of a + shift mod N
    of_b = twice.unfold(-2, N, 1)[..., : N // 2 + 1, :, :].mT  # (..., shift, a, h)
    of_a = preactivations.unsqueeze(-3)  # (..., 1, a, h)
    answers = []
    for of_b_at_some_shifts in of_b.split(SHIFTS, -3):
        neurons = (of_a + of_b_at_some_shifts).relu_()
        answers.append(largest(neurons.flatten(-3, -2) @ readout))  # (..., shifts N)
    return torch.cat(answers, -1)[..., _row_of_pair(N).to(preactivations.device)]


@lru_cache(maxsize=8)
def _row_of_pair(N: int) -> Int[Tensor, "N N"]:
    """The place of every pair (a, b) in a list of the pairs (n, n + shift mod N): N shift + n, with shifts 0..N/2.

    The pair itself is in the list, or (b, a) is.
    """
    a, b = torch.arange(N)[:, None], torch.arange(N)
    shift, shift_of_mirrored = (b - a) % N, (a - b) % N  # the smaller one is at most N/2
    return torch.where(shift <= N // 2, N * shift + a, N * shift_of_mirrored + b)


def is_answer(task: Task, answers: Int[Tensor, "*M N N"]) -> Bool[Tensor, "*M N N"]:
    """Which of the answers to all pairs of numbers (n, m), in row n and column m, are right."""
    n = torch.arange(task.modulus, device=answers.device)
    return answers == answer_of(task, (n[:, None], n))


def ov2_mlp2_correct(stack: Stack) -> Bool[Tensor, "M N N"]:
    """Which of the N^2 pairs the circuit adds correctly."""
    preactivations, readout = number_preactivations(stack), mlp_readout(stack)
    if stack.flat.device.type == "cpu":  # one model after the other stays in the caches
        of_models = zip(preactivations, readout, strict=True)
        answers = torch.stack([best_answers(of_numbers, of_neurons) for of_numbers, of_neurons in of_models])
    else:
        answers = best_answers(preactivations, readout)
    return is_answer(stack.config.task, answers)


def ov2_mlp2_accuracy(stack: Stack) -> Float[Tensor, " M"]:
    """Share of all pairs that the circuit adds correctly (99.94 % in the paper)."""
    return ov2_mlp2_correct(stack).float().mean((1, 2))


def double_preference(stack: Stack) -> Float[Tensor, " M"]:
    """How far the circuit prefers 2n and 2m to other wrong answers to n + m, over all pairs n != m (cf. App. C's M_k).

    The mean advantage of their logits over the mean of the other wrong answers, divided by that of the right answer:
    0 without such a preference, 0.5 in M_k = 2 1{k = n + m} + 1{k = 2n} + 1{k = 2m}.
    """
    task = stack.config.task
    n = torch.arange(task.modulus, device=stack.flat.device)
    right = answer_of(task, (n[:, None], n))  # (N, N): n + m
    double = answer_of(task, (n, n))[:, None].expand(-1, len(n))  # (N, N): 2n; transposed it is 2m
    answers = torch.stack([right, double, double.T], -1)  # (N, N, 3): n + m, 2n, 2m
    is_different = ~torch.eye(len(n), dtype=torch.bool, device=n.device)  # n != m
    preferences = []
    for preactivations, readout in zip(number_preactivations(stack), mlp_readout(stack), strict=True):
        logits = (preactivations[:, None] + preactivations).relu() @ readout  # (N, N, N)
        is_other = torch.ones_like(logits).scatter_(-1, answers, 0.0)  # 1 for all answers but these three
        mean_of_others = (logits * is_other).sum(-1) / is_other.sum(-1)  # (N, N)
        advantage = logits.gather(-1, answers) - mean_of_others[..., None]  # (N, N, 3)
        preference = advantage[..., 1:].mean(-1) / advantage[..., 0]
        preferences.append(preference[is_different].mean())
    return torch.stack(preferences)


def wrong_pairs(stack: Stack) -> list[list[tuple[int, int]]]:
    """For each model, the pairs (n, m) that the circuit adds wrongly."""
    return [[(n, m) for n, m in is_wrong.nonzero().tolist()] for is_wrong in ~ov2_mlp2_correct(stack)]


@lru_cache(maxsize=8)
def fourier_basis(N: int) -> Float[Tensor, "N N"]:
    """Orthonormal rows in float64: the constant, then cosine and sine of frequency 1, of frequency 2, and so on."""
    n, k = torch.arange(N, dtype=torch.float64), basis_frequencies(N)
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
    """The power of each frequency, from that of its cosine and its sine: the rows of the basis without the constant."""
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
    """The waves of the circuit's preactivations (OV2(n) + OV2(m)) W_in; by symmetry A = B and alpha = beta."""
    of_number = number_preactivations(stack)  # (M, N, h)
    mean = of_number.mean(1, keepdim=True)
    N = of_number.shape[1]
    # Over all N^2 pairs, the sum of squares of what n adds and that of what m adds.
    variance = 2 * N * (of_number - mean).square().sum(1)
    marginal = of_number + mean  # the mean over one operand as a function of the other
    return _fitted_waves(marginal.unsqueeze(1).expand(-1, 2, -1, -1), variance)


def context_preactivations(
    stack: Stack, configs: Sequence[Config], seen: Bool[Tensor, "M N N"]
) -> Float[Tensor, "M N N h"]:
    """The last MLP's mean preactivations for all pairs (n, m), over three sequences with 0, 1 and 2 variables.

    Apart from the pair the sequences are as in training.
    """
    task, N = stack.config.task, stack.config.task.modulus
    pairs = torch.stack(tuple_values(torch.arange(N * N, device=stack.flat.device), N), 1)  # (N^2, 2)
    drawn = [sequences(configs, seen, n_vars, N * N).tokens for n_vars in (0, 1, 2)]
    tokens_of_types = [with_values(task, tokens, pairs) for tokens in drawn]  # (M, N^2, T) each

    def mean_of(part: str) -> Tensor:
        """The mean of this part of the `Trace` over the three types, (M, N^2, ...)."""
        thirds = []
        for tokens in tokens_of_types:
            thirds.append(torch.stack([getattr(trace, part) / 3 for trace in traces(stack, tokens)]))
        return thirds[0] + thirds[1] + thirds[2]

    # Where the preactivations are linear in the residual, the mean is taken of the residual, which has fewer numbers.
    is_linear = covers(stack.config)
    mean = mean_of("resid_mid") @ stack["blocks.1.mlp.W_in"] if is_linear else mean_of("preactivations")
    return mean.unflatten(1, (N, N))


def waves(preactivations: Float[Tensor, "M N N h"]) -> Waves:
    """The wave of one frequency that fits each neuron best, by projection of its mean over either operand."""
    of_first, of_second = preactivations.mean(2), preactivations.mean(1)  # (M, N, h): the mean over the other operand
    marginals = torch.stack([of_first, of_second], 1)  # (M, 2, N, h)
    mean = marginals[:, :1].mean(2, keepdim=True)  # (M, 1, 1, h): over all pairs
    variance = (preactivations - mean).square_().sum((1, 2))
    return _fitted_waves(marginals, variance)


def _fitted_waves(marginals: Float[Tensor, "M 2 N h"], variance: Float[Tensor, "M h"]) -> Waves:
    """The best wave of each neuron, from its mean as a function of either operand.

    `variance` is the sum of the squares about its mean, over all pairs.
    """
    N = marginals.shape[2]
    coefficients = (fourier_basis(N).to(marginals) @ marginals)[:, :, 1:]  # (M, 2, N - 1, h)
    power = N * coefficients.square().sum(1)  # (M, N - 1, h): each value of an operand is in N pairs
    by_frequency = _by_frequency(power)  # (M, F, h)
    best = by_frequency.argmax(1)  # (M, h): the frequency minus 1
    frequency = best + 1
    share = by_frequency.amax(1) / variance.clamp(min=torch.finfo(variance.dtype).tiny)
    # Entry 2k - 2 of the coefficients is the cosine of frequency k, the next one its sine (0 for k = N/2, which has
    # none).
    padded = torch.cat([coefficients, torch.zeros_like(coefficients[:, :, :1])], 2)
    index_of_cosine = (2 * best)[:, None, None].expand(-1, 2, 1, -1)
    cosine = padded.gather(2, index_of_cosine).squeeze(2)  # (M, 2, h)
    sine = padded.gather(2, index_of_cosine + 1).squeeze(2)
    # The largest entry of a row of the basis, which has norm 1: sqrt(2 / N), and sqrt(1 / N) for the row of k = N/2.
    unit = (torch.where(2 * frequency == N, 1, 2).to(share) / N).sqrt()[:, None]
    return Waves(frequency, share, amplitude=unit * torch.hypot(cosine, sine), phase=torch.atan2(-sine, cosine))


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
    for is_network_frequency, preactivations, readout in of_models:
        # The rest is computed as `restricted_to` too: the difference of all and the first part would leave rounding
        # errors instead of a constant where no frequency is left, and a network can tell such errors apart.
        restricted = restricted_to(preactivations[None], is_network_frequency)
        excluded = restricted_to(preactivations[None], ~is_network_frequency)
        answers = torch.stack([best_answers(part, readout) for part in torch.cat([restricted, excluded])])
        accuracies.append(is_answer(stack.config.task, answers).to(preactivations.dtype).mean((1, 2)))
    of_restricted, of_excluded = torch.stack(accuracies, 1)  # (M,) each
    return Filtered(of_restricted, of_excluded)


def restricted_to(functions: Float[Tensor, "M N d"], frequencies: Bool[Tensor, " F"]) -> Float[Tensor, "M N d"]:
    """The functions of a number restricted to these frequencies (a mask) and the constant."""
    return at_frequencies(functions, frequencies) + functions.mean(1, keepdim=True)


def at_frequencies(functions: Float[Tensor, "M N d"], frequencies: Bool[Tensor, " F"]) -> Float[Tensor, "M N d"]:
    """The functions of a number restricted to these frequencies (a mask), without the constant."""
    basis = fourier_basis(functions.shape[1]).to(functions)
    from_constant_on = torch.cat([frequencies.new_zeros(1), frequencies])  # the constant is frequency 0
    is_in = from_constant_on[basis_frequencies(len(basis)).to(frequencies.device)]  # for each row of the basis
    return basis[is_in].T @ (basis[is_in] @ functions)


@per_network(slow=True)
def waves_of(network: Network) -> Waves:
    """The best wave of every neuron, over all pairs in contexts of the training distribution."""
    return waves(context_preactivations(network.stack, [network.config], network.seen[None]))


@per_network(slow=True)
def filtered_of(network: Network) -> Filtered:
    """The accuracies of the network's circuit with frequencies removed."""
    return filtered_accuracies(network.stack)
