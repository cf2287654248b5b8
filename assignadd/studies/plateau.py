"""Study `plateau`: is it the weights of a network that binds that help a stuck one, or that a part is replaced?"""

from __future__ import annotations

from itertools import product

from assignadd.studies.parts import PARTS
from assignadd.studies.study import Cell, Hypothesis, Study, slug, study_base
from assignadd.studies.transplant import AS_IT_IS, BIND, NOTHING, STEPS, STUCK, given, held, network, stuck
from assignadd.verdicts import AtLeast, AtMost

FIRST_SEED = 6000
REPEATS, REPEATS_FROM_START = 6, 9
"""Networks in a cell for each stuck network, and for the initial weights of each."""
# Given and frozen, each of these made every stuck network bind in the study `transplant`.
LAYER_1 = ("W_E", "QK1", "OV1")
GIVEN_FROZEN, RESET_FROZEN, OWN_FROZEN = "given, frozen", "reset, frozen", "its own, frozen"

PLATEAU = tuple({"start.network": network(seed), "seed.split": seed} for _ in range(REPEATS) for seed in STUCK)
RESET = tuple(own | {"start.part_from": f"initial:{i}"} for i, own in enumerate(PLATEAU, FIRST_SEED))
# Every stuck network with a part of every one that binds, twice, with other data than in `transplant`.
GIVEN = tuple(
    {"start.network": network(seed), "seed.split": seed, "start.part_from": network(donor)}
    for donor, seed in (*product(BIND, STUCK), *product(BIND, STUCK))
)
# The initial weights and splits of the seeds that are stuck in census-six; parts come from each network that binds.
INITIAL = tuple({"seed.init": seed, "seed.split": seed} for _ in range(REPEATS_FROM_START) for seed in STUCK)
DONORS = [donor for donor in BIND for _ in STUCK] * (REPEATS_FROM_START // len(BIND))
INITIAL_GIVEN = tuple(own | {"start.part_from": network(d)} for own, d in zip(INITIAL, DONORS, strict=True))


def _of_part(part: str) -> tuple[Cell, ...]:
    replaced = {"start.part": part, **held(part)}
    cells = Cell(stuck(part, OWN_FROZEN), held(part), PLATEAU), Cell(stuck(part, RESET_FROZEN), replaced, RESET)
    return (*cells, Cell(stuck(part, GIVEN_FROZEN), replaced, GIVEN)) if part in LAYER_1 else cells


PLATEAU_STUDY = Study(
    name="plateau",
    title="A part of a stuck network replaced and frozen",
    question="In a stuck network that binds once it is given a part: is it what the part has learned, or the change?",
    method=(
        "Controls for the study `transplant`, with the same three stuck networks of census-six, other data and other "
        f"initial weights: seeds from {FIRST_SEED} on, used nowhere else. A part is frozen for all {STEPS:,} steps as "
        "it is in the stuck network, with initial weights of another seed, or with the weights of a network that "
        "binds. In four cells training starts from the initial weights of the stuck seeds; in three of these a part of "
        "a network that binds is given and frozen."
    ),
    base=study_base(steps=STEPS),
    cells=(
        Cell(AS_IT_IS, models=PLATEAU),
        *(cell for part in PARTS for cell in _of_part(part)),
        Cell(NOTHING, models=INITIAL),
        *(Cell(given(part, frozen=True), {"start.part": part, **held(part)}, INITIAL_GIVEN) for part in LAYER_1),
    ),
    seeds=len(INITIAL),
    first_seed=FIRST_SEED,
    outcomes=("adds", "binds", "refines"),
    numbers=("addition at", "binding at"),
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
