"""Figures: data, drawing and caption; the style and the colours that all of them share."""

from assignadd.figure.style import DARK_FROM, bar, draw_heat, figure, save, write_cells
from assignadd.palette import BLUE, GREEN, GREY, INK, ORANGE, SHARES, VERMILION

__all__ = [
    "BLUE",
    "DARK_FROM",
    "GREEN",
    "GREY",
    "INK",
    "ORANGE",
    "SHARES",
    "VERMILION",
    "bar",
    "draw_heat",
    "figure",
    "save",
    "write_cells",
]
