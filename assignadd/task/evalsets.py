"""The evaluation sets as a table (paper, figure "accuracies"), and the ones nobody reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PairKind = Literal["seen", "held_out", "mirror_seen", "mirror_held_out"]


@dataclass(frozen=True)
class EvalSet:
    """Sequences with `n_vars` operands that are variables, `n_banned` of them in a slot banned for them.

    `pair` says which pairs of values they add; `mirror_seen` and `mirror_held_out` part the held-out pairs (n, m) by
    whether (m, n) was seen: the network is symmetric in its operands, so the first kind is close to seen data.
    """

    name: str
    n_vars: int
    pair: PairKind = "seen"
    n_banned: int = 0
    first: int | None = None
    second: int | None = None
    """The variable (by its number) that stands in a slot, where the set wants a certain one."""

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
MIRROR_SETS = (
    EvalSet("0-var mirror seen", n_vars=0, pair="mirror_seen"),
    EvalSet("0-var mirror held out", n_vars=0, pair="mirror_held_out"),
)
# What training evaluates as it goes.
RECORDED_SETS = EVAL_SETS + DOUBLY_HELD_OUT
ALL_SETS = RECORDED_SETS + MIRROR_SETS
