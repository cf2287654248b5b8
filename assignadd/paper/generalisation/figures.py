"""Accuracy by evaluation set and by pair: figures `accuracies`, `held_out_classes`, `doubly_held_out` and `pairs`."""

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
from torch import Tensor

from assignadd.dynamics.trajectory import binds
from assignadd.figure.record import FigureData, FigureRecord, on_axes
from assignadd.figure.style import SMALLEST, draw_heat, thinned
from assignadd.measures.accuracies import CONTEXTS, Accuracy, accuracies_of, pair_accuracies
from assignadd.measures.columns import HALF
from assignadd.network import Network
from assignadd.palette import BLUE, BY_VARS, ERRORS, GREY, ORANGE, VERMILION
from assignadd.task.evalsets import CLASS_SETS, EVAL_SETS, HELD_OUT_CLASSES, LABELS, VARIABLES, EvalSet, PairKind
from assignadd.task.splits import pair_mask


@dataclass(frozen=True)
class AccuraciesData(FigureData):
    steps: np.ndarray  # (evaluations,)
    sets: list[str]
    accuracy: np.ndarray  # (evaluations, sets)
    diverged_at: int | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        return super().arrays() | {"diverged_at": np.array(-1 if self.diverged_at is None else self.diverged_at)}


def accuracies_data(rows: Sequence[Mapping[str, Any]]) -> AccuraciesData:
    """The accuracies of one model along training, from its rows of metrics in the order of the steps."""
    sets = [s.name for s in EVAL_SETS if s.name in rows[0]["accuracy"]]
    accuracy = np.array([[row["accuracy"][s] for s in sets] for row in rows])
    return AccuraciesData(np.array([row["step"] for row in rows]), sets, accuracy, rows[-1]["diverged_at"])


REACHED = 0.9


def accuracies_caption(data: AccuraciesData) -> str:
    """When sums with each number of variables, as trained, are first right nine times in ten; and the lowest set."""
    first = []
    for evalset in (s for s in EVAL_SETS if s.name in data.sets and s.pair == "seen" and not s.n_banned):
        above = np.flatnonzero(data.accuracy[:, data.sets.index(evalset.name)] >= REACHED)
        when = f"at step {data.steps[above[0]]:,}" if len(above) else "never"
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
    if data.diverged_at is not None:
        axes.axvline(data.diverged_at, color="black", linewidth=0.8, linestyle="--")
        axes.annotate(" diverged", (data.diverged_at, 0.02))
    axes.set(xlabel="training step", ylabel="accuracy", ylim=(-0.02, 1.02), xlim=(0, max(1, data.steps[-1])))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), handlelength=2.6, labelspacing=0.7)


def _line_style(evalset: EvalSet) -> dict[str, Any]:
    """The line of a set: solid as trained, dashed for held-out pairs, dotted or dash-dotted for banned slots."""
    if evalset.n_banned:
        return {"linestyle": (0, (1, 1.4)) if evalset.n_banned == 1 else (0, (3, 1, 1, 1)), "linewidth": 1.5}
    return {"linestyle": "-" if evalset.pair == "seen" else (0, (5, 2))}


# Label and colour of each kind of pairs.
CLASS_ROWS: dict[PairKind, tuple[str, str]] = {
    "seen": ("seen pairs", GREY),
    "mirror_seen": (HELD_OUT_CLASSES["mirror_seen"], BLUE),
    "neither_order": (HELD_OUT_CLASSES["neither_order"], ORANGE),
    "doubles": (HELD_OUT_CLASSES["doubles"], VERMILION),
}
# Accuracies whose share of wrong answers is far below this are drawn at 1.
FINEST = 1e-3
# The evaluation set by the number of variables, none of them in a banned slot, and the kind of pairs.
SET_NAMES = {(s.n_vars, s.pair): s.name for s in (*EVAL_SETS, *CLASS_SETS) if not s.n_banned}


def median_there(values: np.ndarray) -> float:
    """The median of the values that are not NaN; NaN if there are none."""
    finite = values[~np.isnan(values)]
    return float(np.median(finite)) if len(finite) else np.nan


