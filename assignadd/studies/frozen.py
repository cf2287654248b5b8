"""Studies with one part of the network frozen, or literal sums left out, for some steps: when must what learn?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from assignadd.dynamics.phases import BINDING_SET, BINDING_THRESHOLD
from assignadd.studies.study import PAPER, RECORD, Cell, ComputedHypothesis, Hypothesis, Study, slug, study_base
from assignadd.studies.table import Estimate, StudyTable, early_column
from assignadd.verdicts import AtLeast, AtMost

if TYPE_CHECKING:
    import polars

FREE = "nothing frozen"
PARTS = ("W_E", "QK1", "OV1", "QK2", "OV2", "MLP2")
UNTIL = 2000
# Addition is learned in the first thousand steps with the paper's settings, binding most often after four thousand.
OF_MLP2 = (500, 8000)


def label(part: str, until: int = UNTIL) -> str:
    """The name of a cell, such as "QK1 until 2,000"."""
    return f"{part} until {until:,}"


def held(part: str, until: int) -> dict[str, Any]:
    """The settings with which a part keeps its initial weights until a step."""
    return {"optim.frozen": part, "optim.frozen_until": until}


def _cell(part: str, until: int = UNTIL) -> Cell:
    return Cell(label(part, until), held(part, until))


PARTS_STUDY = Study(
    name="parts",
    title="One part frozen at first",
    question="Which part must not learn early, or must, for a seed to bind? Does the ability to add block binding?",
    method=(
        f"The paper's task, network and settings. One part keeps its initial weights for the first {UNTIL:,} steps "
        "(the MLP also for 500 and 8,000) and is trained like the rest from then on."
    ),
    cells=(Cell(FREE), *map(_cell, PARTS), *(_cell("MLP2", until) for until in OF_MLP2)),
    seeds=32,
    hypotheses=(
        *(
            Hypothesis(
                f"study-parts-mlp2-{until}",
                f"With the MLP frozen until step {until:,}, more seeds bind than with nothing frozen.",
                "binds", label("MLP2", until), AtLeast(0), versus=FREE,
            )
            for until in (500, UNTIL, 8000)
        ),
        *(
            Hypothesis(
                f"study-parts-{slug(part)}",
                f"With {part} frozen until step {UNTIL:,}, at least half of the seeds bind.",
                "binds", label(part), AtLeast(0.5),
            )
            for part in PARTS if part != "MLP2"
        ),
    ),
)  # fmt: skip


AS_IN_THE_PAPER = "as in the paper"
LITERALS_FROM = (500, 2000, 8000)
# In the study `parts` the same two are frozen in the first 2,000 steps.
FROZEN_LATER = ("QK1", "MLP2")
WINDOWS = ((2000, 4000), (4000, 6000))


def withheld(until: int) -> str:
    """The name of a cell, such as "no literal sums until 2,000"."""
    return f"no literal sums until {until:,}"


def window(part: str, first: int, last: int) -> str:
    """The name of a cell, such as "QK1 frozen from 2,000 until 4,000"."""
    return f"{part} frozen from {first:,} until {last:,}"


def window_cell(part: str, first: int, last: int) -> Cell:
    """A cell in which a part keeps the weights that it has at one step until another."""
    settings = {"optim.frozen": part, "optim.frozen_from": first, "optim.frozen_until": last}
    return Cell(window(part, first, last), settings)


def bound_without_literals(until: int, table: StudyTable) -> Estimate | None:
    """The share of networks that bind at the step at which literal sums come, in the evaluation then."""
    accuracies = table.values(withheld(until), early_column(BINDING_SET, until))
    return (
        Estimate.share(int((accuracies >= BINDING_THRESHOLD).sum()), len(accuracies)) if len(accuracies) > 1 else None
    )


ORDER = Study(
    name="order",
    title="Literal sums later, and parts frozen later",
    question="Does the ability to add literals block binding, can binding come first, and must a part be frozen early?",
    method=(
        "The paper's task, network and settings. In three cells training has no sequences without variables until a "
        "step, from which on the mix is the paper's. In four, as controls for the study `parts`, QK1 or the MLP keep "
        "the weights that they have at one step until 2,000 steps later, and are trained before and after. The "
        "seeds are those of `parts`."
    ),
    cells=(
        Cell(AS_IN_THE_PAPER),
        *(Cell(withheld(step), {"optim.literals_from": step}) for step in LITERALS_FROM),
        *(window_cell(part, a, b) for part in FROZEN_LATER for a, b in WINDOWS),
    ),
    seeds=32,
    early_steps=LITERALS_FROM,
    early=(BINDING_SET, "0-var train", "0-var add-restricted"),
    hypotheses=(
        *(
            Hypothesis(
                f"study-order-literals-{step}",
                f"Without literal sums until step {step:,}, more seeds bind than with them.",
                "binds", withheld(step), AtLeast(0), versus=AS_IN_THE_PAPER,
            )
            for step in LITERALS_FROM
        ),
        ComputedHypothesis(
            "study-order-reversed",
            f"Without any literal sums, at least half of the seeds bind by step {LITERALS_FROM[-1]:,}.",
            AtLeast(0.5), partial(bound_without_literals, LITERALS_FROM[-1]),
        ),
        *(
            Hypothesis(
                f"study-order-{slug(part)}-{a}",
                f"With {part} frozen from step {a:,} until {b:,}, more seeds bind than with nothing frozen.",
                "binds", window(part, a, b), AtLeast(0), versus=AS_IN_THE_PAPER,
            )
            for part in FROZEN_LATER for a, b in WINDOWS
        ),
    ),
)  # fmt: skip


LARGER = "initial scale 1.2"
AT_FIRST = ("W_E", "QK1", "OV1", "MLP2")

AGAIN = Study(
    name="again",
    title="Larger initial weights, or one part frozen at first, on fresh seeds",
    question="Do the changes after which all 32 seeds bound in `parts` and `training` do the same on other seeds?",
    method=(
        "The paper's task, network and settings with one change: initial weights of scale 1.2 in place of 0.8, or one "
        f"part frozen for the first {UNTIL:,} steps. The 48 seeds, 3000 to 3047, are used nowhere else."
    ),
    cells=(
        Cell(PAPER),
        Cell(LARGER, {"model.init_scale": 1.2}),
        *map(_cell, AT_FIRST),
    ),
    seeds=48,
    first_seed=3000,
    hypotheses=tuple(
        Hypothesis(
            f"study-again-{slug(cell)}",
            f"With {cell}, more seeds bind than with the paper's settings, by at least .05.",
            "binds", cell, AtLeast(0.05), versus=PAPER,
        )
        for cell in (LARGER, *map(label, AT_FIRST))
    ),
)  # fmt: skip


FIRST, LAST = 2000, 8000
AFTER = 9000
# Accuracies, and what layer 1 and QK2 attend to.
KNOWN = (
    BINDING_SET, "0-var add-restricted", "qk1_num_to_prev_var", "qk2_ov1_var_identity",
    "attn_l1_num_to_prev (1-var)", "attn_l1_equal_to_operands (1-var)", "attn_l2_equal_to_values (1-var)",
)  # fmt: skip


def bound_at(step: int) -> str:
    """The column that says whether a model binds at a step."""
    return f"binds at {step}"


def bound_columns(rows: polars.DataFrame, n: int) -> dict[str, bool | None]:
    """Whether a model binds when its part is released, and 1,000 steps later; None where it was not evaluated then."""
    accuracies = dict(zip(rows["step"], rows[BINDING_SET], strict=True))
    return {
        bound_at(step): accuracies[step] >= BINDING_THRESHOLD if step in accuracies else None for step in (LAST, AFTER)
    }


WINDOW = Study(
    name="window",
    title="One part frozen in the steps in which networks come to bind",
    question="Which part of the network has to learn for the first spike, in which networks come to bind?",
    method=(
        f"The paper's task, network and settings. One part keeps the weights that it has at step {FIRST:,} until step "
        f"{LAST:,}, and is trained before and after. Most networks that bind do so in these steps; a part that need "
        f"not change for it can be frozen. In four cells a part is frozen from the start until {UNTIL:,}, as in the "
        "study `again`, here with measures of layer 1. The seeds, 7000 to 7031, are used nowhere else."
    ),
    base=study_base(steps=15_000, record=replace(RECORD, measure_every=1000)),
    cells=(
        Cell(FREE),
        *(window_cell(part, FIRST, LAST) for part in PARTS),
        *map(_cell, AT_FIRST),
    ),
    seeds=32,
    first_seed=7000,
    early_steps=(FIRST, 4000, LAST, AFTER),
    early=KNOWN,
    of_curves=bound_columns,
    outcomes=("adds", "binds", bound_at(LAST)),
    hypotheses=tuple(
        statement
        for part in PARTS
        for statement in (
            Hypothesis(
                f"study-window-fewer-{slug(part)}",
                f"With {part} frozen from step {FIRST:,} on, fewer networks bind at step {LAST:,} than with nothing "
                "frozen, by at least .3.",
                bound_at(LAST), window(part, FIRST, LAST), AtMost(-0.3), versus=FREE,
            ),
            Hypothesis(
                f"study-window-after-{slug(part)}",
                f"With {part} released at step {LAST:,}, as many networks bind at step {AFTER:,} as with nothing "
                "frozen, or at most .1 fewer.",
                bound_at(AFTER), window(part, FIRST, LAST), AtLeast(-0.1), versus=FREE,
            ),
        )
    ),
)  # fmt: skip
