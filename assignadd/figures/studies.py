"""Figures of our studies: a row per cell, with the shares of its models that learn each skill, when they do, and the
study's own numbers of models that bind; and maps for `data` and `fate`, whose networks are on a grid of settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.figures.record import FigureData, FigureRecord
from assignadd.figures.style import DARK_FROM, bar, draw_heat, write_cells
from assignadd.palette import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SHARES, VERMILION
from assignadd.studies.data import DATA, FRACTIONS, RATIOS, label
from assignadd.studies.fate import FACTORIAL, FATE, KNOWN, REPEATED, STEPS_OF_PREDICTION, auc, fates, repeats
from assignadd.studies.registry import STUDIES
from assignadd.studies.study import Study
from assignadd.studies.table import LABELS, ONSETS, RESULTS, StudyTable, file_of, read_study

PANELS = ("answer held-out\npairs of literals", "bind variables", "use banned slots,\nof those that bind")


@dataclass(frozen=True)
class DataMap(FigureData):
    counts: np.ndarray  # (3 panels, 7 shares f, 7 ratios r): networks that have the skill
    networks: np.ndarray  # the same shape: networks that are counted


def data_map(table: StudyTable) -> DataMap:
    """How many networks add, bind, and use banned slots among those that bind, at every setting."""
    counts, networks = (np.zeros((len(PANELS), len(FRACTIONS), len(RATIOS)), int) for _ in range(2))
    for (i, f), (j, r) in product(enumerate(FRACTIONS), enumerate(RATIOS)):
        frame = table.cells[label(f, r)]
        bound = frame.filter(frame["binds"])
        counts[:, i, j] = frame["adds"].sum(), bound.height, bound["refines"].sum()
        networks[:, i, j] = frame.height, frame.height, bound.height
    return DataMap(counts, networks)


def draw_data_map(data: DataMap, made: Figure) -> None:
    axes = made.subplots(1, len(PANELS), sharey=True)
    with np.errstate(invalid="ignore"):
        shares = data.counts / data.networks  # NaN where no network binds
    for panel, title, share, counts, networks in zip(axes, PANELS, shares, data.counts, data.networks, strict=True):
        image = draw_heat(panel, share, SHARES, (0.0, 1.0))
        differs = networks.max() > networks.min()
        panel.set_title(title if differs else f"{title}, of {networks.max()}")
        panel.set_xticks(range(len(RATIOS)), [f"{r:.2g}" for r in RATIOS])
        panel.set_xlabel("two-variable sequences\nper literal one, r")
        counted = zip(counts.flat, networks.flat, strict=True)
        words = ["" if of == 0 else f"{n}/{of}" if differs else f"{n}" for n, of in counted]
        write_cells(panel, words, share >= DARK_FROM)
    axes[0].set_yticks(range(len(FRACTIONS)), [f"{f:g}" for f in FRACTIONS])
    axes[0].set_ylabel("share f of the pairs in training")
    bar(image, axes, "share of networks")


@dataclass(frozen=True)
class FateMap(FigureData):
    fates: np.ndarray  # (initialisations, orders of the data, splits): whether the network binds
    repeats: np.ndarray  # (combinations, repeats): whether each repeat binds
    auc: np.ndarray  # (steps of prediction, 3): area under the curve, low and high end; NaN where there is none


def fate_map(table: StudyTable) -> FateMap:
    """The fates of all combinations and repeats, and the areas under the curve of their predictions."""
    found = [auc(FACTORIAL, KNOWN, step, table) for step in STEPS_OF_PREDICTION]
    areas = np.array([(a.value, a.low, a.high) if a else (np.nan,) * 3 for a in found])
    return FateMap(fates(table, FACTORIAL), repeats(table, FACTORIAL, REPEATED), areas)


def draw_fate_map(data: FateMap, made: Figure) -> None:
    levels = range(len(data.fates))
    _, orders, splits = data.fates.shape
    maps = (
        (f"of {splits} splits", data.fates.sum(2), splits, "order of the data", range(orders)),
        (f"of {orders} orders of the data", data.fates.sum(1), orders, "split", range(splits)),
        ("repeats", data.repeats.sum(1, keepdims=True), data.repeats.shape[1], "all equal", range(0)),
    )
    *panels, right = made.subplots(1, 4, width_ratios=(8, 8, 1.4, 5))
    for panel, (title, counts, most, below, ticks) in zip(panels, maps, strict=True):
        draw_heat(panel, counts / most, SHARES, (0.0, 1.0))
        panel.set_title(title)
        panel.set_xlabel(below)
        panel.set_xticks(ticks, [str(i) for i in ticks])
        panel.set_yticks(levels, [str(i) for i in levels])
        words = [f"{n:.0f}" if ticks else f"{n:.0f}/{most}" for n in counts.flat]
        write_cells(panel, words, counts / most >= DARK_FROM)
    panels[0].set_ylabel("initialisation")
    value, low, high = data.auc.T
    at = range(len(STEPS_OF_PREDICTION))
    right.errorbar(at, value, yerr=(value - low, high - value), fmt="o", color=BLUE, markersize=3.5, linewidth=1)
    right.axhline(0.5, color=GREY, linewidth=0.8, linestyle="--")
    right.set_title("prediction")
    right.set(
        ylim=(0.45, 1.02), xlim=(-0.5, len(at) - 0.5), ylabel="AUC (95 % interval)", xlabel="from measures at step"
    )
    right.set_xticks(at, [f"{step:,}" for step in STEPS_OF_PREDICTION])


COLORS = {
    "adds": BLUE, "binds": VERMILION, "refines": GREEN, "follows 1 link": PURPLE, "follows 2 links": ORANGE,
    "binds at 8000": PURPLE, "answers trained sums": ORANGE,
}  # fmt: skip
BINDING = list(ONSETS).index("binding at")
SKILLS = "adds", "binds", "refines"  # the outcomes that `ONSETS` has the steps of
NUMBER_COLORS = (INK, PURPLE, ORANGE)
# A caption names at most this many cells of a kind and counts the rest.
NAMED = 3


@dataclass(frozen=True)
class StudyData(FigureData):
    cells: list[str]
    outcomes: list[str]
    shares: np.ndarray  # (outcomes, cells, 3): share, low and high end of its interval; NaN where there is none
    models: np.ndarray  # (cells,)
    onsets: np.ndarray  # (3 skills, cells, models): steps; NaN where a skill never came
    steps: int
    """Updates of every model."""
    shown: list[str]
    """Names of the study's own numbers, and the label of their axis."""
    shown_on: str
    values: np.ndarray  # (shown, cells, models); NaN where a model does not bind or has no such number


