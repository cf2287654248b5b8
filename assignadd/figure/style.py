"""How figures look: their style and files, heat maps, and axes of training steps."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import Normal, Stroke
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from assignadd.palette import GRID, INK, ON_DARK, ON_LIGHT, SHARES, SIGNED, dark_figure_rules
from assignadd.runs import atomic
from assignadd.stats import Measured

COLUMN_WIDTH = 5.5  # inches
SMALLEST = 6.5  # points: no text is set smaller
# Every colour is written into the SVG file, also that of text, so that it can be another one on a dark screen.
INKED = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor")
STYLE: Any = dict.fromkeys(INKED, INK) | {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # without it the height would be searched each time
    "axes.labelsize": 8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "lines.linewidth": 1.3,
    "figure.constrained_layout.h_pad": 0.06,  # inches
    "figure.constrained_layout.w_pad": 0.06,
    "figure.dpi": 220,
    "text.hinting": "none",  # which shows little at 220 pixels an inch and takes time
    "svg.hashsalt": "assignadd",
    "svg.fonttype": "path",
}


@contextmanager
def figure(width: float = COLUMN_WIDTH, height: float = 3.2) -> Iterator[Figure]:
    """A figure in this style, closed afterwards."""
    with plt.style.context(["default", STYLE]):  # whatever a file matplotlibrc says
        fig = plt.figure(figsize=(width, height), layout="constrained")
        try:
            yield fig
        finally:
            plt.close(fig)


def save(fig: Figure, stem: Path, png: bool = True) -> None:
    """Writes the figure as SVG, which follows the reader's choice of a light or dark screen, and as PNG.

    Without dates, so that drawing it again gives the same bytes.
    """
    canvas = fig.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    _lay_out(fig)
    if png:
        pixels = io.BytesIO()
        canvas.print_png(pixels, metadata={"Software": None}, pil_kwargs={"compress_level": 3})
        atomic.write(stem.with_suffix(".png"), pixels.getvalue())
    svg = io.BytesIO()
    FigureCanvasSVG(fig).print_svg(svg, metadata={"Date": None, "Creator": None})
    with_dark_screens = svg.getvalue().replace(b"</style>", dark_figure_rules().encode() + b"</style>", 1)
    atomic.write(stem.with_suffix(".svg"), with_dark_screens)


def _lay_out(fig: Figure) -> None:
    """Gives all axes their places once, and rounds these, as their last bits differ from run to run."""
    engine = fig.get_layout_engine()
    assert engine is not None, "every figure of ours is laid out"
    for axes in fig.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if not axis.get_label_text():
                axis.set_label_coords(0, 0)  # no place is searched for an empty label
    engine.execute(fig)
    fig.set_layout_engine("none")  # drawing must not lay it out again
    for axes in fig.axes:
        for which in ("original", "active"):  # the place that matplotlib was given, and the one it draws at
            place = axes.get_position(original=which == "original")
            axes.set_position(Bbox(place.get_points().round(6)), which=which)


DARK_FROM = 0.6  # of the largest value: from here on a colour is dark
MOST_NAMED = 24  # rows or columns: of more, only some are named


def draw_heat(
    axes: Axes, values: np.ndarray, cmap: str = SIGNED, limits: tuple[float, float] | None = None
) -> AxesImage:
    """Draws a cell per entry, row 0 on top, NaN as empty; without `limits`, 0 is in the middle of the scale."""
    if limits is None:
        largest = float(np.nanmax(np.abs(values), initial=1e-12))  # not 0, which is no scale
        limits = (-largest, largest)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, pad=2)
    return axes.imshow(values, cmap=cmap, vmin=limits[0], vmax=limits[1], aspect="auto", interpolation="nearest")


def write_cells(axes: Axes, words: Sequence[str], dark: np.ndarray) -> list[Text]:
    """The texts of these words, written into the cells of a heat map, row by row; light where the cell is `dark`."""
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALLEST}
    cells = zip(np.ndindex(dark.shape), dark.flat, words, strict=True)
    return [
        axes.text(column, row, word, color=ON_DARK if is_dark else ON_LIGHT, **style)
        for (row, column), is_dark, word in cells
    ]


def share_map(axes: Axes, shares: np.ndarray, words: Sequence[str]) -> AxesImage:
    """Draws a cell per share, from 0 to 1, with its words in it, row by row; NaN is empty."""
    image = draw_heat(axes, shares, SHARES, (0.0, 1.0))
    write_cells(axes, words, shares >= DARK_FROM)
    return image


def draw_intervals(
    axes: Axes,
    numbers: Mapping[str, Measured | None],
    color: str,
    label: str | None = None,
    shift: float = 0.0,
    across: bool = True,
) -> None:
    """Draws a row for each number, the first on top: its name, a dot, and a line over its interval; None is empty.

    Rows are columns if not `across`. `shift` moves what is drawn within its rows; `label` is for the legend.
    """
    style: dict[str, Any] = {"fmt": "o", "color": color, "markersize": 3.5, "linewidth": 1}
    for row, number in enumerate(numbers.values()):
        if number is None:
            continue
        error = [[number.value - number.low], [number.high - number.value]]
        if across:
            axes.errorbar(number.value, row + shift, xerr=error, label=label, **style)
        else:
            axes.errorbar(row + shift, number.value, yerr=error, label=label, **style)
        label = None  # once is enough for the legend
    if across:
        name_rows(axes, list(numbers))
    else:
        axes.set_xticks(range(len(numbers)), list(numbers))


def draw_networks(
    axes: Axes, values: Mapping[str, np.ndarray], color: str, label: str | None = None, shift: float = 0.0
) -> None:
    """Draws a row for each name, the first on top: a circle for each network's value, and a line at their mean."""
    circles: dict[str, Any] = {"color": color, "markersize": 3, "markerfacecolor": "none", "alpha": 0.8}
    for row, values_of_row in enumerate(values.values()):
        if len(values_of_row) == 0:
            continue
        height = row + shift
        axes.plot(values_of_row, np.full(len(values_of_row), height), "o", markeredgewidth=0.8, **circles)
        axes.plot([values_of_row.mean()] * 2, [height - 0.16, height + 0.16], color=color, linewidth=2)
    if label is not None:
        axes.plot([], [], "o", markeredgewidth=0.6, label=label, **circles)
    name_rows(axes, list(values))


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Names rows at 0, 1 and so on, the first on top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)  # from bottom to top, so that row 0 is on top


