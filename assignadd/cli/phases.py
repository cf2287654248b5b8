"""assignadd phases"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from assignadd.cli import options
from assignadd.cli.claims import read_evidence, with_seeds
from assignadd.cli.screen import console, note, print_json, print_table, say
from assignadd.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignadd.claims.evidence import Evidence
    from assignadd.dynamics.curves import Onset, Spike
    from assignadd.dynamics.phases import CurveOnset, LateVariable

CAPTION = (
    "The onset is after low and not after high, given the noise of n sequences (95 %); - if it may never have come. "
    "n = all: nothing is sampled, and only the time between two checkpoints is open."
)


@dataclass(frozen=True)
class Phases:
    """The phases of training, both spikes, the variable learned last, and the onset of every curve.

    Reads what `assignadd measure RUN` stored in the run folder; else measures it, and stores it there.
    """

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")]
    """Run folders, or their names under runs/."""
    seeds: str | None = None
    """Only these seeds."""
    threads: int | None = None
    """Processes that measure side by side. If None, one for each core."""
    json: bool = False
    """Print {"models": [{"run", "seed", "summary", ..., "onsets": [{"curve", "threshold", "onset", ...}]}]}."""


def main(arguments: list[str]) -> None:
    args = options.read(Phases, arguments, "phases")
    wanted = options.parse_seeds(args.seeds) if args.seeds else None
    from assignadd.claims.evidence import SEQUENCES, runs_of
    from assignadd.cli.measure import measured_table

    evidences = with_seeds(read_evidence(args.runs, None, SEQUENCES), wanted)
    with console.status("evaluating"):  # the checkpoints of imported weights, whose training recorded nothing
        for e in evidences:
            _check_evaluated(e)
    for run in runs_of(evidences):
        measured_table(run, options.resolve_threads(args.threads))
    if args.json:
        print_json({"models": [_record(e) for e in evidences]})
    else:
        for e in evidences:
            _print(e)


def _check_evaluated(e: Evidence) -> None:
    if len(e.curves.steps) < 2:
        raise RunError(
            f"{e.name} was evaluated once, at step {e.curves.steps[-1]:,}, which shows no phases: "
            "train with --record.eval-every 100, "
            "or import several checkpoints"
        )


def _record(e: Evidence) -> dict[str, Any]:
    late, onsets = e.late_variable, [dataclasses.asdict(onset) for onset in e.onsets]
    found = {"late_variable": late and dataclasses.asdict(late), "onsets": onsets}
    return {"run": e.name, "seed": e.seed, "summary": e.phases.summary} | dataclasses.asdict(e.phases) | found


def _print(e: Evidence) -> None:
    say(f"{e.name}, seed {e.seed}: {e.phases.summary}", "bold")
    for line in _lines(e):
        say(f"  {line}")
    title = f"onset: at its level or above from here on, for {e.onsets[0].lasting:,} steps or to the end"
    print_table(title, ("curve", "level", "onset", "low", "high", "n"), [_cells(onset) for onset in e.onsets], CAPTION)
    if len(e.trajectory["step"]) < 2:
        note(f"{e.name} has one checkpoint, and so no onsets of measures; train with --record.checkpoint-every 100")


def _lines(e: Evidence) -> Iterator[str]:
    phases = e.phases
    for name, onset in (("addition", phases.addition), ("binding", phases.binding), ("refinement", phases.refinement)):
        yield f"{name}: {_onset(onset)}"
    yield f"first spike: {_spike(phases.first_spike, 'sets with variables, none banned')}"
    yield f"second spike: {_spike(phases.second_spike, 'sets with banned slots')}"
    yield f"late variable: {_late(e.late_variable)}"


def _onset(onset: Onset | None) -> str:
    if onset is None:
        return "never"
    return f"step {onset.step:,} ({onset.low:,} " + ("or later)" if onset.high is None else f"to {onset.high:,})")


def _spike(spike: Spike | None, sets: str) -> str:
    if spike is None:
        return "none"
    return f"steps {spike.before:,} to {spike.after:,}, {spike.low:.2f} to {spike.high:.2f} on {sets}"


def _late(late: LateVariable | None) -> str:
    if late is None:
        return "none"
    slot = f"{late.variable} in the {late.slot} slot" + (", where training never put it" if late.banned else "")
    return f"{slot}; " + (
        "it never came" if late.onset is None else f"half of its sums are right from step {late.onset:,} on"
    )


def _cells(onset: CurveOnset) -> Sequence[str]:
    steps = ["-" if step is None else str(step) for step in (onset.onset, onset.low, onset.high)]
    shown = ("never", "", "") if onset.onset is None else steps
    return onset.label, f"{onset.threshold:g}", *shown, "all" if onset.n is None else str(onset.n)
