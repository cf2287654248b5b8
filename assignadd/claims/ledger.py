"""The ledger: every claim of the paper, one record each, over any number of trained models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assignadd.claims.addition import CIRCUIT, FOURIER, SIMILARITY
from assignadd.claims.dynamics import DYNAMICS
from assignadd.claims.evidence import Evidence
from assignadd.claims.generalisation import GENERALISATION
from assignadd.claims.later import LATER
from assignadd.claims.mechanism import ROUTING, WEIGHTS
from assignadd.claims.record import Claim, Record, judge
from assignadd.config import ConfigError

CLAIMS: tuple[Claim, ...] = (*GENERALISATION, *CIRCUIT, *SIMILARITY, *FOURIER, *ROUTING, *WEIGHTS, *DYNAMICS, *LATER)


def ledger(
    evidences: Sequence[Evidence],
    command: str,
    claims: Sequence[Claim] = CLAIMS,
    listener: Callable[[str, int], None] = lambda claim, index: None,
) -> list[Record]:
    """A record per claim; `command` is how the ledger was asked for, each record's is that with its own id."""
    records = []
    for i, claim in enumerate(claims):
        listener(claim.id, i)
        records.append(judge(claim, evidences, f"{command} --only {claim.id}"))
    return records


def chosen(only: str | None) -> tuple[Claim, ...]:
    """The claims with this id or label; all without one."""
    found = tuple(c for c in CLAIMS if only in (None, c.id, c.label))
    if not found:
        raise ConfigError("only", only, "the id or label of a claim; `assignadd claims RUN` lists them")
    return found
