"""What a sweep writes down beside the accuracies: circuits as they form, variable by variable, and the tests at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from assignadd.config import Config
from assignadd.measures.progress import Observing
from assignadd.measures.stack_progress import StackProgress
from assignadd.model.stack import Stack
from assignadd.sweeps.additions import addition_tests
from assignadd.sweeps.final_exam import final_exam


class Watch(Observing):
    """The cheap measures, and after the last step the paper's tests and the final exam."""

    def __init__(self, configs: Sequence[Config], seen: Tensor):
        super().__init__(configs, seen, StackProgress)

    def __call__(self, stack: Stack, step: int) -> list[dict[str, Any]]:
        found = super().__call__(stack, step)
        if step == stack.config.optim.steps:
            tests, exams = addition_tests(stack, self.configs, self.seen), final_exam(stack, self.configs, self.seen)
            found = [row | {"tests": test | exam} for row, test, exam in zip(found, tests, exams, strict=True)]
        return found
