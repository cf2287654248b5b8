"""Studies `plateau` and `reset`: one part of a network is replaced by that of another one, or by initial weights."""

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


def given(part: str) -> str:
    """The name of a cell that starts from initial weights, such as "QK1 given, frozen"."""
    return f"{part} given, frozen"


def stuck(part: str, how: str) -> str:
    """The name of a cell that starts from a stuck network, such as "stuck, QK1 reset, frozen"."""
    return f"stuck, {part} {how}"


def network(seed: int) -> str:
    """A seed of census-six, as `start.network` has it."""
    return f"census-six:{seed}"


PLATEAU_SEED = 6000
# Networks in a cell for each stuck network, and for the initial weights of each.
FROM_STUCK, FROM_START = 6, 9
STUCK_MODELS = tuple({"start.network": network(seed), UNIT: seed} for _ in range(FROM_STUCK) for seed in STUCK)
STUCK_RESET = tuple(model | {"start.part_from": f"initial:{i}"} for i, model in enumerate(STUCK_MODELS, PLATEAU_SEED))
# Every stuck network with a part of every one that binds, twice.
STUCK_GIVEN = (
    tuple(
        {"start.network": network(seed), UNIT: seed, "start.part_from": network(donor)}
        for donor, seed in product(BIND, STUCK)
    )
    * 2
)
# The initial weights and splits of the seeds that are stuck in census-six; parts come from each network that binds.
STUCK_START = tuple({"seed.init": seed, UNIT: seed} for _ in range(FROM_START) for seed in STUCK)
DONORS = [donor for donor in BIND for _ in STUCK] * (FROM_START // len(BIND))
STUCK_START_GIVEN = tuple(
    model | {"start.part_from": network(donor)} for model, donor in zip(STUCK_START, DONORS, strict=True)
)


def _plateau_cells(part: str) -> list[Cell]:
    """Stuck networks with one part frozen: unchanged, with initial weights, or given by a network that binds."""
    replaced = {"start.part": part, **held(part, STEPS)}
    cells = [
        Cell(stuck(part, OWN_FROZEN), held(part, STEPS), STUCK_MODELS),
        Cell(stuck(part, RESET_FROZEN), replaced, STUCK_RESET),
    ]
    if part in LAYER_1:
        cells.append(Cell(stuck(part, GIVEN_FROZEN), replaced, STUCK_GIVEN))
    return cells


PLATEAU = Study(
    "plateau",
    "In a stuck network that binds once it is given a part: is it what the part has learned, or the change?",
    cells=(
        Cell(UNCHANGED, models=STUCK_MODELS),
        *(cell for part in PARTS for cell in _plateau_cells(part)),
        Cell(NOTHING, models=STUCK_START),
        *(Cell(given(part), {"start.part": part, **held(part, STEPS)}, STUCK_START_GIVEN) for part in LAYER_1),
    ),
    seeds=len(STUCK_START),
    first_seed=PLATEAU_SEED,
    steps=STEPS,
    unit=UNIT,
    ask=(
        share("binds").of(*(stuck(part, GIVEN_FROZEN) for part in LAYER_1)).at_least(0.5),
        *(
            share("binds").of(stuck(part, GIVEN_FROZEN)).versus(stuck(part, RESET_FROZEN), at_least=0)
            for part in LAYER_1
        ),
        share("binds").of(*(stuck(part, OWN_FROZEN) for part in PARTS)).at_most(0.5),
        share("binds").of(*(stuck(part, RESET_FROZEN) for part in PARTS)).at_least(0.5),
        share("binds").of(*(given(part) for part in LAYER_1)).versus(NOTHING, at_least=0),
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
