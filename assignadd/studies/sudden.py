"""Study `sudden`: is the first rise of the accuracy as sudden if QK2 or W_E cannot change?"""

from __future__ import annotations

from assignadd.studies.order import window
from assignadd.studies.spikes import QK2_RISE, SHARP, SPIKES, SPIKES_STUDY, SpikeObserver, spike_columns
from assignadd.studies.study import Cell, Hypothesis, Study, slug, study_base
from assignadd.studies.window import FIRST, FREE
from assignadd.verdicts import AtLeast, AtMost

STEPS = 12_000
NEVER = "QK2 never trained"
FROZEN = {window(part, FIRST, STEPS): part for part in ("QK2", "W_E")}


SUDDEN = Study(
    name="sudden",
    title="The first spike with a frozen part",
    question="Is the first rise as sudden if QK2 does not change, and do networks bind with a QK2 that never learned?",
    method=(
        f"The paper's task, network and settings. QK2 or W_E keep the weights that they have at step {FIRST:,} until "
        f"the end, or QK2 keeps its initial weights; an evaluation every {SPIKES_STUDY.base.record.eval_every} steps. "
        "The study `window` has the first two with an evaluation every 250 steps. A spike is a rise of the mean "
        "accuracy on sums with variables (no banned slots) by .1 or more within 100 steps after addition is learned. "
        "The seeds, 9200 to 9231, are used nowhere else."
    ),
    base=study_base(steps=STEPS, record=SPIKES_STUDY.base.record),
    cells=(
        Cell(FREE),
        *(
            Cell(name, {"optim.frozen": part, "optim.frozen_from": FIRST, "optim.frozen_until": STEPS})
            for name, part in FROZEN.items()
        ),
        Cell(NEVER, {"optim.frozen": "QK2", "optim.frozen_until": STEPS}),
    ),
    seeds=32,
    first_seed=9200,
    outcomes=("adds", "binds", SHARP),
    numbers=(SPIKES, QK2_RISE, "binding at"),
    observe=SpikeObserver,
    of_curves=spike_columns,
    hypotheses=(
        *(
            Hypothesis(
                f"study-sudden-{slug(part)}",
                f"With {part} frozen from step {FIRST:,}, at least half of the networks that bind have a spike.",
                SHARP, name, AtLeast(0.5), among="binds",
            )
            for name, part in FROZEN.items()
        ),
        Hypothesis(
            "study-sudden-never",
            "With a QK2 that is never trained, at most a fifth of the networks bind.",
            "binds", NEVER, AtMost(0.2),
        ),
    ),
)  # fmt: skip
