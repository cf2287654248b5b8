"""assignadd interchange"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from assignadd.cli import options
from assignadd.cli.screen import counting, note, print_table, show
from assignadd.config import ConfigError
from assignadd.config.errors import RunError, UsageError

if TYPE_CHECKING:
    from assignadd.model.stack import Stack
    from assignadd.paper.causes.interchange import Outcome
    from assignadd.runs.folder import Run

PAIRS = 4000
# One for each two types of sums.
LEAST_PAIRS = 9
# How well these are exchanged depends on the number of variables in the sum, which the ledger keeps apart too.
QUERIES = ("operand query", "query in QK2")


@dataclass(frozen=True)
class Interchange:
    """Exchange part of an activation between two prompts, and count how often the answer changes as it should.

    It should change where that part holds a variable of the program: a binding tag, the query, a value, the sum.
    """

    run: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")] = None
    """A run folder, or its name under runs/. If None, the newest run, or census-six of the package."""
    step: int | None = None
    """The checkpoint. If None, the last one."""
    seed: int | None = None
    """Which model of the run. If None, its first."""
    pairs: int | None = None
    """About how many pairs of prompts for each alignment: 4000, 1000 a checkpoint or 8000 in a search unless given."""
    checkpoints: int | None = None
    """Instead, the accuracies at this many checkpoints, evenly over training."""
    search: tuple[int, ...] = ()
    """Instead, search for subspaces of these ranks that carry an operand or the sum."""
    threads: int = 1
    """CPU threads."""
    json: bool = False
    """Print {"run", "seed", "step", "alignments": {name: {"n", "whole", "named", ..., "by_variables"}},
    "not_defined": {name: why}};
    with --checkpoints
    {..., "steps", "accuracy", "onsets"}, with --search {..., "search"}."""


def main(arguments: list[str]) -> None:
    args = options.read(Interchange, arguments, "interchange")
    _check(args)
    from assignadd.training.trainer import prepare

    run = options.run_or_newest(args.run)
    prepare("cpu", options.resolve_threads(args.threads), run.config)
    index = run.index_of(args.seed)
    reply = {"run": run.name, "seed": run.members[index].seed}
    if args.checkpoints is not None:
        found, for_people = _over_time(run, index, args.checkpoints, args.pairs), _print_over_time
    elif args.search:
        found, for_people = _searched(run, index, args), _print_searched
    else:
        found, for_people = _aligned(run, index, args), _print_aligned
    show(reply | found, args.json, for_people)


def _check(args: Interchange) -> None:
    """What can be told before a run is opened."""
    if args.checkpoints is not None and (args.search or args.step is not None):
        raise UsageError("--checkpoints goes along training: it takes neither --step nor --search")
    for name, value, least in (("pairs", args.pairs, LEAST_PAIRS), ("checkpoints", args.checkpoints, 2)):
        if value is not None:
            options.within(name, value, least, 1_000_000)


def _aligned(run: Run, index: int, args: Interchange) -> dict[str, Any]:
    from assignadd.paper.causes.interchange import Interchange as Test
    from assignadd.paper.causes.interchange import defined_alignments, defined_variants

    step, one = options.model_at(run, index, args.step)
    test = Test(run.configs[index], run.seen[index], args.pairs or PAIRS)
    names = defined_alignments(run.config)
    trained = test(one, defined_variants(run.config), names)
    untrained = test(_untrained(run, index), alignments=names)
    alignments: dict[str, Any] = {}
    for name, outcome in trained.items():
        alignments[name] = _shares(outcome, untrained[name])
        if name in QUERIES:
            alignments[name]["by_variables"] = {
                str(n): _shares(outcome.with_variables(n), untrained[name].with_variables(n))
                for n in run.config.task.variable_counts[1:]
            }
    return {"step": step, "alignments": alignments, "not_defined": _not_defined(run)}


def _not_defined(run: Run) -> dict[str, str]:
    """The alignments and variants that this architecture does not have, with the reason."""
    from assignadd.model.architecture import LAST_MLP, PAPER_NEEDS, lacking
    from assignadd.paper.causes.interchange import ALIGNMENTS, VARIANTS, defined_alignments, defined_variants

    sums = set(ALIGNMENTS) - set(defined_alignments(run.config))
    directions = [variant for variant in VARIANTS if variant not in defined_variants(run.config)]
    reasons = dict.fromkeys(sums, lacking(run.config, LAST_MLP))
    return reasons | dict.fromkeys(directions, lacking(run.config, *PAPER_NEEDS))


def _over_time(run: Run, index: int, checkpoints: int, n: int | None) -> dict[str, Any]:
    from assignadd.paper.causes.interchange import PAIRS_OVER_TIME, causes_at, onset_steps, spread_steps

    if len(run.steps) < 2:
        raise RunError(
            f"{run.name} has fewer than two checkpoints, which show nothing along training: leave --checkpoints out"
        )
    config, seen, steps = run.configs[index], run.seen[index], spread_steps(run.steps, checkpoints)
    with counting(f"exchanging in {run.name}", "checkpoints") as listener:
        found = causes_at(config, seen, steps, lambda some: run.trajectory(some, index), n or PAIRS_OVER_TIME, listener)
    accuracy = {
        name: [None if math.isnan(x) else x for x in values.tolist()]
        for name, values in found.items()
        if name != "step"
    }
    return {"steps": found["step"].tolist(), "accuracy": accuracy, "onsets": onset_steps(found)}


def _searched(run: Run, index: int, args: Interchange) -> dict[str, Any]:
    from assignadd.paper.causes.subspaces import PAIRS, PLACES, SEARCHED, VARIABLES, Search

    for rank in args.search:
        if not 1 <= rank <= run.config.model.d_model:
            raise ConfigError("search", rank, f"ranks from 1 to {run.config.model.d_model}")
    step, one = options.model_at(run, index, args.step)
    search, rows = Search(run.configs[index], run.seen[index], args.pairs or PAIRS), []
    untrained = _untrained(run, index)
    wanted = [(variable, place, rank) for variable in VARIABLES for place in PLACES for rank in args.search]
    with counting(f"searching in {run.name}", "subspaces") as listener:
        for i, (variable, place, rank) in enumerate(wanted):
            listener(i, len(wanted))
            outcome, control = (search(model, variable, place, rank) for model in (one, untrained))
            shares = _shares(outcome, control, SEARCHED)
            rows.append({"variable": variable, "place": place, "rank": rank} | shares)
    return {"step": step, "search": rows}


def _untrained(run: Run, index: int) -> Stack:
    from assignadd.model.stack import initial_stack

    return initial_stack(run.config, [run.configs[index].seed.init or 0])


def _shares(outcome: Outcome, untrained: Outcome, variant: str = "whole") -> dict[str, Any]:
    """The number of pairs and the accuracy of each variant; that of one of them on the untrained model."""
    if not outcome.n:
        return {"n": 0} | dict.fromkeys([*outcome.hits, "untrained"])
    shares = {name: outcome.accuracy(name) for name in outcome.hits}
    return {"n": outcome.n} | shares | {"untrained": untrained.accuracy(variant)}


def _shown(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"


def _print_aligned(reply: dict[str, Any]) -> None:
    captions = {
        "whole": "the whole activation",
        "named": "its part in the directions the paper names",
        "random": "in as many random directions",
        "elsewhere": "the activation at another place",
        "untrained": "the whole activation of the untrained model",
    }
    keys = [key for key in captions if key not in reply["not_defined"]]
    named = {
        (name if n is None else f"{name} {n}-var"): row
        for name, whole in reply["alignments"].items()
        for n, row in whole.get("by_variables", {None: whole}).items()
    }
    rows = [[name, row["n"], *(_shown(row[k]) for k in keys)] for name, row in named.items()]
    caption = f"interchange accuracy when this is exchanged: {'; '.join(captions[key] for key in keys)}"
    print_table(_title(reply), ["variable", "pairs", *keys], rows, caption)
    for name, reason in reply["not_defined"].items():
        note(f"{name} is not defined for this network: it {reason}")


def _print_over_time(reply: dict[str, Any]) -> None:
    rows = [
        [name, "never" if reply["onsets"][name] is None else f"{reply['onsets'][name]:,}", _shown(values[-1])]
        for name, values in reply["accuracy"].items()
    ]
    title = f"{_title(reply)}, {len(reply['steps'])} checkpoints to {reply['steps'][-1]:,}"
    print_table(title, ["variable", "above one half from step", "at the last"], rows, "interchange accuracy")


def _print_searched(reply: dict[str, Any]) -> None:
    keys = ("searched", "complement", "random", "untrained")
    rows = [
        [f"{r['variable']} {r['place']}", r["rank"], r["n"], *(_shown(r[k]) for k in keys)] for r in reply["search"]
    ]
    caption = (
        "interchange accuracy on pairs that the search did not use; "
        "complement: answers as if all but this variable had been exchanged"
    )
    print_table(_title(reply), ["variable, place", "rank", "pairs", *keys], rows, caption)


def _title(reply: dict[str, Any]) -> str:
    return f"{reply['run']}, seed {reply['seed']}" + (f", step {reply['step']:,}" if "step" in reply else "")
