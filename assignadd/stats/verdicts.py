"""The possible verdicts on a claim, and the rules that decide them from an interval."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, Protocol, runtime_checkable

from assignadd.stats.intervals import Interval

Verdict = Literal[
    "holds", "does not hold", "undecided", "cannot be tested", "not applicable", "not measured yet", "failed"
]
HOLDS: Final = "holds"
FAILS: Final = "does not hold"
UNDECIDED: Final = "undecided"
UNTESTABLE: Final = "cannot be tested"
NOT_APPLICABLE: Final = "not applicable"  # to the architecture
UNMEASURED: Final = "not measured yet"
BROKEN: Final = "could not be measured"  # its measure raised an error
SOME_SEEDS: Final = "holds in some seeds"  # of several networks whose verdicts differ


@runtime_checkable
class HasEnds(Protocol):
    """Anything with the two ends of a 95 % interval; an exact number has itself at both ends."""

    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


def decided(holds: bool, fails: bool | None = None) -> Verdict:
    """The verdict on an exact number, or, with `fails`, on an interval: undecided where it neither holds nor fails."""
    return HOLDS if holds else FAILS if fails is None or fails else UNDECIDED


@dataclass(frozen=True)
class AtLeast:
    """Holds if the number is at least the threshold."""

    threshold: float

    def verdict(self, measured: HasEnds) -> Verdict:
        return decided(measured.low >= self.threshold, measured.high < self.threshold)

    def __str__(self) -> str:
        return f"at least {self.threshold:g}"


@dataclass(frozen=True)
class AtMost:
    """Holds if the number is at most the threshold."""

    threshold: float

    def verdict(self, measured: HasEnds) -> Verdict:
        return decided(measured.high <= self.threshold, measured.low > self.threshold)

    def __str__(self) -> str:
        return f"at most {self.threshold:g}"


@dataclass(frozen=True)
class Between:
    """Holds if the number is from `low` to `high`."""

    low: float
    high: float

    def verdict(self, measured: HasEnds) -> Verdict:
        outside = measured.high < self.low or measured.low > self.high
        return decided(self.low <= measured.low and measured.high <= self.high, outside)

    def __str__(self) -> str:
        return f"from {self.low:g} to {self.high:g}"


Rule = AtLeast | AtMost | Between


@dataclass(frozen=True)
class Statement:
    """A statement of the paper's theory, the number found for it, and the verdict."""

    id: str
    claim: str
    paper: str
    """What the paper says, in its words or formula."""
    value: float | None
    """The number that decides; None where nothing could be measured."""
    verdict: Verdict
    detail: str
    rule: str = ""
    """When it holds."""
    interval: Interval | None = None
    """95 %, where the value comes from drawn sequences; None where it is exact."""
    draws: int = 0
    """How many sequences were drawn."""

    def record(self) -> dict[str, Any]:
        """The fields as plain values, with the interval's ends as `low` and `high`."""
        found = asdict(self)
        del found["interval"]
        low, high = (self.value, self.value) if self.interval is None else (self.interval.low, self.interval.high)
        return {**found, "low": low, "high": high}
