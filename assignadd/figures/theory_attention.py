"""Figure `theory_attention`: what the theorem's step does to attention and answers, and what further steps add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.palette import INK
from assignadd.theory.composition import Moment, StepNumbers, after_step, attention

BLUE, ORANGE, GREEN, PINK, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7A7A7A"


@dataclass(frozen=True)
class TheoryAttentionData:
    sizes: tuple[int, int, int]  # N, T, V
    length: np.ndarray  # (l,) step length as a share of the stated eta
    target: np.ndarray  # (l,) attention to the assignment, |tau| = 1
    second: np.ndarray  # (l,) attention to the second operand
    balanced: float
    K: np.ndarray  # (k,) assignments in context
    accuracy: np.ndarray  # (4, k) at W_0, after the stated step, after the balanced one, after further steps
    step: np.ndarray  # (m,) further steps
    memory: np.ndarray  # (m,)
    spurious: np.ndarray  # (m,)
    memory_one: np.ndarray  # (m,) the same on one-variable data
    spurious_one: np.ndarray  # (m,)

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.array(value) for name, value in vars(self).items()}


def theory_attention_data(step: StepNumbers) -> TheoryAttentionData:
    lengths = np.linspace(0, 1.1, 111)
    weights = [attention(after_step(step.s, length), 1) for length in lengths]
    accuracy = [[c.accuracy for c in row] for row in (step.before, step.stated, step.shorter)]

    def of(moments: Sequence[Moment], name: str) -> np.ndarray:
        return np.array([getattr(m, name) for m in moments])

    return TheoryAttentionData(
        (step.s.N, step.s.T, step.s.V),
        lengths,
        np.array([float(w.target) for w in weights]),
        np.array([float(w.second) for w in weights]),
        step.balanced,
        np.array([c.K for c in step.stated]),
        np.array([*accuracy, list(step.further[-1].accuracy)]),
        of(step.further, "step"),
        of(step.further, "memory"),
        of(step.further, "spurious"),
        of(step.further_one, "memory"),
        of(step.further_one, "spurious"),
    )


def draw_theory_attention(data: TheoryAttentionData, figure: Figure) -> None:
    first, second, third = figure.subplots(1, 3)
    _draw_length(data, first)
    _draw_accuracy(data, second)
    _draw_further(data, third)


def _draw_length(data: TheoryAttentionData, axes: Axes) -> None:
    right = (data.target < 2 * data.second) & (data.second < 2 * data.target)
    axes.fill_between(data.length, 0, 1, where=right, color="#E9E3B4", linewidth=0, label="adds n + m")
    axes.plot(data.length, data.target, color=BLUE, label="assignment n")
    axes.plot(data.length, data.second, color=ORANGE, linestyle="--", label="operand m")
    axes.axvline(1, color=INK, linewidth=0.8, linestyle=":")
    axes.annotate("stated η ", (1, 0.7), rotation=90, ha="right", va="center", fontsize=7, color=INK)
    axes.set(
        xlabel="step length / stated η",
        ylabel="attention",
        ylim=(0, 1),
        xlim=(0, data.length[-1]),
        title="(a) one assignment",
    )
    axes.legend(fontsize=6.5, loc="center", bbox_to_anchor=(0.62, 0.36), handlelength=1.4)


def _draw_accuracy(data: TheoryAttentionData, axes: Axes) -> None:
    looks = (
        ("$W_0$", GREY, "s", ":"),
        ("stated step", ORANGE, "v", "--"),
        ("shorter step", BLUE, "o", "-"),
        ("+ further steps", GREEN, "D", "-."),
    )
    for (label, colour, marker, line), row in zip(looks, data.accuracy, strict=True):
        axes.plot(data.K, row, color=colour, marker=marker, linestyle=line, markersize=3.5, label=label)
    axes.axhline(1 / data.sizes[0], color=INK, linewidth=0.6)
    axes.set(
        xlabel="assignments |τ|", ylabel="accuracy", ylim=(-0.03, 1.04), xticks=data.K, title="(b) several assignments"
    )
    axes.legend(fontsize=6.5, loc="center left", bbox_to_anchor=(0.0, 0.42), handlelength=2.2)


def _draw_further(data: TheoryAttentionData, axes: Axes) -> None:
    axes.plot(data.step, data.memory, color=GREEN, label="memory")
    axes.plot(data.step, data.spurious, color=PINK, label="spurious $p_T$ term")
    axes.plot(data.step, data.memory_one, color=GREEN, linestyle="--", label="both, |τ| = 1 only", zorder=1)
    axes.plot(data.step, data.spurious_one, color=PINK, linestyle=(4, (4, 4)), zorder=1)
    axes.set(
        xlabel="further steps of η/20",
        ylabel="coefficient",
        title="(c) further steps",
        xlim=(0, data.step[-1]),
        ylim=(0, None),
    )
    axes.legend(fontsize=6.5, loc="upper left", handlelength=1.8)