def bar(image: AxesImage, axes: Axes | Sequence[Axes], label: str, **placed: Any) -> None:
    """Draws the colour bar of a heat map beside these axes; `placed` are matplotlib's options for its place."""
    first_axes = axes if isinstance(axes, Axes) else axes[0]
    options = {"pad": 0.02, "aspect": 30, "fraction": 0.05} | placed
    color_bar = first_axes.figure.colorbar(image, ax=axes, **options)
    color_bar.outline.set_visible(False)
    color_bar.ax.tick_params(length=2, pad=2)
    color_bar.set_label(label)


def box(axes: Axes, rows: tuple[float, float], columns: tuple[float, float], color: str, width: float = 1.3) -> None:
    """Draws an outline with a contrasting edge around cells of a heat map: first to last of `rows` and `columns`."""
    corner = (columns[0] - 0.5, rows[0] - 0.5)  # the middle of a cell is at whole numbers
    size = (columns[1] - columns[0] + 1, rows[1] - rows[0] + 1)
    outline = Rectangle(corner, *size, fill=False, edgecolor=color, linewidth=width, zorder=3)
    edge = "white" if color == "black" else ON_LIGHT  # black becomes white on a dark screen
    outline.set_path_effects([Stroke(linewidth=width + 1.0, foreground=edge), Normal()])
    outline.set_clip_on(False)
    axes.add_patch(outline)


def box_cells(axes: Axes, marked: np.ndarray, color: str) -> None:
    """Draws a box around every marked cell."""
    for row, column in np.argwhere(marked):
        box(axes, (row, row), (column, column), color)


def box_legend(fig: Figure, named: Sequence[tuple[str, str]], columns: int) -> None:
    """Writes below the figure what the boxes mean, from pairs (colour, name)."""
    handles = [Patch(facecolor="none", edgecolor=color, linewidth=1.8, label=label) for color, label in named]
    fig.legend(handles=handles, loc="outside lower center", ncols=columns, handlelength=1.2, handleheight=1.2)


def thinned(n: int, most: int) -> range:
    """The indices of `n` rows, all of them or every second, fifth and so on, so that at most `most` are left."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100) if n <= most * step)  # 100 is enough for any task
    return range(0, n, step)


def name_ticks(axes: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Names every row and column, or every second, fifth and so on where there are many."""
    for names, set_ticks in ((rows, axes.set_yticks), (columns, axes.set_xticks)):
        shown = thinned(len(names), MOST_NAMED)
        set_ticks(list(shown), [names[i] for i in shown])


MARKERS_UP_TO = 25  # checkpoints: fewer are drawn as dots, joined by lines


def dots(steps: np.ndarray, size: float = 2.6) -> dict[str, Any]:
    """Markers for a curve of few checkpoints, where a line alone would look densely measured; none for many."""
    return {"marker": "o", "markersize": size} if len(steps) <= MARKERS_UP_TO else {}


def name_phases(axes: Axes, phases: Sequence[str], ends: Sequence[int] | np.ndarray, summary: str) -> None:
    """Writes (a), (b), (c) at the steps where phases end, without overlap, and in the title what they stand for.

    There are at most three phases; where one or more did not end, the title has `summary` too.
    """
    letters = [f"({letter})" for letter in "abc"[: len(phases)]]
    to_axes = axes.transData - axes.transAxes  # from 0, the left end of the axes, to 1
    places = [float(to_axes.transform((step, 0.5))[0]) for step in ends]
    apart = 0.06  # of the width of the axes, so that letters do not overlap
    for letter, place in zip(letters, spread(places, apart), strict=True):
        axes.text(place, 1.01, letter, transform=axes.transAxes, ha="center", va="bottom", fontweight="bold")
    named = [f"{letter} {phase}, {step:,}" for letter, phase, step in zip(letters, phases, ends, strict=True)]
    lines = ["end of a phase:  " + "   ".join(named)] if named else []
    if len(letters) < 3:
        lines.append(summary)
    points_above_axes = 14 if letters else 6  # above the letters, if there are any
    axes.set_title("\n".join(lines), pad=points_above_axes, fontsize=8, x=0)


def spread(places: Sequence[float], apart: float) -> list[float]:
    """The places, moved left and right as little as needed to keep neighbours `apart`, in their order."""
    order = np.argsort(places, kind="stable")
    moved = np.sort(np.asarray(places, dtype=float))
    for _ in range(100):  # two neighbours that move apart may come too close to others
        missing = np.maximum(0, apart - np.diff(moved))
        moved[:-1] -= missing / 2
        moved[1:] += missing / 2
    return moved[np.argsort(order)].tolist()  # back in the order of `places`
