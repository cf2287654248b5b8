"""Quantities along a run, and two interventions, in the most direct way (sections 4 and 6; findings/)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.independent.network import Network, answers, chunks, layer_1, layer_2
from tests.independent.sequences import (
    EQUALS,
    FIRST_SLOT,
    FIRST_VARIABLE,
    LAST,
    LITERAL,
    PREFIX,
    SECOND_SLOT,
    N,
    Sequences,
    V,
    draw,
    sequences,
)
from tests.independent.weights import ov_mlp_correct

GROUPS = ("cdefijkl", "ab", "gh")  # the variables of the preset `paper` by the slots that they are banned from


def operands(rng: np.random.Generator, slots: np.ndarray, n_banned: int, n_vars: int, B: int) -> np.ndarray:
    """(B, 2) operand variables of which `n_banned` are in a slot that is not among `slots` (2, V)."""
    choices = [
        (v, w)
        for v in (*range(V), LITERAL)
        for w in (*range(V), LITERAL)
        if (v != LITERAL) + (w != LITERAL) == n_vars and (v != w or v == LITERAL)
        if (v != LITERAL and not slots[0, v]) + (w != LITERAL and not slots[1, w]) == n_banned
    ]
    return np.array(choices)[rng.integers(len(choices), size=B)]


def six_sets(net: Network, rng: np.random.Generator, seen: np.ndarray, slots: np.ndarray, B: int) -> list[float]:
    """Accuracy on the six test sets: held-out pairs with 0, 1 and 2 variables, then seen pairs with banned slots."""
    held_out, trained = np.argwhere(~seen), np.argwhere(seen)
    cases = [(n_vars, held_out, 0) for n_vars in (0, 1, 2)] + [(1, trained, 1), (2, trained, 1), (2, trained, 2)]
    found = []
    for n_vars, pairs, n_banned in cases:
        chosen = pairs[rng.integers(len(pairs), size=B)]
        of_slots = np.full((B, 2), LITERAL) if n_vars == 0 else operands(rng, slots, n_banned, n_vars, B)
        batch = draw(rng, chosen, of_slots, even=True)
        found.append(float((answers(net, batch.tokens) == batch.answers).mean()))
    return found


def doubles_right(net: Network, rng: np.random.Generator, seen: np.ndarray, contexts: int) -> float:
    """Accuracy on the held-out doubles n + n of literals."""
    n = np.flatnonzero(~np.diag(seen))
    batch = sequences(rng, 0, np.repeat(np.stack([n, n], 1), contexts, 0))
    return float((answers(net, batch.tokens) == batch.answers).mean())


def isolated_doubles(net: Network, seen: np.ndarray) -> float:
    """The share of held-out doubles that W_U MLP2(OV2(n) + OV2(n)) answers."""
    return float(np.diag(ov_mlp_correct(net))[~np.diag(seen)].mean())


def score_of_equals(net: Network) -> np.ndarray:
    """(E_= + P_15) QK1 E_v / sqrt(128) for every variable, (V,)."""
    keys = net.W_E[FIRST_VARIABLE : FIRST_VARIABLE + V]
    return (net.W_E[EQUALS] + net.W_pos[LAST]) @ net.QK1 @ keys.T / np.sqrt(128)


def width(steps: Sequence[int], values: Sequence[float], low: float, high: float) -> tuple[int, int]:
    """The last step at or below 10 % of the way from `low` to `high`, and the first one after it at or above 90 %."""
    begin = max(s for s, v in zip(steps, values, strict=True) if v <= low + 0.1 * (high - low))
    return begin, min(s for s, v in zip(steps, values, strict=True) if s > begin and v >= low + 0.9 * (high - low))


def rearranged(batch: Sequences, rng: np.random.Generator) -> np.ndarray:
    """The tokens with assignments in random order, and names permuted within groups, apart in prefix and sum."""
    tokens = batch.tokens.copy()
    for row in tokens:
        starts = np.flatnonzero(row[:PREFIX] >= FIRST_VARIABLE)
        pairs = row[[starts, starts + 1]][:, rng.permutation(len(starts))]
        names, of_sum = (np.arange(FIRST_VARIABLE + V) for _ in range(2))
        for group in GROUPS:
            own = np.array([FIRST_VARIABLE + "abcdefghijkl".index(letter) for letter in group])
            names[own], of_sum[own] = rng.permutation(own), rng.permutation(own)
        row[starts], row[starts + 1] = names[pairs[0]], pairs[1]
        row[[FIRST_SLOT, SECOND_SLOT]] = of_sum[row[[FIRST_SLOT, SECOND_SLOT]]]
    return tokens


def predicted_without_names(net: Network, batch: Sequences, rng: np.random.Generator, draws: int = 8) -> float:
    """How often the answer is that of the largest mean logit over rearranged sequences: the stuck rule."""
    total = np.zeros((len(batch.tokens), N))
    for _ in range(draws):
        total += np.concatenate([layer_2(net, *layer_1(net, part)).logits for part in chunks(rearranged(batch, rng))])
    return float((total.argmax(1) == answers(net, batch.tokens)).mean())


def loss_without(net: Network, batch: Sequences, which: str, to_equals: bool = False) -> float:
    """The accuracy lost if `=` has no layer-1 attention to the variable's or the literal's slot of a sum.

    The weight is dropped, or given to `=` itself.
    """
    variable = batch.variables != LITERAL  # (B, 2)
    removed = variable if which == "variable" else ~variable
    x, pattern, output = layer_1(net, batch.tokens)
    slots = x[:, [FIRST_SLOT, SECOND_SLOT]] @ net.OV1  # (B, 2, d)
    weights = pattern[:, LAST, [FIRST_SLOT, SECOND_SLOT]] * removed
    changed = output.copy()
    changed[:, LAST] -= (weights[:, :, None] * slots).sum(1)
    if to_equals:
        changed[:, LAST] += weights.sum(1, keepdims=True) * (x[:, LAST] @ net.OV1)
    before, after = (
        (layer_2(net, x, pattern, out).logits.argmax(1) == batch.answers).mean() for out in (output, changed)
    )
    return float(before - after)
