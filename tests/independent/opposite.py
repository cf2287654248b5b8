"""Two variables that never meet in training (findings/partners): their copies, and what repairs or breaks their sums.

The preset `paper` bans a and b from the first slot and g and h from the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from tests.independent.network import D_HEAD, Network, layer_1, softmax
from tests.independent.sequences import (
    ALL_PAIRS,
    FIRST_SLOT,
    FIRST_VARIABLE,
    LAST,
    SECOND_SLOT,
    N,
    Sequences,
    V,
    draw,
    random_sequences,
)

NEVER_MEET = ((0, 1), (6, 7))  # a and b, g and h
FAILS, OPPOSITE, BROKEN = 0.9, -0.5, -0.95
CASES = ("opposite", "fails otherwise", "answered")


def copies(net: Network) -> np.ndarray:
    """What layer 1 copies of each variable, (V, d)."""
    return net.W_E[FIRST_VARIABLE : FIRST_VARIABLE + V] @ net.OV1


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


@dataclass(frozen=True)
class Outcome:
    """What a network does with sequences, B of them."""

    accuracy: float
    doubles: float  # the share answered with twice one of the two values
    on_operands: float  # attention of `=` in layer 1 to both operands
    on_values: float  # attention of `=` in layer 2 to both values


def outcome(net: Network, batch: Sequences, copied: np.ndarray | None = None, halves: bool = False) -> Outcome:
    """With these copies (V, d) in the scores of layer 2, or with half of its attention on each value."""
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
    answers = ((mid + net.mlp(mid)) @ net.W_U).argmax(1)
    return Outcome(
        accuracy=float((answers == batch.answers).mean()),
        doubles=float((answers[:, None] == 2 * batch.pairs % N).any(1).mean()),
        on_operands=float(pattern_1[:, LAST, [FIRST_SLOT, SECOND_SLOT]].sum(1).mean()),
        on_values=float(np.take_along_axis(pattern, batch.value_positions, 1).sum(1).mean()),
    )


def both_orders(rng: np.random.Generator, v: int, w: int, n: int) -> list[Sequences]:
    """n sequences that add variables v + w, and n that add w + v, with the same values."""
    values = ALL_PAIRS[rng.integers(len(ALL_PAIRS), size=n)]
    return [draw(rng, values, np.tile(order, (n, 1)), even=True) for order in ((v, w), (w, v))]


def binds(net: Network, rng: np.random.Generator) -> bool:
    batch = random_sequences(rng, 1, 500)
    return outcome(net, batch).accuracy > FAILS


def with_cosine(first: np.ndarray, second: np.ndarray, wanted: float) -> np.ndarray:
    """The second vector, turned towards or away from the first until their cosine is this; its length stays."""
    along = first / np.linalg.norm(first)
    across = second - second @ along * along
    across /= np.linalg.norm(across)
    return np.linalg.norm(second) * (wanted * along + np.sqrt(1 - wanted**2) * across)


def results(nets: list[Network], rng: np.random.Generator, n: int = 300) -> dict[str, dict[str, list[float]]]:
    """For each case of a network that binds and a pair that never meets: numbers as they are and after edits."""
    found: dict[str, dict[str, list[float]]] = {case: {} for case in CASES}
    for net, (v, w) in product(nets, NEVER_MEET):
        batches = both_orders(rng, v, w, n)
        of_net = copies(net)
        shared, turned = of_net.copy(), of_net.copy()
        shared[w] = of_net[v]
        turned[w] = with_cosine(of_net[v], of_net[w], BROKEN)
        cos, plain = cosine(of_net[v], of_net[w]), [outcome(net, batch) for batch in batches]
        better = max(one.accuracy for one in plain)
        case = "answered" if better >= FAILS else "opposite" if cos < OPPOSITE else "fails otherwise"
        numbers = {
            "cosine": cos,
            "accuracy": better,
            "twice one value": np.mean([one.doubles for one in plain]),
            "attention to both operands in layer 1": np.mean([one.on_operands for one in plain]),
            "attention to both values in layer 2": np.mean([one.on_values for one in plain]),
            "half on each value": np.mean([outcome(net, batch, halves=True).accuracy for batch in batches]),
            "one copy for both": np.mean([outcome(net, batch, shared).accuracy for batch in batches]),
            "copies turned to be opposite": np.mean([outcome(net, batch, turned).accuracy for batch in batches]),
        }
        for name, number in numbers.items():
            found[case].setdefault(name, []).append(float(number))
    return found


def opposite_that_meet(nets: list[Network], rng: np.random.Generator, n: int = 300) -> list[tuple[float, float]]:
    """Cosine and accuracy, in the better order, of all pairs that meet and whose copies have a cosine below -.5."""
    found = []
    for net, (v, w) in product(nets, combinations(range(V), 2)):
        if (v, w) not in NEVER_MEET and (cos := cosine(*copies(net)[[v, w]])) < OPPOSITE:
            found.append((cos, max(outcome(net, batch).accuracy for batch in both_orders(rng, v, w, n))))
    return found


if __name__ == "__main__":
    import sys
    from pathlib import Path

    from tests.independent.network import read_safetensors

    rng = np.random.default_rng(0)
    nets = [net for net in read_safetensors(Path(sys.argv[1])) if binds(net, rng)]
    print(f"{len(nets)} networks that bind")
    for case, numbers in results(nets, rng).items():
        for name, values in numbers.items():
            print(f"{case} ({len(values)}): {name} {min(values):.3f} to {max(values):.3f}, mean {np.mean(values):.3f}")
    for cos, accuracy in opposite_that_meet(nets, rng):
        print(f"meets in training: cosine {cos:.3f}, accuracy {accuracy:.3f}")
