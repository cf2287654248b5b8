"""The names of `assignadd.figure`: how a figure is stated, style and colours, intervals, and maps of shares."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import assignadd
from assignadd.figure import (
    COLORS,
    FigureData,
    FigureRecord,
    Sources,
    draw_intervals,
    draw_networks,
    figure,
    save,
    share_map,
)
from assignadd.ledger import Measured, networks_of

census = assignadd.table("census").filter(assignadd.table("census")["seed"] < 4)
with figure(5.5, 4.0) as made:
    (left, right), (lower_left, lower_right) = made.subplots(2, 2)
    colors = (COLORS.blue, COLORS.vermilion, COLORS.green, COLORS.orange)
    for color, (_, curve) in zip(colors, census.group_by("seed"), strict=True):
        left.plot(curve["step"], curve["1-var train"], color=color)
    left.axhline(0.95, color=COLORS.grey, linestyle="--")
    left.set_title("four seeds of the census", color=COLORS.ink)
    draw_intervals(lower_left, {"bind": Measured.share(131, 160, "seeds")}, COLORS.blue)
    last = census.filter(census["step"] == census["step"].max())
    draw_networks(lower_right, {"one variable": last["1-var train"].to_numpy()}, COLORS.vermilion)
    shares = np.array([[0.1, 0.5], [0.7, 1.0]])
    share_map(right, shares, [f"{share:.1f}" for share in shares.flat])
    save(made, Path(tempfile.mkdtemp()) / "four-seeds")  # four-seeds.svg and four-seeds.png


@dataclass(frozen=True)
class Norms(FigureData):
    """Arrays, numbers or lists of words: what a figure shows, and what is saved beside it."""

    norms: np.ndarray


def norms(sources: Sources) -> Norms:
    return Norms(np.array([network.stack.W_E.norm().item() for network in sources.models]))


# In a file, `FIGURES = (RECORD,)` puts it into the report: assignadd report RUN --with FILE.py
RECORD = FigureRecord(
    "norms", "Norms", "The norm of W_E.", norms, lambda data, made: made.add_subplot().plot(data.norms, "o"), height=2.0
)
networks = networks_of(assignadd.open_run("census-six"), n=100)[0]
data = RECORD.data_of(Sources(networks))
RECORD.save(data, Path(tempfile.mkdtemp()) / "norms")
print(RECORD.caption(data))
