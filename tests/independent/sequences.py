"""The task in plain NumPy: token numbers, positions, and a sampler of sequences (paper, section 3)."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

N, V, T, PREFIX, MOST_ASSIGNMENTS = 59, 12, 16, 12, 6
PLUS, EQUALS, PAD, FIRST_VARIABLE = 59, 60, 61, 62  # numbers are 0..58, variables a..l are 62..73
FIRST_SLOT, SECOND_SLOT, LAST = 13, 14, 15
LITERAL = -1  # in an array of operand variables
ALL_PAIRS = np.stack(np.meshgrid(np.arange(N), np.arange(N), indexing="ij"), -1).reshape(-1, 2)

# Variables that training puts into the first and into the second slot, as (2, V) booleans.
ANY_SLOT = np.ones((2, V), dtype=bool)
PAPER_SLOTS = np.array([[v not in "ab" for v in "abcdefghijkl"], [v not in "gh" for v in "abcdefghijkl"]])
AUTHORS_SLOTS = np.array([[v not in "kl" for v in "abcdefghijkl"], [v not in "ab" for v in "abcdefghijkl"]])


def authors_seen() -> np.ndarray:
    """(N, N), True if the paper's own run trained on the ordered pair: 2,436 of 3,481, drawn by Python's Random(42)."""
    pairs = [(n, m) for n in range(N) for m in range(N)]
    seen = np.zeros((N, N), dtype=bool)
    for n, m in random.Random(42).sample(pairs, 2436):
        seen[n, m] = True
    return seen


def pair_classes(seen: np.ndarray) -> dict[str, np.ndarray]:
    """(P, 2) pairs of each class: the seen ones, and the held-out ones in the three classes of the study."""
    double = np.eye(N, dtype=bool)
    masks = {
        "seen": seen,
        "mirror seen": ~seen & seen.T,
        "neither order seen": ~seen & ~seen.T & ~double,
        "held-out doubles": ~seen & double,
    }
    return {name: np.argwhere(mask) for name, mask in masks.items()}


@dataclass(frozen=True)
class Sequences:
    """B sequences and the values that they add."""

    tokens: np.ndarray  # (B, T)
    variables: np.ndarray  # (B, 2), 0..11 or LITERAL
    pairs: np.ndarray  # (B, 2), the operands' values
    value_positions: np.ndarray  # (B, 2), the positions of these values

    @property
    def answers(self) -> np.ndarray:
        return self.pairs.sum(1) % N

    @property
    def assigned(self) -> np.ndarray:
        """(B, T), True at the numbers of the prefix."""
        return (self.tokens < N) & (np.arange(T) < PREFIX)


def operand_variables(rng: np.random.Generator, n_vars: int, B: int, allowed: np.ndarray = ANY_SLOT) -> np.ndarray:
    """(B, 2) operands: a single variable is first in half of the sequences; two variables differ."""
    found = np.full((B, 2), LITERAL)
    first, second = (np.flatnonzero(slot) for slot in allowed)
    if n_vars == 1:
        is_first = rng.random(B) < 0.5
        found[:, 0] = np.where(is_first, rng.choice(first, B), LITERAL)
        found[:, 1] = np.where(is_first, LITERAL, rng.choice(second, B))
    elif n_vars == 2:
        different = np.array([(v, w) for v in first for w in second if v != w])
        found = different[rng.integers(len(different), size=B)]
    return found


def draw(rng: np.random.Generator, pairs: np.ndarray, variables: np.ndarray, even: bool = False) -> Sequences:
    """One random context for each pair of values (B, 2) and pair of operand variables (B, 2).

    The number of assignments is uniform on 1..6, then raised to 2 if there are two variables, as in training. With
    `even` it is uniform on the possible numbers, 2..6 for two variables, as for the reference accuracies.
    """
    B, rows = len(pairs), np.arange(len(pairs))
    least = np.maximum((variables != LITERAL).sum(1), 1)
    n = (
        rng.integers(least, MOST_ASSIGNMENTS + 1)
        if even
        else np.maximum(rng.integers(1, MOST_ASSIGNMENTS + 1, B), least)
    )
    n = n[:, None]
    # The operands' variables come first, then the other variables in random order; the first n are assigned.
    luck = rng.random((B, V))
    for slot in (0, 1):
        own = np.flatnonzero(variables[:, slot] != LITERAL)
        luck[own, variables[own, slot]] = -1
    letters = luck.argsort(1)[:, :MOST_ASSIGNMENTS]
    exists = np.arange(MOST_ASSIGNMENTS) < n
    shuffled = np.where(exists, rng.random(exists.shape), 2).argsort(1)  # only among the first n
    letters = np.take_along_axis(letters, shuffled, 1)
    values = rng.integers(N, size=letters.shape)
    # Each of the 12 - 2n PADs falls into one of the n + 1 gaps; assignment i has the PADs of gaps 0..i before it.
    gaps = np.where(np.arange(PREFIX) < PREFIX - 2 * n, rng.integers(0, n + 1, (B, PREFIX)), T)
    starts = 2 * np.arange(MOST_ASSIGNMENTS) + (gaps[:, None] <= np.arange(MOST_ASSIGNMENTS)[:, None]).sum(2)
    tokens = np.full((B, T), PAD)
    tokens[:, PREFIX], tokens[:, LAST] = PLUS, EQUALS
    positions = np.tile([FIRST_SLOT, SECOND_SLOT], (B, 1))
    for slot in (0, 1):
        is_operand = exists & (letters == variables[:, slot, None])
        values = np.where(is_operand, pairs[:, slot, None], values)
        positions[:, slot] = np.where(is_operand.any(1), starts[rows, is_operand.argmax(1)] + 1, positions[:, slot])
        operand = variables[:, slot]
        tokens[:, FIRST_SLOT + slot] = np.where(operand == LITERAL, pairs[:, slot], FIRST_VARIABLE + operand)
    which, column = np.nonzero(exists)
    tokens[which, starts[which, column]] = FIRST_VARIABLE + letters[which, column]
    tokens[which, starts[which, column] + 1] = values[which, column]
    return Sequences(tokens, variables, pairs, positions)


def sequences(
    rng: np.random.Generator, n_vars: int, pairs: np.ndarray, allowed: np.ndarray = ANY_SLOT, even: bool = False
) -> Sequences:
    """A sequence for each of these pairs of values (B, 2), with `n_vars` variables in allowed slots; `even` as in
    `draw`."""
    return draw(rng, pairs, operand_variables(rng, n_vars, len(pairs), allowed), even)


def random_sequences(
    rng: np.random.Generator, n_vars: int, B: int, allowed: np.ndarray = ANY_SLOT, even: bool = False
) -> Sequences:
    """B sequences that add any pair of values."""
    return sequences(rng, n_vars, rng.integers(N, size=(B, 2)), allowed, even)
