"""The evaluation sets of the paper (figure accuracies), and further ones that the paper does not report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PairKind = Literal["any", "seen", "held_out", "mirror_seen", "neither_order", "doubles"]


@dataclass(frozen=True)
class EvalSet:
    """A set of sequences in which `n_vars` of the operands are variables.

    `n_banned` variables are in a slot that is banned for them (None: any number). `pair` is the kind of pairs (n, m) of
    values that are added. Held-out pairs form three classes: `mirror_seen`, where (m, n) is seen in training;
    `neither_order`, where n != m and (m, n) is held out too; and `doubles`, n + n.
    """

    name: str
    n_vars: int
    pair: PairKind = "seen"
    n_banned: int | None = 0
    first: int | None = None
    second: int | None = None
    """The variable (by its number) that must be in each slot; None for any operand."""

    @property
    def label(self) -> str:
        """The name of the set in plain words, for tables and figures."""
        pair = PAIRS[self.pair] if self.pair != "seen" or not self.n_banned else ""
        return ", ".join(part for part in (VARIABLES[self.n_vars], pair, BANNED[self.n_vars, self.n_banned]) if part)

    def allows(self, first: int, second: int) -> bool:
        """Whether these operands, by number, are in the slots that the set requires."""
        return self.first in (None, first) and self.second in (None, second)


# The parts of a label: variables in the sum, pairs of values, and variables in banned slots.
VARIABLES = {0: "literals alone", 1: "one variable", 2: "two variables"}
HELD_OUT_CLASSES: dict[PairKind, str] = {
    "mirror_seen": "held out, other order seen",
    "neither_order": "held out in both orders",
    "doubles": "held-out doubles n + n",
}
PAIRS: dict[PairKind, str] = {"seen": "as trained", "held_out": "held-out pair", "any": "any pair", **HELD_OUT_CLASSES}
BANNED: dict[tuple[int, int | None], str] = {
    (1, 1): "in a banned slot",
    (2, 1): "one in a banned slot",
    (2, 2): "both in banned slots",
    **{(n_vars, 0): "" for n_vars in VARIABLES},
    **{(n_vars, None): "any slot" for n_vars in VARIABLES},
}
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
CLASS_SETS = tuple(
    EvalSet(f"{n_vars}-var {pair.replace('_', ' ')}", n_vars, pair) for n_vars in (0, 1, 2) for pair in HELD_OUT_CLASSES
)
# Evaluated during training.
RECORDED_SETS = EVAL_SETS + DOUBLY_HELD_OUT
ALL_SETS = RECORDED_SETS + CLASS_SETS
LABELS = {s.name: s.label for s in ALL_SETS}


def any_sums(n_vars: int) -> EvalSet:
    """The set of sums of any pair of values, seen or held out, with `n_vars` variables in any slot."""
    return EvalSet(f"{n_vars}-var any", n_vars, pair="any", n_banned=None)
