"""A claim of the paper, the way to check it, and the record of what was found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignadd.stats import wilson

if TYPE_CHECKING:
    from assignadd.claims.evidence import Evidence
    from assignadd.sweeps.population import SeedCurves

HOLDS, FAILS, UNTESTABLE, UNMEASURED = "holds", "does not hold", "cannot be tested", "not measured yet"


@dataclass(frozen=True)
class Measured:
    """A number with its 95 % interval (the number itself where nothing was sampled) and what it was counted on."""

    value: float
    low: float
    high: float
    n: int
    unit: str

    @classmethod
    def exactly(cls, value: float, n: int, unit: str) -> Measured:
        return cls(value, value, value, n, unit)

    @classmethod
    def share(cls, successes: int, n: int, unit: str) -> Measured:
        interval = wilson(successes, n)
        return cls(successes / n, interval.low, interval.high, n, unit)

    @classmethod
    def mean(cls, mean: float, deviation: float, n: int, unit: str) -> Measured:
        half = 1.959964 * deviation / math.sqrt(n)
        return cls(mean, mean - half, mean + half, n, unit)


@dataclass(frozen=True)
class AtLeast:
    threshold: float

    def holds(self, measured: Measured) -> bool:
        return measured.high >= self.threshold

    def __str__(self) -> str:
        return f"holds unless the 95 % interval lies below {self.threshold:g}"


@dataclass(frozen=True)
class AtMost:
    threshold: float

    def holds(self, measured: Measured) -> bool:
        return measured.low <= self.threshold

    def __str__(self) -> str:
        return f"holds unless the 95 % interval lies above {self.threshold:g}"


@dataclass(frozen=True)
class Between:
    low: float
    high: float

    def holds(self, measured: Measured) -> bool:
        return measured.high >= self.low and measured.low <= self.high

    def __str__(self) -> str:
        return f"holds unless the 95 % interval lies outside {self.low:g} to {self.high:g}"


Rule = AtLeast | AtMost | Between


@dataclass(frozen=True)
class Claim:
    """One sentence or number of the paper in our words, with the way to check it.

    `measure` gives a number for one trained model, or None where that model cannot be asked (a split without held-out
    pairs, say). A claim about every initialisation, which a handful of seeds cannot settle, has `seed_measure` instead: it
    is asked of every seed of the package's census, and its value is the share of seeds in which it holds. `measured` is
    for numbers of a whole population, such as a threshold.
    """

    id: str
    label: str
    """The paper's figure label or section; `ours` for readings the paper does not have."""
    claim: str
    paper: str
    measure: Callable[[Evidence], Measured | None] | None = None
    rule: Rule | None = None
    seed_measure: Callable[[SeedCurves], Measured | None] | None = None
    measured: Callable[[], Measured | None] | None = None
    comment: str = ""
    detail: Callable[[Evidence], str] | None = None
    """More than a number, of one network."""


@dataclass(frozen=True)
class SeedResult:
    run: str
    """Its folder's name, or the population's: two runs may have the same seed."""
    seed: int
    value: float
    low: float
    high: float
    holds: bool


@dataclass(frozen=True)
class Record:
    """A line of the ledger."""

    id: str
    label: str
    claim: str
    paper: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    unit: str
    seeds: int
    verdict: str
    rule: str
    comment: str
    command: str
    by_seed: tuple[SeedResult, ...]
