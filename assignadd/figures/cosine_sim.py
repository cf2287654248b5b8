"""Figure `cosine_sim_combined`: (a) sequences of different type that add the same numbers, (b) what `=` holds against OV2(a) + OV2(b)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.figures.arrays import FigureData
from assignadd.measures.similarity import AgainstOV2, Cosine, Matching
from assignadd.palette import BLUE, GREY, ORANGE
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


def cosine_sim_data(
    across: Mapping[tuple[int, int], Matching], template: Matching, against: Mapping[int, AgainstOV2]
) -> CosineSimData:
    """Of the first model: (a) by pair of types on random contexts and on the template, (b) by the number of variables in the sum."""
    a = {f"{VARIABLES[x]} and {VARIABLES[y]}": found for (x, y), found in across.items()} | {"one template": template}
    b = {f"residual, {VARIABLES[n]}": found.residual for n, found in against.items()}
    b |= {f"attention output, {VARIABLES[n]}": found.attention_output for n, found in against.items()}
    of_a = np.array(
        [[_first(getattr(found, kind)) for kind in A_KINDS] for found in a.values()]
    )  # (rows, 2, mean and std)
    of_b = np.array([[_first(getattr(found, kind)) for kind in B_KINDS] for found in b.values()])
    return CosineSimData(list(a), of_a[..., 0], of_a[..., 1], list(b), of_b[..., 0], of_b[..., 1])


def _first(cosine: Cosine) -> tuple[float, float]:
    return float(cosine.mean[0]), float(cosine.std[0])


def draw_cosine_sim(data: CosineSimData, made: Figure) -> None:
    above, below = made.subplots(2, 1, sharex=True, height_ratios=(len(data.a_rows), len(data.b_rows)))
    _panel(above, data.a_rows, data.a_mean, data.a_std, A_KINDS)
    _panel(below, data.b_rows, data.b_mean, data.b_std, B_KINDS)
    above.set_title("(a) residuals at = before the MLP, of two sequences of different type")
    below.set_title("(b) vectors at = before the MLP, against OV$_2$(a) + OV$_2$(b)")
    below.set_xlabel("cosine (mean ± standard deviation)")


def _panel(ax: Axes, rows: list[str], mean: np.ndarray, std: np.ndarray, kinds: Mapping[str, str]) -> None:
    for k, (kind, color) in enumerate(kinds.items()):
        y = np.arange(len(rows)) + 0.18 * (k - (len(kinds) - 1) / 2)
        ax.errorbar(
            mean[:, k],
            y,
            xerr=std[:, k],
            fmt="o",
            color=color,
            markersize=4.5,
            elinewidth=1.2,
            label=kind.replace("_", " "),
        )
    ax.set_yticks(range(len(rows)), rows)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")
    ax.axvline(0, color=GREY, linewidth=0.6)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=1.6)
