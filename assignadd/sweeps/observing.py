"""What a sweep writes down beside the accuracies: circuits as they form, variable by variable, and the tests at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from assignadd.config import Config
from assignadd.measures.cheap import CheapProgress
from assignadd.measures.observing import Observing
from assignadd.model.stack import Stack
from assignadd.sweeps.additions import addition_tests


class Watch(Observing):
    """The cheap measures, and after the last step the paper's tests."""

    def __init__(self) -> None:
        super().__init__(CheapProgress)

    def __call__(self, stack: Stack, configs: Sequence[Config], seen: Tensor, step: int) -> list[dict[str, Any]]:
        found = super().__call__(stack, configs, seen, step)
        if step == stack.config.optim.steps:
            found = [row | {"tests": tests} for row, tests in zip(found, addition_tests(stack, configs, seen), strict=True)]
        return found
