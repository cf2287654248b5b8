"""Study `transplant`: does one part of a network that binds make others bind, at the start or in a stuck network?"""

from __future__ import annotations

from itertools import product
from typing import Any

from assignadd.studies.parts import PARTS
from assignadd.studies.study import Cell, Hypothesis, Study, slug, study_base
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


def held(part: str) -> dict[str, Any]:
    """The settings with which a part keeps its weights until the end."""
    return {"optim.frozen": part, "optim.frozen_until": STEPS}


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
    return free, Cell(given(part, frozen=True), of_part | held(part), INITIAL_GIVEN)


def _cells_from_stuck_networks(part: str) -> tuple[Cell, ...]:
    of_part = {"start.part": part}
    return (
        Cell(stuck(part), of_part, PLATEAU_GIVEN),
        Cell(stuck(part, "given, frozen"), of_part | held(part), PLATEAU_GIVEN),
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
    outcomes=("adds", "binds", "refines"),
    numbers=("addition at", "binding at"),
    hypotheses=(
        Hypothesis(
            "study-transplant-as-it-is",
            "Trained on as they are, at most half of the stuck networks come to bind.",
            "binds", AS_IT_IS, AtMost(0.5),
        ),
        *(statement for part in PARTS for statement in _statements(part)),
    ),
)  # fmt: skip
