"""Figures `cosine_sim_combined` and `probes`: what `=` holds before the MLP, and where the answer can be read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.figure.record import FigureData, FigureRecord, on_axes
from assignadd.measures.probes import AnswerProbes, answer_probes_of
from assignadd.model.architecture import NotDefined
from assignadd.network import Network
from assignadd.palette import BLUE, GREY, INK, ORANGE
from assignadd.paper.addition.similarity import (
    AgainstOV2,
    Cosine,
    Matching,
    across_types_of,
    against_ov2_of,
    on_template_of,
)
from assignadd.stats.intervals import wilson
from assignadd.task.evalsets import VARIABLES

A_KINDS = {"matched": BLUE, "mismatched": GREY}
B_KINDS = {"matched": BLUE, "second_shuffled": ORANGE, "both_shuffled": GREY}


@dataclass(frozen=True)
class CosineSimData(FigureData):
    """Mean and standard deviation over pairs of vectors; columns in the order of A_KINDS and B_KINDS."""

    a_rows: list[str]
    a_mean: np.ndarray  # (rows, 2)
    a_std: np.ndarray
    b_rows: list[str]
    b_mean: np.ndarray  # (rows, 3)
    b_std: np.ndarray
    missing: str = ""
    """Why there is no (b), which needs OV2; empty if there is."""


def cosine_sim_data(
    across: Mapping[tuple[int, int], Matching], template: Matching, against: Mapping[int, AgainstOV2], missing: str = ""
) -> CosineSimData:
    """Cosines of the first model: (a) by pair of types, on random contexts and a template; (b) by type."""
    a = {f"{VARIABLES[x]} and {VARIABLES[y]}": found for (x, y), found in across.items()} | {"one template": template}
    b = {f"residual, {VARIABLES[n]}": found.residual for n, found in against.items()}
    b |= {f"attention output, {VARIABLES[n]}": found.attention_output for n, found in against.items()}
    (a_mean, a_std), (b_mean, b_std) = _first_model(a, A_KINDS), _first_model(b, B_KINDS)
    return CosineSimData(list(a), a_mean, a_std, list(b), b_mean, b_std, missing)


def _first_model(rows: Mapping[str, Any], kinds: Collection[str]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the cosines of the first model, both (rows, kinds), also without rows."""
    cosines: list[Cosine] = [getattr(row, kind) for row in rows.values() for kind in kinds]
    mean, std = [float(c.mean[0]) for c in cosines], [float(c.std[0]) for c in cosines]
    return np.reshape(mean, (len(rows), len(kinds))), np.reshape(std, (len(rows), len(kinds)))


def cosine_sim_of(model: Network) -> CosineSimData:
    """The cosines of one network; without (b) where OV2 is not defined for its architecture."""
    try:
        against, missing = against_ov2_of(model), ""
    except NotDefined as error:
        against, missing = {}, error.reason
    return cosine_sim_data(across_types_of(model), on_template_of(model), against, missing)


def cosine_sim_caption(data: CosineSimData) -> str:
    """The range of the mean cosines of every kind, in words; why there is no (b), if there is none."""

    def ranges(kinds: Mapping[str, str], mean: np.ndarray) -> str:
        words = (
            f"{kind.replace('_', ' ')} {mean[:, i].min():.2f} to {mean[:, i].max():.2f}" for i, kind in enumerate(kinds)
        )
        return ", ".join(words).replace(" -", " \u2212")

    found = f"Mean cosines here: (a) {ranges(A_KINDS, data.a_mean)}"
    if data.missing:
        return f"{found}. (b) is left out, as it is not defined for this network: it {data.missing}."
    return f"{found}; (b) {ranges(B_KINDS, data.b_mean)}."


def draw_cosine_sim(data: CosineSimData, made: Figure) -> None:
    heights = [len(rows) for rows in (data.a_rows, data.b_rows) if rows]
    axes = made.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    _draw_cosines(axes[0], data.a_rows, data.a_mean, data.a_std, A_KINDS)
    axes[0].set_title("(a) residuals at = before the MLP, two sequences of different type")
    if data.b_rows:
        _draw_cosines(axes[1], data.b_rows, data.b_mean, data.b_std, B_KINDS)
        axes[1].set_title("(b) vectors at = before the MLP, against OV$_2$(a) + OV$_2$(b)")
    axes[-1].set_xlabel("cosine (mean ± standard deviation)")


