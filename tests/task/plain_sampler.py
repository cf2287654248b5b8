"""One sequence of the task in plain Python, written from the paper's section 3 to be checked by eye.

`assignadd.task.sampler` draws the same numbers in the same order for any number of rows at once; `test_sampler`
holds the two equal. Nothing of the package is used here but the settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, count, product
from math import comb

from assignadd.config import Task
from assignadd.task.evalsets import EvalSet
from tests.task.plain_chains import chain_assignments

TRAINING_STREAM, EVALUATION_STREAM = 0, 1
LITERAL = None  # an operand that is a number, where a variable's number could stand

Pair = tuple[int, ...]  # the values of the operands
Choice = tuple[int | None, ...]


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
    """The pairs of values an evaluation set of this `pair` kind adds, in lexicographic order (tuples of k values)."""
    every = list(product(range(task.modulus), repeat=task.operands))
    wanted = {
        "any": lambda *values: True,
        "seen": lambda *values: values in seen,
        "held_out": lambda *values: values not in seen,
        "mirror_seen": lambda n, m: (n, m) not in seen and (m, n) in seen,
        "neither_order": lambda n, m: n != m and (n, m) not in seen and (m, n) not in seen,
        "doubles": lambda n, m: n == m and (n, m) not in seen,
    }[kind]
    return [pair for pair in every if wanted(*pair)]


def operand_choices(task: Task, evalset: EvalSet | None = None) -> list[list[Choice]]:
    """For each kind (bit i for a variable in slot i) the operands that may be asked for."""
    variables: list[int | None] = list(range(task.n_vars))
    bans = [task.banned_first, task.banned_second, task.banned_further, task.banned_further][: task.operands]

    def allowed(choice: Choice) -> bool:
        chosen = [v for v in choice if v is not LITERAL]
        banned = sum(v is not LITERAL and task.variables[v] in ban for v, ban in zip(choice, bans, strict=True))
        if len(chosen) > task.max_assignments or len(set(chosen)) < len(chosen):
            return False
        if evalset is None:
            return banned == 0
        return len(chosen) == evalset.n_vars and evalset.n_banned in (None, banned)

    kinds = [[variables if kind >> slot & 1 else [LITERAL] for slot in range(task.operands)] for kind in range(16)]
    return [[choice for choice in product(*slots) if allowed(choice)] for slots in kinds[: 2**task.operands]]


def answer(task: Task, values: Pair) -> int:
    """The operation, from left to right."""
    N, result = task.modulus, values[0]
    name, *factors = task.operation.split()
    for value in values[1:]:
        if name == "add":
            result = (result + value) % N
        elif name == "subtract":
            result = (result - value) % N
        elif name == "multiply":
            result = (result * value) % N
        elif name == "affine":
            result = (int(factors[0]) * result + int(factors[1]) * value) % N
        elif name == "table":
            result = task.table[result * N + value]
        else:
            result = polygon_product(result, value, N // 2)
    return result


def polygon_product(x: int, y: int, n: int) -> int:
    """The symmetry of an n-gon that is y and then x: number r + n f maps corner c to r + c (f = 0) or r - c (f = 1)."""

    def image(symmetry: int, corner: int) -> int:
        return (symmetry % n + (-corner if symmetry >= n else corner)) % n

    r = image(x, image(y, 0))
    return r + n * ((x >= n) != (y >= n))


def plain_sequence(
    task: Task,
    pairs: list[Pair],
    choices: list[list[Choice]],
    seed: int,
    step: int,
    row: int,
    training: bool,
    evalset: EvalSet | None = None,
) -> tuple[list[int], int]:
    """The tokens and the answer of one row. `pairs` and `choices` come from the two functions above.

    `evalset` is asked for the links and rebindings of the operands alone.
    """
    N, V, most = task.modulus, task.n_vars, task.max_assignments
    draws = Draws(seed, TRAINING_STREAM if training else EVALUATION_STREAM, step, row)

    # The kind. Training follows the mix; an evaluation set shares its sequences equally among the kinds it has.
    k, kinds = task.operands, len(choices)
    ratio = [1.0, task.one_var_ratio, *[task.two_var_ratio] * 3]
    weights = [ratio[kind.bit_count()] / comb(k, kind.bit_count()) if training else 1.0 for kind in range(kinds)]
    weights = [weight if choices[kind] else 0.0 for kind, weight in enumerate(weights)]
    word = next(draws.words)
    kind = sum(word >= round(below / sum(weights) * 2**32) for below in list(accumulate(weights))[:-1])
    is_variable = [bool(kind >> slot & 1) for slot in range(k)]

    # The number of assignments, and which of them belong to the operands (drawn even where they are not needed).
    of_operand = 1 if evalset is None else 1 + (evalset.links or 0) + (evalset.rebound is True)
    least = max(1, sum(is_variable) * of_operand)
    n = max(least, 1 + draws.below(most, most)) if training else least + draws.below(most - least + 1, most)
    place_of: dict[int, int] = {}  # the operand slots that hold variables, and which assignment each one has
    chains = task.hops > 0 or task.rebinding > 0
    for slot in range(0 if chains else k):
        free = [place for place in range(n) if place not in place_of.values()]
        place = (free or [0])[draws.below(max(1, len(free)), most)]
        if is_variable[slot]:
            place_of[slot] = place

    # The operands' variables and values.
    operands = choices[kind][draws.below(len(choices[kind]), sum(map(len, choices)))]
    operand_values = pairs[draws.below(len(pairs), N**k)]

    # The gap that each PAD falls into. There are at most prefix - 2 of them; the first prefix - 2 n are used.
    gaps = [draws.below(n + 1, most + 1) for _ in range(task.prefix - 2)][: task.prefix - 2 * n]
    if not task.random_padding:
        gaps = [0] * len(gaps)

    # Distractors: the other variables, shuffled from the front as far as an assignment may need them.
    others = [v for v in range(V) if v not in operands]
    for i in range(most):
        j = i + draws.below(max(1, len(others) - i), V - i)
        if i < len(others):
            others[i], others[j] = others[j], others[i]
    if chains:
        assignments = chain_assignments(task, evalset, n, operands, operand_values, others, draws)
        return _tokens(task, gaps, assignments, operands, operand_values), answer(task, operand_values)
    values = [draws.below(N, N) for _ in range(most)]

    # The assignments in their order.
    slot_at = {place: slot for slot, place in place_of.items()}
    assignments = [
        (operands[slot_at[place]], operand_values[slot_at[place]])
        if place in slot_at
        else (others.pop(0), values[place])
        for place in range(n)
    ]

    return _tokens(task, gaps, assignments, operands, operand_values), answer(task, operand_values)


def _tokens(task: Task, gaps: list[int], assignments: list, operands: Choice, values: Pair) -> list[int]:
    """Numbers are 0..N-1, then the operator, `=`, PAD and the variables."""
    N = task.modulus
    operator, equals, pad, variable = N, N + 1, N + 2, N + 3
    tokens = [pad] * gaps.count(0)
    for i, (v, right) in enumerate(assignments):
        tokens += [variable + v, variable + right[1] if isinstance(right, tuple) else right]
        tokens += [pad] * gaps.count(i + 1)
    written = [value if v is LITERAL else variable + v for v, value in zip(operands, values, strict=True)]
    return [*tokens, operator, *written, equals]
