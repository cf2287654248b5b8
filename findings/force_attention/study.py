"""Are stuck networks freed if `=` is made to attend to the variable in layer 1 for 2,000 steps?"""

from collections.abc import Mapping
from functools import partial

from matplotlib.figure import Figure

from assignadd.dynamics import BINDING
from assignadd.figure import COLORS, draw_intervals
from assignadd.ledger import AtLeast, AtMost, Measured
from assignadd.study import BASE, Cell, Computed, Study, StudyTable

FROM, UNTIL = 2000, 4000
# Cells by what is added to the score of `=` for slots with a variable, in layer 1 and for 2,000 steps.
SCORES = {2.0: "score + 2", 5.0: "score + 5", 10.0: "score + 10", -10.0: "score - 10"}
UNTOUCHED, AGAIN = "untouched", "untouched, other rounding"


def binding(cell: str, untouched_binds: bool, table: StudyTable) -> Measured | None:
    """The share of a cell that binds, of the seeds that bind if untouched, or of those that do not."""
    fates = dict(table.cells[UNTOUCHED].select("seed", "binds").iter_rows())
    rows = table.cells[cell].select("seed", "binds").iter_rows()
    outcomes = [binds for seed, binds in rows if fates.get(seed) is untouched_binds]
    return Measured.share(sum(outcomes), len(outcomes), "networks") if len(outcomes) > 1 else None


def stated(identifier: str, cell: str, untouched_binds: bool, rule: AtLeast | AtMost) -> Computed:
    """The statement about the seeds of a cell that bind if untouched, or about those that do not."""
    says = f"{cell}: of the seeds that {'bind' if untouched_binds else 'do not bind'} if untouched, {rule} bind."
    return Computed(identifier, says, partial(binding, cell, untouched_binds), rule)


STUDY = Study(
    "force-attention",
    "Are stuck networks freed if = is made to attend to the variable in layer 1, and others stuck if it is kept away?",
    cells=(
        Cell(UNTOUCHED),
        *(
            Cell(label, {"optim.slot_score": score, "optim.slot_score_from": FROM, "optim.slot_score_until": UNTIL})
            for score, label in SCORES.items()
        ),
        Cell(AGAIN, {"optim.lr": BASE.optim.lr * (1 + 1e-6)}),
    ),
    seeds=64,
    first_seed=20_000,
    steps=30_000,
    early=(BINDING.set,),
    early_steps=(FROM, UNTIL, 8000),
    ask=(
        *(stated(f"freed-plus-{score}", SCORES[score], False, AtLeast(0.5)) for score in (2, 5, 10)),
        stated("freed-other-rounding", AGAIN, False, AtMost(0.5)),
        stated("prevented-minus-10", SCORES[-10], True, AtMost(0.5)),
    ),
)

SIZE = (6.0, 2.8)


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """The share that binds in each cell, of the seeds that bind if untouched and of the others."""
    table, axes = tables[STUDY.name], figure.subplots()
    words = {AGAIN: "unchanged,\nother rounding", SCORES[-10]: "10\nsubtracted"}
    words |= {SCORES[score]: f"{score}\nadded" for score in (2, 5, 10)}
    for binds, color, label, shift in (
        (True, COLORS.blue, "bind if untouched", 0.05),
        (False, COLORS.vermilion, "do not", -0.05),
    ):
        shares = {word: binding(cell, binds, table) for cell, word in words.items()}
        n = next(share.n for share in shares.values() if share)
        draw_intervals(axes, shares, color, f"the {n} seeds that {label}", shift, across=False)
    axes.set(ylim=(-0.03, 1.03), ylabel="share that binds (95 % interval)")
    axes.set_xlabel(f"score of = for a variable's slot in layer 1, steps {FROM:,} to {UNTIL:,}")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.17), ncols=2)