def study_data(table: StudyTable) -> StudyData:
    """Shares, onsets and the study's own numbers in every cell."""
    shares = [
        [(s.value, s.low, s.high) if (s := table.share(cell, outcome)) else (np.nan,) * 3 for cell in table.cells]
        for outcome in table.study.outcomes
    ]
    models = np.array([frame.height for frame in table.cells.values()])
    study, steps = table.study, int(table.provenance["steps"])
    onsets = _padded(
        [[frame[name].cast(float).to_numpy() for frame in table.cells.values()] for name in ONSETS], models
    )
    values = _padded([[table.values(cell, name, "binds") for cell in table.cells] for name in study.shown], models)
    return StudyData(list(table.cells), list(study.outcomes), np.array(shares), models, onsets, steps,
                     list(study.shown), study.shown_on, values)  # fmt: skip


def _padded(rows: list[list[np.ndarray]], models: np.ndarray) -> np.ndarray:
    """Arrays by name and cell as one (names, cells, models), with NaN after the last value of each."""
    found = np.full((len(rows), len(models), models.max()), np.nan)
    for i, row in enumerate(rows):
        for j, values in enumerate(row):
            found[i, j, : len(values)] = values
    return found


def study_caption(data: StudyData) -> str:
    """The cells with the highest and the lowest share of models that bind, and those where more steps may raise it."""
    shares = data.shares[data.outcomes.index("binds")]
    if np.isnan(shares[:, 0]).all():
        return "No cell has sequences on which binding could be tested."
    ends = np.nanmax(shares[:, 0]), np.nanmin(shares[:, 0])

    def words(i: int) -> str:
        value, low, high = shares[i]
        return f"{data.cells[i]} ({value:.2f} [{low:.2f}, {high:.2f}] of {data.models[i]} models)"

    if ends[0] == ends[1]:
        found = f"The share of models that bind within {data.steps:,} steps is {ends[0]:.2f} in all cells."
    else:
        most, fewest = (_named([words(int(i)) for i in np.flatnonzero(shares[:, 0] == end)]) for end in ends)
        found = f"Within {data.steps:,} steps most models bind with {most}, fewest with {fewest}."
    late = [cell for cell, onsets in zip(data.cells, data.onsets[BINDING], strict=True) if _is_late(onsets, data.steps)]
    if late:
        found += (
            " Of the models with a step of binding, half or more have it in the last third of training with "
            f"{_named(late)}: more steps may raise the share there."
        )
    return found + _numbers_caption(data)


