"""Sequences for the measures, by the number of variables in the sum; no exam draws the same ones."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Bool
from torch import Tensor

from assignadd.config import Config
from assignadd.task.evalsets import EvalSet, any_sums
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import Batch, Sampler


def sequences(configs: Sequence[Config], seen: Bool[Tensor, "M N N"], n_vars: int, n: int, draw: int = 0) -> Batch:
    """`n` sequences for each model that add `n_vars` variables as training does: seen pairs, no banned slot; tokens (M,
    n, T)."""
    return _drawn(
        configs, seen, EvalSet(f"{n_vars}-var train", n_vars=n_vars), EvalSteps.TRAINING_LAW[3 * draw + n_vars], n
    )


def any_sequences(configs: Sequence[Config], seen: Bool[Tensor, "M N N"], n_vars: int, n: int) -> Batch:
    """`n` sequences for each model that add any pair of values, with `n_vars` variables in any slot; tokens (M, n,
    T)."""
    return _drawn(configs, seen, any_sums(n_vars), EvalSteps.ANY_SUMS[n_vars], n)


def _drawn(configs: Sequence[Config], seen: Tensor, evalset: EvalSet, step: int, n: int) -> Batch:
    return Sampler([c.task for c in configs], seen, [c.seed.data or 0 for c in configs], evalset, seen.device).sample(
        step, n
    )
