"""assignadd phases"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from assignadd.cli import options
from assignadd.cli.claims import read_networks, with_seeds
from assignadd.cli.screen import console, note, print_json, print_table, say
from assignadd.config.errors import RunError
from assignadd.dynamics.of_network import curves_of, late_variable_of, onsets_of, phases_of, trajectory_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignadd.dynamics.curves import Onset, Spike
    from assignadd.dynamics.phases import CurveOnset, LateVariable
    from assignadd.network import Network

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
    from assignadd.cli.measure import measured_table
    from assignadd.network import SEQUENCES, runs_of

    networks = with_seeds(read_networks(args.runs, None, SEQUENCES), wanted)
    with console.status("evaluating"):  # the checkpoints of imported weights, whose training recorded nothing
        for e in networks:
            _check_evaluated(e)
    for run in runs_of(networks):
        measured_table(run, options.resolve_threads(args.threads))
    if args.json:
        print_json({"models": [_record(e) for e in networks]})
    else:
        for e in networks:
            _print(e)


def _check_evaluated(e: Network) -> None:
    if len(curves_of(e).steps) < 2:
        raise RunError(
            f"{e.name} was evaluated once, at step {curves_of(e).steps[-1]:,}, which shows no phases: "
            "train with --record.eval-every 100, "
            "or import several checkpoints"
        )


def _record(e: Network) -> dict[str, Any]:
    late, onsets = late_variable_of(e), [dataclasses.asdict(onset) for onset in onsets_of(e)]
    found = {"late_variable": late and dataclasses.asdict(late), "onsets": onsets}
    return {"run": e.name, "seed": e.seed, "summary": phases_of(e).summary} | dataclasses.asdict(phases_of(e)) | found


def _print(e: Network) -> None:
    say(f"{e.name}, seed {e.seed}: {phases_of(e).summary}", "bold")
    for line in _lines(e):
        say(f"  {line}")
    title = f"onset: at its level or above from here on, for {onsets_of(e)[0].lasting:,} steps or to the end"
    print_table(
        title, ("curve", "level", "onset", "low", "high", "n"), [_cells(onset) for onset in onsets_of(e)], CAPTION
    )
    if len(trajectory_of(e)["step"]) < 2:
        note(f"{e.name} has one checkpoint, and so no onsets of measures; train with --record.checkpoint-every 100")


def _lines(e: Network) -> Iterator[str]:
    phases = phases_of(e)
    for name, onset in (("addition", phases.addition), ("binding", phases.binding), ("refinement", phases.refinement)):
        yield f"{name}: {_onset(onset)}"
    yield f"first spike: {_spike(phases.first_spike, 'sets with variables, none banned')}"
    yield f"second spike: {_spike(phases.second_spike, 'sets with banned slots')}"
    yield f"late variable: {_late(late_variable_of(e))}"


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
