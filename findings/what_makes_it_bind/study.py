"""What makes seeds bind: the learning rate, the initial scale, the schedule, or parts that are frozen at first?"""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.figure import COLORS, draw_intervals
from assignadd.study import PAPER, Cell, Study, StudyTable, share

BINDS = share("binds")


def raised(rate: float) -> str:
    """The label of a learning rate's cell."""
    return f"rate {rate:g}"


RATES = (3e-4, 6e-4, 1e-3, 1.5e-3, 2e-3, 3e-3, 4e-3, 6e-3, 1e-2)
RATE = Study(
    "rate",
    "How does the share of seeds that learn to bind depend on the learning rate?",
    tuple(Cell(raised(r), {} if r == 1e-3 else {"optim.lr": r}) for r in RATES),
    seeds=32,
    ask=(
        BINDS.of(raised(3e-4)).versus(raised(1e-3), at_most=0),
        BINDS.of(*map(raised, (1.5e-3, 2e-3, 3e-3, 4e-3))).versus(raised(1e-3), at_least=0),
        BINDS.of(*map(raised, (2e-3, 3e-3, 4e-3))).at_least(0.8),
        share("adds").of(raised(1e-2)).at_most(0.5),
        BINDS.of(raised(1e-2)).at_most(0.2),
    ),
)

# The ratios are sequences for each literal one; the paper has 1.67 with one variable and .83 with two.
FACTORS: dict[str, tuple[str, tuple[float, ...]]] = {
    "decay": ("optim.weight_decay", (0.0, 0.1, 0.5)),
    "warm-up": ("optim.warmup", (500, 2000)),
    "batch": ("optim.batch", (128, 256, 1024)),
    "one-variable ratio": ("task.one_var_ratio", (0.4, 0.8, 3.3)),
    "two-variable ratio": ("task.two_var_ratio", (0.3, 1.7)),
    "initial scale": ("model.init_scale", (0.4, 1.2)),
}
LARGER = "initial scale 1.2"

TRAINING = Study(
    "training",
    "How does the share of seeds that learn to bind depend on the settings of training other than the rate?",
    (Cell(PAPER), *(Cell(f"{factor} {v:g}", {name: v}) for factor, (name, vs) in FACTORS.items() for v in vs)),
    seeds=32,
    ask=(
        BINDS.of("one-variable ratio 0.4", "one-variable ratio 0.8").versus(PAPER, at_least=0),
        BINDS.of("one-variable ratio 3.3").versus(PAPER, at_most=0),
        BINDS.of("warm-up 500", "warm-up 2000").versus(PAPER, at_least=0),
        BINDS.of("decay 0.5").at_most(0.2),
        BINDS.of("decay 0.1").versus(PAPER, at_most=0),
        BINDS.of("decay 0", "batch 128", "batch 256", "batch 1024").at_least(0.5),
        BINDS.of("two-variable ratio 0.3", "two-variable ratio 1.7").at_least(0.5),
        BINDS.of("initial scale 0.4", LARGER).at_least(0.5),
    ),
)

SCALES = (0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.2, 1.6, 2.4)
SCALE = Study(
    "scale",
    "Is the paper's initial scale one at which few seeds bind, with larger shares on both sides?",
    tuple(Cell(f"scale {s:g}", {} if s == 0.8 else {"model.init_scale": s}) for s in SCALES),
    seeds=32,
    first_seed=2000,
    numbers=("addition at", "binding at", "frequencies"),
    ask=(BINDS.of("scale 0.4", "scale 1.2").versus("scale 0.8", at_least=0),),
)


def frozen(part: str, until: int = 2000) -> Cell:
    """A part keeps its initial weights until a step."""
    return Cell(f"{part} until {until:,}", {"optim.frozen": part, "optim.frozen_until": until})


FREE = "nothing frozen"
PARTS = tuple(map(frozen, ("W_E", "QK1", "OV1", "QK2", "OV2")))
# Addition is learned in the first thousand steps with the paper's settings, binding most often after four thousand.
MLP = (frozen("MLP2"), frozen("MLP2", 500), frozen("MLP2", 8000))

PARTS_STUDY = Study(
    "parts",
    "Which part must not learn early, or must, for a seed to bind? Does the ability to add block binding?",
    (Cell(FREE), *PARTS, *MLP),
    seeds=32,
    ask=(
        BINDS.of(*(cell.label for cell in MLP)).versus(FREE, at_least=0),
        BINDS.of(*(cell.label for cell in PARTS)).at_least(0.5),
    ),
)

AGAIN = Study(
    "again",
    "Do the changes after which all 32 seeds bound in `parts` and `training` do the same on other seeds?",
    (Cell(PAPER), Cell(LARGER, {"model.init_scale": 1.2}), *PARTS[:3], MLP[0]),
    seeds=48,
    first_seed=3000,
    ask=(BINDS.versus(PAPER, at_least=0.05),),
)

STUDIES = (RATE, SCALE, TRAINING, PARTS_STUDY, AGAIN)

SIZE = (7.2, 7.6)
COLUMNS = (("rate", "scale", "again"), ("training", "parts"))
TITLES = {
    "rate": "learning rate", "scale": "initial scale", "again": "other seeds",
    "training": "other settings", "parts": "frozen at first",
}  # fmt: skip


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """The share of the networks of each cell that bind, and that use banned slots; a line at the share that binds with
    the paper's settings."""
    widths = [40 + max(len(cell) for name in names for cell in tables[name].cells) for names in COLUMNS]
    parts = figure.subfigures(1, len(COLUMNS), squeeze=False, width_ratios=widths)[0]
    for names, part in zip(COLUMNS, parts, strict=True):
        heights = [2 + len(tables[name].cells) for name in names]
        panels = part.subplots(len(names), squeeze=False, sharex=True, height_ratios=heights)[:, 0]
        for name, axes in zip(names, panels, strict=True):
            draw_shares(tables[name], axes)
        panels[-1].set_xlabel("share of networks (95 % interval)")
    figure.legend(*panels[-1].get_legend_handles_labels(), loc="outside upper center", ncols=3)


def draw_shares(table: StudyTable, axes: Axes) -> None:
    """A row for each cell of one study."""
    for outcome, color, shift in (("binds", COLORS.vermilion, -0.14), ("refines", COLORS.green, 0.14)):
        shares = {cell: table.share(cell, outcome) for cell in table.cells}
        draw_intervals(axes, shares, color, table.study.column_meanings[outcome], shift)
    papers = next(cell.label for cell in table.study.cells if not cell.settings)
    if paper := table.share(papers, "binds"):
        axes.axvline(
            paper.value, color=COLORS.grey, linestyle="--", linewidth=0.9, label="bind with the paper's settings"
        )
    axes.set(xlim=(-0.03, 1.03), title=f"{TITLES[table.study.name]} ({table.study.seeds} seeds a row)")
