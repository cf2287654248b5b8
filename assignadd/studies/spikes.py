"""Studies of sudden changes in training: are they a matter of rounding, of the optimizer, or of circuits?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from assignadd.config import Config
from assignadd.dynamics.curves import bursts, fast_rises
from assignadd.dynamics.phases import BINDING_SETS, Curves, find_phases
from assignadd.measures.accuracies import LOSS, QK2_IDENTITY, QK2_MARGIN, SATURATED, Saturation
from assignadd.measures.progress import ProgressObserver
from assignadd.model.stack import Stack
from assignadd.studies.frozen import FIRST, FREE, held, window, window_cell
from assignadd.studies.study import PAPER, RECORD, Cell, Hypothesis, Study, slug, study_base
from assignadd.sweeps.final_tests import final_exam
from assignadd.task.evalsets import RECORDED_SETS
from assignadd.verdicts import AtLeast, AtMost, Between, Rule

if TYPE_CHECKING:
    import polars

SINGLE, DOUBLE, DOUBLE_LOSS = "float32", "float64", "float32, loss in float64"
CELLS = (
    Cell(SINGLE),
    Cell(DOUBLE_LOSS, {"numerics.loss_in_float64": True}),
    Cell(DOUBLE, {"numerics.dtype": "float64"}),
)
EVERY = 25
# Steps that count as just before (or after) a spike, and those before them that they are compared with.
NEAR, EARLIER = 200, 1000
# A burst is also compared with the steps up to so many before and after it: saturation rises in the course of training.
AROUND = 500
SHARP, SPIKES, BURSTS = "sharp rise", "spikes", "loss bursts"
SATURATED_BEFORE, SATURATED_RISE = "saturated before the first spike", "rise of saturation before the first spike"
SATURATED_END = "saturated at the end"
SATURATED_BURST = "saturation before bursts less usual"
SATURATED_BURST_NEARBY = "saturation before bursts less nearby"
QK2_RISE, MARGIN_RISE = "rise of QK2 identity at the first spike", "rise of QK2 margin at the first spike"


class SpikeObserver(ProgressObserver):
    """The share of saturated sequences and the measure of QK2; after the last step the final evaluation."""

    def __init__(self, configs: Sequence[Config], seen: Tensor):
        super().__init__(configs, seen, Saturation)

    def __call__(self, stack: Stack, step: int) -> list[dict[str, Any]]:
        found = super().__call__(stack, step)
        if step == stack.config.optim.steps:
            for row, tests in zip(found, final_exam(stack, self.configs, self.seen), strict=True):
                row["tests"] = tests
        return found


def spike_columns(rows: polars.DataFrame, n: int) -> dict[str, Any]:
    """How many spikes and bursts a model has, where, and what saturation and QK2 do around them."""
    steps = rows["step"].to_numpy()
    curves = Curves(steps, {s.name: rows[s.name].to_numpy() for s in RECORDED_SETS if s.name in rows.columns}, n)
    saturated, loss, qk2, margin = (rows[c].to_numpy() for c in (SATURATED, LOSS, QK2_IDENTITY, QK2_MARGIN))
    phases, accuracy = find_phases(curves), curves.mean(BINDING_SETS)
    since = phases.addition.step if phases.addition else int(steps[-1])
    rises, up = fast_rises(steps, accuracy, since), bursts(steps, loss, since)
    usual = float(np.median(saturated[steps >= since]))
    at_bursts = [_mean(saturated, steps, b - NEAR, b) for b in up]
    nearby = [float(np.median(saturated[abs(steps - b) <= AROUND])) for b in up]
    found: dict[str, Any] = {
        SHARP: bool(rises),
        SPIKES: float(len(rises)),
        BURSTS: float(len(up)),
        "spike steps": rises,
        "burst steps": up,
        SATURATED_BURST: float(np.mean([x - usual for x in at_bursts])) if up else None,
        SATURATED_BURST_NEARBY: float(np.mean(at_bursts) - np.mean(nearby)) if up else None,
        SATURATED_END: float(saturated[-1]),
    }
    names = ("first spike at", "second spike at", "accuracy before the first spike", "accuracy after the first spike",
             SATURATED_BEFORE, SATURATED_RISE, QK2_RISE, MARGIN_RISE)  # fmt: skip
    found |= dict.fromkeys(names)
    if phases.second_spike:
        found["second spike at"] = phases.second_spike.after
    if first := phases.first_spike:
        before, after = first.before, first.after
        near, earlier = (_mean(saturated, steps, before - b, before - a) for a, b in ((0, NEAR), (NEAR, EARLIER)))
        rise, rise_of_margin = (_mean(x, steps, after, after + NEAR) - _mean(x, steps, before - NEAR, before)
                                for x in (qk2, margin))  # fmt: skip
        values = (after, found["second spike at"], first.low, first.high, near, near - earlier, rise, rise_of_margin)
        found |= dict(zip(names, values, strict=True))
    return found


def _mean(values: np.ndarray, steps: np.ndarray, first: int, last: int) -> float:
    """The mean of a curve over the steps from `first` to `last`; of its first value if there are none."""
    return float(values[max(0, int(np.searchsorted(steps, first))) : int(np.searchsorted(steps, last, "right"))].mean())


def _of_cells(slug: str, claim: str, outcome: str, rule: AtLeast | AtMost, cells: Sequence[str]) -> list[Hypothesis]:
    slugs = {SINGLE: "float32", DOUBLE: "float64", DOUBLE_LOSS: "loss-float64"}
    return [
        Hypothesis(f"study-spikes-{slug}-{slugs[c]}", f"In {c}, {claim}", outcome, c, rule, among="binds")
        for c in cells
    ]


def _same(slug: str, what: str, outcome: str) -> list[Hypothesis]:
    return [
        Hypothesis(
            f"study-spikes-{slug}-{name}", f"Networks that bind have as many {what} in {cell} as in {SINGLE}, up to "
            "one on average.", outcome, cell, Between(-1, 1), versus=SINGLE, among="binds",
        )
        for cell, name in ((DOUBLE, "float64"), (DOUBLE_LOSS, "loss-float64"))
    ]  # fmt: skip


SPIKES_STUDY = Study(
    name="spikes",
    title="Spikes in single and double precision",
    question="Accuracy and loss of a network change suddenly at a few steps of training. Is rounding the cause?",
    method=(
        "The paper's network and task with the same seeds in float32, in float32 with the loss and its gradient in "
        f"float64, and in float64 throughout; an evaluation every {EVERY} steps. A spike is a rise of the mean "
        "accuracy on sums with variables (no banned slots) by .1 or more within 100 steps after addition is learned; "
        "a burst is a loss of more than twice the median of the 200 steps before, and .02 above it; those within 200 "
        "steps are one. A sequence is saturated if its gradient at the right answer is exactly 0 in float32."
    ),
    base=study_base(
        steps=15_000, record=replace(RECORD, eval_every=EVERY, measure_every=EVERY, eval_sequences=256)
    ),
    cells=CELLS,
    seeds=16,
    outcomes=("adds", "binds", "refines", SHARP),
    numbers=(SPIKES, BURSTS, SATURATED_BEFORE, SATURATED_RISE, SATURATED_BURST, QK2_RISE),
    shown=(SATURATED_BEFORE, SATURATED_END),
    shown_on="share of saturated sequences",
    observe=SpikeObserver,
    of_curves=spike_columns,
    hypotheses=(
        *_of_cells("sharp", "at least 80 % of the networks that bind have a spike.", SHARP, AtLeast(0.8),
                   (SINGLE, DOUBLE, DOUBLE_LOSS)),
        *_same("count", "spikes", SPIKES),
        *_same("bursts", "bursts of the loss", BURSTS),
        *_of_cells("unsaturated", "less than half of the sequences are saturated in the 200 steps before the first "
                   "spike.", SATURATED_BEFORE, AtMost(0.5), (SINGLE,)),
        *_of_cells("no-saturation", "saturation in the 200 steps before the first spike is at most .05 above that in "
                   "the 800 steps before them.", SATURATED_RISE, AtMost(0.05), (SINGLE,)),
        *_of_cells("bursts-unsaturated", "saturation in the 200 steps before bursts of the loss is at most .05 above "
                   "its median over training.", SATURATED_BURST, AtMost(0.05), (SINGLE,)),
        *_of_cells("qk2", "at least a tenth of the variables come to match themselves in QK2 from the 200 steps before "
                   "the first spike to the 200 steps after it.", QK2_RISE, AtLeast(0.1), (SINGLE, DOUBLE)),
    ),
)  # fmt: skip


LOWER = "a third of the rate from 8,000"
FAST, SLOW = "beta2 0.99", "beta2 0.9999"
EPS, LARGE_EPS, NO_DECAY = "eps 1e-6", "eps 1e-5", "no decay"
FROM = 8000
LATE = "late bursts"


def late_columns(rows: polars.DataFrame, n: int) -> dict[str, Any]:
    """The columns of the study `spikes`, and how many bursts come after step 8,000."""
    found = spike_columns(rows, n)
    return found | {LATE: float(sum(step > FROM for step in found["burst steps"]))}


def _statement(id: str, cell: str, words: str, rule: Rule) -> Hypothesis:
    return Hypothesis(
        f"study-bursts-{id}", f"With {cell}, networks that bind have {words} after step {FROM:,}, on average.",
        LATE, cell, rule, versus=PAPER, among="binds",
    )  # fmt: skip


FEWER, MORE = "at least 3 fewer bursts than with the paper's settings", "at least 3 more bursts than with the paper's"
BURSTS_STUDY = Study(
    name="bursts",
    title="Bursts of the loss and the optimizer",
    question="Are bursts of the loss late in training instabilities of AdamW?",
    method=(
        "The paper's network and task. AdamW divides by the root of the second moment of the gradient, which shrinks "
        "once the loss is small; if bursts come from updates that become too large in this way, there should be fewer "
        f"with a third of the learning rate (from step {FROM:,} on), with a longer memory of the second moment or a "
        "larger eps, and more with a shorter memory. Spikes and bursts as in the study `spikes`; bursts after step "
        f"{FROM:,} are compared. The seeds, 9100 to 9115, are used nowhere else."
    ),
    base=study_base(steps=15_000, record=SPIKES_STUDY.base.record),
    cells=(
        Cell(PAPER),
        Cell(LOWER, {"optim.later_lr": 1e-3 / 3, "optim.later_from": FROM}),
        Cell(FAST, {"optim.beta2": 0.99}),
        Cell(SLOW, {"optim.beta2": 0.9999}),
        Cell(EPS, {"optim.eps": 1e-6}),
        Cell(LARGE_EPS, {"optim.eps": 1e-5}),
        Cell(NO_DECAY, {"optim.weight_decay": 0.0}),
    ),
    seeds=16,
    first_seed=9100,
    numbers=(BURSTS, LATE),
    shown=(LATE,),
    shown_on="bursts of the loss after step 8,000",
    observe=SpikeObserver,
    of_curves=late_columns,
    hypotheses=(
        _statement("rate", LOWER, FEWER, AtMost(-3)),
        _statement("short-memory", FAST, MORE, AtLeast(3)),
        _statement("long-memory", SLOW, FEWER, AtMost(-3)),
        _statement("eps", EPS, FEWER, AtMost(-3)),
        _statement("large-eps", LARGE_EPS, FEWER, AtMost(-3)),
        _statement("decay", NO_DECAY, "as many bursts as with the paper's settings, up to 3", Between(-3, 3)),
    ),
)  # fmt: skip


STEPS = 12_000
NEVER = "QK2 never trained"
FROZEN = ("QK2", "W_E")


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
        *(window_cell(part, FIRST, STEPS) for part in FROZEN),
        Cell(NEVER, held("QK2", STEPS)),
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
                SHARP, window(part, FIRST, STEPS), AtLeast(0.5), among="binds",
            )
            for part in FROZEN
        ),
        Hypothesis(
            "study-sudden-never",
            "With a QK2 that is never trained, at most a fifth of the networks bind.",
            "binds", NEVER, AtMost(0.2),
        ),
    ),
)  # fmt: skip
