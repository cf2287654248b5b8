"""Reading many token sequences back with numpy and nothing of the package but the settings, to check what was
sampled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assignadd.config import Task


@dataclass(frozen=True)
class Decoded:
    """What B sequences say. Variables are counted from 0, and -1 stands for none (a literal operand)."""

    n: np.ndarray  # (B,) assignments
    order: np.ndarray  # (most, B) the variable of each assignment, -1 from the n-th on
    value: np.ndarray  # (V, B) the value of each variable, -1 where it has none
    gaps: np.ndarray  # (most + 1, B) PADs before each assignment and after the last
    first: np.ndarray  # (B,) the operands' variables
    second: np.ndarray
    pair: np.ndarray  # (2, B) the operands' values

    @property
    def kind(self) -> np.ndarray:
        """0 no variable, 1 variable first, 2 variable second, 3 two variables."""
        return (self.first >= 0) + 2 * (self.second >= 0)

    def banned(self, first: str, second: str) -> np.ndarray:
        """How many operands of each sequence stand in a slot that these letters are banned from."""
        slots = ((self.first, first), (self.second, second))
        return sum(np.isin(variables, [ord(c) - ord("a") for c in letters]).astype(int) for variables, letters in slots)


def decode(task: Task, tokens: np.ndarray) -> Decoded:
    """Decode (B, T) tokens, asserting on the way that each sequence is well formed."""
    tokens = tokens.T
    N, V, most, T = task.modulus, task.n_vars, task.max_assignments, task.length
    plus, equals, pad, a = N, N + 1, N + 2, N + 3
    rows = np.arange(tokens.shape[1])
    assert tokens.shape[0] == T and tokens.min() >= 0 and tokens.max() < a + V
    assert (tokens[T - 4] == plus).all() and (tokens[T - 1] == equals).all()

    n = np.zeros(len(rows), dtype=int)
    order, gaps = np.full((most, len(rows)), -1), np.zeros((most + 1, len(rows)), dtype=int)
    value = np.full((V, len(rows)), -1)
    expects_number = np.zeros(len(rows), dtype=bool)
    for i in range(T - 4):
        token = tokens[i]
        is_number, is_pad, is_variable = token < N, token == pad, token >= a
        assert (is_number == expects_number).all() and (is_number | is_pad | is_variable).all()
        here = rows[is_variable]
        assert (value[token[here] - a, here] == -1).all(), "a variable is assigned twice"
        order[n[here], here] = token[here] - a
        value[token[here] - a, here] = tokens[i + 1, here]
        n[here] += 1
        gaps[n[is_pad], rows[is_pad]] += 1
        expects_number = is_variable
    assert not expects_number.any() and (n >= 1).all()

    operands = tokens[[T - 3, T - 2]]
    assert ((operands < N) | (operands >= a)).all()
    variables = np.where(operands >= a, operands - a, -1)
    pair = np.where(variables >= 0, value[variables, rows], operands)
    assert (pair >= 0).all(), "an operand is not assigned"
    assert ((variables[0] != variables[1]) | (variables[0] == -1)).all(), "one variable is added to itself"
    return Decoded(n, order, value, gaps, variables[0], variables[1], pair)
