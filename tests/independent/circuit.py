"""The circuit alone: the network with only the parts that the paper names, as masks on the 90 rows of [W_E; W_pos].

An attention score is a sum over the rows that add up to its query and its key, so a part of the circuit is a block of
a table of scores. A position after layer 1 is a sum of 180 features: its own two rows (0..89), and the rows that
layer 1 copied into it (90..179), weighted by attention.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tests.independent.network import CAUSAL, D_HEAD, Network, chunks, softmax
from tests.independent.sequences import EQUALS, FIRST_SLOT, FIRST_VARIABLE, LAST, PREFIX, SECOND_SLOT, N, T, V
from tests.independent.weights import network_frequencies

K, C = FIRST_VARIABLE + V, FIRST_VARIABLE + V + T


def rows(*indices: int) -> np.ndarray:
    """The mask (90,) of these rows."""
    mask = np.zeros(C, dtype=bool)
    mask[list(indices)] = True
    return mask


NUMBERS, VARIABLES = rows(*range(N)), rows(*range(FIRST_VARIABLE, K))
PREFIX_POSITIONS, SLOTS = rows(*range(K, K + PREFIX)), rows(K + FIRST_SLOT, K + SECOND_SLOT)
P_LAST, E_EQUALS, NOTHING = rows(K + LAST), rows(EQUALS), rows()


@dataclass(frozen=True)
class Parts:
    """The parts of the network that are kept."""

    qk1: np.ndarray  # (90, 90), query by key
    ov1: np.ndarray  # (90,)
    qk2: np.ndarray  # (180, 180), feature of `=` by feature of a key
    ov2: np.ndarray  # (180,)
    frequencies: list[int]  # of OV2(e_n); the constant is always kept
    around: bool  # whether the residual stream around layer 2's attention and around MLP2 is kept


def everything() -> Parts:
    """All parts: the whole network."""
    ones = np.ones(2 * C, dtype=bool)
    return Parts(np.outer(ones[:C], ones[:C]), ones[:C], np.outer(ones, ones), ones, list(range(1, N // 2 + 1)), True)


def own(mask: np.ndarray) -> np.ndarray:
    """The mask (180,) of these rows as a position's own."""
    return np.concatenate([mask, NOTHING])


def copied(mask: np.ndarray) -> np.ndarray:
    """The mask (180,) of these rows as copied by layer 1."""
    return np.concatenate([NOTHING, mask])


def section_5(net: Network) -> Parts:
    """The parts that sections 5.1 and 5.2 name."""
    qk1 = (
        np.outer(E_EQUALS | P_LAST, SLOTS)  # black in figure qk0
        | np.outer(NUMBERS, VARIABLES)  # purple
        | np.outer(PREFIX_POSITIONS, VARIABLES)  # orange
        | np.outer(PREFIX_POSITIONS, PREFIX_POSITIONS)  # red
    )
    identity = np.outer(copied(VARIABLES), copied(VARIABLES))
    return Parts(qk1, VARIABLES, identity, own(NUMBERS), network_frequencies(net), around=False)


def with_section_7(net: Network, asking: np.ndarray = P_LAST) -> Parts:
    """Section 5 and the block of section 7: p_13, p_14 and every e_n as keys for the query p_15 (equation init_w0), or
    for other rows."""
    parts = section_5(net)
    return replace(parts, qk2=parts.qk2 | np.outer(own(asking), own(SLOTS | NUMBERS)))


def in_frequencies(functions: np.ndarray, frequencies: list[int]) -> np.ndarray:
    """Functions of a number (N, d), reduced to these frequencies and the constant."""
    spectrum = np.fft.rfft(functions, axis=0)
    spectrum[[k for k in range(1, len(spectrum)) if k not in frequencies]] = 0
    return np.fft.irfft(spectrum, N, axis=0)


def circuit_logits(net: Network, tokens: np.ndarray, parts: Parts) -> np.ndarray:
    """Logits at `=` with these parts alone, (B, N)."""
    table = np.concatenate([net.W_E, net.W_pos])
    sent = table @ net.OV1 * parts.ov1[:, None]
    features = np.concatenate([table, sent])
    scores_1 = table @ net.QK1 @ table.T / np.sqrt(D_HEAD) * parts.qk1
    scores_2 = features @ net.QK2 @ features.T / np.sqrt(D_HEAD) * parts.qk2
    fetched = features @ net.OV2 * parts.ov2[:, None]
    fetched[:N] = in_frequencies(fetched[:N], parts.frequencies)
    tables = scores_1, scores_2, features, fetched
    return np.concatenate([_logits(net, part, parts.around, *tables) for part in chunks(tokens)])


def _logits(
    net: Network,
    tokens: np.ndarray,
    around: bool,
    scores_1: np.ndarray,
    scores_2: np.ndarray,
    features: np.ndarray,
    fetched: np.ndarray,
) -> np.ndarray:
    positions = np.arange(K, C)
    by_token = scores_1[tokens[:, :, None], tokens[:, None]] + scores_1[tokens[:, :, None], positions]
    by_position = scores_1[positions[:, None], tokens[:, None]] + scores_1[positions[:, None], positions]
    pattern_1 = softmax(np.where(CAUSAL, by_token + by_position, -np.inf))
    # Features of `=`: itself, and what layer 1 copied.
    itself = np.tile(E_EQUALS | P_LAST, (len(tokens), 1))
    asks = np.concatenate([itself, _usage(tokens, pattern_1[:, LAST])], 1)
    # (B, 90) each: the score of a unit of each feature of a key
    met_own, met_copied = np.split(asks @ scores_2, 2, axis=1)
    of_own, of_copied = (np.take_along_axis(met, tokens, 1) + met[:, K:] for met in (met_own, met_copied))  # (B, T)
    pattern_2 = softmax(of_own + np.matmul(pattern_1, of_copied[:, :, None])[:, :, 0])
    through = np.matmul(pattern_2[:, None], pattern_1)[:, 0]  # layer 2 after layer 1
    mid = np.concatenate([_usage(tokens, pattern_2), _usage(tokens, through)], 1) @ fetched
    if around:
        mid += asks @ features
    return (net.mlp(mid) + (mid if around else 0)) @ net.W_U


def _usage(tokens: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weight of each of the 90 rows, (B, 90), if both rows of every position have that position's weight (B, T)."""
    found = np.zeros((len(tokens), C))
    for t in range(T):
        found[np.arange(len(tokens)), tokens[:, t]] += weights[:, t]
        found[:, K + t] += weights[:, t]
    return found


def circuit_accuracy(net: Network, tokens: np.ndarray, answers: np.ndarray, parts: Parts) -> float:
    """Share of sequences that these parts alone answer correctly."""
    return float((circuit_logits(net, tokens, parts).argmax(1) == answers).mean())
