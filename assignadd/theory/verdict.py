"""One claim of the paper's theory, what was found, and the verdict: a plain record for whoever keeps a ledger."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Judgement = Literal["holds", "does not hold", "cannot be tested"]


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

    def record(self) -> dict[str, Any]:
        return asdict(self)


def judged(holds: bool) -> Judgement:
    return "holds" if holds else "does not hold"
