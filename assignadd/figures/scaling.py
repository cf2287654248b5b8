"""Cost of a training step per model against one setting at a time (docs/scale.md), from what `bench --scaling --json` printed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from assignadd.figures.style import BLUE, VERMILION

Series = dict[str, dict[str, tuple[list[int], list[float]]]]
LABELS = {"M": "models in the stack", "N": "numbers N", "V": "variables V", "T": "tokens T", "d": "width d (MLP 4d)", "batch": "batch"}


def scaling_data(files: Sequence[Path]) -> Series:
    """Setting -> fp32 or tf32 -> values and microseconds per model-step."""
    found: Series = {}
    for file in files:
        measured = json.loads(file.read_text())
        for point in measured["points"]:
            values, times = found.setdefault(point["setting"], {}).setdefault("TF32" if measured["tf32"] else "fp32", ([], []))
            values.append(point["value"])
            times.append(point["us"])
    return found


def draw_scaling(data: Series, axes: Mapping[str, Axes]) -> None:
    """One panel a setting, logarithmic both ways."""
    for setting, ax in axes.items():
        for precision, (values, times) in data[setting].items():
            ax.plot(values, times, "o-", color=BLUE if precision == "fp32" else VERMILION, label=precision, markersize=3)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        ticks = sorted({v for values, _ in data[setting].values() for v in values})
        ax.set_xticks(ticks, [str(v) for v in ticks], minor=False)
        low, high = min(t for _, ts in data[setting].values() for t in ts), max(t for _, ts in data[setting].values() for t in ts)
        marks = [2**k for k in range(3, 11) if low / 2 < 2**k < high * 2]
        ax.set_yticks(marks, [str(v) for v in marks], minor=False)
        ax.set_title(LABELS[setting])
    next(iter(axes.values())).legend()
