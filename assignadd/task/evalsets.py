"""Which operands sequences have: kinds and choices of operands, and the evaluation sets (paper, figure accuracies).

The kind of a sequence says which operand slots hold variables: bit i of the number is 1 if slot i does. With two
operands the kinds are 0 (no variable), 1 (variable first), 2 (variable second) and 3 (two variables).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Literal

from assignadd.config import Task

LITERAL = -1  # a number in an operand slot, where the number of a variable could be


def kinds(task: Task) -> range:
    """All kinds of sequences of a task."""
    return range(2**task.operands)


def operand_choices(task: Task, kind: int, n_banned: int | None) -> list[tuple[int, ...]]:
    """All operands that sequences of this kind may have: for each slot a variable's number (0 for `a`), or LITERAL.

    No variable is in two slots. Exactly `n_banned` of them are in a slot that is banned for them (None: any number).
    """
    slots = [range(task.n_vars) if (kind >> slot) & 1 else [LITERAL] for slot in range(task.operands)]
    different = [choice for choice in product(*slots) if len(set(choice) - {LITERAL}) == kind.bit_count()]
    return [choice for choice in different if n_banned in (None, count_banned(task, *choice))]


def count_banned(task: Task, *operands: int) -> int:
    """How many of the operands, each a variable's number or LITERAL, are in a slot that is banned for them."""
    in_slots = zip(operands, task.bans, strict=True)
    return sum(operand != LITERAL and task.variables[operand] in banned for operand, banned in in_slots)


PairKind = Literal["any", "seen", "held_out", "mirror_seen", "neither_order", "doubles"]
HELD_OUT_CLASSES: dict[PairKind, str] = {
    "mirror_seen": "held out, other order seen",
    "neither_order": "held out in both orders",
    "doubles": "held-out doubles n + n",
}
# The parts of a label: pairs of values (other tuples for another number of operands), and variables in the sum.
PAIRS: dict[PairKind, str] = {"seen": "as trained", "held_out": "held-out pair", "any": "any pair", **HELD_OUT_CLASSES}
TUPLE = {1: "number", 2: "pair", 3: "triple", 4: "quadruple"}
VARIABLES = {0: "literals alone", 1: "one variable", 2: "two variables"}
NUMBER_OF_VARIABLES = {**VARIABLES, 3: "three variables", 4: "four variables"}


@dataclass(frozen=True)
class EvalSet:
    """A set of sequences in which `n_vars` of the operands are variables.

    `n_banned` variables are in a slot that is banned for them (None: any number). `pair` is the kind of pairs (n, m) of
    values that are added (tuples of values for another number of operands). Held-out pairs form three classes:
    `mirror_seen`, where (m, n) is seen in training; `neither_order`, where n != m and (m, n) is held out too; and
    `doubles`, n + n.
    """

    name: str
    n_vars: int
    pair: PairKind = "seen"
    n_banned: int | None = 0
    in_slots: tuple[int | None, ...] = ()
    """The variable (by its number) that must be in each slot; None, as for slots after the last, for any operand."""
    operands: int = 2  # the number of operands that the label speaks of
    links: int | None = None
    """How many links every variable among the operands is away from its number (None: as the task draws it)."""
    rebound: bool | None = None
    """Whether every variable among the operands is assigned twice (None: as the task draws it)."""

    @property
    def label(self) -> str:
        """The name of the set in plain words, such as `two variables, held-out pair`, for tables and figures."""
        links = "" if self.links is None else f"{_count(self.links)} from the number"
        twice = {None: "", True: "assigned twice", False: "assigned once"}[self.rebound]
        pair = PAIRS[self.pair].replace("pair", TUPLE[self.operands])
        if self.pair == "seen" and (self.n_banned or links or twice):
            pair = ""  # another part says what the set is about
        parts = (NUMBER_OF_VARIABLES[self.n_vars], pair, self._banned_in_words, links, twice)
        return ", ".join(part for part in parts if part)

    @property
    def _banned_in_words(self) -> str:
        """How many variables are in banned slots; empty for none."""
        if self.n_banned is None:
            return "any slot"
        if self.n_banned and self.n_banned == self.n_vars:
            return {1: "in a banned slot", 2: "both in banned slots"}.get(self.n_vars, "all in banned slots")
        return ("", "one in a banned slot", "two in banned slots", "three in banned slots")[self.n_banned]

    def allows(self, operands: Sequence[int]) -> bool:
        """Whether every variable that the set requires in a slot (`in_slots`) is there; operands by their numbers."""
        required = zip(self.in_slots, operands, strict=False)  # `in_slots` may end before the last operand
        return all(variable is None or variable == operand for variable, operand in required)


