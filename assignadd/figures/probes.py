"""Figure `probes` (ours; section 5.1 in words): where along the way through layer 2 a linear probe can read the answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from assignadd.figures.arrays import FigureData
from assignadd.measures.probes import STAGES, AnswerProbes
from assignadd.palette import BLUE, INK, ORANGE
from assignadd.stats import wilson


@dataclass(frozen=True)
class ProbesData(FigureData):
    stages: list[str]
    test: np.ndarray  # (stages,)
    low: np.ndarray  # 95 % Wilson interval of `test`
    high: np.ndarray
    control: np.ndarray  # labels shuffled
    chance: float


def probes_data(probes: AnswerProbes, modulus: int) -> ProbesData:
    """Of the first model."""
    test, control = (values[0].cpu().double().numpy() for values in (probes.test, probes.control))
    intervals = [wilson(round(accuracy * probes.n_test), probes.n_test) for accuracy in test.tolist()]
    low, high = np.array([(i.low, i.high) for i in intervals]).T
    return ProbesData(list(STAGES), test, low, high, control, 1 / modulus)


def draw_probes(data: ProbesData, axes: Axes) -> None:
    x = np.arange(len(data.stages))
    error = np.maximum(0, [data.test - data.low, data.high - data.test])
    axes.bar(
        x,
        data.test,
        0.55,
        yerr=error,
        color=BLUE,
        error_kw={"elinewidth": 1.2},
        label="pairs never trained on (95 % interval)",
    )
    axes.plot(
        x,
        data.control,
        "D",
        color=ORANGE,
        markeredgecolor=INK,
        markeredgewidth=0.5,
        markersize=4.5,
        label="labels shuffled",
    )
    axes.axhline(data.chance, color=INK, linewidth=0.8, linestyle="--", label="chance")
    for at, value, top in zip(x, data.test, np.maximum(data.high, data.control), strict=True):
        axes.annotate(f"{value:.3f}", (at, top), (0, 4), textcoords="offset points", ha="center")
    axes.set_xticks(x, [stage.replace(" ", "\n", 1) for stage in data.stages])
    axes.set(ylabel="accuracy of a linear probe", ylim=(0, 1.12), yticks=np.linspace(0, 1, 6))
    axes.grid(False, axis="x")
    axes.legend(loc="center left", bbox_to_anchor=(0.01, 0.6))
