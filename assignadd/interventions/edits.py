"""Changes of activations, hung on hook points by name; every forward pass here calls them at the same places.

Activations have the layout of the reference transformer: (B, T, d) in the residual stream, (B, heads, queries, keys) in
attention. A pass that computes the last positions alone gives those, and masks are read from the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Bool

Edit = Callable[[Tensor], Tensor]


class Edits:
    """For each hook the functions that change its activation, one after another."""

    def __init__(self, *pairs: tuple[str, Edit]):
        self.at: dict[str, list[Edit]] = {}
        for hook, edit in pairs:
            self.add(hook, edit)

    def add(self, hook: str, edit: Edit) -> None:
        self.at.setdefault(hook, []).append(edit)

    def touches(self, *hooks: str) -> bool:
        return any(hook in self.at for hook in hooks)

    def __call__(self, hook: str, activation: Tensor) -> Tensor:
        for edit in self.at.get(hook, ()):
            activation = edit(activation)
        return activation


class Record:
    """Keeps what it sees and changes nothing."""

    def __init__(self) -> None:
        self.seen: Tensor | None = None

    def __call__(self, activation: Tensor) -> Tensor:
        self.seen = activation
        return activation

    @property
    def value(self) -> Tensor:
        assert self.seen is not None, "the pass did not come by this hook"
        return self.seen


def rows(mask: Bool[Tensor, "B T"], activation: Tensor) -> Bool[Tensor, "..."]:
    """A mask over positions (queries, in attention) that broadcasts over this activation."""
    last = mask[:, mask.shape[1] - activation.shape[-2] :]
    return last[:, None, :, None] if activation.dim() == 4 else last[:, :, None]


def last_rows(value: Tensor, activation: Tensor) -> Tensor:
    """The rows of a recorded activation that this one has."""
    return value[..., value.shape[-2] - activation.shape[-2] :, :]
