"""When and by what is it decided whether a network binds? The study `when`, and the figure of both studies."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.figure import COLORS, draw_intervals, share_map
from assignadd.study import BASE, Cell, Study, StudyTable, share

from .sources import FATE, KNOWN, LEAST_AUC, auc, fates, repeats

# The rate at which most seeds bind in the study `rate`; of several such the middle one, of an even number the lower.
HIGH = 0.002
NEVER, ALWAYS = "never raised", "raised from the start"
# Cells by the step at which their rate is raised, or until which it is high.
RAISED = {step: f"raised at {step:,}" for step in (500, 1000, 2000, 4000, 8000, 16_000)}
LOWERED = {step: f"high until {step:,}" for step in (1000, 4000)}
WHEN = Study(
    "when",
    "Until when does a higher learning rate make those seeds bind that otherwise stay stuck?",
    cells=(
        Cell(NEVER),
        Cell(ALWAYS, {"optim.lr": HIGH}),
        *(Cell(label, {"optim.later_lr": HIGH, "optim.later_from": step}) for step, label in RAISED.items()),
        *(
            Cell(label, {"optim.lr": HIGH, "optim.later_lr": BASE.optim.lr, "optim.later_from": step})
            for step, label in LOWERED.items()
        ),
    ),
    seeds=32,
    steps=24_000,
    ask=(
        share("binds").of(ALWAYS).versus(NEVER, at_least=0),
        share("binds").of(*LOWERED.values()).versus(NEVER, at_least=0),
    ),
)

STUDIES = (FATE, WHEN)
SIZE = (7.4, 4.8)


def draw(tables: Mapping[str, StudyTable], made: Figure) -> None:
    """Fates by source and their prediction above, the rate raised or lowered at one step below."""
    top, bottom = made.subfigures(2, 1, height_ratios=(6, 5))
    _draw_fates(tables["fate"], top.subplots(1, 4, width_ratios=(8, 8, 1.4, 5)))
    _draw_rates(tables["when"], bottom.subplots())


def _draw_fates(table: StudyTable, axes: np.ndarray) -> None:
    fate, again = fates(table), repeats(table)
    _, orders, splits = fate.shape
    maps = (
        (f"networks that bind, of {splits} splits", fate.sum(2), splits, "order of the data", range(orders)),
        (f"of {orders} orders of the data", fate.sum(1), orders, "split", range(splits)),
        ("repeats", again.sum(1, keepdims=True), again.shape[1], "all equal", range(0)),
    )
    *panels, right = axes
    for panel, (title, counts, most, below, ticks) in zip(panels, maps, strict=True):
        share_map(panel, counts / most, [f"{n:.0f}" if ticks else f"{n:.0f}/{most}" for n in counts.flat])
        panel.set_title(title)
        panel.set_xlabel(below)
        panel.set_xticks(ticks, [str(i) for i in ticks])
        panel.set_yticks(range(len(fate)))
    panels[0].set_ylabel("initialisation")
    draw_intervals(right, {f"{step:,}": auc(KNOWN, step, table) for step in LEAST_AUC}, COLORS.blue, across=False)
    right.axhline(0.5, color=COLORS.grey, linewidth=0.8, linestyle="--")
    right.set_title("prediction of the fate")
    right.set(xlim=(-0.5, 2.5), ylim=(0.45, 1.02), ylabel="AUC (95 % interval)", xlabel="from measures at step")


def _draw_rates(table: StudyTable, axes: Axes) -> None:
    """The share that binds with the rate raised at each step, and with a high rate at first alone."""
    cells = {"0": ALWAYS} | {f"{step:,}": cell for step, cell in RAISED.items()} | {"never": NEVER}
    cells |= {f"until\n{step:,}": cell for step, cell in LOWERED.items()}
    shares = {name: table.share(cell, "binds") for name, cell in cells.items()}
    draw_intervals(axes, shares, COLORS.blue, across=False)
    axes.axvline(len(RAISED) + 1.5, color=COLORS.grey, linewidth=0.8)
    axes.set_title(f"learning rate {HIGH:g} from one step on, or at first alone")
    axes.set(ylim=(0, 1.03), ylabel="share of 32 networks that bind", xlabel="rate raised at step")
