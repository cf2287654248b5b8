"""What a sweep writes down beside the accuracies: circuits as they form, variable by variable, and the tests at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from assignadd.config import Config
from assignadd.measures.progress import cheap_progress
from assignadd.model.stack import Stack
from assignadd.model.table import covers
from assignadd.sweeps.additions import addition_tests, slot_accuracies


@dataclass(frozen=True)
class Watch:
    """An observer for the training loop."""

    slots_every: int = 1000
    """Steps between accuracies variable by variable (and after the last)."""

    def __call__(self, stack: Stack, configs: Sequence[Config], seen: Tensor, step: int) -> list[dict[str, Any]]:
        last = step == stack.config.optim.steps
        values: dict[str, list[Any]] = {}
        if covers(stack.config):
            values |= {name: _rounded(v) for name, v in cheap_progress(stack, configs, seen).items()}
        if (last or step % self.slots_every == 0) and min(stack.config.task.n_vars, stack.config.task.max_assignments) > 1:
            values |= {name: _rounded(v) for name, v in slot_accuracies(stack, configs, seen).items()}
        if last:
            values["tests"] = addition_tests(stack, configs, seen)
        return [{name: column[m] for name, column in values.items()} for m in range(len(stack))]


def _rounded(values: Tensor) -> list[Any]:
    """Six digits: more than n sequences say, and short in the metrics."""
    found = values.double().tolist()
    return [[float(f"{x:.6g}") for x in v] if isinstance(v, list) else float(f"{v:.6g}") for v in found]
