"""The ledger: every claim of the paper, one record each, over any number of trained models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assignadd.claims.addition import CIRCUIT, FOURIER, SIMILARITY
from assignadd.claims.causes import CAUSES
from assignadd.claims.dynamics import DYNAMICS
from assignadd.claims.evidence import Evidence
from assignadd.claims.generalisation import GENERALISATION
from assignadd.claims.judge import judge
from assignadd.claims.mechanism import ROUTING, WEIGHTS
from assignadd.claims.operand_attention import OPERAND_ATTENTION
from assignadd.claims.population import POPULATION
from assignadd.claims.record import Claim, Record
from assignadd.claims.theory import LABEL as THEORY_LABEL
from assignadd.claims.theory import theory_records
from assignadd.config import ConfigError
from assignadd.sweeps.population import Populations, populations_for

CLAIMS: tuple[Claim, ...] = (
    *GENERALISATION, *CIRCUIT, *SIMILARITY, *FOURIER, *ROUTING, *WEIGHTS, *OPERAND_ATTENTION, *CAUSES, *DYNAMICS, *POPULATION,
)  # fmt: skip


def ledger(
    evidences: Sequence[Evidence],
    command: str,
    only: str | None = None,
    listener: Callable[[str], None] = lambda claim: None,
    populations: Populations | None = None,
) -> list[Record]:
    """A record per claim, or of those with this id or label.

    `command` is how the ledger was asked for; a record's own is that with its id. Without models, what is left are the claims
    about populations and the theory, which need none. `populations` are the package's unless given, where these models are of
    the paper's task and architecture.
    """
    if populations is None:
        populations = populations_for([e.config for e in evidences])
    records = []
    for claim in chosen(only):
        if claim.measure is not None and not evidences:
            continue
        listener(claim.id)
        records.append(judge(claim, evidences, f"{command} --only {claim.id}", populations))
    if only is None or _is_theory(only):
        listener("theory")
        records += [r for r in theory_records(evidences) if only in (None, r.id, r.label)]
    return records


def chosen(only: str | None) -> tuple[Claim, ...]:
    """The claims with this id or label; all without one. The theory's have no table of their own: they come from its floor."""
    found = tuple(c for c in CLAIMS if only in (None, c.id, c.label))
    if not found and not _is_theory(only or ""):
        raise ConfigError("only", only, "the id or label of a claim; `assignadd claims RUN` lists them")
    return found


def _is_theory(only: str) -> bool:
    return only == THEORY_LABEL or only.startswith("theory-")
