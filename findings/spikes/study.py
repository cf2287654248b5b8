"""Sudden rises of the accuracy and bursts of the loss: a matter of rounding, of the optimizer, or of circuits?"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.figure import COLORS, draw_intervals, draw_networks
from assignadd.study import BASE, PAPER, Cell, Study, StudyTable, mean, share

from . import measures
from .measures import BURSTS, LATE, LATE_FROM, MEANINGS, SHARP, SPIKES, SpikeObserver, spike_columns

OFTEN = replace(BASE, record=replace(BASE.record, eval_every=25, measure_every=25, eval_sequences=256))
SINGLE, DOUBLE, DOUBLE_LOSS = "float32", "float64", "float32, loss in float64"


def study(name: str, question: str, cells: tuple[Cell, ...], **more: Any) -> Study:
    """A study whose networks are evaluated often, and whose table has the numbers of `measures`."""
    return Study(
        name, question, cells, base=OFTEN, columns=MEANINGS, observe=SpikeObserver, of_curves=spike_columns, **more
    )


PRECISION = study(
    "spikes",
    "Accuracy and loss of a network change suddenly at a few steps of training. Is rounding the cause?",
    (
        Cell(SINGLE),
        Cell(DOUBLE_LOSS, {"numerics.loss_in_float64": True}),
        Cell(DOUBLE, {"numerics.dtype": "float64"}),
    ),
    seeds=16,
    outcomes=("adds", "binds", "refines", SHARP),
    numbers=(SPIKES, BURSTS, measures.SATURATED_BEFORE, measures.SATURATED_RISE, measures.QK2_RISE),
    ask=(
        share(SHARP, among="binds").at_least(0.8),
        mean(SPIKES, among="binds").versus(SINGLE, between=(-1, 1)),
        mean(BURSTS, among="binds").versus(SINGLE, between=(-1, 1)),
        mean(measures.SATURATED_BEFORE, among="binds").of(SINGLE).at_most(0.5),
        mean(measures.SATURATED_RISE, among="binds").of(SINGLE).at_most(0.05),
        mean(measures.QK2_RISE, among="binds").of(SINGLE, DOUBLE).at_least(0.1),
    ),
)

LOWER, FAST, SLOW = "a third of the rate from 8,000", "beta2 0.99", "beta2 0.9999"
EPS, LARGE_EPS, NO_DECAY = "eps 1e-6", "eps 1e-5", "no decay"
OPTIMIZER = study(
    "bursts",
    "Are bursts of the loss late in training instabilities of AdamW?",
    (
        Cell(PAPER),
        Cell(LOWER, {"optim.later_lr": 1e-3 / 3, "optim.later_from": LATE_FROM}),
        Cell(FAST, {"optim.beta2": 0.99}),
        Cell(SLOW, {"optim.beta2": 0.9999}),
        Cell(EPS, {"optim.eps": 1e-6}),
        Cell(LARGE_EPS, {"optim.eps": 1e-5}),
        Cell(NO_DECAY, {"optim.weight_decay": 0.0}),
    ),
    seeds=16,
    first_seed=9100,
    numbers=(BURSTS, LATE),
    ask=(
        mean(LATE, among="binds").of(LOWER, SLOW, EPS, LARGE_EPS).versus(PAPER, at_most=-3),
        mean(LATE, among="binds").of(FAST).versus(PAPER, at_least=3),
        mean(LATE, among="binds").of(NO_DECAY).versus(PAPER, between=(-3, 3)),
    ),
)

FREE, NEVER = "nothing frozen", "QK2 never trained"
FROZEN_FROM, STEPS = 2000, 12_000
FROZEN = {part: f"{part} frozen from {FROZEN_FROM:,} until {STEPS:,}" for part in ("QK2", "W_E")}
SUDDEN = study(
    "sudden",
    "Is the first rise as sudden if QK2 does not change, and do networks bind with a QK2 that never learned?",
    (
        Cell(FREE),
        *(
            Cell(label, {"optim.frozen": part, "optim.frozen_from": FROZEN_FROM, "optim.frozen_until": STEPS})
            for part, label in FROZEN.items()
        ),
        Cell(NEVER, {"optim.frozen": "QK2", "optim.frozen_until": STEPS}),
    ),
    seeds=32,
    first_seed=9200,
    steps=STEPS,
    outcomes=("adds", "binds", SHARP),
    numbers=(SPIKES, measures.QK2_RISE, "binding at"),
    ask=(share(SHARP, among="binds").of(*FROZEN.values()).at_least(0.5), share("binds").of(NEVER).at_most(0.2)),
)

STUDIES = (PRECISION, OPTIMIZER, SUDDEN)
SIZE = (6.8, 5.0)
BELOW: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "ncols": 2, "columnspacing": 1}


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """A panel for each study: the first rise by precision, late bursts by optimizer, spikes with frozen parts."""
    panels = figure.subplot_mosaic("RS;BB")
    draw_rises(panels["R"], tables["spikes"])
    draw_spikes(panels["S"], tables["sudden"])
    draw_bursts(panels["B"], tables["bursts"])


def draw_rises(axes: Axes, table: StudyTable) -> None:
    """The step of the first rise of each seed, in float32 and with more precision."""
    single = table.cells[SINGLE].select("seed", float32=measures.FIRST_AT)
    for cell, color, marker in ((DOUBLE_LOSS, COLORS.blue, "s"), (DOUBLE, COLORS.vermilion, "o")):
        both = single.join(table.cells[cell].select("seed", precise=measures.FIRST_AT), on="seed").drop_nulls()
        axes.plot(both["float32"], both["precise"], marker, color=color, label=cell, markersize=4, fillstyle="none")
    axes.axline((0, 0), slope=1, color=COLORS.ink, linewidth=0.6)
    axes.set(xlim=(0, None), ylim=(0, None), xlabel="step of the first rise, float32", ylabel="with more precision")
    axes.set_title("the first rise of each seed")
    axes.legend(**BELOW)


def draw_bursts(axes: Axes, table: StudyTable) -> None:
    """The late bursts of each network that binds."""
    words = {cell: cell.replace("beta2", "AdamW's β₂").replace("eps", "AdamW's ε") for cell in table.cells}
    draw_networks(axes, {row: table.values(cell, LATE, "binds") for cell, row in words.items()}, COLORS.blue)
    axes.set_title("bursts and the optimizer")
    axes.set_xlabel(f"bursts of the loss after step {LATE_FROM:,}\n(a circle per network that binds, line: mean)")


def draw_spikes(axes: Axes, table: StudyTable) -> None:
    """The share of networks that bind and, of these, the share with a spike."""
    words = {cell: cell.replace(" from", "\nfrom").replace(" trained", "\ntrained") for cell in table.cells}
    for number, color, label, shift in (
        (share("binds"), COLORS.vermilion, "bind", -0.12),
        (share(SHARP, among="binds"), COLORS.blue, "have a spike, of these", 0.12),
    ):
        shares = {row: table.measured(number, cell) for cell, row in words.items()}
        draw_intervals(axes, shares, color, label, shift)
    axes.set(xlim=(-0.03, 1.03), xlabel="share of networks (95 % interval)")
    axes.set_title("the first rise with a frozen part")
    axes.legend(**BELOW)
