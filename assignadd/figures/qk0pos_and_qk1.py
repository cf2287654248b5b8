"""Figure `qk0pos_and_qk1`: (a) layer-1 scores between positions, (b) layer-2 scores between copied variables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from assignadd.figures.arrays import FigureData
from assignadd.figures.heat import bar, cells, draw_heat, name_ticks
from assignadd.measures.scores import EXCLUDED, admissible, qk1_positions, qk2_ov1_var_scores
from assignadd.model.stack import Stack
from assignadd.palette import HATCH, PALE, POSITIONS, RED


@dataclass(frozen=True)
class QK0PosAndQK1Data(FigureData):
    positions: np.ndarray  # (prefix, prefix): P_i QK1 P_j
    admissible: np.ndarray  # (prefix, prefix): where a variable can stand, seen from a number at i
    variables: np.ndarray  # (V, V)
    letters: list[str]


def qk0pos_and_qk1_data(stack: Stack) -> QK0PosAndQK1Data:
    """Of the first model."""
    one = stack.models(0)
    positions, variables = (
        scores[0].detach().cpu().numpy() for scores in (qk1_positions(one), qk2_ov1_var_scores(one))
    )
    kept = admissible(len(positions), EXCLUDED).numpy()
    return QK0PosAndQK1Data(positions, kept, variables, list(stack.config.task.variables))


def draw_qk0pos_and_qk1(data: QK0PosAndQK1Data, made: Figure) -> None:
    left, right = made.subplots(1, 2)
    _positions(data, left)
    image = draw_heat(right, data.variables)
    name_ticks(right, data.letters, data.letters)
    right.set_title("(b) copied variables, layer 2")
    right.set(xlabel="variable held by a number (key)", ylabel="variable held by = (query)", aspect="equal")
    _bar_below(image, right, "score under QK$_2$")


def _positions(data: QK0PosAndQK1Data, ax: Axes) -> None:
    scores = np.where(data.admissible, data.positions, np.nan)
    image = draw_heat(ax, scores, POSITIONS, _range(scores))
    for row, column in np.argwhere(~data.admissible & np.tri(len(scores), dtype=bool)):
        ax.add_patch(
            Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=PALE, edgecolor=HATCH, hatch="////", linewidth=0)
        )
    names = [str(i) for i in range(len(scores))]
    name_ticks(ax, names, names)
    best = np.where(data.admissible, data.positions, -np.inf)
    cells(ax, data.admissible & (best == best.max(1, keepdims=True)), RED)
    ax.set_title("(a) positions, layer 1")
    ax.set(xlabel="position attended to, $j$ (key)", ylabel="position of a number, $i$ (query)", aspect="equal")
    _bar_below(image, ax, "score under QK$_1$")


def _range(scores: np.ndarray) -> tuple[float, float]:
    return float(np.nanmin(scores)), float(np.nanmax(scores))


def _bar_below(image: AxesImage, ax: Axes, label: str) -> None:
    bar(image, ax, label, location="bottom", pad=0.03, aspect=25)
