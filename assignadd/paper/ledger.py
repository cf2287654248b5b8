"""The ledger: one record for each claim of the paper, over any number of trained models."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import msgspec

from assignadd.config import ConfigError
from assignadd.config.errors import did_you_mean
from assignadd.ledger.claim import Claim, Record, is_about_networks, judge
from assignadd.network import SEQUENCES, Job, Network, measure_ahead, networks_of, runs_of
from assignadd.paper.addition.claims import ADDITION, APPENDIX_C
from assignadd.paper.binding.claims import MECHANISM
from assignadd.paper.causes.claims import CAUSES
from assignadd.paper.dynamics.claims import PHASES, ROUTING_PLATEAU
from assignadd.paper.dynamics.spikes import FIRST_SPIKE, SECOND_SPIKE
from assignadd.paper.generalisation.claims import GENERALISATION
from assignadd.paper.generalisation.seeds import POPULATION
from assignadd.paper.theory.claims import LABEL as THEORY_LABEL
from assignadd.paper.theory.claims import theory_records
from assignadd.runs.folder import Run, open_run
from assignadd.runs.manifest import Environment
from assignadd.sweeps.population import Populations, populations_for

Listed = TypeVar("Listed", Claim, Record)
# The paper's claims in its own order: what the network and its seeds achieve (sections 3 and 4), how it adds and looks
# up (5.1, 5.2; by measures, then by interventions), how training proceeds (6, appendix B). The theory follows.
DYNAMICS = (*PHASES, *FIRST_SPIKE, *ROUTING_PLATEAU, *SECOND_SPIKE)
CLAIMS: tuple[Claim, ...] = (*GENERALISATION, *POPULATION, *ADDITION, *MECHANISM, *CAUSES, *DYNAMICS, APPENDIX_C)


def ledger(
    networks: Sequence[Network],
    command: str,
    only: str | None = None,
    listener: Callable[[str], None] = lambda claim: None,
    populations: Populations | None = None,
    processes: int = 1,
    more: Sequence[Claim] = (),
) -> list[Record]:
    """The records of the paper's claims, of the claims in `more`, and of the theory.

    Without networks, claims about single networks have no record. `only` selects records by an id, a label, or the
    beginning of an id. `command` is the command that asked for the ledger: a record has it with `--only` and the
    claim's id. `listener` is called with the id of each claim before it is judged.
    `populations` default to those of the package, if these networks have the paper's task and architecture. Where all
    claims are asked for, slow measures and the claims about populations are computed first, in several processes.
    """
    tested_on = populations_for([network.config for network in networks]) if populations is None else populations

    def judged(claim: Claim) -> Record:
        """The record of a claim, about these networks or about the populations."""
        of_networks = networks if is_about_networks(claim) else ()
        return judge(claim, of_networks, f"{command} --only {claim.id}", tested_on)

    claims = [claim for claim in chosen_claims(only, more) if networks or not is_about_networks(claim)]
    records: dict[str, Record] = {}  # by the claim's id
    if only is None and processes > 1:
        tested_on.load()  # before processes are forked
        on_populations = [claim for claim in claims if not is_about_networks(claim)]
        job = Job(
            "populations", compute=lambda: {claim.id: judged(claim) for claim in on_populations}, store=records.update
        )
        measure_ahead(networks, processes, listener, more=[job])
    for claim in claims:
        listener(claim.id)
        if claim.id not in records:
            records[claim.id] = judged(claim)
    in_order = [records[claim.id] for claim in claims]
    if only is None or _is_theory(only):
        listener("theory")
        in_order += _matching(only, theory_records(networks))
    return in_order


def chosen_claims(only: str | None, more: Sequence[Claim] = ()) -> tuple[Claim, ...]:
    """The claims that `only` asks for, or all of the paper's and of `more` where it is None.

    Empty where `only` asks for the theory, whose statements are made as records and not as claims.
    """
    everything = (*CLAIMS, *more)
    claims = tuple(_matching(only, everything))
    if not claims and not _is_theory(only or ""):
        names = [claim.id for claim in everything] + [claim.label for claim in everything]
        hint = did_you_mean(only, names) or "; `assignadd claims RUN` lists them"
        raise ConfigError("only", only, f"the id or label of a claim{hint}")
    return claims


def _matching(only: str | None, listed: Sequence[Listed]) -> list[Listed]:
    """The claims or records with this id or label, or else those whose id begins with it; all of them for None."""
    if only is None:
        return list(listed)
    exact = [entry for entry in listed if only in (entry.id, entry.label)]
    return exact or [entry for entry in listed if entry.id.startswith(f"{only}-")]


def _is_theory(only: str) -> bool:
    """Whether `--only` asks for the theory: its label, or the id of a statement."""
    return only == THEORY_LABEL or only.startswith("theory-")


class Ledger(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The records of networks as they are stored, with what made them."""

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


def ledger_document(records: Sequence[Record], networks: Sequence[Network], command: str) -> bytes:
    """The records of these networks, without those of populations, as a JSON document that `Ledger` reads."""
    sources: dict[str, str] = {}
    for run in runs_of(networks):
        sources.update(run.manifest.sources)
    network_records = tuple(record for record in records if not record.population)
    document = Ledger(command, Environment.here("cpu", 1).commit, sources, network_records)
    return json.dumps(msgspec.to_builtins(document), indent=1).encode() + b"\n"


def claims(
    *runs: str | Path | Run,
    n: int = SEQUENCES,
    only: str | None = None,
    census: Path | None = None,
    fraction: Path | None = None,
    two_var: Path | None = None,
) -> list[Record]:
    """Every claim of the paper tested on these runs: value, interval, verdict. Without runs, those on seeds and theory.

    `census`, `fraction` and `two_var` are folders of your own sweeps. Default: the package's, for the paper's task.
    """
    opened = [open_run(run) for run in runs]
    networks: list[Network] = []
    for run in opened:
        sound_models, _ = networks_of(run, n=n)
        networks += sound_models
    command = " ".join(["assignadd claims", *(run.address for run in opened)])
    populations = populations_for([network.config for network in networks], census, fraction, two_var)
    return ledger(networks, command, only, populations=populations)
