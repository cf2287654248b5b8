"""Sequences for the measures: of the training law, by type, from steps of the evaluation stream that no exam draws from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from assignadd.config import Config
from assignadd.task.evalsets import EvalSet
from assignadd.task.sampler import Batch, Sampler

if TYPE_CHECKING:
    from jaxtyping import Bool

# Exams use the first steps of the stream, one for each set.
FIRST_STEP = 1000


def sequences(configs: Sequence[Config], seen: Bool[Tensor, "M N N"], n_vars: int, n: int, draw: int = 0) -> Batch:
    """`n` sequences for each model that add `n_vars` variables as training does: seen pairs, no banned slot; tokens (M, T, n)."""
    evalset = EvalSet(f"{n_vars}-var train", n_vars=n_vars)
    sampler = Sampler([c.task for c in configs], seen, [c.seed.data or 0 for c in configs], evalset, seen.device)
    return sampler.sample(FIRST_STEP + 3 * draw + n_vars, n)
