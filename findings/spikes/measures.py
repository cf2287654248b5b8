"""What is measured every 25 steps of training, and what is counted in the curves: spikes, bursts and saturation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars
import torch
from torch import Tensor

from assignadd import Config
from assignadd.dynamics import Curves
from assignadd.measures import ProgressObserver, qk2_ov1_var_identity
from assignadd.model import Stack, answer_logits
from assignadd.sweeps import final_exam
from assignadd.task import EVAL_SETS, Sampler

# Columns of the curves.
SATURATED, LOSS = "saturated", "reference loss"
QK2_IDENTITY = "qk2_ov1_var_identity"
# Sequences on which saturation and loss are measured, from a step of the training data that no run reaches.
SEQUENCES, UNREACHED = 512, 1 << 31
# Sums with variables, none in banned slots: the accuracy whose rises are counted.
RISING = tuple(s.name for s in EVAL_SETS if s.n_vars and not s.n_banned)
# Steps that count as just before (or after) a spike, and those before them that they are compared with.
NEAR, EARLIER = 200, 1000
# Bursts after this step are late.
LATE_FROM = 8000

SHARP, SPIKES, BURSTS, LATE = "sharp rise", "spikes", "loss bursts", "late bursts"
FIRST_AT = "first spike at"
SATURATED_BEFORE, SATURATED_RISE = "saturated before the first spike", "rise of saturation before the first spike"
QK2_RISE = "rise of QK2 identity at the first spike"
MEANINGS = {
    SHARP: "have a spike",
    SPIKES: "the number of spikes (rises of the mean accuracy on sums with variables, none in banned slots, by .1 or "
    "more within 100 steps after addition is learned)",
    BURSTS: "the number of bursts (losses above twice the median of the 200 steps before and .02 above it; those "
    "within 200 steps are one)",
    LATE: f"the number of bursts of the loss after step {LATE_FROM:,}",
    FIRST_AT: "the step after the first rise, as `assignadd measure phases` finds it",
    SATURATED_BEFORE: "the share of saturated sequences in the 200 steps before the first rise",
    SATURATED_RISE: "the share of saturated sequences in the 200 steps before the first rise minus that in the 800 "
    "steps before them",
    QK2_RISE: "the share of variables that match themselves most in QK2, in the 200 steps after the first rise minus "
    "that in the 200 steps before",
}


class Saturation:
    """Numbers of each network on fixed sequences of its training distribution, and the paper's measure of QK2."""

    def __init__(self, configs: Sequence[Config], seen: Tensor, n: int = SEQUENCES):
        sampler = Sampler([c.task for c in configs], seen, [c.seed.data or 0 for c in configs], device=seen.device)
        self.batch = sampler.sample(UNREACHED, n)

    def __call__(self, stack: Stack) -> dict[str, Tensor]:
        """The share of sequences whose gradient at the right answer is exactly 0 in float32, as its probability is 1;
        the mean loss; and how well variables match themselves in QK2."""
        logits, labels = answer_logits(stack, self.batch.tokens), self.batch.labels[..., None]
        in_single, in_double = (x.log_softmax(-1).gather(-1, labels)[..., 0] for x in (logits.float(), logits.double()))
        return {
            SATURATED: (in_single.exp() == 1).to(torch.float64).mean(-1),
            LOSS: -in_double.mean(-1),
            QK2_IDENTITY: qk2_ov1_var_identity(stack),
        }


class SpikeObserver(ProgressObserver):
    """These numbers at every evaluation, and after the last step the final exam."""

    def __init__(self, configs: Sequence[Config], seen: Tensor):
        super().__init__(configs, seen, Saturation)

    def __call__(self, stack: Stack, step: int) -> list[dict[str, Any]]:
        rows = super().__call__(stack, step)
        if step == stack.config.optim.steps:
            for row, tests in zip(rows, final_exam(stack, self.configs, self.seen), strict=True):
                row["tests"] = tests
        return rows


def fast_rises(
    steps: np.ndarray, values: np.ndarray, since: int = 0, least: float = 0.1, within: int = 100
) -> list[int]:
    """The steps at which rises by `least` or more within so many steps begin; rises that overlap are one."""
    ends = np.searchsorted(steps, steps + within, "right") - 1
    jumps = np.flatnonzero((values[ends] - values >= least) & (steps >= since))
    return _apart(steps[jumps], within)


def bursts(
    steps: np.ndarray, losses: np.ndarray, since: int = 0, factor: float = 2.0, least: float = 0.02, within: int = 200
) -> list[int]:
    """The steps at which a loss goes to `factor` times its median over the steps `within` before, and `least` above it.

    A burst lasts until the loss has not been so high for `within` steps.
    """
    begins = np.searchsorted(steps, steps - within)
    usual = np.array([np.median(losses[b:i]) if i > b else np.inf for i, b in enumerate(begins)])
    high = np.flatnonzero((losses > factor * usual) & (losses > usual + least) & (steps >= since))
    return _apart(steps[high], within)


def _apart(steps: np.ndarray, gap: int) -> list[int]:
    """The first of each group of steps that follow one another within the gap."""
    return [int(step) for i, step in enumerate(steps) if i == 0 or step - steps[i - 1] > gap]


def spike_columns(rows: polars.DataFrame, n: int) -> dict[str, Any]:
    """How many spikes and bursts a network has, where, and what saturation and QK2 do around them."""
    steps = rows["step"].to_numpy()
    curves = Curves.of_columns({name: rows[name].to_numpy() for name in rows.columns}, n)
    saturated, loss, identity = (rows[c].to_numpy() for c in (SATURATED, LOSS, QK2_IDENTITY))
    phases = curves.phases
    since = phases.addition.step if phases.addition else int(steps[-1])
    rises, up = fast_rises(steps, curves.mean(RISING), since), bursts(steps, loss, since)
    columns: dict[str, Any] = {
        SHARP: bool(rises),
        SPIKES: float(len(rises)),
        BURSTS: float(len(up)),
        LATE: float(sum(step > LATE_FROM for step in up)),
        **dict.fromkeys((FIRST_AT, SATURATED_BEFORE, SATURATED_RISE, QK2_RISE)),
    }
    if first := phases.first_spike:
        before, after = first.before, first.after
        near = _mean(saturated, steps, before - NEAR, before)
        earlier = _mean(saturated, steps, before - EARLIER, before - NEAR)
        columns |= {FIRST_AT: after, SATURATED_BEFORE: near, SATURATED_RISE: near - earlier}
        qk2_before = _mean(identity, steps, before - NEAR, before)
        columns[QK2_RISE] = _mean(identity, steps, after, after + NEAR) - qk2_before
    return columns


def _mean(values: np.ndarray, steps: np.ndarray, first: int, last: int) -> float:
    """The mean of a curve over the steps from `first` to `last`."""
    return float(values[int(np.searchsorted(steps, first)) : int(np.searchsorted(steps, last, "right"))].mean())
