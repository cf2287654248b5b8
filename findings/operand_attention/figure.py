"""The figure: the accuracy that each change costs each seed of the table, beside the predictions."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from assignadd.figure import COLORS, figure, save
from assignadd.ledger import AtLeast

from .attention import KINDS, TRAINED
from .table import ORDINARY, PREDICTIONS, TWELVE, results, table

SIZE = (7.4, 2.9)
COLOR_OF = {TWELVE: COLORS.orange, ORDINARY: COLORS.blue}
LABELS = {TWELVE: "12 seeds with the slots often not on top", ORDINARY: "10 other seeds"}


def draw(made: Figure) -> None:
    """Left, the loss of each seed with the predicted side shaded; right, the weights of `=` on one-variable sums."""
    left, right = made.subplots(1, 2, width_ratios=(3, 2))
    models = table()["models"]
    for i, prediction in enumerate(PREDICTIONS):
        edge = prediction.rule.threshold
        ends = (edge, 1) if isinstance(prediction.rule, AtLeast) else (-0.05, edge)
        left.fill_betweenx((i - 0.42, i + 0.42), *ends, color=COLORS.grey, alpha=0.2, linewidth=0)
        for run, shift in ((TWELVE, -0.18), (ORDINARY, 0.18)):
            losses = [prediction.worst(prediction.losses(m)).value for m in models if m["run"] == run]
            left.scatter(losses, i + shift + _jitter(len(losses)), s=9, color=COLOR_OF[run], linewidths=0)
    left.set_yticks(range(len(PREDICTIONS)), [p.says.replace(": ", ":\n") for p in PREDICTIONS])
    left.invert_yaxis()
    left.set(xlim=(-0.05, 1), xlabel="accuracy lost (shaded: as predicted)")
    for i, kind in enumerate(KINDS):
        for run, shift in ((TWELVE, -0.16), (ORDINARY, 0.16)):
            weights = [m["sets"][TRAINED]["weights"][kind] for m in models if m["run"] == run]
            right.scatter(i + shift + _jitter(len(weights)), weights, s=9, color=COLOR_OF[run], linewidths=0)
    right.set_xticks(range(len(KINDS)), ["the variable's\nslot", "the literal's\nslot", "= itself"])
    right.set(ylim=(0, None), ylabel="attention of = in layer 1")
    for run, label in LABELS.items():
        left.scatter([], [], s=9, color=COLOR_OF[run], label=label)
    made.legend(loc="outside upper center", ncols=2)


def _jitter(n: int) -> np.ndarray:
    return np.linspace(-0.1, 0.1, n)


if __name__ == "__main__":
    with figure(*SIZE) as made:
        draw(made)
        save(made, Path(__file__).with_name("figure"), png=False)
    print("\n".join(results()))
