"""What figures against the training step share: markers for few checkpoints, and lines where the phases end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from assignadd.dynamics.phases import Phases
from assignadd.palette import INK

MARKERS_UP_TO = 25  # checkpoints: fewer are drawn as dots, joined by lines


def phase_ends(phases: Phases) -> tuple[list[str], np.ndarray]:
    """Names and last steps of the phases that ended."""
    return [name for name, _ in phases.boundaries], np.array([step for _, step in phases.boundaries], dtype=int)


def dots(steps: np.ndarray, size: float = 2.6) -> dict[str, Any]:
    """Markers for a trajectory of few checkpoints, where a line alone would look like a densely measured curve."""
    return {"marker": "o", "markersize": size} if len(steps) <= MARKERS_UP_TO else {}


def rule_phases(axes: Axes, ends: Sequence[int] | np.ndarray, **style: Any) -> None:
    """Draws a vertical line where each phase ends."""
    line: dict[str, Any] = {"color": INK, "linewidth": 0.8, "linestyle": (0, (4, 2)), "zorder": 1.5, **style}
    for step in ends:
        axes.axvline(step, **line)


def legend_beside(axes: Axes, title: str) -> None:
    """Writes the legend to the right of the axes, under a title."""
    axes.legend(
        loc="center left", bbox_to_anchor=(1.0, 0.5), title=title, alignment="left", handlelength=2.2, labelspacing=0.5
    )


def name_phases(axes: Axes, phases: Sequence[str], ends: Sequence[int] | np.ndarray, summary: str) -> None:
    """Writes (a), (b), (c) above these lines without overlap, and in the title what they stand for."""
    letters = [f"({letter})" for letter in "abc"[: len(phases)]]
    low, high = axes.get_xlim()
    for letter, x in zip(letters, spread([(step - low) / (high - low) for step in ends], 0.06), strict=True):
        axes.text(x, 1.01, letter, transform=axes.transAxes, ha="center", va="bottom", fontweight="bold")
    named = [f"{letter} {phase}, {step:,}" for letter, phase, step in zip(letters, phases, ends, strict=True)]
    lines = ["end of a phase:  " + "   ".join(named)] * bool(named) + [summary] * (len(named) < 3)
    axes.set_title("\n".join(lines), pad=14 if named else 6, fontsize=8, x=0)


def spread(places: Sequence[float], apart: float) -> list[float]:
    """The positions, moved left and right as little as needed to keep neighbours `apart`."""
    order, moved = np.argsort(places, kind="stable"), np.sort(np.asarray(places, dtype=float))
    for _ in range(100):
        short = np.maximum(0, apart - np.diff(moved)) / 2
        moved[:-1] -= short
        moved[1:] += short
    found = np.empty_like(moved)
    found[order] = moved
    return found.tolist()
