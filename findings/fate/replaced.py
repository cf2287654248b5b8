"""Studies with one part of a network replaced: by that of a network that binds, or by initial weights."""

from __future__ import annotations

from functools import partial
from itertools import product

from assignadd.ledger import AtLeast, AtMost, Measured
from assignadd.study import Cell, Computed, Study, StudyTable, share

from .frozen import PARTS, held

STEPS = 15_000
# Seeds of the run census-six that bind, and those that never do.
BIND, STUCK = (0, 3, 4), (1, 2, 15)
LAYER_1 = ("W_E", "QK1", "OV1")
NOTHING, UNCHANGED = "nothing given", "stuck, as it is"
GIVEN_FROZEN, RESET_FROZEN, OWN_FROZEN = "given, frozen", "reset, frozen", "its own, frozen"
# Each of three networks is trained several times: it is the unit, and its split tells which one it is.
UNIT = "seed.split"


def given(part: str, frozen: bool = False) -> str:
    """The name of a cell that starts from initial weights, such as "QK1 given, frozen"."""
    return f"{part} given{', frozen' * frozen}"


def stuck(part: str, how: str = "given") -> str:
    """The name of a cell that starts from a stuck network, such as "stuck, QK1 given"."""
    return f"stuck, {part} {how}"


def network(seed: int) -> str:
    """A seed of census-six, as `start.network` has it."""
    return f"census-six:{seed}"


TRANSPLANT_SEED, TRANSPLANT_REPEATS = 5000, 9
# Initial weights and split are those of the network that the part is from: in the weights of its own seed a part finds
# more of what it was trained with, and pairs of numbers that are held out were held out for it too.
INITIAL = tuple({"seed.init": seed, UNIT: seed} for _ in range(TRANSPLANT_REPEATS) for seed in BIND)
INITIAL_GIVEN = tuple(model | {"start.part_from": network(model[UNIT])} for model in INITIAL)
# Every stuck network with a part of every one that binds; the split is the stuck network's.
PAIRS = tuple(product(BIND, STUCK))
TRAINED_ON = tuple({"start.network": network(seed), UNIT: seed} for _, seed in PAIRS)
PART_GIVEN = tuple(
    model | {"start.part_from": network(donor)} for model, (donor, _) in zip(TRAINED_ON, PAIRS, strict=True)
)
PART_RESET = tuple(model | {"start.part_from": f"initial:{i}"} for i, model in enumerate(TRAINED_ON, TRANSPLANT_SEED))

TRANSPLANT = Study(
    "transplant",
    "Does one part of a network that binds make other networks bind: at the start, or once they are stuck?",
    cells=(
        Cell(NOTHING, models=INITIAL),
        *(
            cell
            for part in PARTS
            for cell in (
                Cell(given(part), {"start.part": part}, INITIAL_GIVEN),
                Cell(given(part, frozen=True), {"start.part": part, **held(part, STEPS)}, INITIAL_GIVEN),
            )
        ),
        Cell(UNCHANGED, models=TRAINED_ON),
        *(
            cell
            for part in PARTS
            for cell in (
                Cell(stuck(part), {"start.part": part}, PART_GIVEN),
                Cell(stuck(part, GIVEN_FROZEN), {"start.part": part, **held(part, STEPS)}, PART_GIVEN),
                Cell(stuck(part, "reset"), {"start.part": part}, PART_RESET),
            )
        ),
    ),
    seeds=len(INITIAL),
    first_seed=TRANSPLANT_SEED,
    steps=STEPS,
    unit=UNIT,
    method=(
        f"The paper's task, network and settings. A part is taken from seed {BIND[0]}, {BIND[1]} or {BIND[2]} of the "
        "run census-six, which bind, after 50,000 steps, and is trained on or frozen until the end. From the start, "
        "all other weights are the initial ones of the same seed, data differ. Stuck networks are seeds "
        f"{STUCK[0]}, {STUCK[1]} and {STUCK[2]} of the same run, trained on with new data, each with a part of each of "
        "the three; two seeds share no basis of the residual stream, so that a given part is a disturbance too: in the "
        "control, `reset`, the part has initial weights of another seed. Moments of AdamW start at zero everywhere. "
        f"The seeds of the data, from {TRANSPLANT_SEED} on, are used nowhere else."
    ),
    ask=(
        share("binds").of(UNCHANGED).at_most(0.5),
        *(
            question
            for part in PARTS
            for question in (
                share("binds").of(given(part)).versus(NOTHING, at_least=0),
                share("binds").of(stuck(part)).at_least(0.5),
                share("binds").of(stuck(part)).versus(stuck(part, "reset"), at_least=0),
            )
        ),
    ),
)

