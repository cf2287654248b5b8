"""Two variables that never meet in training (findings/partners): their copies, and what repairs or breaks their sums.

The preset `paper` bans a and b from the first slot and g and h from the second.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.independent.network import D_HEAD, Network, layer_1, softmax
from tests.independent.sequences import ALL_PAIRS, FIRST_VARIABLE, LAST, Sequences, V, draw

NEVER_MEET = {"a and b": (0, 1), "g and h": (6, 7)}
FAILS, OPPOSITE, BROKEN = 0.9, -0.5, -0.95
CASES = ("opposite", "fails otherwise", "answered")


def copies(net: Network) -> np.ndarray:
    """What layer 1 copies of each variable, (V, d)."""
    return net.W_E[FIRST_VARIABLE : FIRST_VARIABLE + V] @ net.OV1


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def accuracy(net: Network, batch: Sequences, copied: np.ndarray | None = None, halves: bool = False) -> float:
    """Accuracy with these copies (V, d) in the scores of layer 2, or with half of its attention on each value."""
    x, pattern_1, output_1 = layer_1(net, batch.tokens)
    residual = x + output_1
    seen_by_scores = residual
    if copied is not None:
        change = np.zeros((FIRST_VARIABLE + V, net.W_E.shape[1]), np.float32)
        change[FIRST_VARIABLE:] = copied - copies(net)
        seen_by_scores = residual + pattern_1 @ change[batch.tokens]
    query = seen_by_scores[:, LAST] @ net.QK2
    pattern = softmax(np.matmul(seen_by_scores, query[:, :, None])[:, :, 0] / np.float32(np.sqrt(D_HEAD)))
    if halves:
        pattern = np.zeros_like(pattern)
        np.put_along_axis(pattern, batch.value_positions, 0.5, 1)
    mid = residual[:, LAST] + np.matmul(pattern[:, None], residual)[:, 0] @ net.OV2
    return float((((mid + net.mlp(mid)) @ net.W_U).argmax(1) == batch.answers).mean())


def with_cosine(first: np.ndarray, second: np.ndarray, wanted: float) -> np.ndarray:
    """The second vector, turned towards or away from the first until their cosine is this; its length stays."""
    along = first / np.linalg.norm(first)
    across = second - second @ along * along
    across /= np.linalg.norm(across)
    return np.linalg.norm(second) * (wanted * along + np.sqrt(1 - wanted**2) * across)


def results(nets: list[Network], rng: np.random.Generator, n: int = 300) -> dict[str, dict[str, list[float]]]:
    """For each case of a network and a pair that never meets: cosine, accuracy, and accuracies after edits."""
    found: dict[str, dict[str, list[float]]] = {case: {} for case in CASES}
    for net, (v, w) in product(nets, NEVER_MEET.values()):
        values = ALL_PAIRS[rng.integers(len(ALL_PAIRS), size=n)]
        orders = [draw(rng, values, np.tile(order, (n, 1)), even=True) for order in ((v, w), (w, v))]
        of_net = copies(net)
        shared, turned = of_net.copy(), of_net.copy()
        shared[w] = of_net[v]
        turned[w] = with_cosine(of_net[v], of_net[w], BROKEN)
        cos, plain = cosine(of_net[v], of_net[w]), max(accuracy(net, batch) for batch in orders)
        case = "answered" if plain >= FAILS else "opposite" if cos < OPPOSITE else "fails otherwise"
        numbers = {
            "cosine": cos,
            "accuracy": plain,
            "half on each value": np.mean([accuracy(net, batch, halves=True) for batch in orders]),
            "one copy for both": np.mean([accuracy(net, batch, shared) for batch in orders]),
            "copies turned to be opposite": np.mean([accuracy(net, batch, turned) for batch in orders]),
        }
        for name, number in numbers.items():
            found[case].setdefault(name, []).append(float(number))
    return found


if __name__ == "__main__":
    import sys
    from pathlib import Path

    from tests.independent.network import read_safetensors

    for case, numbers in results(read_safetensors(Path(sys.argv[1])), np.random.default_rng(0)).items():
        for name, found in numbers.items():
            print(f"{case} ({len(found)}): {name} {min(found):.3f} to {max(found):.3f}, mean {np.mean(found):.3f}")
