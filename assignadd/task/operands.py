"""All choices of operands, by the number of variables in slots that are banned for them (paper, section 3).

The kind of a sequence says which operand slots hold variables: bit i of the number is 1 if slot i does. With two
operands the kinds are 0 (no variable), 1 (variable first), 2 (variable second) and 3 (two variables).
"""

from __future__ import annotations

from itertools import product

from assignadd.config import Task

LITERAL = -1


def kinds(task: Task) -> range:
    """All kinds of sequences of a task."""
    return range(2**task.operands)


def has_variable(kind: int, slot: int) -> bool:
    """Whether sequences of this kind have a variable in this slot, counted from 0."""
    return bool(kind >> slot & 1)


def operand_choices(task: Task, kind: int, n_banned: int | None) -> list[tuple[int, ...]]:
    """All operands of this kind, as variable numbers or LITERAL; no variable is in two slots.

    Exactly `n_banned` of them are in a slot that is banned for them (None: any number).
    """
    slots = [range(task.n_vars) if has_variable(kind, slot) else [LITERAL] for slot in range(task.operands)]
    n_vars, banned = kind.bit_count(), _banned(task)
    return [
        choice
        for choice in product(*slots)
        if len({x for x in choice if x != LITERAL}) == n_vars and n_banned in (None, _count(choice, banned))
    ]


def count_banned(task: Task, *operands: int) -> int:
    """The number of operands in a slot that is banned for them; LITERAL is never banned."""
    return _count(operands, _banned(task))


def _count(operands: tuple[int, ...], banned: list[set[int]]) -> int:
    return sum(x in own for x, own in zip(operands, banned, strict=True))


def _banned(task: Task) -> list[set[int]]:
    """For each slot, the numbers of the variables that are banned from it."""
    return [{task.variables.index(letter) for letter in letters} for letters in task.bans]