def _draw_cosines(ax: Axes, rows: list[str], mean: np.ndarray, std: np.ndarray, kinds: Mapping[str, str]) -> None:
    for k, (kind, color) in enumerate(kinds.items()):
        y = np.arange(len(rows)) + 0.18 * (k - (len(kinds) - 1) / 2)
        look: Any = {"color": color, "markersize": 4.5, "elinewidth": 1.2, "label": kind.replace("_", " ")}
        ax.errorbar(mean[:, k], y, xerr=std[:, k], fmt="o", **look)
    ax.set_yticks(range(len(rows)), rows)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")
    ax.axvline(0, color=GREY, linewidth=0.6)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=1.6)


@dataclass(frozen=True)
class ProbesData(FigureData):
    stages: list[str]
    test: np.ndarray  # (stages,)
    low: np.ndarray  # 95 % Wilson interval of `test`
    high: np.ndarray
    control: np.ndarray  # labels shuffled
    chance: float


def probes_data(probes: AnswerProbes, modulus: int) -> ProbesData:
    """Test and control accuracies of the first model's probes, by stage."""
    test, control = (values[0].cpu().double().numpy() for values in (probes.test, probes.control))
    intervals = [wilson(round(accuracy * probes.n_test), probes.n_test) for accuracy in test.tolist()]
    low, high = np.array([(i.low, i.high) for i in intervals]).T
    return ProbesData(list(probes.stages), test, low, high, control, 1 / modulus)


def probes_caption(data: ProbesData) -> str:
    """The highest accuracy before the activation function and the lowest after it, in words."""
    after = np.arange(len(data.stages)) >= next(
        (i for i, stage in enumerate(data.stages) if stage.startswith("neurons after")), len(data.stages)
    )
    if not after.any():
        return f"This network has no last MLP; the probe reaches at most {data.test.max():.3f}."
    return (
        f"Here the probe reaches at most {data.test[~after].max():.3f} before the activation function and at least "
        f"{data.test[after].min():.3f} after it; chance is {data.chance:.3f}."
    )


def draw_probes(data: ProbesData, axes: Axes) -> None:
    x = np.arange(len(data.stages))
    error = np.maximum(0, [data.test - data.low, data.high - data.test])
    bars: Any = {"yerr": error, "error_kw": {"elinewidth": 1.2}, "label": "pairs never trained on (95 % interval)"}
    axes.bar(x, data.test, 0.55, color=BLUE, **bars)
    diamonds: Any = {"markeredgecolor": INK, "markeredgewidth": 0.5, "markersize": 4.5, "label": "labels shuffled"}
    axes.plot(x, data.control, "D", color=ORANGE, **diamonds)
    axes.axhline(data.chance, color=INK, linewidth=0.8, linestyle="--", label="chance")
    for at, value, top in zip(x, data.test, np.maximum(data.high, data.control), strict=True):
        axes.annotate(f"{value:.3f}", (at, top), (0, 4), textcoords="offset points", ha="center")
    axes.set_xticks(x, [stage.replace(" ", "\n", 1) for stage in data.stages])
    axes.set(ylabel="accuracy of a linear probe", ylim=(0, 1.12), yticks=np.linspace(0, 1, 6))
    axes.grid(False, axis="x")
    axes.legend(loc="center left", bbox_to_anchor=(0.01, 0.6))


COSINE_SIM_FIGURE = FigureRecord(
    "cosine_sim_combined", "One representation for literals and variables",
    "(a) If literals and variables are represented alike, sequences of different type have nearly the same vector "
    "at `=` when they add the same two numbers (blue near 1), and unrelated ones when they do not. (b) If that "
    "vector is OV2(a) + OV2(b) of the two numbers, blue is near 1, about half is left with one of the numbers from "
    "another sequence, and nothing with both.",
    lambda s: cosine_sim_of(s.model), draw_cosine_sim, height=3.6, width=6.4, found=cosine_sim_caption,
)  # fmt: skip
PROBES_FIGURE = FigureRecord(
    "probes", "Where the answer can be read",
    "If the MLP does the addition, a linear probe for the sum is at chance before its activation function and near "
    "1 after it. Diamonds are the same probes with shuffled labels.",
    lambda s: probes_data(answer_probes_of(s.model), s.model.config.task.modulus), on_axes(draw_probes), height=2.6,
    found=probes_caption,
)  # fmt: skip
