"""Hook points: named places in a forward pass where an activation can be read or replaced, as in TransformerLens."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

HookFn = Callable[[Tensor, "HookPoint"], "Tensor | None"]
NameFilter = str | Sequence[str] | Callable[[str], bool]


class HookPoint(nn.Module):
    """The identity, until functions are attached: each sees (activation, this point) and may return a replacement."""

    def __init__(self) -> None:
        super().__init__()
        self.name = ""
        self.functions: list[HookFn] = []

    def forward(self, activation: Tensor) -> Tensor:
        for function in self.functions:
            replacement = function(activation, self)
            activation = activation if replacement is None else replacement
        return activation


class Hooked(nn.Module):
    """A module whose hook points are reached by name; subclasses call `name_hook_points` once they are built."""

    def name_hook_points(self) -> None:
        self.hook_points = {name: module for name, module in self.named_modules() if isinstance(module, HookPoint)}
        for name, point in self.hook_points.items():
            point.name = name

    @contextmanager
    def hooks(self, fwd_hooks: Sequence[tuple[str | Callable[[str], bool], HookFn]]) -> Iterator[None]:
        """Within this context the functions are attached to the points they name, in the order given."""
        attached: list[tuple[HookPoint, HookFn]] = []
        try:
            for names, function in fwd_hooks:
                for name in self.matching(names):
                    self.hook_points[name].functions.append(function)
                    attached.append((self.hook_points[name], function))
            yield
        finally:
            for point, function in attached:
                point.functions.remove(function)

    def run_with_hooks(
        self, *inputs: Tensor, fwd_hooks: Sequence[tuple[str | Callable[[str], bool], HookFn]]
    ) -> Tensor:
        """The output with `fwd_hooks`, pairs of (name or predicate on names, function), active for this pass alone."""
        with self.hooks(fwd_hooks):
            return self(*inputs)

    def run_with_cache(
        self, *inputs: Tensor, names_filter: NameFilter | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The output, and the (detached) activation at every hook point that `names_filter` names.

        Within `hooks`, what is cached is what flows on: the replacement where there is one.
        """
        cache: dict[str, Tensor] = {}

        def keep(activation: Tensor, point: HookPoint) -> None:
            cache[point.name] = activation.detach()

        names = list(self.hook_points) if names_filter is None else self.matching(names_filter)
        return self.run_with_hooks(*inputs, fwd_hooks=[(name, keep) for name in names]), cache

    def matching(self, names: NameFilter) -> list[str]:
        """The hook points meant by a name, a list of names, or a predicate; a ValueError where there is none."""
        if callable(names):
            found = [name for name in self.hook_points if names(name)]
            if not found:
                raise ValueError(f"no hook point passes the filter; there are {', '.join(self.hook_points)}")
            return found
        asked = [names] if isinstance(names, str) else list(names)
        for name in asked:
            if name not in self.hook_points:
                close = difflib.get_close_matches(name, self.hook_points, n=3)
                hint = f"did you mean {' or '.join(close)}? " if close else ""
                raise ValueError(f"no hook point {name!r}; {hint}there are {', '.join(self.hook_points)}")
        return asked
