"""The record of a figure: data, drawing and caption; and the reason that replaces it where there are no data."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.dynamics.trajectory import curves_of
from assignadd.figure.style import COLUMN_WIDTH, figure, save
from assignadd.model.architecture import NotDefined
from assignadd.network import Network
from assignadd.runs import atomic
from assignadd.sweeps.population import Populations


@dataclass(frozen=True)
class FigureData:
    """Base of the data of a figure: fields are arrays, numbers or lists of words."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields by name, as `np.savez` takes them: no pickled objects."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in dataclasses.fields(self)}


@dataclass(frozen=True)
class Absent(FigureData):
    """Stands for the data of a figure if the run has none: the reason in words."""

    words: str


NO_POPULATION = Absent(
    "no population of this task\n`--census`, `--fraction` and `--two-var` take the folder of an `assignadd sweep`"
)


@dataclass(frozen=True)
class Sources:
    """What figures show: trained networks, and populations of many seeds."""

    models: Sequence[Network]
    populations: Populations = dataclasses.field(default_factory=Populations)

    @property
    def model(self) -> Network:
        """The network that figures of one network show."""
        return self.models[0]


@dataclass(frozen=True)
class FigureRecord:
    """A figure of the report: its data, how they are drawn, and the caption."""

    label: str
    """The paper's, or a name of ours where the paper has no such figure; also the name of its files."""
    title: str
    look_for: str
    """The first part of the caption, which holds for every run: what the figure shows and what to look for in it."""
    data: Callable[[Sources], FigureData]
    drawing: Callable[[Any, Figure], object]
    height: float
    """Inches."""
    width: float = COLUMN_WIDTH
    found: Callable[[Any], str] | None = None
    """The second part of the caption: what these data show, in words."""
    along_training: bool = False
    """Whether it shows how a network changes, and so needs more than one evaluation and checkpoint of it."""

    def data_of(self, sources: Sources) -> FigureData:
        """The data of these networks; `Absent` with the reason where their training or architecture has none."""
        try:
            if self.along_training:
                n_evaluations, n_checkpoints = len(curves_of(sources.model).steps), len(sources.model.steps)
                if min(n_evaluations, n_checkpoints) < 2:
                    counts = f"evaluations: {n_evaluations}, checkpoints: {n_checkpoints}"
                    return Absent(f"seed {sources.model.seed}: training was not followed\n{counts}")
            return self.data(sources)
        except NotDefined as error:
            return Absent(f"not defined for this network: it {error.reason}")

    def draw(self, data: FigureData, fig: Figure) -> None:
        """Draws the data; writes the reason where there are none."""
        if isinstance(data, Absent):
            axes = fig.add_subplot(xticks=[], yticks=[], frame_on=False)
            axes.text(0.5, 0.5, data.words, ha="center", va="center", linespacing=1.6, wrap=True)
        else:
            self.drawing(data, fig)

    def save(self, data: FigureData, stem: Path) -> None:
        """Draws the data into files: the picture as SVG and PNG, and the arrays that it shows."""
        with figure(self.width, self.height) as fig:
            self.draw(data, fig)
            save(fig, stem)
        archive = io.BytesIO()
        np.savez(archive, **data.arrays())  # type: ignore[arg-type]  # the stub takes arrays for a flag
        atomic.write(stem.with_suffix(".npz"), archive.getvalue())

    def caption(self, data: FigureData) -> str:
        """What to look for, and what these data show; or the reason why there are none."""
        if isinstance(data, Absent):
            reason = data.words.replace("\n", "; ")
            return f"{self.look_for} There is none here: {reason}."
        return f"{self.look_for} {self.found(data)}".strip() if self.found else self.look_for


def on_axes(draw: Callable[[Any, Axes], None]) -> Callable[[Any, Figure], None]:
    """The function (data, figure) that draws a figure of one panel, from one that draws on axes."""
    return lambda data, fig: draw(data, fig.add_subplot())
