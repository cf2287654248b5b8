"""Sequences for the measures, from steps of the evaluation stream that no exam uses."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxtyping import Bool
from torch import Tensor

from assignadd.config import Config
from assignadd.task.evalsets import EvalSet, any_sums
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import Batch, EveryPair, Sampler


def sequences(configs: Sequence[Config], seen: Bool[Tensor, "M ..."], n_vars: int, n: int, draw: int = 0) -> Batch:
    """`n` sequences for each model with `n_vars` variables as in training: seen pairs, no banned slots.

    Those of another `draw` (0, 1, ...) are independent.
    """
    evalset = EvalSet(f"{n_vars}-var train", n_vars=n_vars)
    step = EvalSteps.TRAINING_LAW[3 * draw + n_vars]  # three steps a draw, one for each number of variables
    return _drawn(configs, seen, evalset, step, n)


def any_sequences(configs: Sequence[Config], seen: Bool[Tensor, "M ..."], n_vars: int, n: int) -> Batch:
    """`n` sequences for each model that add any pair of values, with `n_vars` variables in any slot."""
    return _drawn(configs, seen, any_sums(n_vars), EvalSteps.ANY_SUMS[n_vars], n)


def every_pair(configs: Sequence[Config], seen: Bool[Tensor, "M ..."], n_vars: int, contexts: int = 1) -> Batch:
    """Every pair of values `contexts` times for each model, with `n_vars` variables in any slot.

    The pairs are in the order of their codes: row i adds pair i modulo N * N.
    """
    n = math.prod(configs[0].task.tuples) * contexts
    return _drawn(configs, seen, any_sums(n_vars), EvalSteps.EVERY_PAIR[n_vars], n, EveryPair)


def _drawn(
    configs: Sequence[Config], seen: Tensor, evalset: EvalSet, step: int, n: int, sampler: type[Sampler] = Sampler
) -> Batch:
    """The first `n` sequences of a set for each model, at this step of the evaluation stream, drawn by a `sampler`."""
    tasks = [config.task for config in configs]
    seeds = [config.seed.data or 0 for config in configs]
    return sampler(tasks, seen, seeds, evalset, seen.device).sample(step, n)
