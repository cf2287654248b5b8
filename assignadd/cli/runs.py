"""assignadd runs, assignadd import, assignadd publish"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from assignadd.cli import options
from assignadd.cli.screen import console, note, print_json, print_table, say
from assignadd.config import ConfigError
from assignadd.config.errors import RunError, UsageError

if TYPE_CHECKING:
    from assignadd.ledger.claim import Record
    from assignadd.runs.folder import Run


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
    from assignadd.runs.folder import find_runs

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


def _summary(run: Run) -> dict[str, Any]:
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
    """checkpoint_step_N.pth holds the weights after N updates; model_state_dict.pth the last ones, after 40,000. A
    folder stands for all such files in it."""
    preset: str = "authors"
    """The configuration the weights belong to."""
    out: Path | None = None
    """The run folder. If None, runs/imported-PRESET."""


def import_main(arguments: list[str]) -> None:
    args = options.read(Import, arguments, "import")
    config = options.base_config(["--preset", args.preset])
    from assignadd.runs.transformer_lens import import_state_dicts, state_dicts_in

    files = [file for path in args.files for file in state_dicts_in(path)]
    run = import_state_dicts(files, config, args.out or Path("runs") / f"imported-{args.preset}")
    say(f"{run.path}: {len(run.steps)} checkpoints, steps {run.steps[0]:,} to {run.steps[-1]:,}")


@dataclass(frozen=True)
class Publish:
    """Publish a run on the Hugging Face Hub: weights, settings, claims, and a card that says how to load them.

    Needs `pip install 'assignadd[hub]'` and a login (`hf auth login`, or HF_TOKEN); --dry-run needs neither.
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, or its name under runs/."""
    repo: str
    """The repository, OWNER/NAME; it is made where it does not exist."""
    steps: tuple[str, ...] = ()
    """Which checkpoints, such as 0 1000 20000, or all. If none are given, the last."""
    dry_run: bool = False
    """Write the folder and upload nothing."""
    out: Path | None = None
    """Where --dry-run writes the folder. If None, published/RUN."""
    private: bool = False
    """Make the repository private where it does not exist."""
    license: str = "mit"
    """The licence that the card names, by its identifier on the Hub."""
    claims: bool = True
    """Test the claims on these networks and put them into the card."""
    n: int = 20_000
    """Sequences per evaluation set for the claims."""
    threads: int | None = None
    """Processes that measure side by side. If None, one for each core."""


def publish_main(arguments: list[str]) -> None:
    args = options.read(Publish, arguments, "publish")
    from assignadd.report.hub_folder import write_hub_folder
    from assignadd.runs.folder import open_run
    from assignadd.runs.hub import check_client, check_repository, upload

    check_repository(args.repo)
    if not re.fullmatch("[a-z0-9.-]+", args.license):
        raise ConfigError("license", args.license, "an identifier such as mit, apache-2.0 or cc-by-4.0")
    if not args.dry_run:
        check_client()
    run = open_run(args.run)
    steps = _steps(run, args.steps)
    for why in run.unsound(steps[-1], run.checkpoint(steps[-1])).values():
        note(f"{why}; it is published as it is, and the card says so")
    records = _records(args, steps[-1]) if args.claims else []
    with tempfile.TemporaryDirectory() as scratch:
        folder = (args.out or Path("published") / run.name) if args.dry_run else Path(scratch) / "repository"
        index = write_hub_folder(run, folder, args.repo, steps, records, args.license)
        size = sum(blob.size for blob in index.files.values()) / 1e6
        if args.dry_run:
            say(f"{folder}: {len(index.files) + 1} files, {size:.1f} MB; nothing was uploaded")
        else:
            address = upload(folder, args.repo, args.private, f"assignadd publish {run.name}")
            say(f"{address}: {len(index.files) + 1} files, {size:.1f} MB")


def _steps(run: Run, asked: tuple[str, ...]) -> list[int]:
    """The steps to publish, in order; the last is that of the newest intact checkpoint unless others are given."""
    if not asked:
        return [run.newest_checkpoint()[0]]
    if asked == ("all",):
        return run.steps
    if wrong := [text for text in asked if not re.fullmatch(r"\d{1,18}", text) or int(text) not in run.steps]:
        raise ConfigError("steps", wrong[0], f"all, or steps of the {len(run.steps)} checkpoints of {run.name}")
    return sorted({int(text) for text in asked})


def _records(args: Publish, step: int) -> list[Record]:
    """Every claim about one trained network, tested on those of the run."""
    from assignadd.cli.claims import read_networks
    from assignadd.ledger.claim import judge
    from assignadd.network import measure_ahead
    from assignadd.paper.ledger import CLAIMS

    networks, records = read_networks((args.run,), step, args.n), []
    with console.status("measuring") as status:
        measure_ahead(networks, options.resolve_threads(args.threads))
        for claim in CLAIMS:
            if claim.measure is not None:
                status.update(f"measuring {claim.id}")
                records.append(judge(claim, networks, f"assignadd claims {args.run} --only {claim.id}"))
    return records
