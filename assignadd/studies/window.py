"""Study `window`: which part has to learn for the first spike, in which networks come to bind?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from assignadd.dynamics.phases import BINDING_SET, binds
from assignadd.studies.again import FROZEN, UNTIL
from assignadd.studies.order import window
from assignadd.studies.parts import PARTS
from assignadd.studies.study import RECORD, Cell, Hypothesis, Study, slug, study_base
from assignadd.verdicts import AtLeast, AtMost

if TYPE_CHECKING:
    import polars

FREE = "nothing frozen"
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
    return {bound_at(step): binds(accuracies[step]) if step in accuracies else None for step in (LAST, AFTER)}


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
        *(
            Cell(
                window(part, FIRST, LAST),
                {"optim.frozen": part, "optim.frozen_from": FIRST, "optim.frozen_until": LAST},
            )
            for part in PARTS
        ),
        *(Cell(name, {"optim.frozen": part, "optim.frozen_until": UNTIL}) for name, part in FROZEN.items()),
    ),
    seeds=32,
    first_seed=7000,
    early_steps=(FIRST, 4000, LAST, AFTER),
    early=KNOWN,
    of_curves=bound_columns,
    outcomes=("adds", "binds", bound_at(LAST)),
    numbers=("addition at", "binding at"),
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
