"""What a study is: a question, cells of settings to train with many seeds, and rules that are stated beforehand."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import Tensor

from assignadd.config import PRESETS, Config, ConfigError, Member
from assignadd.model.stack import Stack
from assignadd.stats import wilson
from assignadd.sweeps.final_tests import final_column
from assignadd.sweeps.jobs import SweepObserver
from assignadd.sweeps.settings import Sweep
from assignadd.training.trainer import Observer
from assignadd.verdicts import Rule

if TYPE_CHECKING:
    import polars

# A study has one evaluation on many sequences at the end, and small ones on the way from which onsets are read.
RECORD = replace(
    PRESETS["paper"].record, eval_every=250, checkpoint_every=5000, state_every=1 << 31, final_sequences=20_000
)

# The label of the cell with the paper's settings, in most studies.
PAPER = "the paper's"


def study_base(steps: int, **sections: Any) -> Config:
    """The paper's settings with the record of a study, this many steps, and other sections where given."""
    paper = PRESETS["paper"]
    return replace(paper, optim=replace(paper.optim, steps=steps), **({"record": RECORD} | sections))


BASE = study_base(steps=15_000)


def slug(label: str) -> str:
    """A label as a part of the identifier of a statement: "scale 0.4, decay 0.1" is scale-0.4-decay-0.1."""
    return re.sub(
        "[ _',()]", lambda found: "-" * (found[0] == " "), label.lower().replace(" = ", "").replace("+", "plus")
    )


@dataclass(frozen=True)
class Cell:
    """Settings in which some of a study's models differ from its base, and what people call them."""

    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values by dotted name, such as {"model.n_heads": 2}."""
    models: tuple[Mapping[str, Any], ...] = ()
    """Settings of each of its models on top of these; if empty, the models differ in the seed alone."""


@dataclass(frozen=True)
class Hypothesis:
    """A statement about cells of a study, and the rule by which the interval of its number decides it.

    The number is the share of models with an outcome, or the mean of a number that every model has, in one cell; with
    `versus` it is the difference from the other cell. `among` keeps the models with another outcome alone.
    """

    id: str
    claim: str
    outcome: str
    """A column of the study's table (`table.OUTCOMES`, or a number)."""
    cell: str
    """The label of a cell."""
    rule: Rule
    versus: str | None = None
    among: str | None = None
    unit: str | None = None
    """The setting whose values are the independent units, where a network is trained several times: `start.network`."""


@dataclass(frozen=True)
class Estimate:
    """A number over `n` models with its 95 % interval; no ends where there are too few models for one."""

    value: float
    low: float | None
    high: float | None
    n: int

    @classmethod
    def share(cls, successes: float, n: int) -> Estimate:
        """A share of n models with Wilson's interval."""
        ends = wilson(successes, n)
        return cls(successes / n, ends.low, ends.high, n)


@dataclass(frozen=True)
class ComputedHypothesis:
    """A statement about a number that a function computes from a study's whole table, and the rule that decides it."""

    id: str
    claim: str
    rule: Rule
    number: Callable[[Any], Estimate | None]
    """The number, from the study's `StudyTable`; None where that has too few models for one."""


def by_unit(
    hypotheses: Sequence[Hypothesis | ComputedHypothesis], unit: str
) -> tuple[Hypothesis | ComputedHypothesis, ...]:
    """The same statements, with the values of a setting as independent units."""
    return tuple(replace(h, unit=unit) if isinstance(h, Hypothesis) else h for h in hypotheses)


@dataclass(frozen=True)
class Study:
    """Cells times seeds, and what is asked of them."""

    name: str
    title: str
    question: str
    method: str
    """What differs between cells and what is held fixed, in a few sentences."""
    cells: tuple[Cell, ...]
    seeds: int
    """Models in each cell that has no settings for each model."""
    hypotheses: tuple[Hypothesis | ComputedHypothesis, ...]
    base: Config = BASE
    outcomes: tuple[str, ...] = ("adds", "binds", "refines")
    """The outcomes whose shares its figure and its summary show."""
    numbers: tuple[str, ...] = ("addition at", "binding at")
    """Numbers of each model whose medians the summary shows."""
    shown: tuple[str, ...] = ()
    shown_on: str = ""
    """Up to three numbers that its figure shows for each model that binds, and what their common axis is."""
    observe: Observer | None = None
    """What measures the models during training; if None, as in a sweep."""
    of_curves: Callable[[polars.DataFrame, int], dict[str, Any]] | None = None
    """More columns of a model, from its rows of the sweep's table and the sequences of each set in an evaluation."""
    first_seed: int = 0
    """The seed of the first model of each cell; the others follow."""
    early_steps: tuple[int, ...] = ()
    early: tuple[str, ...] = ()
    """The steps in the course of training, and the columns of a sweep, whose values the table has."""

    def __post_init__(self) -> None:
        labels = [cell.label for cell in self.cells]
        of_cells = [h for h in self.hypotheses if isinstance(h, Hypothesis)]
        named = {label for h in of_cells for label in (h.cell, h.versus) if label is not None}
        assert len(set(labels)) == len(labels) and named <= set(labels), f"labels of the cells of {self.name}"

    @property
    def reference(self) -> str:
        """The label of the cell with the base's own settings, from which the others differ."""
        return next(cell.label for cell in self.cells if not cell.settings)

    def sweep(self, seeds: int | None = None, steps: int | None = None, tf32: bool = False) -> Sweep:
        """The models of the study; with another number of seeds or steps where these are given."""
        n = self.seeds if seeds is None else seeds
        if not 1 <= n <= 4096:
            raise ConfigError("seeds", n, "a whole number from 1 to 4096")
        base = self.base
        optim = base.optim if steps is None else replace(base.optim, steps=steps)
        config = replace(base, optim=optim, numerics=replace(base.numerics, tf32=tf32))
        cells = tuple(
            Member(self.first_seed + i, {**cell.settings, **own})
            for cell in self.cells
            for i, own in enumerate(cell.models[:seeds] or [{}] * n)
        )
        return Sweep(self.name, config, cells, self.observe)

    @property
    def n_models(self) -> int:
        """Models in all cells."""
        return sum(len(cell.models) or self.seeds for cell in self.cells)

    @property
    def own_settings(self) -> tuple[str, ...]:
        """The dotted names of the settings in which models of one cell differ."""
        return tuple(sorted({name for cell in self.cells for own in cell.models for name in own}))

    def label_of(self, member: Member) -> str:
        """The label of the cell that a model belongs to."""
        return self._labels[member.own]

    @cached_property
    def _labels(self) -> dict[tuple[tuple[str, Any], ...], str]:
        every = ((cell, own) for cell in self.cells for own in cell.models or ({},))
        return {Member(0, {**cell.settings, **own}).own: cell.label for cell, own in every}


Columns = Callable[[Stack, Sequence[Config], Tensor], list[dict[str, float]]]
"""Numbers of each model of a stack, by name, from its configuration and the pairs that it has seen."""


class FinalMeasures(SweepObserver):
    """As in a sweep, and after the last step also columns of the study's own."""

    def __init__(self, columns: Columns, configs: Sequence[Config], seen: Tensor):
        super().__init__(configs, seen)
        self.columns = columns

    def __call__(self, stack: Stack, step: int) -> list[dict[str, Any]]:
        found = super().__call__(stack, step)
        if step == stack.config.optim.steps:
            for row, columns in zip(found, self.columns(stack, self.configs, self.seen), strict=True):
                row["tests"] |= {final_column(name): value for name, value in columns.items()}
        return found