def class_panels(made: Figure, types: Sequence[int]) -> dict[int, Axes]:
    """Axes side by side by the number of variables, each with a row for every kind of pairs, the first on top."""
    axes = made.subplots(1, len(types), sharey=True, squeeze=False)[0]
    for n_vars, panel in zip(types, axes, strict=True):
        panel.set_title(VARIABLES[n_vars])
        panel.grid(False, axis="y")
        panel.tick_params(axis="y", length=0)
        # Logarithmic in the share of wrong answers, so that .9, .99 and 1 are far apart.
        panel.set_xscale("function", functions=(lambda a: -np.log10(1 + FINEST - a), lambda x: 1 + FINEST - 10.0**-x))
        panel.set_xticks([0, 0.5, 0.9, 0.99, 1], ["0", ".5", ".9", ".99", "1"])
        panel.set(xlim=(-0.15, 1 + 0.2 * FINEST))
    axes[len(types) // 2].set_xlabel("accuracy (scale widens towards 1)")
    axes[0].set_yticks(range(len(CLASS_ROWS)), [label for label, _ in CLASS_ROWS.values()])
    axes[0].set_ylim(len(CLASS_ROWS) - 0.45, -0.55)
    return dict(zip(types, axes, strict=True))


# The sets of figure `held_out_classes`: seen pairs and three classes of held-out pairs, by the number of variables.
CLASS_NAMES = [SET_NAMES[n_vars, kind] for n_vars in VARIABLES for kind in CLASS_ROWS]
# The sets of figure `doubly_held_out`, from top to bottom, with their colours: a new pair, a new slot, or both.
DOUBLY_HELD_OUT = {
    "1-var add-restricted": BLUE,
    "1-var var-restricted": ORANGE,
    "1-var doubly held out": VERMILION,
    "2-var add-restricted": BLUE,
    "2-var var-restricted (1)": ORANGE,
    "2-var doubly held out (1)": VERMILION,
    "2-var var-restricted (2)": ORANGE,
    "2-var doubly held out (2)": VERMILION,
}


@dataclass(frozen=True)
class HeldOutData(FigureData):
    """Accuracies of several models; NaN where a model has no such set."""

    sets: list[str]
    seeds: list[int]
    accuracy: np.ndarray  # (sets, models)
    low: np.ndarray  # 95 % Wilson interval
    high: np.ndarray
    binds: np.ndarray  # (models,)


def held_out_data(
    names: Sequence[str], seeds: Sequence[int], models: Sequence[Mapping[str, Accuracy]], binds: Sequence[bool]
) -> HeldOutData:
    """The accuracies of these models on the sets among `names` that any of them has."""
    sets = [name for name in names if any(name in model for model in models)]
    accuracy, low, high = (np.full((len(sets), len(models)), np.nan) for _ in range(3))
    for row, name in enumerate(sets):
        for column, model in enumerate(models):
            if name in model:
                accuracy[row, column] = model[name].accuracy
                low[row, column] = model[name].interval.low
                high[row, column] = model[name].interval.high
    return HeldOutData(sets, list(seeds), accuracy, low, high, np.array(binds, bool))


def held_out_of(names: Sequence[str], networks: Sequence[Network]) -> HeldOutData:
    """The same of trained networks."""
    seeds = [network.seed for network in networks]
    return held_out_data(names, seeds, [accuracies_of(n) for n in networks], [binds(n) for n in networks])


def held_out_classes_caption(data: HeldOutData) -> str:
    """The accuracies of this run, by number of variables and class of pairs."""
    chosen = data.binds if data.binds.any() else np.ones_like(data.binds)
    who = "this network" if len(data.seeds) == 1 else "the median network" + (" that binds" if data.binds.any() else "")
    parts = []
    for n_vars, words in VARIABLES.items():
        medians = []
        for kind, (label, _) in CLASS_ROWS.items():
            name = SET_NAMES[n_vars, kind]
            median = median_there(data.accuracy[data.sets.index(name), chosen]) if name in data.sets else np.nan
            if np.isfinite(median):
                medians.append(f"{median:.3f} ({label})")
        if medians:
            parts.append(f"{words}: {', '.join(medians)}")
    return f"Here {who} has: {'; '.join(parts)}."


def doubly_held_out_caption(data: HeldOutData) -> str:
    """The lowest accuracies of the sets held out twice and of those held out once, in words."""
    if not data.sets:
        return "This task has no such sets."
    mean = np.nanmedian(data.accuracy, axis=1)
    twice = np.array([DOUBLY_HELD_OUT[name] == VERMILION for name in data.sets])
    words = []
    for what, chosen in (("held out twice", twice), ("held out once", ~twice)):
        if chosen.any():
            row = int(np.where(chosen, mean, np.inf).argmin())
            words.append(f"{what}: '{LABELS[data.sets[row]]}' at {mean[row]:.3f}")
    who = "this network" if len(data.seeds) == 1 else "the median network"
    return f"The lowest sets of {who}: {'; '.join(words)}."


def draw_held_out_classes(data: HeldOutData, made: Figure) -> None:
    """A panel for each number of variables, with a row for each class."""
    present = {n_vars: [kind for kind in CLASS_ROWS if SET_NAMES[n_vars, kind] in data.sets] for n_vars in VARIABLES}
    for n_vars, axes in class_panels(made, [n_vars for n_vars, kinds in present.items() if kinds]).items():
        for y, kind in enumerate(CLASS_ROWS):
            if kind in present[n_vars]:
                _dots(data, data.sets.index(SET_NAMES[n_vars, kind]), y, CLASS_ROWS[kind][1], axes)
    if handles := _legend(data):
        made.legend(handles=handles, loc="outside lower left", ncols=3)


def draw_doubly_held_out(data: HeldOutData, axes: Axes) -> None:
    """A row for each set."""
    if not data.sets:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "this task has no such sets", transform=axes.transAxes, ha="center")
        return
    for y, name in enumerate(data.sets):
        _dots(data, y, y, DOUBLY_HELD_OUT[name], axes)
        if y and name in ("2-var add-restricted", "2-var var-restricted (2)"):
            axes.axhline(y - 0.5, color=GREY, linewidth=0.6)
    axes.set_yticks(range(len(data.sets)), [LABELS[name] for name in data.sets])
    axes.set(xlabel="accuracy (95 % interval)", ylim=(len(data.sets) - 0.45, -0.55), xlim=_limits(data))
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
    if handles := _legend(data):
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(0, -0.16), borderaxespad=0, ncols=2)


