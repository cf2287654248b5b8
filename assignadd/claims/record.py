"""A claim of the paper, what was measured for it, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignadd.stats import median_interval, wilson

if TYPE_CHECKING:
    from assignadd.claims.evidence import Evidence

HOLDS, FAILS, UNTESTABLE, UNMEASURED = "holds", "does not hold", "cannot be tested", "not measured yet"
# A claim about all seeds is tested on so many at least: none failing then bounds the share that fails below 10 % (95 %).
SEEDS_FOR_ALL = 35


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


Rule = AtLeast | AtMost


@dataclass(frozen=True)
class Claim:
    """One sentence or number of the paper in our words, with the way to check it.

    `measure` gives a number for one trained model, or None where that model cannot be asked (a split without held-out
    pairs, say). `all_seeds` marks claims about every initialisation, which a handful of seeds cannot settle.
    """

    id: str
    label: str
    """The paper's figure label or section; `ours` for readings the paper does not have."""
    claim: str
    paper: str
    measure: Callable[[Evidence], Measured | None] | None = None
    rule: Rule | None = None
    all_seeds: bool = False
    comment: str = ""


@dataclass(frozen=True)
class SeedResult:
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


def judge(claim: Claim, evidences: Sequence[Evidence], command: str) -> Record:
    """The claim's record over these models.

    The verdict counts every one of them. The value is the median over those that learned to bind variables, as the paper's
    network did (over all where none has, and for claims about all seeds).
    """
    found: list[tuple[Evidence, Measured]] = []
    if claim.measure is not None:
        found = [(e, m) for e in evidences if (m := claim.measure(e)) is not None]
    results = [SeedResult(e.seed, m.value, m.low, m.high, _holds(claim, m)) for e, m in found]
    shown = [m for e, m in found if claim.all_seeds or e.learned_binding] or [m for _, m in found]
    measured = _over_seeds(shown)
    value, low, high = (measured.value, measured.low, measured.high) if measured else (None, None, None)
    return Record(
        claim.id, claim.label, claim.claim, claim.paper, value, low, high, measured.n if measured else 0, measured.unit if measured else "",
        len(results), _verdict(claim, results), str(claim.rule or ""), _comment(claim, [e for e, _ in found], results), command,
        tuple(results),
    )  # fmt: skip


def _holds(claim: Claim, measured: Measured) -> bool:
    return claim.rule is not None and claim.rule.holds(measured)


def _verdict(claim: Claim, results: Sequence[SeedResult]) -> str:
    held = sum(r.holds for r in results)
    if claim.measure is None:
        return UNMEASURED
    if not results or (claim.all_seeds and held == len(results) < SEEDS_FOR_ALL):
        return UNTESTABLE
    if held in (0, len(results)):
        return HOLDS if held else FAILS
    return f"holds in {held} of {len(results)} seeds"


def _comment(claim: Claim, measured: Sequence[Evidence], results: Sequence[SeedResult]) -> str:
    """The claim's own comment, behind what the verdict alone does not say: how many seeds a claim about all needs, and those that bind."""
    said = []
    if claim.all_seeds and 0 < len(results) < SEEDS_FOR_ALL:
        said.append(f"{len(results)} of the {SEEDS_FOR_ALL} seeds that a claim about all needs.")
    binding = [r.holds for e, r in zip(measured, results, strict=True) if e.learned_binding]
    if len(results) > len(binding) > 0 and 0 < sum(r.holds for r in results) < len(results):
        said.append(f"Holds in {sum(binding)} of the {len(binding)} seeds that learned binding.")
    return " ".join([*said, claim.comment]).strip()


def _over_seeds(found: Sequence[Measured]) -> Measured | None:
    """One seed: as measured. Several: their median, with its own interval from six seeds on, before that the widest of theirs."""
    if len(found) <= 1:
        return found[0] if found else None
    value, interval = median_interval([m.value for m in found])
    low, high = (interval.low, interval.high) if interval else (min(m.low for m in found), max(m.high for m in found))
    return Measured(value, low, high, sum(m.n for m in found), found[0].unit)
