"""assignadd runs, assignadd import"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from assignadd.cli import options
from assignadd.cli.screen import print_json, print_table, say
from assignadd.errors import RunError, UsageError


@dataclass(frozen=True)
class Runs:
    """List the runs, show one, or verify every committed byte of one."""

    action: Annotated[Literal["list", "show", "verify"], tyro.conf.Positional] = "list"
    run: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")] = None
    """A run folder, or its name under runs/ (for show and verify)."""
    root: str = "runs"
    """Where `list` looks."""
    json: bool = False
    """Print JSON instead of tables."""


def main(arguments: list[str]) -> int:
    args = options.read(Runs, arguments, "runs")
    if args.action == "list":
        _list(args.root, args.json)
        return 0
    if args.run is None:
        raise UsageError(
            f"runs {args.action} needs a run: assignadd runs {args.action} NAME (assignadd runs list shows the names)"
        )
    if args.action == "verify":
        return _verify(args.run, args.json)
    _show(args.run, args.json)
    return 0


def _list(root: str, as_json: bool) -> None:
    from assignadd.runs.names import find_runs

    runs, problems = find_runs(root)
    found = []
    for run in runs:
        try:
            found.append(_summary(run))
        except RunError as error:  # damaged metrics
            problems.append(str(error))
    if as_json:
        print_json({"runs": found, "problems": problems})
    elif not found and not problems:
        say(f"no runs under {root}/; `assignadd train` makes one")
    elif found:
        columns = ("run", "models", "step", "of", "saved", "diverged", "wall time")
        cells = [[s[c] for c in ("run", "models", "step", "steps", "checkpoints", "diverged")] for s in found]
        print_table(
            root, columns, [[*c, f"{s['wall_seconds'] / 60:.1f} min"] for c, s in zip(cells, found, strict=True)]
        )
    for problem in problems if not as_json else ():
        say(f"bad: {problem}", "red")


def _summary(run: Any) -> dict[str, Any]:
    return {
        "run": run.name,
        "models": len(run.members),
        "step": run.step,
        "steps": run.config.optim.steps,
        "finished": run.finished,
        "checkpoints": len(run.steps),
        "diverged": sum(step is not None for step in run.diverged_at),
        "wall_seconds": run.wall_seconds,
    }


def _show(name: str, as_json: bool) -> None:
    from assignadd.runs.folder import open_run

    run = open_run(name)
    facts = _summary(run) | {"provenance": run.provenance}
    last = {row["model"]: row for row in run.metrics()}
    if as_json:
        return print_json(facts | {"config": run.document, "last": list(last.values())})
    provenance = facts.pop("provenance")
    print_table(run.name, ("what", "value"), [*facts.items(), *provenance.items()])
    if last:
        from assignadd.task.evalsets import all_sets

        labels = {s.name: s.label for s in all_sets(run.config.task)}
        sets = dict.fromkeys(s for row in last.values() for s in row["accuracy"])
        rows = [
            [labels[s], *[f"{row['accuracy'][s]:.3f}" if s in row["accuracy"] else "-" for row in last.values()]]
            for s in sets
        ]
        print_table("accuracy at the last evaluation", ("set", *[f"seed {row['seed']}" for row in last.values()]), rows)
    else:
        say("no evaluation yet")


def _verify(name: str, as_json: bool) -> int:
    from assignadd.runs.folder import open_run

    run = open_run(name)
    problems = run.verify()
    if as_json:
        print_json({"run": run.name, "problems": problems})
    elif problems:
        for problem in problems:
            say(f"bad: {problem}", "red")
    else:
        say(f"{run.name}: every committed file is whole")
    return 1 if problems else 0


@dataclass(frozen=True)
class Import:
    """Convert TransformerLens 2.x state dicts (FILE.pth) to one run, a checkpoint each.

    Only tensors are read (weights_only); shapes, names and zero biases are checked.
    """

    files: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE ...")]
    """checkpoint_step_N.pth holds the weights after N updates; model_state_dict.pth the last ones, after 40,000."""
    preset: str = "authors"
    """The configuration the weights belong to."""
    out: Path | None = None
    """The run folder. If None, runs/imported-PRESET."""


def import_main(arguments: list[str]) -> None:
    args = options.read(Import, arguments, "import")
    config = options.base_config(["--preset", args.preset])
    from assignadd.runs.transformer_lens import import_state_dicts

    run = import_state_dicts(list(args.files), config, args.out or Path("runs") / f"imported-{args.preset}")
    say(f"{run.path}: checkpoints at {', '.join(f'{s:,}' for s in run.steps)}")
