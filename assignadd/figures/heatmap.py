"""Heat maps with a colour bar, and boxes around parts of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import Normal, Stroke
from matplotlib.text import Text

from assignadd.figures.style import SMALLEST
from assignadd.palette import ON_DARK, ON_LIGHT, SIGNED

# Values from this share of the largest on have a dark colour.
DARK_FROM = 0.6
MOST_NAMED = 24  # rows or columns


def draw_heat(
    axes: Axes, values: np.ndarray, cmap: str = SIGNED, limits: tuple[float, float] | None = None
) -> AxesImage:
    """Draws a cell per entry, row 0 on top; 0 is in the middle of the scale unless `limits` are given. NaN is empty."""
    if limits is None:
        most = float(np.nanmax(np.abs(values), initial=1e-12))
        limits = (-most, most)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, pad=2)
    return axes.imshow(values, cmap=cmap, vmin=limits[0], vmax=limits[1], aspect="auto", interpolation="nearest")


def write_cells(axes: Axes, words: np.ndarray, dark: np.ndarray) -> list[Text]:
    """Writes words into the cells of a heat map, light where the cell is dark; returns them row by row."""
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALLEST}
    return [
        axes.text(column, row, text, color=ON_DARK if dark[row, column] else ON_LIGHT, **style)
        for (row, column), text in np.ndenumerate(words)
    ]


def bar(image: AxesImage, axes: Axes | Sequence[Axes], label: str, **placed: Any) -> Colorbar:
    """The colour bar of a heat map."""
    first = axes if isinstance(axes, Axes) else axes[0]
    made = first.figure.colorbar(image, ax=axes, **({"pad": 0.02, "aspect": 30, "fraction": 0.05} | placed))
    made.outline.set_visible(False)
    made.ax.tick_params(length=2, pad=2)
    made.set_label(label)
    return made


def box(
    axes: Axes, rows: tuple[float, float], columns: tuple[float, float], color: str, width: float = 1.3
) -> Rectangle:
    """Draws an outline around cells, first to last inclusive, with a contrasting edge for any background."""
    corner, wide, high = (columns[0] - 0.5, rows[0] - 0.5), columns[1] - columns[0] + 1, rows[1] - rows[0] + 1
    made = Rectangle(corner, wide, high, fill=False, edgecolor=color, linewidth=width, zorder=3)
    case = "white" if color == "black" else ON_LIGHT  # black becomes white on a dark screen
    made.set_path_effects([Stroke(linewidth=width + 1.0, foreground=case), Normal()])
    made.set_clip_on(False)
    axes.add_patch(made)
    return made


def cells(axes: Axes, marked: np.ndarray, color: str) -> None:
    """Draws a box around every marked cell."""
    for row, column in np.argwhere(marked):
        box(axes, (row, row), (column, column), color)


def box_legend(made: Figure, named: Sequence[tuple[str, str]], columns: int) -> None:
    """Writes below the figure what the boxes mean, from pairs (colour, name)."""
    handles = [Patch(facecolor="none", edgecolor=color, linewidth=1.8, label=label) for color, label in named]
    made.legend(handles=handles, loc="outside lower center", ncols=columns, handlelength=1.2, handleheight=1.2)


def thinned(n: int, most: int) -> range:
    """All of `n` rows, or every second, fifth and so on where more than `most` would be left."""
    return range(0, n, next(step for step in (1, 2, 5, 10, 20, 50, 100) if n <= most * step))


def name_ticks(axes: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Names every row and column, or every second, fifth and so on where there are many."""
    for names, set_ticks in ((rows, axes.set_yticks), (columns, axes.set_xticks)):
        shown = thinned(len(names), MOST_NAMED)
        set_ticks(list(shown), [names[i] for i in shown])
