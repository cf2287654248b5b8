"""Evaluation sets in full: every pair of values, every choice of operands, or both, each once and in a drawn context."""

from __future__ import annotations

from torch import Tensor

from assignadd.task.sampler import Sampler


class EveryOperands(Sampler):
    """Row r adds the variables number r mod (choices); the values are drawn."""

    @property
    def choices(self) -> int:
        return len(self.operands)

    def _choice(self, drawn: Tensor, row: Tensor) -> Tensor:
        return (row % self.choices).expand_as(drawn)


class EveryAddition(EveryOperands):
    """Row r adds pair number r div (choices) of each model's own; `n_rows` (M, 1) says how many rows a model has."""

    @property
    def n_rows(self) -> Tensor:
        return self.n_pairs * self.choices

    def _pair(self, drawn: Tensor, row: Tensor) -> Tensor:
        return (row // self.choices).expand_as(drawn).minimum(self.n_pairs - 1)
