"""Study `reset`: what becomes of trained networks, stuck or not, if one part is set to initial weights and frozen?"""

from __future__ import annotations

from functools import partial

from assignadd.stats import wilson
from assignadd.studies.parts import PARTS
from assignadd.studies.plateau import LAYER_1
from assignadd.studies.study import Cell, ComputedHypothesis, Study, slug, study_base
from assignadd.studies.table import Estimate, StudyTable
from assignadd.studies.transplant import STEPS, held
from assignadd.verdicts import AtLeast, AtMost

FIRST_SEED, SEEDS = 8000, 32
RUN = "before-reset"
COMMAND = (
    f"assignadd train --preset paper --seeds {FIRST_SEED}..{FIRST_SEED + SEEDS - 1} --optim.steps {STEPS} "
    f"--record.eval_every 1000 --record.checkpoint_every {STEPS} --record.state_every {STEPS} --out runs/{RUN}"
)
AS_IT_IS = "as it is"


def reset(part: str, frozen: bool = True) -> str:
    """The name of a cell, such as "QK1 reset, frozen"."""
    return f"{part} reset{', frozen' * frozen}"


def binding(part: str, as_it_is: bool, frozen: bool, table: StudyTable) -> Estimate | None:
    """The share that binds with a part reset, of the networks that bind as they are, or of those that do not."""
    own = dict(table.cells[AS_IT_IS].select("seed", "binds").iter_rows())
    rows = table.cells[reset(part, frozen)].select("seed", "binds").iter_rows()
    found = [binds for seed, binds in rows if own.get(seed) is as_it_is]
    if len(found) < 2:
        return None
    ends = wilson(sum(found), len(found))
    return Estimate(sum(found) / len(found), ends.low, ends.high, len(found))


_SEEDS = range(FIRST_SEED, FIRST_SEED + SEEDS)
# Data that the network has not been trained on; initial weights of another seed than its own.
TRAINED = tuple({"start.network": f"{RUN}:{seed}", "seed.data": seed + 1000} for seed in _SEEDS)
RESET = tuple(own | {"start.part_from": f"initial:{seed + 2000}"} for own, seed in zip(TRAINED, _SEEDS, strict=True))


def _rescued(part: str, frozen: bool, suffix: str) -> ComputedHypothesis:
    return ComputedHypothesis(
        f"study-reset-stuck-{slug(part)}{suffix}",
        f"Of the networks that do not bind as they are, at least half come to bind with {reset(part, frozen)}.",
        AtLeast(0.5), partial(binding, part, False, frozen),
    )  # fmt: skip


RESET_STUDY = Study(
    name="reset",
    title="One part of trained networks reset",
    question="Which part of a stuck network keeps it from binding, and which part do networks that bind need?",
    method=(
        f"All {SEEDS} networks of a run of the paper's settings, {STEPS:,} steps long (`{COMMAND}`, which has to be "
        f"trained first), are trained for {STEPS:,} steps more on new data: as they are, or with one part set to "
        "initial weights of another seed, which is trained on or frozen until the end. Moments of AdamW start at zero. "
        "A network that does not bind in the cell `as it is` counts as stuck. The seeds are used nowhere else."
    ),
    base=study_base(steps=STEPS),
    cells=(
        Cell(AS_IT_IS, models=TRAINED),
        *(Cell(reset(part), {"start.part": part, **held(part)}, RESET) for part in PARTS),
        *(Cell(reset(part, frozen=False), {"start.part": part}, RESET) for part in LAYER_1),
    ),
    seeds=SEEDS,
    first_seed=FIRST_SEED,
    outcomes=("adds", "binds", "refines"),
    numbers=("addition at", "binding at"),
    hypotheses=(
        *(_rescued(part, True, "") for part in PARTS),
        *(_rescued(part, False, "-free") for part in LAYER_1),
        *(
            ComputedHypothesis(
                f"study-reset-bound-{slug(part)}",
                f"Of the networks that bind as they are, at most half bind with {reset(part)}.",
                AtMost(0.5), partial(binding, part, True, True),
            )
            for part in PARTS
        ),
    ),
)  # fmt: skip
