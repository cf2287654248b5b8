"""Whether a model binds variables: the one definition that claims, figures, sweeps, commands and the explorer use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar, runtime_checkable

BINDING_SET = "1-var train"
# Between the plateau before the first spike (.75 in the paper's run) and the one after it (.99).
BINDING_THRESHOLD = 0.95

Result = TypeVar("Result", covariant=True)


@runtime_checkable
class Comparable(Protocol[Result]):
    """A number, an array or a column of a table."""

    def __ge__(self, other: float, /) -> Result: ...


def binds(accuracy: Comparable[Result]) -> Result:
    """Whether an accuracy on `BINDING_SET` at the end of training is at least 95 %; one answer per entry of an array.

    The accuracy is that of the last checkpoint on fresh sequences, or of the final exam of a sweep; where a model has
    neither, that of the last evaluation during training. NaN, of a model that diverged, is below the threshold.
    """
    return accuracy >= BINDING_THRESHOLD


def learned_binding(accuracies: Mapping[str, float]) -> bool:
    """Whether a model binds, from its accuracies by evaluation set; never where the task has no such set."""
    return binds(accuracies.get(BINDING_SET, 0.0))