class NamedSet(EvalSet):
    """An evaluation set of a task of the user's own, of which the name alone is known."""

    def __init__(self, name: str):
        super().__init__(name, n_vars=0, pair="any", n_banned=None)

    @property
    def label(self) -> str:
        return self.name


def _count(links: int) -> str:
    """A number of links in words."""
    return "1 link" if links == 1 else f"{links} links"


def _eval_sets(k: int) -> tuple[tuple[EvalSet, ...], tuple[EvalSet, ...]]:
    """The sets of k operands for each number of variables: as in training, with held-out values, with banned slots;
    and, apart, the sets with both held-out values and variables in banned slots."""
    sets, doubly_held_out = [], []
    for n_vars in range(k + 1):
        sets.append(EvalSet(f"{n_vars}-var train", n_vars, operands=k))
        sets.append(EvalSet(f"{n_vars}-var add-restricted", n_vars, "held_out", operands=k))
        for n_banned in range(1, n_vars + 1):
            suffix = f" ({n_banned})" if n_vars > 1 else ""
            sets.append(EvalSet(f"{n_vars}-var var-restricted{suffix}", n_vars, "seen", n_banned, operands=k))
            name = f"{n_vars}-var doubly held out{suffix}"
            doubly_held_out.append(EvalSet(name, n_vars, "held_out", n_banned, operands=k))
    return tuple(sets), tuple(doubly_held_out)


# The sets of two operands; the first nine are the paper's.
EVAL_SETS, DOUBLY_HELD_OUT = _eval_sets(2)
CLASS_SETS = tuple(
    EvalSet(f"{n_vars}-var {pair.replace('_', ' ')}", n_vars, pair) for n_vars in (0, 1, 2) for pair in HELD_OUT_CLASSES
)
# Evaluated during training.
RECORDED_SETS = EVAL_SETS + DOUBLY_HELD_OUT
ALL_SETS = RECORDED_SETS + CLASS_SETS


def recorded_sets(task: Task) -> tuple[EvalSet, ...]:
    """The sets on which a network of this task is evaluated during training."""
    if task.file is not None:
        return tuple(map(NamedSet, task.file.sets))
    return (*chain(*_eval_sets(task.operands)), *_chain_sets(task))


def _chain_sets(task: Task) -> tuple[EvalSet, ...]:
    """The sets of a task with chains: one for each number of links, and one with variables that are assigned twice."""
    k, sets = task.operands, []
    if task.hops:
        for n_vars, links in product(range(1, k + 1), range(task.hops + 1)):
            sets.append(EvalSet(f"{n_vars}-var {_count(links)}", n_vars, operands=k, links=links))
    if task.rebinding:
        sets += [EvalSet(f"{n_vars}-var rebound", n_vars, operands=k, rebound=True) for n_vars in range(1, k + 1)]
    return tuple(sets)


def all_sets(task: Task) -> tuple[EvalSet, ...]:
    """All evaluation sets of this task; those for the classes of held-out pairs are defined for two operands alone."""
    return recorded_sets(task) + (CLASS_SETS if task.operands == 2 and task.file is None else ())


# Labels by name. A set for another number of operands may have the same name as one for two, and a label with
# `triple` instead of `pair`; the one for two operands, which is last here, is taken.
LABELS = {s.name: s.label for k in (4, 3, 1, 2) for s in recorded_sets(Task(operands=k))}
LABELS |= {s.name: s.label for s in CLASS_SETS}


def any_sums(n_vars: int) -> EvalSet:
    """The set of sums of any pair of values, seen or held out, with `n_vars` variables in any slot."""
    return EvalSet(f"{n_vars}-var any", n_vars, pair="any", n_banned=None)
