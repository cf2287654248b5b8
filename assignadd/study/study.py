"""What a study is: a question, cells of settings to train with many seeds, and rules that are stated beforehand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING, Any

from torch import Tensor

from assignadd.config import PRESETS, Config, ConfigError, Member
from assignadd.model.stack import Stack
from assignadd.study.ask import Computed, Question
from assignadd.sweeps.final_tests import final_column
from assignadd.sweeps.jobs import SweepObserver
from assignadd.sweeps.settings import SECTIONS, Sweep
from assignadd.task.evalsets import LABELS as EVALUATION_SETS
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
LABELS = {
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
    for row in product(*values.values()):
        named = list(zip(values, row, strict=True))
        label = str(row[0]) if len(row) == 1 else ", ".join(f"{name} {value}" for name, value in named)
        settings = {_dotted(name): _mlp(base, value) if name == "d_mlp" else value for name, value in named}
        cells.append(Cell(label, {name: value for name, value in settings.items() if _value(base, name) != value}))
    return tuple(cells)


def _value(config: Config, dotted: str) -> Any:
    section, _, name = dotted.partition(".")
    return getattr(getattr(config, section), name)


def _dotted(name: str) -> str:
    """The dotted name of a setting whose last part this is."""
    found = [f"{s}.{name}" for s in SECTIONS if name in {f.name for f in fields(getattr(BASE, s))}]
    if len(found) != 1:
        raise ConfigError("grid", name, "the name of one setting, such as lr, d_mlp or seen_fraction")
    return found[0]


def _mlp(base: Config, value: Any) -> Any:
    return (*base.model.d_mlp[:-1], value) if isinstance(value, int) else value


Columns = Callable[[Stack, Sequence[Config], Tensor], list[dict[str, float]]]
"""Numbers of each model of a stack, by name, from its configuration and the pairs that it has seen."""


@dataclass(frozen=True)
class Study:
    """Cells times seeds, and what is asked of them."""

    name: str
    question: str
    cells: tuple[Cell, ...]
    seeds: int
    """Networks in each cell that has no settings for each of them."""
    steps: int = 15_000
    ask: tuple[Question | Computed, ...] = ()
    method: str = ""
    """What differs between cells and what is held fixed, in a few sentences."""
    first_seed: int = 0
    """The seed of the first network of each cell; the others follow."""
    base: Config = BASE
    unit: str | None = None
    """The setting whose values are the independent units, where networks are trained several times; else networks."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """What the study's own columns mean."""
    measure: Columns | None = None
    """Numbers of every network after the last step; the table has them as "NAME (final)"."""
    of_curves: Callable[[polars.DataFrame, int], dict[str, Any]] | None = None
    """More columns of a network, from its evaluations and the number of sequences of each set in them."""
    early: tuple[str, ...] = ()
    early_steps: tuple[int, ...] = ()
    """Columns whose values in the course of training the table has, and the steps."""
    observe: Observer | None = None
    """What measures the networks during training; if None, as in a sweep."""
    outcomes: tuple[str, ...] = ("adds", "binds", "refines")
    """The outcomes whose shares its figure and its summary show."""
    numbers: tuple[str, ...] = ("addition at", "binding at")
    """Numbers of each network whose medians the summary shows."""
    shown: tuple[str, ...] = ()
    shown_on: str = ""
    """Up to three numbers that its figure shows for each network that binds, and what their common axis is."""

    def __post_init__(self) -> None:
        if not self.base.record.final_sequences:
            said = (
                "at least 1, such as base=replace(PRESETS['tiny'], record=BASE.record): "
                "outcomes are judged after training"
            )
            raise ConfigError("record.final_sequences", 0, said)
        labels = [cell.label for cell in self.cells]
        asked = [q for q in self.ask if isinstance(q, Question)]
        named = {label for q in asked for label in (*q.number.cells, *([q.other] if q.other else []))}
        if len(set(labels)) < len(labels) or not named <= set(labels):
            raise ConfigError("ask", sorted(named - set(labels)), f"labels of the cells of {self.name}, each once")

    @property
    def labels(self) -> dict[str, str]:
        """What the columns of its table mean, by name."""
        exams = {final_column(name): f"accuracy ({label})" for name, label in EVALUATION_SETS.items()}
        return exams | LABELS | dict(self.columns)

    @property
    def config(self) -> Config:
        """The settings that cells have where they say nothing else."""
        return replace(self.base, optim=replace(self.base.optim, steps=self.steps))

    @property
    def reference(self) -> str:
        """The label of the cell with the base's own settings, from which the others differ; the first if none has."""
        return next((cell.label for cell in self.cells if not cell.settings), self.cells[0].label)

    def sweep(self, seeds: int | None = None, steps: int | None = None, tf32: bool = False) -> Sweep:
        """The networks of the study; with another number of seeds or steps where these are given."""
        n = self.seeds if seeds is None else seeds
        if not 1 <= n <= 4096:
            raise ConfigError("seeds", n, "a whole number from 1 to 4096")
        config = self.config
        optim = config.optim if steps is None else replace(config.optim, steps=steps)
        config = replace(config, optim=optim, numerics=replace(config.numerics, tf32=tf32))
        cells = tuple(
            Member(self.first_seed + i, {**cell.settings, **own})
            for cell in self.cells
            for i, own in enumerate(cell.models[:seeds] or [{}] * n)
        )
        return Sweep(self.name, config, cells, self.observer)

    @property
    def observer(self) -> Observer | None:
        """What measures the networks during training."""
        return self.observe or (partial(FinalMeasures, self.measure) if self.measure else None)

    @property
    def n_models(self) -> int:
        """Networks in all cells."""
        return sum(len(cell.models) or self.seeds for cell in self.cells)

    @property
    def own_settings(self) -> tuple[str, ...]:
        """The dotted names of the settings in which networks of one cell differ."""
        return tuple(sorted({name for cell in self.cells for own in cell.models for name in own}))

    def label_of(self, member: Member) -> str:
        """The label of the cell that a network belongs to."""
        return self._labels[member.own]

    @cached_property
    def _labels(self) -> dict[tuple[tuple[str, Any], ...], str]:
        every = ((cell, own) for cell in self.cells for own in cell.models or ({},))
        return {Member(0, {**cell.settings, **own}).own: cell.label for cell, own in every}


class FinalMeasures(SweepObserver):
    """As in a sweep, and after the last step also columns of the study's own."""

    def __init__(self, columns: Columns, configs: Sequence[Config], seen: Tensor):
        super().__init__(configs, seen)
        self.columns = columns

    def __call__(self, stack: Stack, step: int) -> list[dict[str, Any]]:
        rows = super().__call__(stack, step)
        if step == stack.config.optim.steps:
            for row, columns in zip(rows, self.columns(stack, self.configs, self.seen), strict=True):
                row["tests"] |= {final_column(name): value for name, value in columns.items()}
        return rows
