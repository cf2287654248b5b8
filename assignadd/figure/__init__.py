"""Figures: how one is stated, the style and the colours that all of them share, and rows of intervals or networks."""

from assignadd.figure.record import FigureData, FigureRecord, Sources
from assignadd.figure.style import draw_intervals, draw_networks, figure, save, share_map
from assignadd.palette import COLORS

__all__ = [
    "COLORS",
    "FigureData",
    "FigureRecord",
    "Sources",
    "draw_intervals",
    "draw_networks",
    "figure",
    "save",
    "share_map",
]
