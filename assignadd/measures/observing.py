"""Progress measures while a network trains: what the training loop calls, with sequences that are drawn once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from assignadd.config import Config
from assignadd.measures.progress import Columns, Progress
from assignadd.model.stack import Stack
from assignadd.model.table import covers

Measures = Callable[[Stack], Columns]


class Observing:
    """An observer for `train_run`: a dict of measures per model; empty for an architecture that they do not fit."""

    def __init__(self, kind: Callable[[Sequence[Config], Tensor], Measures] = Progress):
        self._kind = kind
        self._measures: dict[int, Measures] = {}

    def __call__(self, stack: Stack, configs: Sequence[Config], seen: Tensor, step: int) -> list[dict[str, Any]]:
        if not covers(stack.config):
            return [{} for _ in configs]
        if id(seen) not in self._measures:  # one for each part of a stack
            self._measures[id(seen)] = self._kind(configs, seen)
        columns = {name: values.double().tolist() for name, values in self._measures[id(seen)](stack).items()}
        return [{name: _rounded(column[m]) for name, column in columns.items()} for m in range(len(stack))]


def _rounded(value: float) -> float | None:
    """Six digits, more than some hundred sequences say; None where a diverged model or an empty set has no number."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
