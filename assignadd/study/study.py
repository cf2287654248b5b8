"""Studies: a question, cells of settings to train with many seeds, and rules that are stated beforehand.

A rule is about a number of the cells; sentence and identifier of each statement follow from both.

share("binds").at_least(0.5)                               in every cell, at least half of the networks bind
share("binds").of("rate 0.002").versus(PAPER, at_least=0)  with rate 0.002, more networks bind than as in the paper
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from assignadd.config import PRESETS, SETTINGS, Config, ConfigError, Member
from assignadd.config.errors import did_you_mean
from assignadd.measures.own import Function, numbers_of
from assignadd.model.own import Factory
from assignadd.model.stack import Stack
from assignadd.runs.config_json import with_files
from assignadd.stats import AtLeast, AtMost, Between, Measured, Rule
from assignadd.sweeps.final_tests import SweepObserver, final_column
from assignadd.sweeps.plan import SECTIONS, Sweep
from assignadd.task.evalsets import LABELS as EVALUATION_SETS
from assignadd.task.own import OwnTask
from assignadd.training.trainer import Observer

if TYPE_CHECKING:
    import polars

# One evaluation on many sequences at the end, and small ones on the way from which onsets are read.
RECORD = replace(
    PRESETS["paper"].record, eval_every=250, checkpoint_every=5000, state_every=1 << 31, final_sequences=20_000
)
BASE = replace(PRESETS["paper"], record=RECORD)
# The label of the cell with the paper's settings, in most studies.
PAPER = "the paper's"
# Outcomes and onsets that the table of every study has, and what they mean.
MEANINGS = {
    "binds": "bind variables",
    "adds": "answer held-out tuples of literals",
    "refines": "use banned slots",
    "learned": "answer 95 % of trained sums with one and with two variables",
    "follows 1 link": "follow one link",
    "follows 2 links": "follow two links",
    "addition at": "the step of answering held-out literals",
    "binding at": "the step of trained sums with one and with two variables",
    "refinement at": "the step of using banned slots",
    "frequencies": "the number of the network's frequencies",
    "doubles minus others": "accuracy on held-out doubles minus that on pairs held out in both orders (literals)",
    "0-var doubles (final)": "accuracy on held-out doubles of literals",
}


@dataclass(frozen=True)
class Cell:
    """Settings in which some of a study's networks differ from its base, and what people call them."""

    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values by dotted name, such as {"model.n_heads": 2}."""
    models: tuple[Mapping[str, Any], ...] = ()
    """Settings of each of its networks on top of these; if empty, the networks differ in the seed alone."""


def grid(base: Config = BASE, **values: Sequence[Any]) -> tuple[Cell, ...]:
    """A cell for every combination of these values, such as grid(d_mlp=[32, 512]) or grid(lr=[1e-3, 2e-3]).

    A label is the value where one setting varies, otherwise names and values. For d_mlp, a number is the width of the
    last layer's MLP.
    """
    cells = []
    for combination in product(*values.values()):
        value_of = dict(zip(values, combination, strict=True))
        names_and_values = ", ".join(f"{name} {value}" for name, value in value_of.items())
        settings = {}
        for name, value in value_of.items():
            dotted_name = _dotted_name(name)
            if name == "d_mlp" and isinstance(value, int):
                value = (*base.model.d_mlp[:-1], value)
            if value != attrgetter(dotted_name)(base):  # a cell says only what differs from the base
                settings[dotted_name] = value
        cells.append(Cell(str(combination[0]) if len(combination) == 1 else names_and_values, settings))
    return tuple(cells)


def _dotted_name(name: str) -> str:
    """The dotted name of a setting (`lr` is `optim.lr`); an error unless exactly one section has the name."""
    candidates = [f"{section}.{name}" for section in SECTIONS if f"{section}.{name}" in SETTINGS]
    if len(candidates) != 1:
        raise ConfigError("grid", name, "the name of one setting, such as lr, d_mlp or seen_fraction")
    return candidates[0]


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
        """The same number, of these cells alone."""
        return replace(self, cells=cells)

    def at_least(self, threshold: float) -> Question:
        """The question whether the number is at least this."""
        return Question(self, AtLeast(threshold))

    def at_most(self, threshold: float) -> Question:
        """The question whether the number is at most this."""
        return Question(self, AtMost(threshold))

    def between(self, low: float, high: float) -> Question:
        """The question whether the number is from `low` to `high`."""
        return Question(self, Between(low, high))

    def versus(
        self, other: str, *, at_least: float | None = None, at_most: float | None = None,
        between: tuple[float, float] | None = None,
    ) -> Question:  # fmt: skip
        """The question whether the number minus that of the cell `other` is at least, at most or between these."""
        if at_least is not None:
            return Question(self, AtLeast(at_least), other)
        if at_most is not None:
            return Question(self, AtMost(at_most), other)
        if between is not None:
            return Question(self, Between(*between), other)
        raise ValueError("versus takes one of at_least, at_most and between")


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
    """The label of the cell that they are compared with, if any."""


@dataclass(frozen=True)
class Computed:
    """A question about a number that a function computes from the whole table."""

    id: str
    says: str
    number: Callable[[Any], Measured | None]
    """A number of a StudyTable; None where the table has too few networks."""
    rule: Rule


def sentence(question: Question, cell: str, meanings: Mapping[str, str]) -> str:
    """The statement about one cell in words; `meanings` say what each column means."""
    number = question.number
    meaning = meanings.get(number.column, number.column)
    if number.among:
        meaning += f", among those that {meanings.get(number.among, number.among)},"
    subject = f"the share of networks that {meaning}" if number.kind == "share" else f"{meaning} on average"
    if question.other is None:
        return f"{cell}: {subject} is {question.rule}."
    return f'{cell}: {subject} is {_rule_for_difference(question.rule)} in the cell "{question.other}".'


def _rule_for_difference(rule: Rule) -> str:
    """A rule for the difference from another cell in words, such as "at least 0.1 higher than"."""
    if isinstance(rule, Between):
        return f"{rule.low:g} to {rule.high:g} more than"
    is_at_least = isinstance(rule, AtLeast)
    threshold = rule.threshold
    if threshold == 0:
        return "higher than" if is_at_least else "lower than"
    if threshold > 0:
        return f"at {'least' if is_at_least else 'most'} {threshold:g} higher than"
    # A difference of at least -0.1 is at most 0.1 lower.
    return f"at {'most' if is_at_least else 'least'} {-threshold:g} lower than"


def slug(label: str) -> str:
    """A label in the form that it has in identifiers: "scale 0.4, decay 0.1" becomes scale-0.4-decay-0.1."""
    text = label.lower().replace(" = ", "").replace("+", "plus").replace(" (final)", "").replace("_", "")
    text = re.sub("[()']", "", text)
    return re.sub(r"[^\w.]+", "-", text).strip("-")


@dataclass(frozen=True)
class Study:
    """Cells times seeds, and what is asked of them."""

    name: str
    question: str
    cells: tuple[Cell, ...]
    seeds: int
    """Networks in each cell without `models`."""
    steps: int = 15_000
    ask: tuple[Question | Computed, ...] = ()
    first_seed: int = 0
    """The seed of the first network of each cell; the others follow."""
    base: Config = BASE
    task: OwnTask | str | Path | None = None
    """A task of your own instead of the base's, or a file with TASK; name outcomes and numbers too, which are ours."""
    network: Factory | str | Path | None = None
    """A network of your own instead of the base's, or a file with NETWORK."""
    unit: str | None = None
    """The setting, such as seed.split, whose values are the independent units; if None, each network is a unit."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """What the study's own columns mean."""
    measure: Function | None = None
    """Numbers of every network after the last step (`measures.own`); the table has them as "NAME (final)"."""
    of_curves: Callable[[polars.DataFrame, int], dict[str, Any]] | None = None
    """More columns of a network, from its evaluations and the number of sequences of each set in them."""
    early: tuple[str, ...] = ()
    early_steps: tuple[int, ...] = ()
    """Columns and steps in the course of training; the table has their values as "NAME at STEP"."""
    observe: Observer | None = None
    """The observer that measures the networks during training; if None, that of every sweep."""
    outcomes: tuple[str, ...] = ("adds", "binds", "refines")
    """The outcomes whose shares its figure and its summary show."""
    numbers: tuple[str, ...] = ("addition at", "binding at")
    """Numbers of each network whose medians the summary shows."""

    def __post_init__(self) -> None:
        """Puts the user's task and network into `base`, and checks final exam, cells and what is asked of them."""
        object.__setattr__(self, "base", with_files(self.base, self.task, self.network))  # the dataclass is frozen
        if not self.base.record.final_sequences:
            example = "such as base=replace(PRESETS['tiny'], record=BASE.record)"
            raise ConfigError("record.final_sequences", 0, f"at least 1, {example}: outcomes are judged after training")
        cell_labels = [cell.label for cell in self.cells]
        asked_labels: set[str | None] = set()
        for question in self.ask:
            if isinstance(question, Question):
                asked_labels |= {*question.number.cells, question.other}
                for column in (question.number.column, question.number.among):
                    if column is not None:
                        self._check_column(column)
        unknown_labels = asked_labels - {*cell_labels, None}  # None: a question without another cell
        if len(set(cell_labels)) < len(cell_labels) or unknown_labels:
            raise ConfigError("ask", sorted(map(str, unknown_labels)), f"labels of the cells of {self.name}, each once")

    def _check_column(self, column: str) -> None:
        """Raises a ConfigError for a question about a column that the table surely will not have."""
        # With any of these, the table has columns whose names are not known here.
        has_unknown_columns = self.of_curves or self.early or self.task or self.network
        may_be_of_measure = column.endswith(")")  # as "NAME (final)"; only a call of the measure tells its names
        if column in self.column_meanings or may_be_of_measure or has_unknown_columns:
            return
        accepted = "a column of the table, such as 'binds', or 'NAME (final)' of a measure"
        raise ConfigError("ask", column, accepted + did_you_mean(column, self.column_meanings))

    @property
    def column_meanings(self) -> dict[str, str]:
        """What the columns of its table mean, by name; a meaning that the study states replaces ours."""
        exams = {final_column(name): f"accuracy ({label})" for name, label in EVALUATION_SETS.items()}
        return exams | MEANINGS | dict(self.columns)

    @property
    def config(self) -> Config:
        """The settings of the networks, before those of their cells are added."""
        return replace(self.base, optim=replace(self.base.optim, steps=self.steps))

    def sweep(self, seeds: int | None = None, steps: int | None = None, tf32: bool = False) -> Sweep:
        """The networks of the study as a sweep, with another number of seeds or steps where these are given.

        With `tf32`, matrix products on a GPU round to TF32 (`numerics.tf32`).
        """
        n_seeds = self.seeds if seeds is None else seeds
        if not 1 <= n_seeds <= 4096:
            raise ConfigError("seeds", n_seeds, "a whole number from 1 to 4096")
        optim = replace(self.base.optim, steps=self.steps if steps is None else steps)
        config = replace(self.base, optim=optim, numerics=replace(self.base.numerics, tf32=tf32))
        members = self._members(seeds)  # not `n_seeds`: without a number, cells that list their networks keep them all
        return Sweep(self.name, config, tuple(member for _, member in members), self.observer)

    def _members(self, seeds: int | None = None) -> list[tuple[str, Member]]:
        """Every network as the label of its cell and a member; `seeds` replaces the number of networks in each cell."""
        members = []
        for cell in self.cells:
            # A cell that lists the settings of its networks has no more than it lists.
            n_networks = self.seeds if seeds is None else seeds
            settings_of_networks = cell.models[:seeds] if cell.models else ({},) * n_networks
            for i, settings in enumerate(settings_of_networks):
                members.append((cell.label, Member(self.first_seed + i, {**cell.settings, **settings})))
        return members

    @property
    def observer(self) -> Observer | None:
        """The observer that measures the networks during training; None for that of every sweep."""
        if self.observe is not None:
            return self.observe
        return partial(FinalMeasures, self.measure) if self.measure is not None else None

    @property
    def n_models(self) -> int:
        """The number of networks in all cells."""
        return len(self._members())

    @property
    def settings_within_cells(self) -> tuple[str, ...]:
        """The dotted names of the settings in which networks of one cell differ."""
        settings_of_networks = [settings for cell in self.cells for settings in cell.models]
        return tuple(sorted({name for settings in settings_of_networks for name in settings}))

    def label_of(self, member: Member) -> str:
        """The label of the cell that a network belongs to."""
        return self._cell_labels[member.settings]

    @cached_property
    def _cell_labels(self) -> dict[tuple[tuple[str, Any], ...], str]:
        """The label of each network's cell, by the network's settings."""
        return {member.settings: label for label, member in self._members()}


class FinalMeasures(SweepObserver):
    """The measures of any sweep, and after the last step also those of a function `columns` of the study."""

    def __init__(self, columns: Function, configs: Sequence[Config], seen: Tensor):
        super().__init__(configs, seen)
        self.columns = columns

    def __call__(self, stack: Stack, step: int) -> list[dict[str, Any]]:
        """The row of each model at this step."""
        rows = super().__call__(stack, step)
        if step == stack.config.optim.steps:
            numbers_of_models = numbers_of(self.columns, stack, self.configs, self.seen)
            for row, numbers in zip(rows, numbers_of_models, strict=True):
                row["tests"] |= {final_column(name): value for name, value in numbers.items()}
        return rows
