"""Study `cues`: is a number bound to its variable by name, place or order, and in how many networks?"""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from torch import Tensor

from assignadd import Config
from assignadd.figure import COLORS, draw_networks
from assignadd.model import Stack
from assignadd.study import PAPER, Cell, Study, StudyTable, final_column, mean

from . import cues
from .cues import LAYOUTS, TWICE, by_assignments, cue_answers, exchanged_tags

FEW, SEQUENCES, MOST = "at most 3 assignments", 1000, 6
OTHER_NAME, OWN_PLACE = "names exchanged, the other number", "places exchanged, its own number"
LATER = f"{TWICE}, y less x"


def answered(layout: str, number: str) -> str:
    """The column with the share of sequences of a layout whose answer is the sum with x or y."""
    return f"{layout}, {number}"


def with_assignments(count: int) -> str:
    """The column with the accuracy on sums with one variable and this many assignments."""
    return f"{count} assignments"


def cue_columns(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, float]]:
    """For each model, how often it answers with which number in each layout, after exchanges, and with more variables.

    Shares of 1,000 sequences each.
    """
    table = []
    for model, config, pairs in zip(stack, configs, seen, strict=True):
        layouts = cue_answers(model, config, pairs, SEQUENCES)
        row = {answered(name, k): float(x.double().mean()) for name, shown in layouts.items() for k, x in shown.items()}
        exchanged = exchanged_tags(model, config, pairs, SEQUENCES)
        row[OTHER_NAME] = float(exchanged[cues.NAMES].with_other.double().mean())
        row[OWN_PLACE] = float(exchanged[cues.PLACES].unchanged.double().mean())
        row[LATER] = row[answered(TWICE, "y")] - row[answered(TWICE, "x")]
        accuracy = by_assignments(model, config, pairs, SEQUENCES)
        table.append(row | {with_assignments(count): share for count, share in accuracy.items()})
    return table


MEANINGS = {
    OTHER_NAME: "the share of sums answered with the other number, after two assigned numbers exchange names",
    OWN_PLACE: "the share of sums answered as before, after two assigned numbers exchange positions",
    LATER: "the share answered with the last number of a variable assigned twice minus that with the first",
    **{
        answered(layout, number): f"the share answered with {number} in the layout {layout} ({words})"
        for layout, words in LAYOUTS.items() for number in ("x", "y") if number in layout
    },
    **{with_assignments(k): f"the accuracy on sums with one variable and {k} assignments" for k in range(1, MOST + 1)},
}  # fmt: skip
IN_BINDING = {column: mean(final_column(column), among="binds") for column in MEANINGS}
STUDY = Study(
    name="cues",
    question="What binds a number to its variable in networks that were not looked at before, and in how many?",
    steps=20_000,
    cells=(Cell(PAPER), Cell(FEW, {"task.max_assignments": 3})),
    seeds=64,
    first_seed=9300,
    outcomes=("adds", "binds"),
    numbers=tuple(map(final_column, (OTHER_NAME, OWN_PLACE, LATER, with_assignments(3), with_assignments(MOST)))),
    columns={final_column(column): meaning for column, meaning in MEANINGS.items()},
    measure=cue_columns,
    ask=(
        IN_BINDING[OTHER_NAME].at_least(0.95),
        IN_BINDING[OWN_PLACE].at_least(0.95),
        IN_BINDING[LATER].of(PAPER).between(-0.1, 0.1),
        IN_BINDING[answered(cues.REVERSED, "x")].of(PAPER).between(0, 0.2),
        IN_BINDING[answered(cues.FARTHER_NAME, "x")].of(PAPER).between(0, 0.2),
        IN_BINDING[with_assignments(MOST)].of(FEW).at_least(0.9),
    ),
)

SIZE = (7.4, 4.4)
# The rows of the figure: what is shown, and the columns whose shares are drawn in it.
ROWS = {
    "names exchanged: the other number": (OTHER_NAME,),
    "positions exchanged: its number": (OWN_PLACE,),
    **{
        f"{words}: {layout}": tuple(answered(layout, k) for k in ("x", "y") if k in layout)
        for layout, words in LAYOUTS.items() if layout != cues.USUAL
    },
    "six assignments: right": (with_assignments(MOST),),
}  # fmt: skip


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """A panel per cell, a row per test, a circle for each network that binds and each number, a line at the mean."""
    table = tables["cues"]
    for axes, cell in zip(figure.subplots(1, 2, sharey=True), (PAPER, FEW), strict=True):
        for place, color, label in (
            (0, COLORS.blue, "answered: x, or as the row says"),
            (1, COLORS.orange, "answered: y"),
        ):
            columns = {row: final_column(of_row[place]) if place < len(of_row) else "" for row, of_row in ROWS.items()}
            rows = {row: table.values(cell, column, "binds") for row, column in columns.items()}
            draw_networks(axes, rows, color, label, 0.4 * place - 0.2)
        axes.set(xlim=(-0.02, 1.02), xlabel="share of sequences")
        axes.set_title(f"{cell}: {int(table.cells[cell]['binds'].sum())} networks that bind", fontsize=8)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2)
