"""assignadd interchange"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from assignadd.cli import options
from assignadd.config import ConfigError

if TYPE_CHECKING:
    from assignadd.interventions.interchange import Outcome
    from assignadd.model.stack import Stack
    from assignadd.runs.folder import Run


@dataclass(frozen=True)
class Interchange:
    """Exchange parts of activations between prompts: the answer must become the program's where a variable is held."""

    run: Annotated[str, tyro.conf.Positional]
    """A run folder, or its name under runs/."""
    step: int | None = None
    """The checkpoint; the last one unless given."""
    seed: int | None = None
    """Which model of the run; its first unless given."""
    pairs: int = 4000
    """About how many pairs of prompts for each alignment."""
    checkpoints: int | None = None
    """Instead, the accuracies at so many checkpoints, evenly over training."""
    search: tuple[int, ...] = ()
    """Instead, search for subspaces of these ranks that carry an operand or the sum (pip install 'assignadd[das]')."""
    threads: int = 1
    """CPU threads."""
    json: bool = False
    """Print {"run", "seed", "step", "alignments": {name: {"n", "whole", "named", ...}}}, {..., "steps", "accuracy"} or {..., "search"}."""


def main(arguments: list[str]) -> int:
    args = options.read(Interchange, arguments, "interchange")
    for name, value, least in (("pairs", args.pairs, 9), ("checkpoints", args.checkpoints or 2, 2)):
        if value < least:
            raise ConfigError(name, value, f"a whole number from {least}")
    from assignadd.cli.screen import print_json
    from assignadd.runs.folder import open_run
    from assignadd.training.trainer import prepare

    run = open_run(args.run)
    prepare("cpu", options.resolve_threads(args.threads), run.config)
    index = run.index_of(args.seed)
    who = {"run": run.name, "seed": run.members[index].seed}
    if args.checkpoints is not None:
        reply, show = who | _over_time(run, index, args.checkpoints, args.pairs), _print_over_time
    else:
        step = run.at(args.step)[0]
        found = _searched(run, index, step, args) if args.search else _aligned(run, index, step, args.pairs)
        reply, show = who | {"step": step} | found, _print_searched if args.search else _print_aligned
    if args.json:
        print_json(reply)
    else:
        show(reply)
    return 0


def _aligned(run: Run, index: int, step: int, n: int) -> dict[str, Any]:
    from assignadd.interventions.interchange import VARIANTS, Interchange

    test = Interchange(run.configs[index], run.seen[index], n)
    trained, untrained = test(run.trajectory([step], index), VARIANTS)[0], test(_untrained(run, index))[0]
    return {"alignments": {name: _shares(outcome) | {"untrained": _share(untrained[name])} for name, outcome in trained.items()}}


def _over_time(run: Run, index: int, checkpoints: int, n: int) -> dict[str, Any]:
    from assignadd.cli.progress import counting
    from assignadd.interventions.timeline import causes_over_time, onset_steps, spread_steps

    with counting(f"exchanging in {run.name}", "checkpoints") as listener:
        found = causes_over_time(run, index, spread_steps(run.steps, checkpoints), n, listener)
    accuracy = {name: [None if math.isnan(x) else x for x in values.tolist()] for name, values in found.items() if name != "step"}
    return {"steps": found["step"].tolist(), "accuracy": accuracy, "onsets": onset_steps(found)}


def _searched(run: Run, index: int, step: int, args: Interchange) -> dict[str, Any]:
    from assignadd.cli.progress import counting
    from assignadd.interventions.search import PLACES, SEARCHED, VARIABLES, Search

    one, search, rows = run.trajectory([step], index), Search(run.configs[index], run.seen[index], args.pairs), []
    untrained = _untrained(run, index)
    wanted = [(variable, place, rank) for variable in VARIABLES for place in PLACES for rank in args.search]
    with counting(f"searching in {run.name}", "subspaces") as listener:
        for i, (variable, place, rank) in enumerate(wanted):
            listener(i, len(wanted))
            outcome, control = (search(model, variable, place, rank) for model in (one, untrained))
            shares = _shares(outcome) | {"untrained": _share(control, SEARCHED)}
            rows.append({"variable": variable, "place": place, "rank": rank} | shares)
    return {"search": rows}


def _untrained(run: Run, index: int) -> Stack:
    from assignadd.model.stack import initial_stack

    return initial_stack(run.config, [run.configs[index].seed.init or 0])


def _share(outcome: Outcome, variant: str = "whole") -> float | None:
    return outcome.accuracy(variant) if outcome.n else None


def _shares(outcome: Outcome) -> dict[str, Any]:
    return {"n": outcome.n} | {variant: _share(outcome, variant) for variant in outcome.hits}


def _shown(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"


def _print_aligned(reply: dict[str, Any]) -> None:
    from assignadd.cli.screen import print_table

    keys = ("whole", "named", "random", "elsewhere", "untrained")
    rows = [[name, row["n"], *(_shown(row[k]) for k in keys)] for name, row in reply["alignments"].items()]
    columns = ["variable", "pairs", "whole", "named", "random", "elsewhere", "untrained"]
    caption = "interchange accuracy: all that is there, the paper's directions alone, as many random ones, another place"
    print_table(_title(reply), columns, rows, caption)


def _print_over_time(reply: dict[str, Any]) -> None:
    from assignadd.cli.screen import print_table

    rows = [
        [name, "never" if reply["onsets"][name] is None else f"{reply['onsets'][name]:,}", _shown(values[-1])]
        for name, values in reply["accuracy"].items()
    ]
    title = f"{_title(reply)}, {len(reply['steps'])} checkpoints to {reply['steps'][-1]:,}"
    print_table(title, ["variable", "above one half from step", "at the last"], rows, "interchange accuracy")


def _print_searched(reply: dict[str, Any]) -> None:
    from assignadd.cli.screen import print_table

    keys = ("searched", "complement", "random", "untrained")
    rows = [[f"{r['variable']} {r['place']}", r["rank"], r["n"], *(_shown(r[k]) for k in keys)] for r in reply["search"]]
    caption = "interchange accuracy on pairs not searched on; complement: answers as if all but this variable had been exchanged"
    print_table(_title(reply), ["variable, place", "rank", "pairs", *keys], rows, caption)


def _title(reply: dict[str, Any]) -> str:
    return f"{reply['run']}, seed {reply['seed']}" + (f", step {reply['step']:,}" if "step" in reply else "")