def _dots(data: HeldOutData, row: int, y: float, color: str, axes: Axes) -> None:
    """A mark with its interval for each model, from the top; hollow if it does not bind."""
    spread = (np.arange(len(data.seeds)) - (len(data.seeds) - 1) / 2) * min(0.2, 0.7 / len(data.seeds))
    mid, low, high = data.accuracy[row], data.low[row], data.high[row]
    error = np.maximum(0, [mid - low, high - mid])
    for i, look in enumerate(_looks(data)):
        axes.errorbar(mid[i : i + 1], y + spread[i], xerr=error[:, i : i + 1], color=color, elinewidth=1, **look)


# A shape of its own for each network, where there are no more networks than shapes.
SHAPES = "os^DvPXh"


def _looks(data: HeldOutData) -> list[dict[str, Any]]:
    """The mark of each network."""
    few = len(data.seeds) <= len(SHAPES)
    return [
        {"marker": SHAPES[i] if few else "o", "markersize": 4.5 if few else 3}
        | ({} if binds else {"markerfacecolor": "white"})
        for i, binds in enumerate(data.binds)
    ]


def _limits(data: HeldOutData) -> tuple[float, float]:
    """Limits of the axis: from the lowest end of an interval to 1, with a margin."""
    span = 1 - float(np.nanmin(data.low, initial=1 - 1e-3))
    return 1 - 1.04 * span, 1 + 0.04 * span