def _numbers_caption(data: StudyData) -> str:
    """The means of the study's own numbers over the models that bind, in the cells with the lowest and the highest."""
    found = ""
    for name, values in zip(data.shown, data.values, strict=True):
        means = {c: float(np.nanmean(v)) for c, v in zip(data.cells, values, strict=True) if np.isfinite(v).any()}
        if means:
            low, high = (pick(means, key=means.__getitem__) for pick in (min, max))
            found += f" Mean over the models that bind of '{LABELS.get(name, name)}': from {means[low]:.2f} ({low}) to "
            found += f"{means[high]:.2f} ({high})."
    return found


def _named(cells: Sequence[str]) -> str:
    """The first cells by name, and the number of the others."""
    others = len(cells) - NAMED
    return "; ".join([*cells[:NAMED], *([f"{others} other cell{'s' * (others > 1)}"] if others > 0 else [])])


def _is_late(onsets: np.ndarray, steps: int) -> bool:
    """Whether half of the models that learned a skill did so in the last third of training."""
    came = onsets[np.isfinite(onsets)]
    return len(came) > 0 and float(np.median(came)) > 2 * steps / 3


def draw_study(data: StudyData, made: Figure) -> None:
    left, right, *own = made.subplots(1, 3 if data.shown else 2, sharey=True)
    rows = np.arange(len(data.cells))
    for i, outcome in enumerate(data.outcomes):
        share, low, high = data.shares[i].T
        at, color = rows + 0.22 * (i - (len(data.outcomes) - 1) / 2), COLORS.get(outcome, GREY)
        left.errorbar(share, at, xerr=(share - low, high - share), fmt="o", color=color, markersize=3.5, linewidth=1,
                      label=LABELS.get(outcome, outcome))  # fmt: skip
    left.set(xlim=(-0.03, 1.03), xlabel="share of models\n(95 % interval)")
    left.set_yticks(rows, data.cells)
    left.invert_yaxis()
    for i, skill in enumerate(SKILLS):
        if skill in data.outcomes:  # as the legend has no other colours
            at = np.broadcast_to(rows[:, None] + 0.22 * (i - 1), data.onsets[i].shape)
            right.plot(data.onsets[i].ravel(), at.ravel(), "|", color=COLORS[skill], markersize=4, alpha=0.8)
    right.set(xlim=(0, data.steps * 1.02), xlabel="step from which the skill lasts\n(a mark per model)")
    for axes in own:
        _draw_numbers(data, axes)
    handles = [handle for axes in (left, *own) for handle in axes.get_legend_handles_labels()[0]]
    made.legend(handles=handles, loc="outside upper center", ncols=3 if own else len(data.outcomes))


