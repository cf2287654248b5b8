"""Accuracy by evaluation set along training, and by pair of numbers at its end: figures `accuracies` and `pairs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from torch import Tensor

from assignadd.figure.record import FigureData, FigureRecord, on_axes
from assignadd.figure.style import SMALLEST, draw_heat, thinned
from assignadd.measures.accuracies import CONTEXTS, pair_accuracies
from assignadd.measures.columns import HALF
from assignadd.palette import BY_VARS, ERRORS, GREY
from assignadd.task.evalsets import EVAL_SETS, HELD_OUT_CLASSES, LABELS, VARIABLES, EvalSet, PairKind
from assignadd.task.splits import pair_mask

NEVER = -1
REACHED = 0.9


@dataclass(frozen=True)
class AccuraciesData(FigureData):
    steps: np.ndarray  # (evaluations,)
    sets: list[str]
    accuracy: np.ndarray  # (evaluations, sets)
    diverged_at: int = NEVER


def accuracies_data(rows: Sequence[Mapping[str, Any]]) -> AccuraciesData:
    """The accuracies of one model along training, from its rows of metrics in the order of the steps."""
    sets = [s.name for s in EVAL_SETS if s.name in rows[0]["accuracy"]]
    steps = np.array([row["step"] for row in rows])
    accuracy = np.array([[row["accuracy"][name] for name in sets] for row in rows])
    diverged_at = rows[-1]["diverged_at"]
    return AccuraciesData(steps, sets, accuracy, NEVER if diverged_at is None else diverged_at)


def accuracies_caption(data: AccuraciesData) -> str:
    """When sums with each number of variables, as trained, are first right nine times in ten; and the lowest set."""
    first = []
    for evalset in EVAL_SETS:
        if evalset.name in data.sets and evalset.pair == "seen" and not evalset.n_banned:
            reached = np.flatnonzero(data.accuracy[:, data.sets.index(evalset.name)] >= REACHED)
            when = f"at step {data.steps[reached[0]]:,}" if len(reached) else "never"
            first.append(f"{VARIABLES[evalset.n_vars]} {when}")
    lowest = int(data.accuracy[-1].argmin())
    return (
        f"Sums as trained are first right nine times in ten: {', '.join(first)}. At the end, step {data.steps[-1]:,}, "
        f"the lowest set is '{LABELS[data.sets[lowest]]}' at {data.accuracy[-1, lowest]:.3f}."
    )


def draw_accuracies(data: AccuraciesData, axes: Axes) -> None:
    by_name = {s.name: s for s in EVAL_SETS}
    for name, curve in zip(data.sets, data.accuracy.T, strict=True):
        evalset = by_name[name]
        axes.plot(data.steps, curve, label=evalset.label, color=BY_VARS[evalset.n_vars], **_line_style(evalset))
    if data.diverged_at != NEVER:
        axes.axvline(data.diverged_at, color="black", linewidth=0.8, linestyle="--")
        axes.annotate(" diverged", (data.diverged_at, 0.02))
    axes.set(xlabel="training step", ylabel="accuracy", ylim=(-0.02, 1.02), xlim=(0, max(1, data.steps[-1])))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), handlelength=2.6, labelspacing=0.7)


def _line_style(evalset: EvalSet) -> dict[str, Any]:
    """The line of a set: solid as trained, dashed for held-out pairs, dotted or dash-dotted for banned slots."""
    if evalset.n_banned:
        return {"linestyle": (0, (1, 1.4)) if evalset.n_banned == 1 else (0, (3, 1, 1, 1)), "linewidth": 1.5}
    return {"linestyle": "-" if evalset.pair == "seen" else (0, (5, 2))}


PAIR_KINDS: dict[PairKind, str] = {"seen": "seen pairs", **HELD_OUT_CLASSES}
"""The label of each kind of pairs."""
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
    """The accuracies (N, N) by number of variables, and for each kind of pairs how many are below one half."""
    masks = np.stack([pair_mask(seen, kind).cpu().numpy() for kind in PAIR_KINDS])  # (kinds, N, N)
    by_type = np.stack([values.cpu().numpy() for values in accuracy.values()])  # (types, N, N)
    below_half = (masks[:, None] & (by_type < HALF)).sum((2, 3))
    return PairsData(list(accuracy), by_type, seen.cpu().numpy(), list(PAIR_KINDS), masks.sum((1, 2)), below_half)


def pairs_caption(data: PairsData) -> str:
    """The pairs that are answered wrongly more often than not, in words."""
    sentences = [f"Each cell is the accuracy of a pair in {CONTEXTS} contexts, with variables in any slot."]
    for n_vars, accuracy in zip(data.types, data.accuracy, strict=True):
        sentences.append(_pairs_below_half(n_vars, accuracy, data.seen))
    return " ".join(sentences)


def _pairs_below_half(n_vars: int, accuracy: np.ndarray, seen: np.ndarray) -> str:
    """The pairs below one half in one panel: how many, of which kinds, and the worst of them."""
    where = VARIABLES[n_vars].capitalize()
    in_order = np.argsort(accuracy, axis=None, kind="stable").tolist()  # n N + m of each pair, the lowest first
    pairs = [divmod(code, len(accuracy)) for code in in_order]
    wrong = [pair for pair in pairs if accuracy[pair] < HALF]
    if not wrong:
        n, m = pairs[0]
        return f"{where}: no pair is below one half; the lowest is {n}+{m} ({accuracy[n, m]:.2f})."
    doubles = sum(n == m for n, m in wrong)
    held_out = sum(not seen[pair] for pair in wrong)
    words = ", ".join(f"{n}+{m} ({accuracy[n, m]:.2f})" for n, m in wrong[:LISTED])
    return (
        f"{where}: {len(wrong):,} of {accuracy.size:,} pairs are below one half (doubles {doubles:,}; held out "
        f"{held_out:,}, seen {len(wrong) - held_out:,}). {'The lowest' if len(wrong) > LISTED else 'All'}: {words}."
    )


def draw_pairs(data: PairsData, made: Figure) -> None:
    """Draws a heat map for each number of variables, and the legend."""
    grid = made.add_gridspec(2, 2)
    ticks = thinned(len(data.seen), 8)
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
    """Draws a thin square inside every one of these cells, all as one path."""
    centres = np.argwhere(cells)[:, ::-1]
    square = 0.4 * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)])
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    path = Path((centres[:, None] + square).reshape(-1, 2), np.tile(codes, len(centres)))
    axes.add_patch(PathPatch(path, fill=False, edgecolor=OUTLINE, linewidth=min(1, 24 / len(cells))))


def _key(data: PairsData, axes: Axes) -> None:
    """Writes what an outline means, and how many pairs of every kind are answered wrongly more often than not."""
    axes.set_axis_off()
    held_out = Patch(facecolor="none", edgecolor=OUTLINE, linewidth=1, label="held-out pair")
    axes.legend(
        handles=[held_out], loc="upper left", bbox_to_anchor=(-0.1, 1), handlelength=1, handleheight=1, borderpad=0
    )
    rows = [["accuracy below one half", *(f"{n} var." for n in data.types), "of"]]
    for label, n, below in zip(PAIR_KINDS.values(), data.pairs, data.below_half, strict=True):
        rows.append([label, *(f"{k:,}" for k in below), f"{n:,}"])
    for y, row in enumerate(rows):
        for x, text in enumerate(row):
            place, ha = (0.62 + 0.15 * (x - 1), "right") if x else (-0.1, "left")
            axes.text(place, 0.76 - 0.12 * y, text, fontsize=SMALLEST, ha=ha, transform=axes.transAxes)


ACCURACIES_FIGURE = FigureRecord(
    "accuracies", "Accuracies by evaluation set",
    "Are sums of literals (blue) learned before sums with variables, and do these come in jumps? Colour is the number "
    "of variables in the sum; dashed lines are pairs held out from training, dotted lines are variables in slots "
    "where training never put them.",
    lambda s: accuracies_data(s.model.rows), on_axes(draw_accuracies), height=3.2, width=6.4, found=accuracies_caption,
)  # fmt: skip
PAIRS_FIGURE = FigureRecord(
    "pairs", "Every pair of numbers",
    "Look for the dark cells: are they on the diagonal (doubles n + n), in outlined cells (held-out pairs), or "
    "anywhere?",
    lambda s: pairs_data(pair_accuracies(s.model), s.model.seen), draw_pairs, height=5.3, found=pairs_caption,
)  # fmt: skip
