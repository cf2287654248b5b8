"""The style of all figures, and saving them: readable at column width, and the same bytes every time."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from assignadd.palette import GRID, INK, dark_figure_rules
from assignadd.runs import atomic

COLUMN_WIDTH = 5.5  # inches
SMALLEST = 6.5  # points: no text is set smaller
STYLE: Any = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    # Every colour is written into the SVG file, also that of text, so that it can be another one on a dark screen.
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": INK,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
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
    "figure.dpi": 150,
    "savefig.dpi": 220,
    "svg.hashsalt": "assignadd",
    "svg.fonttype": "path",
}


@contextmanager
def figure(width: float = COLUMN_WIDTH, height: float = 3.2) -> Iterator[Figure]:
    """A figure in this style, closed afterwards."""
    with plt.rc_context(STYLE):
        made = plt.figure(figsize=(width, height), layout="constrained")
        try:
            yield made
        finally:
            plt.close(made)


def save(made: Figure, stem: Path) -> None:
    """The figure as SVG, which follows the reader's choice of a light or dark screen, and as PNG.

    Without dates, so that drawing it again gives the same bytes.
    """
    _settle(made)
    svg, png = io.BytesIO(), io.BytesIO()
    made.set_dpi(STYLE["savefig.dpi"])
    # `Figure.savefig` would draw each of them twice, the first time for a layout that is known by now.
    # Compression at level 3 takes two thirds of the time of level 6, for files that are 7 % larger.
    FigureCanvasAgg(made).print_png(png, metadata={"Software": None}, pil_kwargs={"compress_level": 3})
    FigureCanvasSVG(made).print_svg(svg, metadata={"Date": None, "Creator": None})
    with_dark_screens = svg.getvalue().replace(b"</style>", dark_figure_rules().encode() + b"</style>", 1)
    atomic.write(stem.with_suffix(".svg"), with_dark_screens)
    atomic.write(stem.with_suffix(".png"), png.getvalue())


def save_arrays(arrays: Mapping[str, np.ndarray], path: Path) -> None:
    """The arrays of a figure as a NumPy archive."""
    data = io.BytesIO()
    np.savez(data, **arrays)  # type: ignore[arg-type]  # the stub takes arrays for a flag
    atomic.write(path, data.getvalue())


def _settle(made: Figure) -> None:
    """Lays the figure out once and rounds positions, whose last bits differ from run to run."""
    engine = made.get_layout_engine()
    assert engine is not None, "every figure of ours is laid out"
    engine.execute(made)
    made.set_layout_engine("none")
    for axes in made.axes:
        for which in ("original", "active"):
            place = axes.get_position(original=which == "original")
            axes.set_position(Bbox(place.get_points().round(6)), which=which)
