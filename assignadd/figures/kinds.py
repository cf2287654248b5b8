"""What the report knows of a figure: its label, what to look for in it, and how it comes about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.claims.evidence import Evidence
from assignadd.figures.style import COLUMN_WIDTH


class Data(Protocol):
    def arrays(self) -> dict[str, np.ndarray]: ...


Models = Sequence[Evidence]


@dataclass(frozen=True)
class FigureKind:
    label: str
    """The paper's, or a name of ours where the paper has no such figure; also the name of its files."""
    title: str
    look_for: str | Callable[[Any], str]
    """The caption: a constant that holds for every run, or a function of the figure's data."""
    data: Callable[[Models], Data]
    """What is drawn: of the first model, or of all where the figure compares them."""
    draw: Callable[[Any, Figure], None]
    height: float
    """Inches."""
    width: float = COLUMN_WIDTH

    def caption(self, data: Data) -> str:
        """What to look for in the figure drawn from these data."""
        return self.look_for if isinstance(self.look_for, str) else self.look_for(data)


def on_axes(draw: Callable[[Any, Axes], None]) -> Callable[[Any, Figure], None]:
    return lambda data, made: draw(data, made.add_subplot())