def _legend(data: HeldOutData) -> list[Line2D]:
    """The mark of each seed, where there are several networks or some do not bind; one for all of many seeds."""
    if len(data.seeds) == 1 and data.binds.all():
        return []
    names = [
        f"seed {seed}" + ("" if binds else " (does not bind)")
        for seed, binds in zip(data.seeds, data.binds, strict=True)
    ]
    looks = _looks(data)
    if len(data.seeds) > len(SHAPES):
        names, looks = [f"{len(data.seeds)} seeds from top to bottom, hollow: does not bind"], looks[:1]
    return [
        Line2D([], [], label=name, color=GREY, linestyle="-", **look) for name, look in zip(names, looks, strict=True)
    ]


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
    by_type = np.stack([values.cpu().numpy() for values in accuracy.values()])
    below = (masks[:, None] & (by_type < HALF)).sum((2, 3))
    return PairsData(list(accuracy), by_type, seen.cpu().numpy(), list(CLASS_ROWS), masks.sum((1, 2)), below)


def pairs_caption(data: PairsData) -> str:
    """The pairs that are answered wrongly more often than not, in words."""
    errors = [_errors(n_vars, accuracy, data.seen) for n_vars, accuracy in zip(data.types, data.accuracy, strict=True)]
    return " ".join(
        [f"Each cell is the accuracy of a pair in {CONTEXTS} contexts, with variables in any slot.", *errors]
    )


def _errors(n_vars: int, accuracy: np.ndarray, seen: np.ndarray) -> str:
    """The pairs below one half in one panel: how many, of which kinds, and the worst of them."""
    where = VARIABLES[n_vars].capitalize()
    order = [divmod(int(code), len(accuracy)) for code in np.argsort(accuracy, axis=None, kind="stable")]
    wrong = [pair for pair in order if accuracy[pair] < HALF]
    if not wrong:
        n, m = order[0]
        return f"{where}: no pair is below one half; the lowest is {n}+{m} ({accuracy[n, m]:.2f})."
    doubles = sum(n == m for n, m in wrong)
    held_out = sum(not seen[pair] for pair in wrong)
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


ACCURACIES_FIGURE = FigureRecord(
    "accuracies", "Accuracies by evaluation set",
    "Are sums of literals (blue) learned before sums with variables, and do these come in jumps? Colour is the number "
    "of variables in the sum; dashed lines are pairs held out from training, dotted lines are variables in slots "
    "where training never put them.",
    lambda s: accuracies_data(s.model.rows), on_axes(draw_accuracies), height=3.2, width=6.4, found=accuracies_caption,
)  # fmt: skip
HELD_OUT_CLASSES_FIGURE = FigureRecord(
    "held_out_classes", "Three classes of held-out pairs",
    "Look for the class of held-out pairs whose accuracy is below that of the seen pairs. Each dot is a network, "
    "hollow if it does not bind variables in the end. Intervals are over sequences for seen pairs and over pairs "
    "for the classes of held-out pairs.",
    lambda s: held_out_of(CLASS_NAMES, s.models), draw_held_out_classes, height=2.8, found=held_out_classes_caption,
)  # fmt: skip
DOUBLY_HELD_OUT_FIGURE = FigureRecord(
    "doubly_held_out", "Held out twice: the pair and the slot",
    "Red is a held-out pair whose variables also stand in banned slots. If the two skills combine, its accuracy "
    "is not far below blue (only the pair is new) and orange (only the slot is new). Networks that do not "
    "bind variables in the end are left out if any does.",
    lambda s: held_out_of(list(DOUBLY_HELD_OUT), [m for m in s.models if binds(m)] or s.models),
    on_axes(draw_doubly_held_out), height=3.2, width=6.4, found=doubly_held_out_caption,
)  # fmt: skip
PAIRS_FIGURE = FigureRecord(
    "pairs", "Every pair of numbers",
    "Look for the dark cells: are they on the diagonal (doubles n + n), in outlined cells (held-out pairs), or "
    "anywhere?",
    lambda s: pairs_data(pair_accuracies(s.model), s.model.seen), draw_pairs, height=5.3, found=pairs_caption,
)  # fmt: skip
