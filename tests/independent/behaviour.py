"""Quantities measured on sequences: accuracies by class of pairs, attention, cosines, probes (sections 4 and 5.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.independent.network import Network, answers, forward, gathered
from tests.independent.sequences import (
    ALL_PAIRS,
    ANY_SLOT,
    FIRST_SLOT,
    SECOND_SLOT,
    N,
    Sequences,
    random_sequences,
    sequences,
)
from tests.independent.weights import fetched_numbers

CONTEXTS = 24


def pair_accuracy(
    net: Network,
    rng: np.random.Generator,
    pairs: np.ndarray,
    n_vars: int,
    allowed: np.ndarray = ANY_SLOT,
    contexts: int = CONTEXTS,
) -> np.ndarray:
    """For each pair of values (P, 2), the share of its random contexts that are answered correctly, (P,)."""
    drawn = sequences(rng, n_vars, np.repeat(pairs, contexts, 0), allowed)
    return (answers(net, drawn.tokens) == drawn.answers).reshape(len(pairs), contexts).mean(1)


def top_two_are(pattern: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Whether the two keys with the most attention (B, T) are these positions (B, 2), in either order."""
    top = np.argpartition(pattern, -2, axis=1)[:, -2:]
    return (np.sort(top, 1) == np.sort(positions, 1)).all(1)


def attention_rates(net: Network, batch: Sequences) -> dict[str, float]:
    """How often a head attends to the positions that the paper names (figure attention)."""
    state = forward(net, batch.tokens)
    slots = np.tile([FIRST_SLOT, SECOND_SLOT], (len(batch.tokens), 1))
    rows, columns = np.nonzero(batch.assigned)
    return {
        "layer 1, = to operand slots": float(top_two_are(state.pattern_1[:, -1], slots).mean()),
        "layer 1, numbers to previous": float((state.pattern_1[rows, columns].argmax(1) == columns - 1).mean()),
        "layer 2, = to values": float(top_two_are(state.pattern_2, batch.value_positions).mean()),
    }


def cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Cosine of the vectors along the last axis."""
    return (x * y).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y, axis=-1)


def cosine_across_types(net: Network, one: Sequences, other: Sequences) -> tuple[float, float]:
    """Mean cosine of the residuals before MLP2 of row i of both, which add the same values, and of rows i and i + 1.

    Mismatched rows that happen to add the same two values, in either order, are excluded.
    """
    assert (one.pairs == other.pairs).all()
    (x,), (y,) = gathered(net, one.tokens, "mid"), gathered(net, other.tokens, "mid")
    values = np.sort(one.pairs, 1)
    different = (values != np.roll(values, -1, 0)).any(1)
    return float(cosine(x, y).mean()), float(cosine(x, np.roll(y, -1, 0))[different].mean())


def cosines_with_ov2(net: Network, batch: Sequences) -> dict[str, tuple[float, float, float]]:
    """Mean cosine of residual and attention output with OV2(a) + OV2(b): for the row's own values, with the second from
    another row, and with both from other rows."""
    mid, output = gathered(net, batch.tokens, "mid", "output_2")
    first, second = fetched_numbers(net)[batch.pairs].swapaxes(0, 1)
    sums = (first + second, first + np.roll(second, -1, 0), np.roll(first, -2, 0) + np.roll(second, -1, 0))
    found = {}
    for name, x in (("residual", mid), ("attention output", output)):
        matched, second_shuffled, both_shuffled = (float(cosine(x, y).mean()) for y in sums)
        found[name] = matched, second_shuffled, both_shuffled
    return found


def mixed_types(rng: np.random.Generator, pairs: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Tokens of one sequence for each pair, with 0, 1 and 2 variables in turn."""
    of_types = [sequences(rng, n_vars, pairs, allowed).tokens for n_vars in (0, 1, 2)]
    return np.choose(np.arange(len(pairs))[:, None] % 3, of_types)


def context_preactivations(net: Network, rng: np.random.Generator, allowed: np.ndarray) -> np.ndarray:
    """Preactivations over all pairs (N, N, 512), each the mean over three contexts: 0, 1 and 2 variables."""
    mids = [gathered(net, sequences(rng, n_vars, ALL_PAIRS, allowed).tokens, "mid")[0] for n_vars in (0, 1, 2)]
    return (np.mean(mids, axis=0) @ net.W_in).reshape(N, N, -1)


def answer_probes(
    net: Network, rng: np.random.Generator, allowed: np.ndarray, ridge: float = 1e-3
) -> tuple[float, float]:
    """Test accuracy of a linear probe for the answer, from the residual before and after MLP2.

    There is one context for each pair of values; the probe is trained on 70 % of the pairs and tested on the others.
    """
    order = rng.permutation(ALL_PAIRS)
    stages = gathered(net, mixed_types(rng, order, allowed), "mid", "post")
    before, after = (
        ridge_accuracy(x.astype(np.float64), order.sum(1) % N, int(0.7 * len(order)), ridge) for x in stages
    )
    return before, after


def ridge_accuracy(x: np.ndarray, labels: np.ndarray, n_train: int, ridge: float) -> float:
    """Test accuracy of the least-squares classifier for one-hot labels; the penalty is relative to the features' mean
    power."""
    x = np.hstack([x - x[:n_train].mean(0), np.ones((len(x), 1))])
    train, targets = x[:n_train], np.eye(N)[labels[:n_train]]
    gram = train.T @ train
    penalty = ridge * np.trace(gram[:-1, :-1]) / (len(gram) - 1) * np.diag([*[1.0] * (len(gram) - 1), 0.0])
    weights = np.linalg.solve(gram + penalty, train.T @ targets)
    return float(((x[n_train:] @ weights).argmax(1) == labels[n_train:]).mean())


def same_values(
    rng: np.random.Generator, types: Sequence[int], B: int, allowed: np.ndarray = ANY_SLOT
) -> list[Sequences]:
    """Sequences of each type that add the same values row by row."""
    pairs = random_sequences(rng, 0, B).pairs
    return [sequences(rng, n_vars, pairs, allowed) for n_vars in types]
