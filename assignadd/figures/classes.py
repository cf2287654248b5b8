"""What figures of the classes of held-out pairs share: their rows, their panels and the names of their sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.palette import BLUE, GREY, ORANGE, VERMILION
from assignadd.task.evalsets import CLASS_SETS, EVAL_SETS, HELD_OUT_CLASSES, VARIABLES, PairKind

# By the kind of pairs: label and colour.
CLASS_ROWS: dict[PairKind, tuple[str, str]] = {
    "seen": ("seen pairs", GREY),
    "mirror_seen": (HELD_OUT_CLASSES["mirror_seen"], BLUE),
    "neither_order": (HELD_OUT_CLASSES["neither_order"], ORANGE),
    "doubles": (HELD_OUT_CLASSES["doubles"], VERMILION),
}
# Shares of wrong answers far below this lie together at accuracy 1.
FINEST = 1e-3
_NAMES = {(s.n_vars, s.pair): s.name for s in (*EVAL_SETS, *CLASS_SETS) if not s.n_banned}


def set_name(n_vars: int, kind: PairKind) -> str:
    """The evaluation set of sums of such pairs, no variable in a banned slot."""
    return _NAMES[n_vars, kind]


def class_panels(made: Figure, types: Sequence[int]) -> dict[int, Axes]:
    """Axes side by side by the number of variables, each with a row for every kind of pairs, the first on top."""
    axes = made.subplots(1, len(types), sharey=True, squeeze=False)[0]
    for n_vars, one in zip(types, axes, strict=True):
        one.set_title(VARIABLES[n_vars])
        one.grid(False, axis="y")
        one.tick_params(axis="y", length=0)
        _widen_towards_one(one)
    axes[len(types) // 2].set_xlabel("accuracy (scale widens towards 1)")
    axes[0].set_yticks(range(len(CLASS_ROWS)), [label for label, _ in CLASS_ROWS.values()])
    axes[0].set_ylim(len(CLASS_ROWS) - 0.45, -0.55)
    return dict(zip(types, axes, strict=True))


def _widen_towards_one(axes: Axes) -> None:
    """Sets accuracies on a scale that is logarithmic in the share of wrong answers, so that .9, .99 and 1 lie apart."""
    axes.set_xscale("function", functions=(lambda a: -np.log10(1 + FINEST - a), lambda x: 1 + FINEST - 10.0**-x))
    axes.set_xticks([0, 0.5, 0.9, 0.99, 1], ["0", ".5", ".9", ".99", "1"])
    axes.set(xlim=(-0.15, 1 + 0.2 * FINEST))
