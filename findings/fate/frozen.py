"""Study `window`: which part of the network has to learn in the steps in which networks come to bind?"""

from dataclasses import replace
from typing import Any

import polars

from assignadd.dynamics import BINDING
from assignadd.study import BASE, Cell, Study, share

PARTS = ("W_E", "QK1", "OV1", "QK2", "OV2", "MLP2")
FREE = "nothing frozen"
FIRST, LAST, AFTER = 2000, 8000, 9000
# Accuracies, and what layer 1 and QK2 attend to.
KNOWN = (
    BINDING.set, "0-var add-restricted", "qk1_num_to_prev_var", "qk2_ov1_var_identity",
    "attn_l1_num_to_prev (1-var)", "attn_l1_equal_to_operands (1-var)", "attn_l2_equal_to_values (1-var)",
)  # fmt: skip


def held(part: str, until: int) -> dict[str, Any]:
    """The settings with which a part keeps the weights that it starts with until a step."""
    return {"optim.frozen": part, "optim.frozen_until": until}


def frozen(part: str) -> str:
    """The name of a cell, such as "QK1 frozen from 2,000 until 8,000"."""
    return f"{part} frozen from {FIRST:,} until {LAST:,}"


def bound_at(step: int) -> str:
    """The column that says whether a model binds at a step."""
    return f"binds at {step}"


def bound_columns(rows: polars.DataFrame, n: int) -> dict[str, bool | None]:
    """Whether a model binds when its part is released, and 1,000 steps later; None where it was not evaluated then."""
    accuracies = dict(zip(rows["step"], rows[BINDING.set], strict=True))
    return {bound_at(step): accuracies[step] >= BINDING.level if step in accuracies else None for step in (LAST, AFTER)}


WINDOW = Study(
    "window",
    "Which part of the network has to learn for the first spike, in which networks come to bind?",
    cells=(
        Cell(FREE),
        *(Cell(frozen(part), {**held(part, LAST), "optim.frozen_from": FIRST}) for part in PARTS),
        *(Cell(f"{part} until {FIRST:,}", held(part, FIRST)) for part in ("W_E", "QK1", "OV1", "MLP2")),
    ),
    seeds=32,
    first_seed=7000,
    base=replace(BASE, record=replace(BASE.record, measure_every=1000)),
    early_steps=(FIRST, 4000, LAST, AFTER),
    early=KNOWN,
    of_curves=bound_columns,
    columns={bound_at(step): f"bind at step {step:,}" for step in (LAST, AFTER)},
    outcomes=("adds", "binds", bound_at(LAST)),
    ask=tuple(
        question
        for part in PARTS
        for question in (
            share(bound_at(LAST)).of(frozen(part)).versus(FREE, at_most=-0.3),
            share(bound_at(AFTER)).of(frozen(part)).versus(FREE, at_least=-0.1),
        )
    ),
)
