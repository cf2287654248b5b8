"""Figures `pairs` and `variables` (ours): accuracy by pair of numbers, by variable; and panels by class of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.patheffects import withStroke
from torch import Tensor

from assignadd.config import Task
from assignadd.dynamics.curves import first_lasting
from assignadd.dynamics.of_network import phases_of, trajectory_of
from assignadd.dynamics.phases import Phases
from assignadd.figure.record import FigureData, FigureRecord
from assignadd.figure.style import SMALLEST, bar, draw_heat, name_phases, phase_ends, rule_phases, thinned
from assignadd.measures.accuracies import CONTEXTS, SLOTS, pair_accuracies
from assignadd.measures.columns import HALF
from assignadd.palette import BLUE, ERRORS, GREY, INK, ORANGE, RED, SHARES, VERMILION
from assignadd.task.evalsets import CLASS_SETS, EVAL_SETS, HELD_OUT_CLASSES, VARIABLES, PairKind
from assignadd.task.splits import pair_mask

# Label and colour of each kind of pairs.
CLASS_ROWS: dict[PairKind, tuple[str, str]] = {
    "seen": ("seen pairs", GREY),
    "mirror_seen": (HELD_OUT_CLASSES["mirror_seen"], BLUE),
    "neither_order": (HELD_OUT_CLASSES["neither_order"], ORANGE),
    "doubles": (HELD_OUT_CLASSES["doubles"], VERMILION),
}
# Accuracies whose share of wrong answers is far below this are drawn at 1.
FINEST = 1e-3
# The evaluation set with so many variables, none in a banned slot, and such pairs.
SET_NAMES = {(s.n_vars, s.pair): s.name for s in (*EVAL_SETS, *CLASS_SETS) if not s.n_banned}


def median_there(values: np.ndarray) -> float:
    """The median of the values that are not NaN; NaN if there are none."""
    there = values[~np.isnan(values)]
    return float(np.median(there)) if len(there) else np.nan


def class_panels(made: Figure, types: Sequence[int]) -> dict[int, Axes]:
    """Axes side by side by the number of variables, each with a row for every kind of pairs, the first on top."""
    axes = made.subplots(1, len(types), sharey=True, squeeze=False)[0]
    for n_vars, one in zip(types, axes, strict=True):
        one.set_title(VARIABLES[n_vars])
        one.grid(False, axis="y")
        one.tick_params(axis="y", length=0)
        # Logarithmic in the share of wrong answers, so that .9, .99 and 1 are far apart.
        one.set_xscale("function", functions=(lambda a: -np.log10(1 + FINEST - a), lambda x: 1 + FINEST - 10.0**-x))
        one.set_xticks([0, 0.5, 0.9, 0.99, 1], ["0", ".5", ".9", ".99", "1"])
        one.set(xlim=(-0.15, 1 + 0.2 * FINEST))
    axes[len(types) // 2].set_xlabel("accuracy (scale widens towards 1)")
    axes[0].set_yticks(range(len(CLASS_ROWS)), [label for label, _ in CLASS_ROWS.values()])
    axes[0].set_ylim(len(CLASS_ROWS) - 0.45, -0.55)
    return dict(zip(types, axes, strict=True))


LISTED = 12
OUTLINE = GREY  # stands out on light cells and on dark ones


@dataclass(frozen=True)
class PairsData(FigureData):
    types: list[int]  # numbers of variables
    accuracy: np.ndarray  # (types, N, N): of n + m at [n, m]
    seen: np.ndarray  # (N, N)
    kinds: list[str]  # of pairs
    pairs: np.ndarray  # (kinds,): how many there are
    below_half: np.ndarray  # (kinds, types): how many of them are answered wrongly more often than not


def pairs_data(accuracy: Mapping[int, Tensor], seen: Tensor) -> PairsData:
    masks = np.stack([pair_mask(seen, kind).cpu().numpy() for kind in CLASS_ROWS])
    found = np.stack([one.cpu().numpy() for one in accuracy.values()])
    below = (masks[:, None] & (found < HALF)).sum((2, 3))
    return PairsData(list(accuracy), found, seen.cpu().numpy(), list(CLASS_ROWS), masks.sum((1, 2)), below)


def pairs_caption(data: PairsData) -> str:
    """The pairs that are answered wrongly more often than not, in words."""
    found = [_errors(n_vars, accuracy, data.seen) for n_vars, accuracy in zip(data.types, data.accuracy, strict=True)]
    return " ".join(
        [f"Each cell is the accuracy of a pair in {CONTEXTS} contexts, with variables in any slot.", *found]
    )


def _errors(n_vars: int, accuracy: np.ndarray, seen: np.ndarray) -> str:
    """The pairs below one half in one panel: how many, of which kinds, and the worst of them."""
    where = VARIABLES[n_vars].capitalize()
    order = [divmod(int(code), len(accuracy)) for code in np.argsort(accuracy, axis=None, kind="stable")]
    wrong = [pair for pair in order if accuracy[pair] < HALF]
    if not wrong:
        n, m = order[0]
        return f"{where}: no pair is below one half; the lowest is {n}+{m} ({accuracy[n, m]:.2f})."
    doubles, held_out = sum(n == m for n, m in wrong), sum(not seen[pair] for pair in wrong)
    words = ", ".join(f"{n}+{m} ({accuracy[n, m]:.2f})" for n, m in wrong[:LISTED])
    return (
        f"{where}: {len(wrong):,} of {accuracy.size:,} pairs are below one half (doubles {doubles:,}; held out "
        f"{held_out:,}, seen {len(wrong) - held_out:,}). {'The lowest' if len(wrong) > LISTED else 'All'}: {words}."
    )


def draw_pairs(data: PairsData, made: Figure) -> None:
    """A heat map for each number of variables, and the legend."""
    grid, ticks = made.add_gridspec(2, 2), thinned(len(data.seen), 8)
    for place, n_vars, accuracy in zip(((0, 0), (0, 1), (1, 0)), data.types, data.accuracy, strict=False):
        axes = made.add_subplot(grid[place])
        image = draw_heat(axes, accuracy, ERRORS, (0, 1))
        axes.set_aspect("equal")
        axes.spines[:].set_visible(True)
        axes.set(title=VARIABLES[n_vars], xlabel="second number m", ylabel="first number n", xticks=ticks, yticks=ticks)
        _outline(axes, ~data.seen)
    last = grid[1, 1].subgridspec(2, 1, height_ratios=(14, 1))
    _key(data, made.add_subplot(last[0]))
    scale = made.colorbar(image, cax=made.add_subplot(last[1], label="<colorbar>"), orientation="horizontal")
    scale.outline.set_visible(False)
    scale.set_label(f"accuracy of a pair in {CONTEXTS} contexts")


def _outline(axes: Axes, cells: np.ndarray) -> None:
    """A thin square inside every one of these cells, all as one path."""
    centres = np.argwhere(cells)[:, ::-1]
    square = 0.4 * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)])
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    path = Path((centres[:, None] + square).reshape(-1, 2), np.tile(codes, len(centres)))
    axes.add_patch(PathPatch(path, fill=False, edgecolor=OUTLINE, linewidth=min(1, 24 / len(cells))))


def _key(data: PairsData, axes: Axes) -> None:
    """What an outline means, and how many pairs of every kind are answered wrongly more often than not."""
    axes.set_axis_off()
    held_out = Patch(facecolor="none", edgecolor=OUTLINE, linewidth=1, label="held-out pair")
    axes.legend(
        handles=[held_out], loc="upper left", bbox_to_anchor=(-0.1, 1), handlelength=1, handleheight=1, borderpad=0
    )
    rows = [["accuracy below one half", *(f"{n} var." for n in data.types), "of"]]
    for kind, n, below in zip(CLASS_ROWS, data.pairs, data.below_half, strict=True):
        rows.append([CLASS_ROWS[kind][0], *(f"{k:,}" for k in below), f"{n:,}"])
    for y, row in enumerate(rows):
        for x, text in enumerate(row):
            place, ha = (0.62 + 0.15 * (x - 1), "right") if x else (-0.1, "left")
            axes.text(place, 0.76 - 0.12 * y, text, fontsize=SMALLEST, ha=ha, transform=axes.transAxes)


COLUMNS = 600  # cells along the steps: about as many as the paper has pixels there

LATER = 1000  # steps behind the first spike, by which most variables have come
LATE: dict[str, Any] = {
    "color": ORANGE, "marker": "D", "markersize": 4, "markeredgecolor": INK, "markeredgewidth": 0.6,
    "linestyle": "none", "zorder": 5, "label": "late: half of its sums right from here on",
}  # fmt: skip


@dataclass(frozen=True)
class VariablesData(FigureData):
    steps: np.ndarray  # (checkpoints,)
    letters: list[str]
    accuracy: np.ndarray  # (2, V, checkpoints): slot, variable
    banned: np.ndarray  # (2, V)
    onsets: np.ndarray  # (2, V): the step from which half of the sums are right to last; NaN where that never comes
    late: np.ndarray  # (2, V): whether that is `LATER` than the first spike
    phases: list[str]
    ends: np.ndarray
    summary: str


def variables_data(columns: Mapping[str, np.ndarray], phases: Phases, task: Task) -> VariablesData:
    """Accuracy and onset of every variable in every slot, from the columns of a measured trajectory."""
    steps = columns["step"]
    accuracy = np.stack([[columns[f"accuracy {v} {slot}"] for v in task.variables] for slot in SLOTS])
    banned = np.array([[v in letters for v in task.variables] for letters in (task.banned_first, task.banned_second)])
    lasting = [[first_lasting(steps, curve >= HALF) for curve in of_slot] for of_slot in accuracy]
    onsets = np.array([[np.nan if at is None else float(steps[at]) for at in of_slot] for of_slot in lasting])
    late = onsets > (phases.first_spike.after + LATER if phases.first_spike else np.inf)
    return VariablesData(
        steps, list(task.variables), accuracy, banned, onsets, late, *phase_ends(phases), phases.summary
    )


def variables_caption(data: VariablesData) -> str:
    """How many variables come late, and how many of these are banned, in words."""
    late, banned = int(data.late.sum()), int((data.late & data.banned).sum())
    return (
        f"Rows that come more than {LATER:,} steps after the first spike: {late}; of these, {banned} are ones that "
        "training never had."
    )


def draw_variables(data: VariablesData, made: Figure) -> None:
    axes = made.add_subplot()
    V, last = len(data.letters), max(1, int(data.steps[-1]))
    gap = np.full((1, len(data.steps)), np.nan)  # between the slots
    rows = np.concatenate([data.accuracy[0], gap, data.accuracy[1]])
    image = draw_heat(axes, rows[:, nearest(data.steps, last)], SHARES, (0, 1))
    image.set_extent((0, last, len(rows) - 0.5, -0.5))
    at = np.concatenate([np.arange(V), V + 1 + np.arange(V)])
    axes.plot(np.where(data.late, data.onsets, np.nan).ravel(), at, **LATE)
    _name_rows(axes, data, at)
    axes.set(xlabel="training step", xlim=(0, last))
    axes.tick_params(axis="x", length=3)
    bar(image, axes, "accuracy")
    rule_phases(axes, data.ends, zorder=4, path_effects=[withStroke(linewidth=2, foreground="white")])
    name_phases(axes, data.phases, data.ends, data.summary)
    banned = Line2D([], [], color=RED, marker="$×$", markersize=5, linestyle="none", label="never trained in this slot")
    handles = [banned, Line2D([], [], **LATE)] if data.late.any() else [banned]
    made.legend(handles=handles, loc="outside lower center", ncols=2)


def _name_rows(axes: Axes, data: VariablesData, at: np.ndarray) -> None:
    names = [f"{'× ' * bool(b)}{v}" for v, b in zip(data.letters * 2, data.banned.ravel(), strict=True)]
    axes.set_yticks(at, names, fontsize=SMALLEST)
    for label, banned in zip(axes.get_yticklabels(), data.banned.ravel(), strict=True):
        label.set(color=RED if banned else INK, fontweight="bold" if banned else "normal")
    beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "center", "rotation": 90}
    for slot, rows in zip(SLOTS, np.split(at, 2), strict=True):
        axes.text(-0.065, rows.mean(), f"{slot} slot", **beside)


def nearest(steps: np.ndarray, last: int) -> np.ndarray:
    """For every cell from 0 to `last`, the checkpoint nearest to its middle."""
    middles = (np.arange(COLUMNS) + 0.5) * last / COLUMNS
    return np.abs(steps[:, None] - middles).argmin(0)


PAIRS_FIGURE = FigureRecord(
    "pairs", "Every pair of numbers",
    "Look for the dark cells: are they on the diagonal (doubles n + n), in outlined cells (held-out pairs), or "
    "anywhere?",
    lambda s: pairs_data(pair_accuracies(s.model), s.model.seen), draw_pairs, height=5.3, found=pairs_caption,
)  # fmt: skip
VARIABLES_FIGURE = FigureRecord(
    "variables", "Every variable in every slot",
    "Each row is a variable in a slot. A light bar that continues after (a) is a variable not yet looked up "
    "there; a red cross marks a variable that training never put in that slot.",
    lambda s: variables_data(trajectory_of(s.model), phases_of(s.model), s.model.config.task),
    draw_variables, height=4.0, found=variables_caption, along_training=True,
)  # fmt: skip