def _draw_numbers(data: StudyData, axes: Axes) -> None:
    """The study's own numbers: an open circle per model that binds, and a line at the mean of each cell."""
    rows = np.arange(len(data.cells))
    for i, (name, values) in enumerate(zip(data.shown, data.values, strict=True)):
        at, color = rows + 0.3 * (i - (len(data.shown) - 1) / 2), NUMBER_COLORS[i]
        axes.plot(values.ravel(), np.broadcast_to(at[:, None], values.shape).ravel(), "o", color=color, markersize=3.5,
                  markerfacecolor="none", markeredgewidth=0.7, alpha=0.8, label=LABELS.get(name, name))  # fmt: skip
        for cell, y in zip(values, at, strict=True):
            if np.isfinite(cell).any():
                axes.plot([np.nanmean(cell)] * 2, [y - 0.14, y + 0.14], color=color, linewidth=2)
    axes.set(xlabel=f"{data.shown_on}\n(a circle per model that binds, line: mean)")


@dataclass(frozen=True)
class Drawing:
    """How the table of a study is drawn."""

    data: Callable[[StudyTable], FigureData]
    draw: Callable[[Any, Figure], None]
    width: float  # inches
    height: float
    look_for: str


def drawing_of(study: Study, models: int) -> Drawing:
    """Maps for the studies `data` and `fate`, whose networks are on a grid of settings; otherwise a row per cell.

    `fate` with fewer models than planned has no complete grid, and hence a row per cell.
    """
    if study.name == DATA.name:
        look_for = "Look for rows and columns between which the share changes; nothing is drawn where no network binds."
        return Drawing(data_map, draw_data_map, 7.0, 2.9, look_for)
    if study.name == FATE.name and models == study.n_models:
        look_for = (
            "The maps count the networks that bind, by initialisation and order of the data (left) or split, and of "
            "the repeats of a combination of equal numbers. Look for rows that differ more than columns do. On the "
            "right, how well the fate is predicted; .5 is chance."
        )
        return Drawing(fate_map, draw_fate_map, 7.0, 2.6, look_for)
    width, height = (9.6, 1.5) if study.shown else (7.0, 1.1)  # a third panel and a longer legend
    own = f" In the third panel, {study.shown_on} of each model that binds." if study.shown else ""
    look_for = (
        f"Look for rows whose interval lies apart from that of the row '{study.reference}', from which they differ. "
        f"Beside it, the step from which each model has a skill, in the same colours.{own}"
    )
    return Drawing(study_data, draw_study, width, height + 0.27 * len(study.cells), look_for)


def study_figure(study: Study) -> FigureRecord:
    """The figure of a study's table that comes with the package."""
    drawing = drawing_of(study, study.n_models)
    return FigureRecord(
        f"study_{study.name}", study.title, f"{study.question} {study.method} {drawing.look_for}",
        lambda _: shipped_data(study.name)[0], drawing.draw, height=drawing.height, width=drawing.width,
        found=lambda _: shipped_data(study.name)[1],
    )  # fmt: skip


@lru_cache(maxsize=len(STUDIES))
def shipped_data(name: str) -> tuple[FigureData, str]:
    """The data of the figure of a study's table that comes with the package, and the second part of its caption.

    Kept, as Polars, which reads the table, cannot be used in the processes that draw.
    """
    table = read_study(STUDIES[name])
    return drawing_of(table.study, table.study.n_models).data(table), study_caption(study_data(table))


# Of the studies whose tables come with the package; the tables are read when a figure is drawn.
STUDY_FIGURES = tuple(study_figure(s) for s in STUDIES.values() if (RESULTS / file_of(s.name)).is_file())
