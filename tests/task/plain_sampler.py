"""One sequence of the task in plain Python, written from the paper's section 3 to be checked by eye.

`assignadd.task.sampler` draws the same numbers in the same order for any number of rows at once; `test_sampler`
holds the two equal. Nothing of the package is used here but the settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, count

from assignadd.config import Task
from assignadd.task.evalsets import EvalSet

TRAINING_STREAM, EVALUATION_STREAM = 0, 1
LITERAL = None  # an operand that is a number, where a variable's number could stand

Pair = tuple[int, int]
Choice = tuple[int | None, int | None]


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox4x32-10 as published (Salmon et al., 2011), on Python's unbounded integers."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(c0 * 0xD2511F53, 2**32)
        high2, low2 = divmod(c2 * 0xCD9E8D57, 2**32)
        c0, c1, c2, c3 = high2 ^ c1 ^ k0, low2, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c0, c1, c2, c3


class Draws:
    """The random numbers of one sequence, which depend on (seed, stream, step, row) only."""

    def __init__(self, seed: int, stream: int, step: int, row: int):
        key = (seed % 2**32, seed >> 32)
        self.words: Iterator[int] = (word for block in count() for word in philox((row, step, block, stream), key))
        self.room = 0

    def below(self, bound: int, at_most: int) -> int:
        """Uniform on 0..bound-1: the next digit of a random fraction word / 2^32.

        A fraction is used up once the bounds' upper limits `at_most` would multiply to more than 2^16.
        """
        if self.room < at_most:
            self.word, self.room = next(self.words), 2**16
        self.room //= at_most
        drawn, self.word = divmod(self.word * bound, 2**32)
        return drawn


def pairs_of_kind(task: Task, seen: set[Pair], kind: str) -> list[Pair]:
    """The pairs of values an evaluation set of this `pair` kind adds, in lexicographic order."""
    every = [(n, m) for n in range(task.modulus) for m in range(task.modulus)]
    wanted = {
        "any": lambda n, m: True,
        "seen": lambda n, m: (n, m) in seen,
        "held_out": lambda n, m: (n, m) not in seen,
        "mirror_seen": lambda n, m: (n, m) not in seen and (m, n) in seen,
        "neither_order": lambda n, m: n != m and (n, m) not in seen and (m, n) not in seen,
        "doubles": lambda n, m: n == m and (n, m) not in seen,
    }[kind]
    return [pair for pair in every if wanted(*pair)]


def operand_choices(task: Task, evalset: EvalSet | None = None) -> list[list[Choice]]:
    """For each kind (no variable, variable first, variable second, two) the operands that may be asked for."""
    variables: list[int | None] = list(range(task.n_vars))
    slots: list[tuple[list[int | None], list[int | None]]] = [
        ([LITERAL], [LITERAL]),
        (variables, [LITERAL]),
        ([LITERAL], variables),
        (variables, variables),
    ]

    def allowed(first: int | None, second: int | None) -> bool:
        n_vars = (first is not LITERAL) + (second is not LITERAL)
        banned_first = first is not LITERAL and task.variables[first] in task.banned_first
        banned_second = second is not LITERAL and task.variables[second] in task.banned_second
        if n_vars > task.max_assignments or (n_vars == 2 and first == second):
            return False
        if evalset is None:
            return banned_first + banned_second == 0
        return n_vars == evalset.n_vars and evalset.n_banned in (None, banned_first + banned_second)

    return [
        [(first, second) for first in firsts for second in seconds if allowed(first, second)]
        for firsts, seconds in slots
    ]


def plain_sequence(
    task: Task, pairs: list[Pair], choices: list[list[Choice]], seed: int, step: int, row: int, training: bool
) -> tuple[list[int], int]:
    """The tokens and the answer of one row. `pairs` and `choices` come from the two functions above."""
    N, V, most = task.modulus, task.n_vars, task.max_assignments
    draws = Draws(seed, TRAINING_STREAM if training else EVALUATION_STREAM, step, row)

    # The kind. Training follows the mix; an evaluation set shares its sequences equally among the kinds it has.
    weights = [1.0, task.one_var_ratio / 2, task.one_var_ratio / 2, task.two_var_ratio] if training else [1.0] * 4
    weights = [weight if choices[kind] else 0.0 for kind, weight in enumerate(weights)]
    word = next(draws.words)
    kind = sum(word >= round(below / sum(weights) * 2**32) for below in list(accumulate(weights))[:3])
    variable_first, variable_second = kind in (1, 3), kind in (2, 3)

    # The number of assignments, and which of them belong to the operands (drawn even where they are not needed).
    least = 2 if kind == 3 else 1
    n = max(least, 1 + draws.below(most, most)) if training else least + draws.below(most - least + 1, most)
    slot_first = draws.below(n, most)
    free = [slot for slot in range(n) if not (variable_first and slot == slot_first)]
    slot_second = (free or [0])[draws.below(max(1, len(free)), most)]

    # The operands' variables and values.
    first, second = choices[kind][draws.below(len(choices[kind]), sum(map(len, choices)))]
    first_value, second_value = pairs[draws.below(len(pairs), N * N)]

    # The gap that each PAD falls into. There are at most prefix - 2 of them; the first prefix - 2 n are used.
    gaps = [draws.below(n + 1, most + 1) for _ in range(task.prefix - 2)][: task.prefix - 2 * n]

    # Distractors: the other variables, shuffled from the front as far as an assignment may need them.
    others = [v for v in range(V) if v not in (first, second)]
    for i in range(most):
        j = i + draws.below(max(1, len(others) - i), V - i)
        if i < len(others):
            others[i], others[j] = others[j], others[i]
    values = [draws.below(N, N) for _ in range(most)]

    # The assignments in their order.
    assignments = []
    for slot in range(n):
        if variable_first and slot == slot_first:
            assignments.append((first, first_value))
        elif variable_second and slot == slot_second:
            assignments.append((second, second_value))
        else:
            assignments.append((others.pop(0), values[slot]))

    # Tokens: numbers are 0..N-1, then `+`, `=`, PAD and the variables.
    plus, equals, pad, variable = N, N + 1, N + 2, N + 3
    tokens = [pad] * gaps.count(0)
    for i, (v, value) in enumerate(assignments):
        tokens += [variable + v, value] + [pad] * gaps.count(i + 1)
    tokens += [
        plus,
        variable + first if first is not LITERAL else first_value,
        variable + second if second is not LITERAL else second_value,
        equals,
    ]
    return tokens, (first_value + second_value) % N
