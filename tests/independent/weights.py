"""Quantities of the weights alone: QK1 on positions, QK2 on copied variables, OV-MLP, Fourier shares (section 5)."""

from __future__ import annotations

import numpy as np

from tests.independent.network import Network
from tests.independent.sequences import FIRST_VARIABLE, PREFIX, N, V


def previous_position_share(net: Network, without_self: bool, without_two_back: bool) -> float:
    """Share of positions i = 1..11 whose largest P_i QK1 P_j^T, over j <= i and not excluded, is at j = i - 1."""
    P = net.W_pos[:PREFIX]
    scores = P @ net.QK1 @ P.T
    hits = 0
    for i in range(1, PREFIX):
        keys = [j for j in range(i + 1) if not (without_self and j == i) and not (without_two_back and j == i - 2)]
        hits += max(keys, key=lambda j: scores[i, j]) == i - 1
    return hits / (PREFIX - 1)


def variable_scores(net: Network) -> np.ndarray:
    """(E_var OV1) QK2 (E_var OV1)^T, unscaled, (V, V)."""
    x = net.W_E[FIRST_VARIABLE : FIRST_VARIABLE + V] @ net.OV1
    return x @ net.QK2 @ x.T


def identity_share(net: Network) -> float:
    """Share of variables whose best match is themselves."""
    return float((variable_scores(net).argmax(1) == np.arange(V)).mean())


def identity_margins(net: Network) -> np.ndarray:
    """Each variable's score with itself minus its best score with another variable, unscaled, (V,)."""
    scores = variable_scores(net)
    return np.diag(scores) - np.where(np.eye(V, dtype=bool), -np.inf, scores).max(1)


def fetched_numbers(net: Network) -> np.ndarray:
    """OV2(e_n) for every number, (N, d)."""
    return net.W_E[:N] @ net.OV2


def ov_mlp_correct(net: Network) -> np.ndarray:
    """(N, N), whether argmax W_U MLP2(OV2(a) + OV2(b)) is a + b mod N."""
    x = fetched_numbers(net)
    logits = net.mlp(x[:, None] + x[None]) @ net.W_U
    return logits.argmax(-1) == (np.arange(N)[:, None] + np.arange(N)) % N


def ov_mlp_misses(net: Network) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in np.argwhere(~ov_mlp_correct(net))]


def power_by_frequency(functions: np.ndarray) -> np.ndarray:
    """Power of d functions of a number (N, d) at the frequencies 1..29, (29, d), without the constant."""
    return np.abs(np.fft.rfft(functions.astype(np.float64), axis=0))[1:] ** 2


def preactivation_shares(net: Network) -> np.ndarray:
    """Share of each frequency 1..29 in the power of OV2(n) W_in over all neurons, (29,)."""
    power = power_by_frequency(fetched_numbers(net) @ net.W_in).sum(1)
    return power / power.sum()


def network_frequencies(net: Network) -> list[int]:
    """Frequencies with at least half of an equal share of the preactivations' power."""
    shares = preactivation_shares(net)
    return [k + 1 for k, share in enumerate(shares) if share >= 0.5 / len(shares)]


def one_frequency_shares(net: Network) -> np.ndarray:
    """For each neuron, the share of the variance of its preactivation (OV2(n) + OV2(m)) W_in at its best frequency.

    Returns (512,). The preactivation is f(n) + f(m), so its variance over pairs is twice that of f over numbers.
    """
    power = power_by_frequency(fetched_numbers(net) @ net.W_in)
    return power.max(0) / power.sum(0)


def one_frequency_shares_of_maps(preactivations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For maps (N, N, h) over pairs: the share of the variance that A cos(kn + a) + B cos(km + b) explains, and the
    best k."""
    maps = preactivations.astype(np.float64) - preactivations.mean((0, 1), dtype=np.float64)
    # A function of n alone is orthogonal to one of m alone; the coefficients of each come from the map's marginal mean.
    marginal = power_by_frequency(maps.mean(1)) + power_by_frequency(maps.mean(0))  # (29, h)
    # Parseval: the sum of squares of a real function with rfft F_k is (2 / N) sum_k |F_k|^2; each marginal counts N
    # times.
    explained = 2 * marginal
    return explained.max(0) / (maps**2).sum((0, 1)), explained.argmax(0) + 1