PLATEAU_SEED = 6000
# Networks in a cell for each stuck network, and for the initial weights of each.
FROM_STUCK, FROM_START = 6, 9
STUCK_MODELS = tuple({"start.network": network(seed), UNIT: seed} for _ in range(FROM_STUCK) for seed in STUCK)
STUCK_RESET = tuple(model | {"start.part_from": f"initial:{i}"} for i, model in enumerate(STUCK_MODELS, PLATEAU_SEED))
# Every stuck network with a part of every one that binds, twice, with other data than in `transplant`.
STUCK_GIVEN = tuple(
    {"start.network": network(seed), UNIT: seed, "start.part_from": network(donor)} for donor, seed in (*PAIRS, *PAIRS)
)
# The initial weights and splits of the seeds that are stuck in census-six; parts come from each network that binds.
STUCK_START = tuple({"seed.init": seed, UNIT: seed} for _ in range(FROM_START) for seed in STUCK)
DONORS = [donor for donor in BIND for _ in STUCK] * (FROM_START // len(BIND))
STUCK_START_GIVEN = tuple(
    model | {"start.part_from": network(donor)} for model, donor in zip(STUCK_START, DONORS, strict=True)
)


def _plateau_cells(part: str) -> tuple[Cell, ...]:
    replaced = {"start.part": part, **held(part, STEPS)}
    cells = (
        Cell(stuck(part, OWN_FROZEN), held(part, STEPS), STUCK_MODELS),
        Cell(stuck(part, RESET_FROZEN), replaced, STUCK_RESET),
    )
    return (*cells, Cell(stuck(part, GIVEN_FROZEN), replaced, STUCK_GIVEN)) if part in LAYER_1 else cells


PLATEAU = Study(
    "plateau",
    "In a stuck network that binds once it is given a part: is it what the part has learned, or the change?",
    cells=(
        Cell(UNCHANGED, models=STUCK_MODELS),
        *(cell for part in PARTS for cell in _plateau_cells(part)),
        Cell(NOTHING, models=STUCK_START),
        *(
            Cell(given(part, frozen=True), {"start.part": part, **held(part, STEPS)}, STUCK_START_GIVEN)
            for part in LAYER_1
        ),
    ),
    seeds=len(STUCK_START),
    first_seed=PLATEAU_SEED,
    steps=STEPS,
    unit=UNIT,
    method=(
        "Controls for the study `transplant`, with the same three stuck networks of census-six, other data and other "
        f"initial weights: seeds from {PLATEAU_SEED} on, used nowhere else. A part is frozen for all {STEPS:,} steps "
        "unchanged, with initial weights of another seed, or with the weights of a network that binds. In four cells "
        "training starts from the initial weights of the stuck seeds; in three of these a part of a network that binds "
        "is given and frozen."
    ),
    ask=(
        share("binds").of(*(stuck(part, GIVEN_FROZEN) for part in LAYER_1)).at_least(0.5),
        *(
            share("binds").of(stuck(part, GIVEN_FROZEN)).versus(stuck(part, RESET_FROZEN), at_least=0)
            for part in LAYER_1
        ),
        share("binds").of(*(stuck(part, OWN_FROZEN) for part in PARTS)).at_most(0.5),
        share("binds").of(*(stuck(part, RESET_FROZEN) for part in PARTS)).at_least(0.5),
        share("binds").of(*(given(part, frozen=True) for part in LAYER_1)).versus(NOTHING, at_least=0),
    ),
)

RESET_SEEDS = range(8000, 8032)
RESET_RUN = "before-reset"
RESET_COMMAND = (
    f"assignadd train --preset paper --seeds {RESET_SEEDS[0]}..{RESET_SEEDS[-1]} --optim.steps {STEPS} "
    f"--record.eval_every 1000 --record.checkpoint_every {STEPS} --record.state_every {STEPS} --out runs/{RESET_RUN}"
)
AS_IT_IS = "as it is"
# Data that the network has not been trained on; initial weights of another seed than its own.
TRAINED = tuple({"start.network": f"{RESET_RUN}:{seed}", "seed.data": seed + 1000} for seed in RESET_SEEDS)
WITH_RESET = tuple(
    model | {"start.part_from": f"initial:{seed + 2000}"} for model, seed in zip(TRAINED, RESET_SEEDS, strict=True)
)


def reset(part: str, frozen: bool = True) -> str:
    """The name of a cell, such as "QK1 reset, frozen"."""
    return f"{part} reset{', frozen' * frozen}"


def binding(part: str, as_it_is: bool, frozen: bool, table: StudyTable) -> Measured | None:
    """The share that binds with a part reset, of the networks that bind as they are, or of those that do not."""
    unchanged = dict(table.cells[AS_IT_IS].select("seed", "binds").iter_rows())
    rows = table.cells[reset(part, frozen)].select("seed", "binds").iter_rows()
    outcomes = [binds for seed, binds in rows if unchanged.get(seed) is as_it_is]
    return Measured.share(sum(outcomes), len(outcomes), "networks") if len(outcomes) > 1 else None


def _id(part: str) -> str:
    """A part as it stands in an identifier: "W_E" is we."""
    return part.lower().replace("_", "")


def _rescued(part: str, frozen: bool) -> Computed:
    return Computed(
        f"stuck-{_id(part)}{'' if frozen else '-free'}",
        f"Of the networks that do not bind as they are, at least half come to bind with {reset(part, frozen)}.",
        partial(binding, part, False, frozen),
        AtLeast(0.5),
    )


RESET = Study(
    "reset",
    "Which part of a stuck network keeps it from binding, and which part do networks that bind need?",
    cells=(
        Cell(AS_IT_IS, models=TRAINED),
        *(Cell(reset(part), {"start.part": part, **held(part, STEPS)}, WITH_RESET) for part in PARTS),
        *(Cell(reset(part, frozen=False), {"start.part": part}, WITH_RESET) for part in LAYER_1),
    ),
    seeds=len(RESET_SEEDS),
    first_seed=RESET_SEEDS[0],
    steps=STEPS,
    method=(
        f"All {len(RESET_SEEDS)} networks of a run of the paper's settings, {STEPS:,} steps long (`{RESET_COMMAND}`, "
        f"which has to be trained first), are trained for {STEPS:,} steps more on new data: as they are, or with one "
        "part set to initial weights of another seed, which is trained on or frozen until the end. Moments of AdamW "
        "start at zero. A network that does not bind in the cell `as it is` counts as stuck. The seeds are used "
        "nowhere else."
    ),
    ask=(
        *(_rescued(part, frozen=True) for part in PARTS),
        *(_rescued(part, frozen=False) for part in LAYER_1),
        *(
            Computed(
                f"bound-{_id(part)}",
                f"Of the networks that bind as they are, at most half bind with {reset(part)}.",
                partial(binding, part, True, True),
                AtMost(0.5),
            )
            for part in PARTS
        ),
    ),
)
