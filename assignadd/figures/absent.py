"""In place of a figure that a run has no data for: a framed panel that says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from assignadd.figures.arrays import FigureData
from assignadd.palette import GREY


@dataclass(frozen=True)
class Absent(FigureData):
    words: str


def absent_caption(data: Absent, look_for: str) -> str:
    """What the figure would show, and why this run has none."""
    return f"{look_for} There is none here: {data.words.replace(chr(10), '; ')}."


def draw_absent(data: Absent, made: Figure) -> None:
    made.set_figheight(1.0)
    axes = made.add_subplot()
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(GREY)
    axes.text(0.5, 0.5, data.words, transform=axes.transAxes, ha="center", va="center", linespacing=1.6, wrap=True)


def or_absent(draw: Callable[[Any, Figure], None]) -> Callable[[Any, Figure], None]:
    """The same, with the reason in its place where there is nothing to draw."""
    return lambda data, made: draw_absent(data, made) if isinstance(data, Absent) else draw(data, made)
