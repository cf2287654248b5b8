"""Token ids: numbers 0..N-1, then the operator, `=`, PAD, then the variables (74 ids in the paper, section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from assignadd.config import Task


@dataclass(frozen=True)
class Vocabulary:
    """The token ids of a task."""

    task: Task

    @property
    def plus(self) -> int:
        """The operator, `+` in the paper."""
        return self.task.modulus

    @property
    def equals(self) -> int:
        """The token `=`."""
        return self.task.modulus + 1

    @property
    def pad(self) -> int:
        """The padding token."""
        return self.task.modulus + 2

    @property
    def first_variable(self) -> int:
        """The token of the variable `a`; all variables follow, in the order of the alphabet."""
        return self.task.modulus + 3

    @property
    def size(self) -> int:
        """The number of tokens."""
        return self.first_variable + self.task.n_vars

    @property
    def numbers(self) -> range:
        """The tokens of the numbers 0..N-1: each number is its own token."""
        return range(self.task.modulus)

    @property
    def variables(self) -> range:
        """The tokens of all variables."""
        return range(self.first_variable, self.size)

    def variable(self, letter: str) -> int:
        """The token of the variable with this letter."""
        return self.first_variable + self.task.variables.index(letter)

    def is_variable(self, token: int) -> bool:
        """Whether a token is a variable: the variables are the last tokens of the vocabulary."""
        return token >= self.first_variable

    def name(self, token: int) -> str:
        """The name of a token in the token form: `17`, `b`, the operation's sign such as `+`, `=`, and `.` for PAD."""
        if self.is_variable(token):
            return self.task.variables[token - self.first_variable]
        signs = {self.plus: self.task.sign, self.equals: "=", self.pad: "."}
        return signs.get(token, str(token))  # a number is named by its digits
