"""Progress measures while a network trains: what the training loop calls, with sequences that are drawn once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from torch import Tensor

from assignadd.config import Config
from assignadd.measures.progress import Columns, Progress
from assignadd.model.stack import Stack
from assignadd.model.table import covers

Measures = Callable[[Stack], Columns]


class Observing:
    """An observer for `train_run`: a dict of measures per model; empty for an architecture that they do not fit."""

    def __init__(
        self, configs: Sequence[Config], seen: Tensor, kind: Callable[[Sequence[Config], Tensor], Measures] = Progress
    ):
        self.configs, self.seen, self._kind = configs, seen, kind

    @cached_property
    def _measures(self) -> Measures:
        """Made on the first call, in the process that trains the models."""
        return self._kind(self.configs, self.seen)

    def __call__(self, stack: Stack, step: int) -> list[dict[str, Any]]:
        if not covers(stack.config):
            return [{} for _ in self.configs]
        columns = {name: values.double().tolist() for name, values in self._measures(stack).items()}
        return [{name: _rounded(column[m]) for name, column in columns.items()} for m in range(len(stack))]


def _rounded(value: float) -> float | None:
    """Six digits, more than some hundred sequences say; None where a diverged model or an empty set has no number."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
