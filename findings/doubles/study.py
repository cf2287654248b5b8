"""Held-out doubles n + n: which networks fail on them, and is it for the votes of single operands against n + n?"""

import re
from collections.abc import Mapping

from matplotlib.figure import Figure

from assignadd.figure import COLORS, draw_networks
from assignadd.study import PAPER, Cell, Study, StudyTable, final_column, mean

from . import votes

AS_IN_THE_PAPER, TWICE, UNORDERED = "as in the paper", "doubles twice as often", "unordered pairs held out"
NONE_SEEN, MOST_SEEN = "no doubles in training", "90 % of the doubles in training"
NO_DIRECT, ABS, NOT_LINEAR = "no direct path", "abs", "abs, no direct path"
NARROW, WIDE, SMALL = "MLP of 128", "MLP of 2,048", "width 64, MLP of 512"
DIFFERENCE = "doubles minus others"
DOUBLES = final_column("0-var doubles")
WITHOUT, VOTE = final_column(votes.WITHOUT_VOTES), final_column(votes.VOTE_HELD_OUT)

VOTES = Study(
    name="doubles",
    question="Networks that bind fail on held-out sums n + n and on no others. Why?",
    cells=(
        Cell(AS_IN_THE_PAPER),
        Cell(TWICE, {"task.doubles_weight": 2}),
        Cell(UNORDERED, {"task.unordered_split": True}),
        Cell(NONE_SEEN, {"task.seen_doubles": 0.0}),
        Cell(MOST_SEEN, {"task.seen_doubles": 0.9}),
    ),
    seeds=32,
    columns={final_column(name): meaning for name, meaning in votes.MEANINGS.items()},
    measure=votes.doubles_columns,
    numbers=(DIFFERENCE, VOTE, WITHOUT),
    ask=(
        mean(DIFFERENCE, among="binds").of(AS_IN_THE_PAPER, TWICE, UNORDERED, NONE_SEEN).at_most(-0.1),
        mean(DIFFERENCE, among="binds").of(NONE_SEEN).versus(AS_IN_THE_PAPER, at_most=-0.1),
        mean(DIFFERENCE, among="binds").of(MOST_SEEN).versus(AS_IN_THE_PAPER, at_least=0.1),
        mean(VOTE, among="binds").of(AS_IN_THE_PAPER, NONE_SEEN).at_most(-1),
        mean(WITHOUT, among="binds").of(AS_IN_THE_PAPER, NONE_SEEN).at_least(0.9),
        mean(final_column(votes.OTHERS_WITHOUT_VOTES), among="binds").of(AS_IN_THE_PAPER, NONE_SEEN).at_least(0.99),
    ),
)

CAUSES = Study(
    name="doubles-causes",
    question="Do held-out sums n + n still fail in networks whose logits have no part that is linear in the operands?",
    cells=(
        Cell(PAPER),
        Cell(NO_DIRECT, {"model.direct_path": False}),
        Cell(ABS, {"model.activation": "abs"}),
        Cell(NOT_LINEAR, {"model.activation": "abs", "model.direct_path": False}),
        Cell(NARROW, {"model.d_mlp": (None, 128)}),
        Cell(WIDE, {"model.d_mlp": (None, 2048)}),
        Cell(SMALL, {"model.d_model": 64, "model.d_head": 64}),
    ),
    seeds=32,
    first_seed=9400,
    numbers=(DIFFERENCE, DOUBLES),
    ask=(
        mean(DIFFERENCE, among="binds").of(NO_DIRECT, ABS, NOT_LINEAR).at_most(-0.1),
        mean(DOUBLES, among="binds").of(NARROW, SMALL).versus(PAPER, at_least=0.1),
        mean(DOUBLES, among="binds").of(WIDE).versus(PAPER, at_most=-0.1),
    ),
)

WIDTH = Study(
    name="mlp-width",
    question="Do held-out sums n + n come out right if the MLP is narrow?",
    cells=(Cell(PAPER), *(Cell(f"MLP of {n}", {"model.d_mlp": (None, n)}) for n in (16, 32, 64, 128, 256))),
    seeds=32,
    first_seed=9500,
    steps=30_000,
    outcomes=("adds", "binds", "learned"),
    numbers=(DIFFERENCE, DOUBLES),
    ask=(
        mean(DOUBLES, among="learned").versus(PAPER, at_least=0.1),
        mean(DOUBLES, among="learned").of("MLP of 16", "MLP of 32", "MLP of 64").at_least(0.9),
    ),
)

STUDIES = (VOTES, CAUSES, WIDTH)
SIZE = (6.5, 5.4)
# By study: the title of its panel, and which networks are drawn.
PANELS = {
    VOTES.name: ("other pairs in training (networks that bind)", "binds"),
    CAUSES.name: ("other networks (those that bind)", "binds"),
    WIDTH.name: ("neurons in MLP2, 30,000 steps*", "learned"),
}


def in_words(cell: str) -> str:
    """A cell as the figure names it."""
    return re.sub(r"MLP of ([\d,]+)", r"\1 neurons", cell).replace("abs", "|x| for ReLU")


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """Held-out doubles answered by each network: with all of its logits and, where measured, without the votes."""
    heights = [len(tables[name].cells) for name in PANELS]
    panels = figure.subplots(3, 1, sharex=True, height_ratios=heights)
    for axes, (name, (title, among)) in zip(panels, PANELS.items(), strict=True):
        shown = [(DOUBLES, COLORS.blue, "the whole network")]
        if name == VOTES.name:
            shown.append((WITHOUT, COLORS.orange, "without the votes of n for n + n"))
        for i, (column, color, label) in enumerate(shown):
            rows = {in_words(cell): tables[name].values(cell, column, among) for cell in tables[name].cells}
            draw_networks(axes, rows, color, label, 0.3 * (i - (len(shown) - 1) / 2))
        axes.set(xlim=(-0.03, 1.03), title=title)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2)
    answered = "accuracy on held-out doubles (a circle per network, line: mean)"
    figure.supxlabel(
        f"{answered}\n* networks that answer 95 % of trained sums with one and with two variables", fontsize=7
    )
