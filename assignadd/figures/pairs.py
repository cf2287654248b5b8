"""Figure `pairs` (ours): the accuracy of every pair of numbers; and rows and panels by class of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from torch import Tensor

from assignadd.figures.heatmap import draw_heat, thinned
from assignadd.figures.record import FigureData, FigureRecord
from assignadd.figures.style import SMALLEST
from assignadd.measures.accuracies import CONTEXTS
from assignadd.palette import BLUE, ERRORS, GREY, ORANGE, VERMILION
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
_NAMES = {(s.n_vars, s.pair): s.name for s in (*EVAL_SETS, *CLASS_SETS) if not s.n_banned}


def set_name(n_vars: int, kind: PairKind) -> str:
    """The evaluation set with such pairs and no variable in a banned slot."""
    return _NAMES[n_vars, kind]


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
        _widen_towards_one(one)
    axes[len(types) // 2].set_xlabel("accuracy (scale widens towards 1)")
    axes[0].set_yticks(range(len(CLASS_ROWS)), [label for label, _ in CLASS_ROWS.values()])
    axes[0].set_ylim(len(CLASS_ROWS) - 0.45, -0.55)
    return dict(zip(types, axes, strict=True))


def _widen_towards_one(axes: Axes) -> None:
    """Makes the axis logarithmic in the share of wrong answers, so that .9, .99 and 1 are far apart."""
    axes.set_xscale("function", functions=(lambda a: -np.log10(1 + FINEST - a), lambda x: 1 + FINEST - 10.0**-x))
    axes.set_xticks([0, 0.5, 0.9, 0.99, 1], ["0", ".5", ".9", ".99", "1"])
    axes.set(xlim=(-0.15, 1 + 0.2 * FINEST))


HALF = 0.5
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
            place = 0.62 + 0.15 * (x - 1) if x else -0.1
            axes.text(
                place, 0.76 - 0.12 * y, text, fontsize=SMALLEST, ha="right" if x else "left", transform=axes.transAxes
            )


PAIRS_FIGURE = FigureRecord(
    "pairs", "Every pair of numbers",
    "Look for the dark cells: are they on the diagonal (doubles n + n), in outlined cells (held-out pairs), or "
    "anywhere?",
    lambda s: pairs_data(s.model.pair_accuracy, s.model.seen), draw_pairs, height=5.3, found=pairs_caption,
)  # fmt: skip
