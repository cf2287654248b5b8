"""Studies with one part of a network replaced: by that of a network that binds, or by initial weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

from assignadd.studies.frozen import PARTS, held
from assignadd.studies.study import Cell, ComputedHypothesis, Hypothesis, Study, by_unit, slug, study_base
from assignadd.studies.table import Estimate, StudyTable
from assignadd.verdicts import AtLeast, AtMost

STEPS = 15_000
# Seeds of the run census-six that bind, and those that never do (results/README.md).
BIND, STUCK = (0, 3, 4), (1, 2, 15)
NOTHING, AS_IT_IS = "nothing given", "stuck, as it is"
FIRST_SEED = 5000
REPEATS = 9
"""Networks in the cells from the start for each network that binds."""


def given(part: str, frozen: bool = False) -> str:
    """The name of a cell that starts from initial weights, such as "QK1 given, frozen"."""
    return f"{part} given{', frozen' * frozen}"


def stuck(part: str, how: str = "given") -> str:
    """The name of a cell that starts from a stuck network, such as "stuck, QK1 given"."""
    return f"stuck, {part} {how}"


def network(seed: int) -> str:
    """A seed of census-six, as `start.network` has it."""
    return f"census-six:{seed}"


# Initial weights and split are those of the network that the part is from: in the weights of its own seed a part finds
# more of what it was trained with, and pairs of numbers that are held out were held out for it too.
INITIAL = tuple({"seed.init": seed, "seed.split": seed} for _ in range(REPEATS) for seed in BIND)
INITIAL_GIVEN = tuple(own | {"start.part_from": network(own["seed.init"])} for own in INITIAL)
# Every stuck network with a part of every one that binds; the split is the stuck network's.
PAIRS = tuple(product(BIND, STUCK))
PLATEAU = tuple({"start.network": network(seed), "seed.split": seed} for _, seed in PAIRS)
PLATEAU_GIVEN = tuple(own | {"start.part_from": network(donor)} for own, (donor, _) in zip(PLATEAU, PAIRS, strict=True))
PLATEAU_RESET = tuple(own | {"start.part_from": f"initial:{i}"} for i, own in enumerate(PLATEAU, FIRST_SEED))


def _cells_from_the_start(part: str) -> tuple[Cell, ...]:
    of_part = {"start.part": part}
    free = Cell(given(part), of_part, INITIAL_GIVEN)
    return free, Cell(given(part, frozen=True), of_part | held(part, STEPS), INITIAL_GIVEN)


def _cells_from_stuck_networks(part: str) -> tuple[Cell, ...]:
    of_part = {"start.part": part}
    return (
        Cell(stuck(part), of_part, PLATEAU_GIVEN),
        Cell(stuck(part, "given, frozen"), of_part | held(part, STEPS), PLATEAU_GIVEN),
        Cell(stuck(part, "reset"), of_part, PLATEAU_RESET),
    )


def _statements(part: str) -> tuple[Hypothesis, ...]:
    return (
        Hypothesis(
            f"study-transplant-start-{slug(part)}",
            f"Given {part} of a network that binds at the start, more networks bind than with nothing given.",
            "binds", given(part), AtLeast(0), versus=NOTHING,
        ),
        Hypothesis(
            f"study-transplant-stuck-{slug(part)}",
            f"Given {part} of a network that binds, at least half of the stuck networks come to bind.",
            "binds", stuck(part), AtLeast(0.5),
        ),
        Hypothesis(
            f"study-transplant-learned-{slug(part)}",
            f"Given {part} of a network that binds, more stuck networks come to bind than with initial weights of it.",
            "binds", stuck(part), AtLeast(0), versus=stuck(part, "reset"),
        ),
    )  # fmt: skip


TRANSPLANT = Study(
    name="transplant",
    title="One part of a network that binds",
    question="Does one part of a network that binds make other networks bind: at the start, or once they are stuck?",
    method=(
        f"The paper's task, network and settings. A part is taken from seed {BIND[0]}, {BIND[1]} or {BIND[2]} of the "
        "run census-six, which bind, after 50,000 steps, and is trained on or frozen until the end. From the start, "
        "all other weights are the initial ones of the same seed, data differ. Stuck networks are seeds "
        f"{STUCK[0]}, {STUCK[1]} and {STUCK[2]} of the same run, trained on with new data, each with a part of each of "
        "the three; two seeds share no basis of the residual stream, so that a given part is a disturbance too: in the "
        "control, `reset`, the part has initial weights of another seed. Moments of AdamW start at zero everywhere. "
        f"The seeds of the data, from {FIRST_SEED} on, are used nowhere else."
    ),
    base=study_base(steps=STEPS),
    cells=(
        Cell(NOTHING, models=INITIAL),
        *(cell for part in PARTS for cell in _cells_from_the_start(part)),
        Cell(AS_IT_IS, models=PLATEAU),
        *(cell for part in PARTS for cell in _cells_from_stuck_networks(part)),
    ),
    seeds=len(INITIAL),
    first_seed=FIRST_SEED,
    hypotheses=(
        Hypothesis(
            "study-transplant-as-it-is",
            "Trained on as they are, at most half of the stuck networks come to bind.",
            "binds", AS_IT_IS, AtMost(0.5),
        ),
        *(statement for part in PARTS for statement in _statements(part)),
    ),
)  # fmt: skip


# Each of three networks is trained several times: it is the unit, and its split tells which one it is.
TRANSPLANT = replace(TRANSPLANT, hypotheses=by_unit(TRANSPLANT.hypotheses, "seed.split"))

PLATEAU_SEED = 6000
PLATEAU_REPEATS, REPEATS_FROM_START = 6, 9
"""Networks in a cell for each stuck network, and for the initial weights of each."""
# Given and frozen, each of these made every stuck network bind in the study `transplant`.
LAYER_1 = ("W_E", "QK1", "OV1")
GIVEN_FROZEN, RESET_FROZEN, OWN_FROZEN = "given, frozen", "reset, frozen", "its own, frozen"

STUCK_MODELS = tuple(
    {"start.network": network(seed), "seed.split": seed} for _ in range(PLATEAU_REPEATS) for seed in STUCK
)
STUCK_RESET = tuple(own | {"start.part_from": f"initial:{i}"} for i, own in enumerate(STUCK_MODELS, PLATEAU_SEED))
# Every stuck network with a part of every one that binds, twice, with other data than in `transplant`.
STUCK_GIVEN = tuple(
    {"start.network": network(seed), "seed.split": seed, "start.part_from": network(donor)}
    for donor, seed in (*product(BIND, STUCK), *product(BIND, STUCK))
)
# The initial weights and splits of the seeds that are stuck in census-six; parts come from each network that binds.
STUCK_START = tuple({"seed.init": seed, "seed.split": seed} for _ in range(REPEATS_FROM_START) for seed in STUCK)
DONORS = [donor for donor in BIND for _ in STUCK] * (REPEATS_FROM_START // len(BIND))
STUCK_START_GIVEN = tuple(own | {"start.part_from": network(d)} for own, d in zip(STUCK_START, DONORS, strict=True))


def _of_part(part: str) -> tuple[Cell, ...]:
    replaced = {"start.part": part, **held(part, STEPS)}
    cells = (
        Cell(stuck(part, OWN_FROZEN), held(part, STEPS), STUCK_MODELS),
        Cell(stuck(part, RESET_FROZEN), replaced, STUCK_RESET),
    )
    return (*cells, Cell(stuck(part, GIVEN_FROZEN), replaced, STUCK_GIVEN)) if part in LAYER_1 else cells


PLATEAU_STUDY = Study(
    name="plateau",
    title="A part of a stuck network replaced and frozen",
    question="In a stuck network that binds once it is given a part: is it what the part has learned, or the change?",
    method=(
        "Controls for the study `transplant`, with the same three stuck networks of census-six, other data and other "
        f"initial weights: seeds from {PLATEAU_SEED} on, used nowhere else. A part is frozen for all {STEPS:,} steps "
        "as it is in the stuck network, with initial weights of another seed, or with the weights of a network that "
        "binds. In four cells training starts from the initial weights of the stuck seeds; in three of these a part of "
        "a network that binds is given and frozen."
    ),
    base=study_base(steps=STEPS),
    cells=(
        Cell(AS_IT_IS, models=STUCK_MODELS),
        *(cell for part in PARTS for cell in _of_part(part)),
        Cell(NOTHING, models=STUCK_START),
        *(
            Cell(given(part, frozen=True), {"start.part": part, **held(part, STEPS)}, STUCK_START_GIVEN)
            for part in LAYER_1
        ),
    ),
    seeds=len(STUCK_START),
    first_seed=PLATEAU_SEED,
    hypotheses=(
        *(
            Hypothesis(
                f"study-plateau-given-{slug(part)}",
                f"Given {part} of a network that binds, frozen, at least half of the stuck networks come to bind.",
                "binds", stuck(part, GIVEN_FROZEN), AtLeast(0.5),
            )
            for part in LAYER_1
        ),
        *(
            Hypothesis(
                f"study-plateau-learned-{slug(part)}",
                f"Given {part} of a network that binds, frozen, more stuck networks come to bind than with initial "
                "weights of it, frozen.",
                "binds", stuck(part, GIVEN_FROZEN), AtLeast(0), versus=stuck(part, RESET_FROZEN),
            )
            for part in LAYER_1
        ),
        *(
            Hypothesis(
                f"study-plateau-own-{slug(part)}",
                f"With {part} frozen as it is, at most half of the stuck networks come to bind.",
                "binds", stuck(part, OWN_FROZEN), AtMost(0.5),
            )
            for part in PARTS
        ),
        *(
            Hypothesis(
                f"study-plateau-reset-{slug(part)}",
                f"With initial weights of {part}, frozen, at least half of the stuck networks come to bind.",
                "binds", stuck(part, RESET_FROZEN), AtLeast(0.5),
            )
            for part in PARTS
        ),
        *(
            Hypothesis(
                f"study-plateau-start-{slug(part)}",
                f"Given {part} of a network that binds, frozen, at the start, more networks bind than with nothing "
                "given.",
                "binds", given(part, frozen=True), AtLeast(0), versus=NOTHING,
            )
            for part in LAYER_1
        ),
    ),
)  # fmt: skip


PLATEAU_STUDY = replace(PLATEAU_STUDY, hypotheses=by_unit(PLATEAU_STUDY.hypotheses, "seed.split"))

RESET_SEED, RESET_SEEDS = 8000, 32
RESET_RUN = "before-reset"
RESET_COMMAND = (
    f"assignadd train --preset paper --seeds {RESET_SEED}..{RESET_SEED + RESET_SEEDS - 1} --optim.steps {STEPS} "
    f"--record.eval_every 1000 --record.checkpoint_every {STEPS} --record.state_every {STEPS} --out runs/{RESET_RUN}"
)
TRAINED_ON = "as it is"


def reset(part: str, frozen: bool = True) -> str:
    """The name of a cell, such as "QK1 reset, frozen"."""
    return f"{part} reset{', frozen' * frozen}"


def binding(part: str, as_it_is: bool, frozen: bool, table: StudyTable) -> Estimate | None:
    """The share that binds with a part reset, of the networks that bind as they are, or of those that do not."""
    own = dict(table.cells[TRAINED_ON].select("seed", "binds").iter_rows())
    rows = table.cells[reset(part, frozen)].select("seed", "binds").iter_rows()
    found = [binds for seed, binds in rows if own.get(seed) is as_it_is]
    return Estimate.share(sum(found), len(found)) if len(found) > 1 else None


_SEEDS = range(RESET_SEED, RESET_SEED + RESET_SEEDS)
# Data that the network has not been trained on; initial weights of another seed than its own.
TRAINED = tuple({"start.network": f"{RESET_RUN}:{seed}", "seed.data": seed + 1000} for seed in _SEEDS)
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
        f"All {RESET_SEEDS} networks of a run of the paper's settings, {STEPS:,} steps long (`{RESET_COMMAND}`, "
        f"which has to be trained first), are trained for {STEPS:,} steps more on new data: as they are, or with one "
        "part set to initial weights of another seed, which is trained on or frozen until the end. Moments of AdamW "
        "start at zero. A network that does not bind in the cell `as it is` counts as stuck. The seeds are used "
        "nowhere else."
    ),
    base=study_base(steps=STEPS),
    cells=(
        Cell(TRAINED_ON, models=TRAINED),
        *(Cell(reset(part), {"start.part": part, **held(part, STEPS)}, RESET) for part in PARTS),
        *(Cell(reset(part, frozen=False), {"start.part": part}, RESET) for part in LAYER_1),
    ),
    seeds=RESET_SEEDS,
    first_seed=RESET_SEED,
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
