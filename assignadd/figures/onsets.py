"""Figure `onsets` (ours): when every evaluation set and every progress measure came up to last, with what is open about it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from assignadd.claims.evidence import Evidence
from assignadd.figures.absent import Absent, draw_absent
from assignadd.figures.arrays import FigureData
from assignadd.figures.progress_measures import phase_ends, rule_phases
from assignadd.figures.style import SMALLEST
from assignadd.measures.columns import MEASURES, measure_of
from assignadd.measures.variables import SLOTS
from assignadd.palette import BY_VARS, INK
from assignadd.task.evalsets import ALL_SETS, LABELS, VARIABLES

# Of curves that count no variables.
NO_TYPE = -1
# A row has room for the three types of a measure.
APART = 0.24
NEVER = 1.15  # times the last step


@dataclass(frozen=True)
class OnsetsData(FigureData):
    """A row per evaluation set or measure; a measure with types (0, 1, 2 variables in the sum) has a curve for each."""

    rows: list[str]
    row: np.ndarray  # (curves,)
    n_vars: np.ndarray  # (curves,): NO_TYPE where a curve is of no type
    threshold: np.ndarray  # (curves,)
    onset: np.ndarray  # (curves,): NaN where it never came
    low: np.ndarray
    high: np.ndarray  # NaN where it may never have come
    sampled: np.ndarray  # (curves,)
    last: int
    ends: np.ndarray  # of the phases
    summary: str


def onsets_data(model: Evidence) -> OnsetsData | Absent:
    """All but those of variables in slots, which figure `variables` has."""
    last, phases = int(model.curves.steps[-1]), model.phases
    if len(model.curves.steps) < 2:
        return Absent(f"seed {model.seed}: no onsets\nevaluated once, at step {last:,}")
    shown = [o for o in model.onsets if not o.curve.endswith(SLOTS)]
    names = [o.curve if o.curve in LABELS else measure_of(o.curve).family for o in shown]
    rows = list(dict.fromkeys(names))
    types = [_variables(o.curve) for o in shown]
    onset, low, high = np.array([(o.onset, o.low, o.high) for o in shown], dtype=float).T  # None becomes NaN
    levels, sampled = np.array([o.threshold for o in shown]), np.array([o.n is not None for o in shown])
    row = np.array([rows.index(name) for name in names])
    return OnsetsData(
        rows, row, np.array(types), levels, onset, low, high, sampled, last, phase_ends(phases)[1], phases.summary
    )


def _variables(curve: str) -> int:
    """How many variables the sums behind a curve have."""
    if curve in LABELS:
        return next(s.n_vars for s in ALL_SETS if s.name == curve)
    return int((measure_of(curve).fields(curve) or {}).get("n_vars", NO_TYPE))


def _label(row: str) -> str:
    return LABELS[row] if row in LABELS else next(m.label for m in MEASURES if m.family == row)


def draw_onsets(data: OnsetsData | Absent, made: Figure) -> None:
    if isinstance(data, Absent):
        draw_absent(data, made)
        return
    axes = made.add_subplot()
    first = max(data.last / 1000, min([*data.low[data.low > 0], data.last / 10]) / 1.3)
    axes.set(xscale="log", xlim=(first, 1.4 * data.last), ylim=(len(data.rows) - 0.4, -0.6), xlabel="training step")
    for i, y in enumerate(_heights(data)):
        _draw_onset(axes, data, i, y, first)
    rule_phases(axes, data.ends)
    levels = [data.threshold[data.row == row][0] for row in range(len(data.rows))]
    axes.set_yticks(
        range(len(data.rows)),
        [f"{_label(name)}  {level:g}" for name, level in zip(data.rows, levels, strict=True)],
        fontsize=SMALLEST,
    )
    made.suptitle(data.summary, fontsize=8, x=0.01, ha="left")
    made.legend(handles=_legend(data), loc="outside lower center", ncols=3)


def _heights(data: OnsetsData) -> np.ndarray:
    """Alone in the middle of its row; the types of a measure above one another."""
    alone = np.bincount(data.row)[data.row] == 1
    return data.row + np.where(alone, 0.0, APART * (data.n_vars - 1))


def _draw_onset(axes: Axes, data: OnsetsData, i: int, y: float, first: float) -> None:
    color = BY_VARS.get(int(data.n_vars[i]), INK)
    if np.isnan(data.onset[i]):
        axes.plot(NEVER * data.last, y, marker="x", color=color, markersize=3.5)
        return
    high = NEVER * data.last if np.isnan(data.high[i]) else data.high[i]
    axes.plot([max(first, data.low[i]), high], [y, y], color=color, linewidth=1.0, solid_capstyle="butt")
    axes.plot(max(first, data.onset[i]), y, marker="o" if data.sampled[i] else "D", color=color, markersize=3.2)


def _legend(data: OnsetsData) -> list[Line2D]:
    types = [
        Line2D([], [], color=color, linewidth=2, label=VARIABLES[n]) for n, color in BY_VARS.items() if n in data.n_vars
    ]
    names = {"o": "onset, share of sequences", "D": "onset, weights alone", "x": "never"}
    marks = [
        Line2D([], [], color=INK, marker=mark, markersize=3.5, linestyle="none", label=name)
        for mark, name in names.items()
    ]
    return [
        handle for column in zip_longest(types, marks) for handle in column if handle
    ]  # a legend fills column by column
