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
from assignadd.sweeps.final_exam import final_exam


class Watch(Observing):
    """The cheap measures, and after the last step the paper's tests and the final exam."""

    def __init__(self) -> None:
        super().__init__(CheapProgress)

    def __call__(self, stack: Stack, configs: Sequence[Config], seen: Tensor, step: int) -> list[dict[str, Any]]:
        found = super().__call__(stack, configs, seen, step)
        if step == stack.config.optim.steps:
            last = zip(found, addition_tests(stack, configs, seen), final_exam(stack, configs, seen), strict=True)
            found = [row | {"tests": tests | exam} for row, tests, exam in last]
        return found
