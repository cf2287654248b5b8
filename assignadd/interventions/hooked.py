"""The same changes through the hooked reference transformer: any architecture, every position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from assignadd.config import ConfigError
from assignadd.interventions.edits import Edits
from assignadd.model.stack import Stack
from assignadd.model.transformer import Transformer

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class HookedReference:
    """One model (a stack with M = 1)."""

    def __init__(self, one: Stack):
        self.model = Transformer.from_stack(one, 0)

    def __call__(self, tokens: Int[Tensor, "B T"], at: Edits) -> Float[Tensor, "B N"]:
        for hook in at.at:
            if hook not in self.model.hook_points:
                raise ConfigError("hook", hook, "one that this model has: " + ", ".join(self.model.hook_points))
        hooks = [(hook, lambda activation, point: at(point.name, activation)) for hook in at.at]
        return self.model.run_with_hooks(tokens, fwd_hooks=hooks)[:, -1]
