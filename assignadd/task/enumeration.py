"""Evaluation sets that go through all pairs of values: with every choice of operands, or in many drawn contexts."""

from __future__ import annotations

from torch import Tensor

from assignadd.task.sampler import Sampler


class EveryAddition(Sampler):
    """Row r adds pair number r div (choices) of each model's own with the operands number r mod (choices)."""

    @property
    def n_rows(self) -> Tensor:
        """How many rows each model has, (M, 1); later rows repeat the last pair."""
        return self.n_pairs * len(self.operands)

    def _choice(self, drawn: Tensor, row: Tensor) -> Tensor:
        return (row % len(self.operands)).expand_as(drawn)

    def _pair(self, drawn: Tensor, row: Tensor) -> Tensor:
        return (row // len(self.operands)).expand_as(drawn).minimum(self.n_pairs - 1)


class EveryPair(Sampler):
    """Row r adds pair number r modulo the number of pairs, with operands and a context drawn anew."""

    def _pair(self, drawn: Tensor, row: Tensor) -> Tensor:
        return (row % self.n_pairs).expand_as(drawn)
