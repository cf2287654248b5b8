"""Which part of a stuck network, when reset, frees it? Each stuck network counts once."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from assignadd.figure import COLORS, draw_intervals
from assignadd.study import Cell, Study, StudyTable, share

PARTS = ("W_E", "QK1", "OV1", "QK2", "OV2", "MLP2")
LAYER_1 = PARTS[:3]
RUN, STEPS = "before-stuck-parts", 15_000  # README.md has the command that trains the run
STUCK = json.loads(Path(__file__).with_name("stuck.json").read_text())  # README.md says how it is made
# Data that the network has not been trained on; initial weights of another seed than its own.
TRAINED = tuple({"start.network": f"{RUN}:{seed}", "seed.split": seed, "seed.data": seed + 1000} for seed in STUCK)
WITH_RESET = tuple(
    model | {"start.part_from": f"initial:{seed + 2000}"} for model, seed in zip(TRAINED, STUCK, strict=True)
)
AS_IT_IS = "nothing reset"


def reset(part: str, frozen: bool = True) -> str:
    """The name of a cell, such as "QK1 reset, frozen"."""
    return f"{part} reset{', frozen' * frozen}"


def held(part: str) -> dict[str, Any]:
    """Settings with which a part keeps the weights that it starts with."""
    return {"optim.frozen": part, "optim.frozen_until": STEPS}


def cell(part: str, frozen: bool) -> Cell:
    """Stuck networks with a part at initial weights of another seed, frozen until the end or trained like the rest."""
    return Cell(reset(part, frozen), {"start.part": part} | (held(part) if frozen else {}), WITH_RESET)


STUDY = Study(
    "stuck-parts",
    "Which part of a stuck network, when reset, frees it?",
    cells=(
        Cell(AS_IT_IS, models=TRAINED),
        *(cell(part, True) for part in PARTS),
        *(cell(part, False) for part in LAYER_1),
    ),
    seeds=len(STUCK),
    first_seed=24_000,
    steps=STEPS,
    ask=(
        share("binds").of(*(reset(part) for part in PARTS)).at_least(0.5),
        share("binds").of(*(reset(part) for part in PARTS)).versus(AS_IT_IS, at_least=0),
        share("binds").of(*(reset(part, False) for part in LAYER_1)).at_least(0.5),
        share("binds").of(AS_IT_IS).at_most(0.5),
    ),
)

# The networks of the run census-six that never bind, each trained six times; the split tells which one it is.
UNIT = "seed.split"
OF_SIX = tuple({"start.network": f"census-six:{seed}", UNIT: seed} for _ in range(6) for seed in (1, 2, 15))
AS_TRAINED = Study(
    "plateau",
    "Is a stuck network freed if a part is frozen as it is?",
    cells=(
        Cell("stuck, as it is", models=OF_SIX),
        *(Cell(f"stuck, {part} its own, frozen", held(part), OF_SIX) for part in PARTS),
    ),
    seeds=len(OF_SIX),
    first_seed=6000,
    steps=STEPS,
    unit=UNIT,
    ask=(share("binds").of(*(f"stuck, {part} its own, frozen" for part in PARTS)).at_most(0.5),),
)

STUDIES = (STUDY, AS_TRAINED)
SIZE = (6.0, 3.0)


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """The share of stuck networks that come to bind, by the part that is reset."""
    table, axes = tables[STUDY.name], figure.subplots()
    for frozen, shift, color, label in (
        (True, -0.1, COLORS.blue, "reset and frozen"),
        (False, 0.15, COLORS.vermilion, "reset and trained"),
    ):
        cells = {part: reset(part, frozen) for part in PARTS if reset(part, frozen) in table.cells}
        shares = {"none": None, **{part: table.share(cell, "binds") for part, cell in cells.items()}}
        draw_intervals(axes, shares, color, label, shift)
    shares = {"none": table.share(AS_IT_IS, "binds"), **dict.fromkeys(PARTS)}
    draw_intervals(axes, shares, COLORS.grey, "nothing reset")
    axes.set(xlim=(-0.03, 1.03), xlabel=f"share of {len(STUCK)} stuck networks that come to bind (95 % interval)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=3)
