"""A claim of the paper, the way to check it, and the record of what was found."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignadd.stats import wilson
from assignadd.verdicts import HOLDS, UNDECIDED, UNTESTABLE, AtLeast, AtMost, Between, Rule

if TYPE_CHECKING:
    from assignadd.claims.evidence import Evidence
    from assignadd.sweeps.population import Populations, SeedCurves

__all__ = ["AtLeast", "AtMost", "Between", "Claim", "Measured", "Record", "SeedResult", "verdict_over"]


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
    def share(cls, successes: float, n: int, unit: str) -> Measured:
        """A share with Wilson's interval; `successes` is a sum of shares where a unit is more than one trial (a pair in many contexts)."""
        interval = wilson(successes, n)
        return cls(successes / n, interval.low, interval.high, n, unit)

    @classmethod
    def mean(cls, mean: float, deviation: float, n: int, unit: str) -> Measured:
        half = 1.959964 * deviation / math.sqrt(n)
        return cls(mean, mean - half, mean + half, n, unit)


@dataclass(frozen=True)
class Claim:
    """One sentence or number of the paper in our words, with the way to check it.

    `measure` gives a number for one trained model, or None where that model cannot be asked (a split without held-out
    pairs, say). A claim about every initialisation, which a handful of seeds cannot settle, has `seed_measure` instead: it
    is asked of every seed of a census, and its value is the share of seeds in which it holds. `measured` is for numbers of a
    whole population, such as a threshold.

    The rule's threshold is compared with the 95 % interval: `holds` and `does not hold` where all of it is on one side,
    `undecided` where it is on both.
    """

    id: str
    label: str
    """The paper's figure label or section; `ours` for readings the paper does not have."""
    claim: str
    paper: str
    measure: Callable[[Evidence], Measured | None] | None = None
    rule: Rule | None = None
    seed_measure: Callable[[SeedCurves], Measured | None] | None = None
    measured: Callable[[Populations], Measured | None] | None = None
    sweep: str = ""
    """Which sweep `measured` reads, `fraction` or `two_var`; the census unless given."""
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
    """By the value alone, which is how seeds are counted."""
    verdict: str
    """By the interval."""

    @classmethod
    def of(cls, run: str, seed: int, measured: Measured, rule: Rule) -> SeedResult:
        point = Measured.exactly(measured.value, measured.n, measured.unit)
        holds = rule.verdict(point) == HOLDS
        return cls(run, seed, measured.value, measured.low, measured.high, holds, rule.verdict(measured))


def verdict_over(results: Sequence[SeedResult]) -> str:
    """The verdict over several models: theirs where they agree, else in how many it holds, and how many of them are undecided."""
    verdicts = {r.verdict for r in results}
    if len(verdicts) <= 1:
        return verdicts.pop() if verdicts else UNTESTABLE
    undecided = sum(r.verdict == UNDECIDED for r in results)
    counted = f"holds in {sum(r.holds for r in results)} of {len(results)} seeds"
    return f"{counted} ({undecided} undecided)" if undecided else counted


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
    population: str = ""
    """Which population of seeds the number is of; empty for the networks at hand and for the theory."""
