"""One claim of the paper's theory, what was found, and the verdict: a plain record for whoever keeps a ledger."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from assignadd.stats import Interval

Judgement = Literal["holds", "does not hold", "undecided", "cannot be tested"]
# The accuracy from which a skill counts as learned, as for the networks.
LEARNED = 0.95


@dataclass(frozen=True)
class Verdict:
    id: str
    claim: str
    paper: str
    """What the paper says, in its words or formula."""
    value: float | None
    """The number the verdict rests on; None where nothing could be measured."""
    verdict: Judgement
    detail: str
    rule: str = ""
    """When it holds."""
    interval: Interval | None = None
    """95 %, where the value comes from drawn sequences; None where it is exact."""
    draws: int = 0
    """How many sequences that were."""

    def record(self) -> dict[str, Any]:
        found = asdict(self)
        del found["interval"]
        low, high = (self.value, self.value) if self.interval is None else (self.interval.low, self.interval.high)
        return {**found, "low": low, "high": high}


def judged(holds: bool) -> Judgement:
    """The verdict on an exact number."""
    return "holds" if holds else "does not hold"


def judged_at_least(interval: Interval, threshold: float) -> Judgement:
    """The verdict on a sampled number: undecided while its 95 % interval has the threshold inside."""
    return "holds" if interval.low >= threshold else "does not hold" if interval.high < threshold else "undecided"


def listed_bands(bands: list[tuple[float, float]]) -> str:
    """Intervals in words, such as `1.47 to 1.61 and 15.31 to 16.69`."""
    return " and ".join(f"{low:.2f} to {high:.2f}" for low, high in bands) or "none"
