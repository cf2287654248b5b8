"""The ledger: one record for each claim of the paper, over any number of trained models."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import TypeVar

import msgspec

from assignadd.claims.addition import ADDITION, APPENDIX_C
from assignadd.claims.ahead import Job, measure_ahead, properties
from assignadd.claims.causes import CAUSES
from assignadd.claims.evidence import Evidence, runs_of
from assignadd.claims.first_spike import FIRST_SPIKE
from assignadd.claims.generalisation import GENERALISATION
from assignadd.claims.look_up import CUES, OPERAND_ATTENTION
from assignadd.claims.mechanism import MECHANISM
from assignadd.claims.nameless import COMPOSITION, STUCK, STUCK_SEEDS
from assignadd.claims.phases import PHASES, ROUTING_PLATEAU
from assignadd.claims.population import POPULATION
from assignadd.claims.record import Claim, Record, judge
from assignadd.claims.second_spike import SECOND_SPIKE
from assignadd.claims.statements import LABEL as THEORY_LABEL
from assignadd.claims.statements import PAPER_THEORY, theory_records
from assignadd.config import ConfigError
from assignadd.runs.environment import Environment
from assignadd.sweeps.population import Populations, populations_for

Listed = TypeVar("Listed", Claim, Record)
# The paper's claims in its own order: what the network and its seeds achieve (sections 3 and 4), how it adds and looks
# up (5.1, 5.2; by measures, then by interventions), how training proceeds (6, appendix B). The theory follows.
DYNAMICS = (*PHASES, *FIRST_SPIKE, *ROUTING_PLATEAU, *SECOND_SPIKE)
CLAIMS: tuple[Claim, ...] = (*GENERALISATION, *POPULATION, *ADDITION, *MECHANISM, *CAUSES, *DYNAMICS, APPENDIX_C)
# What our findings rest on: asked for by name alone (`assignadd claims RUN --only stuck`).
OF_FINDINGS: tuple[Claim, ...] = (*OPERAND_ATTENTION, *CUES, *STUCK, *STUCK_SEEDS, *COMPOSITION)
# What the ledger needs that takes long and is of no model.
THEORY = properties(PAPER_THEORY, "study")


def ledger(
    evidences: Sequence[Evidence],
    command: str,
    only: str | None = None,
    listener: Callable[[str], None] = lambda claim: None,
    populations: Populations | None = None,
    processes: int = 1,
) -> list[Record]:
    """The records of all claims of the paper, or of those with this id or label, or beginning of an id.

    `command` is the command that asked for the ledger; each record has it with its own id. Without models, only claims
    about populations and the theory are judged. `populations` default to those of the package, if these models have
    the paper's task and architecture. For all claims, what takes long is measured first, in so many processes.
    """
    if populations is None:
        populations = populations_for([e.config for e in evidences])
    known: dict[str, Record] = {}

    def judged(claim: Claim) -> Record:
        return known.get(claim.id) or judge(claim, evidences, f"{command} --only {claim.id}", populations)

    if only is None and processes > 1:
        about_seeds = [c for c in CLAIMS if c.measure is None]
        of_many_seeds = Job("populations", lambda: {c.id: judged(c) for c in about_seeds}, known.update)
        populations.load()
        measure_ahead(evidences, processes, listener, [THEORY, of_many_seeds])
    records = []
    for claim in chosen(only):
        if claim.measure is not None and not evidences:
            continue
        listener(claim.id)
        records.append(judged(claim))
    if only is None or _is_theory(only):
        listener("theory")
        records += _asked(only, theory_records(evidences))
    return records


def chosen(only: str | None) -> tuple[Claim, ...]:
    """The claims that `only` asks for, or all of the paper's; none for the theory, which makes its own."""
    found = tuple(_asked(only, CLAIMS) or _asked(only, OF_FINDINGS))
    if not found and not _is_theory(only or ""):
        raise ConfigError("only", only, "the id or label of a claim; `assignadd claims RUN` lists them")
    return found


def _asked(only: str | None, known: Sequence[Listed]) -> list[Listed]:
    """Those with this id or label; if there is none, those whose ids begin with it, up to a hyphen."""
    found = [c for c in known if only in (None, c.id, c.label)]
    return found or [c for c in known if c.id.startswith(f"{only}-")]


def _is_theory(only: str) -> bool:
    return only == THEORY_LABEL or only.startswith("theory-")


class Ledger(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The records of some networks as they are stored, with what made them."""

    command: str
    commit: str | None
    sources: dict[str, str]
    """The sha256 of each imported file."""
    records: tuple[Record, ...]


@lru_cache(maxsize=1)
def paper_network() -> Ledger:
    """The ledger of the paper's own network: all of its public checkpoints, imported."""
    stored = files("assignadd") / "results" / "paper-network.json"
    return msgspec.json.decode(stored.read_bytes(), type=Ledger)


def ledger_document(records: Sequence[Record], evidences: Sequence[Evidence], command: str) -> bytes:
    """The records of these networks, without those of populations, as a JSON document that `Ledger` reads."""
    sources = {name: digest for run in runs_of(evidences) for name, digest in run.manifest.sources.items()}
    document = Ledger(
        command, Environment.here("cpu", 1).commit, sources, tuple(r for r in records if not r.population)
    )
    return json.dumps(msgspec.to_builtins(document), indent=1).encode() + b"\n"
