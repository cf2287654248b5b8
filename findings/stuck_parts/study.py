"""Which part of a stuck network, when reset, frees it? Each stuck network counts once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from assignadd.figure import COLORS, draw_interval
from assignadd.study import Cell, Study, StudyTable, share

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = ("W_E", "QK1", "OV1", "QK2", "OV2", "MLP2")
LAYER_1 = PARTS[:3]
SEEDS = range(21_000, 21_160)
RUN, BEFORE, STEPS = "before-stuck-parts", 30_000, 15_000
RUN_COMMAND = (
    f"assignadd train --preset paper --seeds {SEEDS[0]}..{SEEDS[-1]} --optim.steps {BEFORE} --record.eval_every 250 "
    f"--record.eval_sequences 2000 --record.checkpoint_every {BEFORE} --record.state_every {BEFORE} "
    f"--device cuda --numerics.tf32 --out runs/{RUN}"
)
# Written by stuck.py once the run is trained; until then, every network is taken.
STUCK_FILE = Path(__file__).with_name("stuck.json")
STUCK = json.loads(STUCK_FILE.read_text()) if STUCK_FILE.exists() else list(SEEDS)
# Data that the network has not been trained on; initial weights of another seed than its own.
TRAINED = tuple({"start.network": f"{RUN}:{seed}", "seed.split": seed, "seed.data": seed + 1000} for seed in STUCK)
WITH_RESET = tuple(
    model | {"start.part_from": f"initial:{seed + 2000}"} for model, seed in zip(TRAINED, STUCK, strict=True)
)
AS_IT_IS = "nothing reset"


def reset(part: str, frozen: bool = True) -> str:
    """The name of a cell, such as "QK1 reset, frozen"."""
    return f"{part} reset{', frozen' * frozen}"


def cell(part: str, frozen: bool) -> Cell:
    """Stuck networks with a part at initial weights of another seed, frozen until the end or trained like the rest."""
    held = {"optim.frozen": part, "optim.frozen_until": STEPS} if frozen else {}
    return Cell(reset(part, frozen), {"start.part": part, **held}, WITH_RESET)


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
    method=(
        f"160 seeds are trained for {BEFORE:,} steps with the paper's settings (`{RUN_COMMAND}`). Those that do not "
        f"bind then (`stuck.json`) are trained for {STEPS:,} steps more on new data, each once in every cell: as they "
        "are, or with one part set to initial weights of another seed, which is frozen until the end or trained. "
        "Moments of AdamW start at zero. The seeds are used nowhere else."
    ),
    ask=(
        share("binds").of(*(reset(part) for part in PARTS)).at_least(0.5),
        share("binds").of(*(reset(part) for part in PARTS)).versus(AS_IT_IS, at_least=0),
        share("binds").of(*(reset(part, False) for part in LAYER_1)).at_least(0.5),
        share("binds").of(AS_IT_IS).at_most(0.5),
    ),
)

SIZE = (6.0, 3.0)


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """The share of stuck networks that come to bind, by the part that is reset."""
    table, axes = tables[STUDY.name], figure.subplots()
    rows = (AS_IT_IS, *PARTS)
    kinds = (
        ({AS_IT_IS: AS_IT_IS}, 0.0, COLORS.grey, "nothing reset"),
        ({part: reset(part) for part in PARTS}, -0.1, COLORS.blue, "reset and frozen"),
        ({part: reset(part, False) for part in LAYER_1}, 0.15, COLORS.vermilion, "reset and trained"),
    )
    for cells, shift, color, meaning in kinds:
        for n, (row, cell) in enumerate(cells.items()):
            if measured := table.share(cell, "binds"):
                name = meaning if n == 0 else None
                draw_interval(axes, measured, rows.index(row) + shift, color, across=True, label=name)
    axes.set_yticks(range(len(rows)), ["(control)", *PARTS])
    axes.invert_yaxis()
    axes.set(xlim=(-0.03, 1.03), xlabel=f"share of {len(STUCK)} stuck networks that come to bind (95 % interval)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=3)
