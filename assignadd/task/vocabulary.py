"""Token ids: numbers 0..N-1, then the operator, `=`, PAD, then the variables (74 ids in the paper, section 3)."""

from __future__ import annotations

from typing import NamedTuple

from assignadd.config import Task


class Sizes(NamedTuple):
    """The sizes of a task that a network has to know."""

    n_tokens: int  # K: token ids are 0..n_tokens-1
    length: int  # T: tokens in a sequence
    n_answers: int  # N: answers are 0..n_answers-1
    everywhere: bool = False  # whether there may be an answer at any position; if not, it is at the last one


def sizes_of(task: Task) -> Sizes:
    """The sizes of a task, of the family or of the user's own."""
    if task.file is not None:
        return Sizes(task.file.n_tokens, task.file.length, task.file.n_answers, task.file.everywhere)
    return Sizes(Vocabulary(task).size, task.length, task.modulus)


class Vocabulary:
    """The token ids of a task: `numbers` (each its own token), `plus` (the operator, whatever it is), `equals`, `pad`,
    and from `first_variable` on the `variables`, in the order of the alphabet; `size` of them in all."""

    def __init__(self, task: Task):
        self.task = task
        self.numbers = range(task.modulus)
        self.plus = task.modulus
        self.equals = task.modulus + 1
        self.pad = task.modulus + 2
        self.first_variable = task.modulus + 3
        self.size = self.first_variable + task.n_vars
        self.variables = range(self.first_variable, self.size)

    def variable(self, letter: str) -> int:
        """The token of the variable with this letter."""
        return self.first_variable + self.task.variables.index(letter)

    def is_variable(self, token: int) -> bool:
        """Whether a token is a variable."""
        return token >= self.first_variable

    def name(self, token: int) -> str:
        """The name of a token in the token form: `17`, `b`, the operation's sign such as `+`, `=`, and `.` for PAD."""
        if self.is_variable(token):
            return self.task.variables[token - self.first_variable]
        signs = {self.plus: self.task.sign, self.equals: "=", self.pad: "."}
        return signs.get(token, str(token))  # a number is named by its digits
