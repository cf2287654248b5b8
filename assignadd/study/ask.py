"""What a study asks: a number of its cells, and a rule. The sentence and the identifier follow from both.

share("binds").at_least(0.5)                               in every cell, at least half of the networks bind
share("binds").of("rate 0.002").versus(PAPER, at_least=0)  with rate 0.002, more networks bind than as in the paper
mean("held-out doubles", among="binds").versus("512", at_least=0.1)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from assignadd.stats.measured import Measured
from assignadd.stats.verdicts import AtLeast, AtMost, Between, Rule


@dataclass(frozen=True)
class Number:
    """A number of each cell: the share of its networks with an outcome, or the mean of a column over its networks."""

    kind: Literal["share", "mean"]
    column: str
    among: str | None = None
    """Only networks with this outcome count."""
    cells: tuple[str, ...] = ()
    """The labels of the cells that are asked; all of them if empty."""

    def of(self, *cells: str) -> Number:
        return replace(self, cells=cells)

    def at_least(self, threshold: float) -> Question:
        return Question(self, AtLeast(threshold))

    def at_most(self, threshold: float) -> Question:
        return Question(self, AtMost(threshold))

    def between(self, low: float, high: float) -> Question:
        return Question(self, Between(low, high))

    def versus(
        self,
        other: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        between: tuple[float, float] | None = None,
    ) -> Question:
        """The number minus that of another cell."""
        rules: list[Rule] = [AtLeast(at_least)] if at_least is not None else []
        rules += [AtMost(at_most)] if at_most is not None else []
        rules += [Between(*between)] if between is not None else []
        if len(rules) != 1:
            raise ValueError("versus takes one of at_least, at_most and between")
        return Question(self, rules[0], other)


def share(outcome: str, among: str | None = None) -> Number:
    """The share of a cell's networks with an outcome, such as "binds"."""
    return Number("share", outcome, among)


def mean(column: str, among: str | None = None) -> Number:
    """The mean of a column over a cell's networks."""
    return Number("mean", column, among)


@dataclass(frozen=True)
class Question:
    """A number of some cells and the rule that decides it; a statement for each cell."""

    number: Number
    rule: Rule
    other: str | None = None
    """The label of the cell that the others are compared with."""


@dataclass(frozen=True)
class Computed:
    """A question about a number that a function computes from the whole table."""

    id: str
    says: str
    number: Callable[[Any], Measured | None]
    """A number of a StudyTable; None where the table has too few networks."""
    rule: Rule


def sentence(question: Question, cell: str, labels: Mapping[str, str]) -> str:
    """The statement about one cell in words; `labels` say what each column means."""
    number, rule, other = question.number, question.rule, question.other
    label = labels.get(number.column, number.column)
    among = f", among those that {labels.get(number.among, number.among)}," if number.among else ""
    what = f"the share of networks that {label}{among}" if number.kind == "share" else f"{label}{among} on average"
    if other is None:
        return f"{cell}: {what} is {_in_words(rule)}."
    return f'{cell}: {what} is {_compared(rule)} in the cell "{other}".'


def _in_words(rule: Rule) -> str:
    if isinstance(rule, Between):
        return f"from {rule.low:g} to {rule.high:g}"
    return f"{'at least' if isinstance(rule, AtLeast) else 'at most'} {rule.threshold:g}"


def _compared(rule: Rule) -> str:
    """A rule for a difference, in words."""
    if isinstance(rule, Between):
        return f"{rule.low:g} to {rule.high:g} more than"
    up, by = isinstance(rule, AtLeast), abs(rule.threshold)
    if by == 0:
        return "higher than" if up else "lower than"
    if (rule.threshold > 0) == up:
        return f"at least {by:g} {'higher' if up else 'lower'} than"
    return f"at most {by:g} {'lower' if up else 'higher'} than"


def slug(label: str) -> str:
    """A label as a part of an identifier: "scale 0.4, decay 0.1" is scale-0.4-decay-0.1."""
    plain = label.lower().replace(" = ", "").replace("+", "plus").replace(" (final)", "").replace("_", "")
    return re.sub(r"[^\w.]+", "-", re.sub("[()']", "", plain)).strip("-")
