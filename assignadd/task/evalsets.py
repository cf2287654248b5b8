"""The evaluation sets as a table (paper, figure "accuracies"), and the ones nobody reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PairKind = Literal["any", "seen", "held_out", "mirror_seen", "neither_order", "doubles"]


@dataclass(frozen=True)
class EvalSet:
    """Sequences with `n_vars` operands that are variables, `n_banned` of them in a slot banned for them (None: any
    number).

    `pair` says which pairs (n, m) of values they add. The held-out pairs form three classes: `mirror_seen`, where (m,
    n) was seen in training; `neither_order`, where n != m and (m, n) is held out too; and `doubles`, n + n.
    """

    name: str
    n_vars: int
    pair: PairKind = "seen"
    n_banned: int | None = 0
    first: int | None = None
    second: int | None = None
    """The variable (by its number) that stands in a slot, where the set wants a certain one."""

    @property
    def label(self) -> str:
        """What tables call the set: its name, or the class of held-out pairs in words."""
        return f"{self.n_vars}-var, {HELD_OUT_CLASSES[self.pair]}" if self.pair in HELD_OUT_CLASSES else self.name

    def allows(self, first: int, second: int) -> bool:
        return self.first in (None, first) and self.second in (None, second)


EVAL_SETS = (
    EvalSet("0-var train", n_vars=0),
    EvalSet("0-var add-restricted", n_vars=0, pair="held_out"),
    EvalSet("1-var train", n_vars=1),
    EvalSet("1-var add-restricted", n_vars=1, pair="held_out"),
    EvalSet("1-var var-restricted", n_vars=1, n_banned=1),
    EvalSet("2-var train", n_vars=2),
    EvalSet("2-var add-restricted", n_vars=2, pair="held_out"),
    EvalSet("2-var var-restricted (1)", n_vars=2, n_banned=1),
    EvalSet("2-var var-restricted (2)", n_vars=2, n_banned=2),
)
DOUBLY_HELD_OUT = (
    EvalSet("1-var doubly held out", n_vars=1, pair="held_out", n_banned=1),
    EvalSet("2-var doubly held out (1)", n_vars=2, pair="held_out", n_banned=1),
    EvalSet("2-var doubly held out (2)", n_vars=2, pair="held_out", n_banned=2),
)
# The three classes of held-out pairs, in words.
HELD_OUT_CLASSES: dict[PairKind, str] = {
    "mirror_seen": "held out, other order seen",
    "neither_order": "held out in both orders",
    "doubles": "held-out doubles n + n",
}
CLASS_SETS = tuple(
    EvalSet(f"{n_vars}-var {pair.replace('_', ' ')}", n_vars, pair) for n_vars in (0, 1, 2) for pair in HELD_OUT_CLASSES
)
# What training evaluates as it goes.
RECORDED_SETS = EVAL_SETS + DOUBLY_HELD_OUT
ALL_SETS = RECORDED_SETS + CLASS_SETS


def any_sums(n_vars: int) -> EvalSet:
    """Sums of any pair of values, with variables in any slot: what training shows and what it holds out."""
    return EvalSet(f"{n_vars}-var any", n_vars, pair="any", n_banned=None)
