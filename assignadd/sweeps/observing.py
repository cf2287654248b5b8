"""What a sweep writes down beside the accuracies: circuits as they form, variable by variable, and the tests at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from assignadd.config import Config
from assignadd.measures.cheap import CheapProgress
from assignadd.model.stack import Stack
from assignadd.model.table import covers
from assignadd.sweeps.additions import addition_tests


class Watch:
    """An observer for the training loop; the sequences it looks at are drawn once for each part of a stack."""

    def __init__(self) -> None:
        self._progress: dict[int, CheapProgress] = {}

    def __call__(self, stack: Stack, configs: Sequence[Config], seen: Tensor, step: int) -> list[dict[str, Any]]:
        columns: dict[str, list[Any]] = {}
        if covers(stack.config):
            if id(seen) not in self._progress:
                self._progress[id(seen)] = CheapProgress(configs, seen)
            columns = {name: values.double().tolist() for name, values in self._progress[id(seen)](stack).items()}
        found: list[dict[str, Any]] = [{name: _rounded(column[m]) for name, column in columns.items()} for m in range(len(stack))]
        if step == stack.config.optim.steps:
            found = [row | {"tests": tests} for row, tests in zip(found, addition_tests(stack, configs, seen), strict=True)]
        return found


def _rounded(value: float) -> float | None:
    """Six digits, more than some hundred sequences say; None where a diverged model or an empty set has no number."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
