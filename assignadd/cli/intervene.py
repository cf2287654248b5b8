"""assignadd intervene, assignadd intervene interchange"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assignadd.cli import options
from assignadd.cli.options import OneModel, positional
from assignadd.cli.screen import Column, Output, Printing, Table, columns, counting, note
from assignadd.config import ConfigError
from assignadd.config.errors import RunError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignadd.interventions.specification import Intervention
    from assignadd.model.stack import Stack
    from assignadd.paper.causes.interchange import Outcome
    from assignadd.runs.folder import Run
    from assignadd.task.positions import Positions

PAIRS = 4000
# One for each two types of sums.
LEAST_PAIRS = 9
# How well these are exchanged depends on the number of variables in the sum, which the ledger keeps apart too.
QUERIES = ("operand query", "query in QK2")


@dataclass(frozen=True, kw_only=True)
class Intervene(OneModel, Printing):
    """Change something inside a trained model and see what it does to one prompt, and to accuracy on 512 prompts.

    --json prints {"protocol", "checkpoint", "interventions", "before", "after", "label", "accuracy", ...}.
    """

    specification: str = positional()
    """A JSON list of interventions, or a file that holds one, such as
    [{"action": "cut", "layer": 2, "query": "equals", "key": "first_value"}];
    or {"protocol": 1, "checkpoint": SHA256, "interventions": [...]}, for this checkpoint alone."""
    prompt: str = positional()
    """Such as "c=1, b=17, a=42, b+19=?" or "c 1 . b 17 + b 19 ="."""
    explain: bool = False
    """First say in words what the specification does."""

    def main(self) -> Output:
        from assignadd.interventions.specification import PROTOCOL, explain, read_specification

        specification = read_specification(self.specification)
        run = options.run_or_newest(self.run)
        index = run.index_of(self.seed)
        step, model = run.model_at(self.step, index)
        checkpoint = run.checkpoint_sha256(step)
        if specification.checkpoint not in (None, checkpoint):
            raise RunError(
                f"the specification is for the checkpoint with sha256 {specification.checkpoint}; {run.name} at step "
                f"{step} has {checkpoint}: give the other RUN or --step, or remove `checkpoint` from the specification"
            )
        words = [explain(intervention) for intervention in specification.interventions] or ["Changes nothing."]
        reply = _reply(run, step, index, model, self.prompt, specification.interventions)
        reply = {"protocol": PROTOCOL, "checkpoint": checkpoint} | reply
        explained = words if self.explain else []
        return Output([*explained, *_before_and_after(reply)], reply | ({"explanation": words} if explained else {}))


def _reply(
    run: Run, step: int, index: int, model: Stack, prompt: str, interventions: Sequence[Intervention]
) -> dict[str, Any]:
    import torch

    from assignadd.interventions.apply import donors_of, effect, reference_sequences
    from assignadd.interventions.specification import to_json
    from assignadd.task.positions import Positions
    from assignadd.task.text import parse, render

    task = run.config.task
    tokens = parse(prompt, task)
    reference, donor = reference_sequences(run.configs[index], run.seen[index]), donors_of(run, step)
    _check_matches(interventions, *(Positions(task, t) for t in (torch.tensor([tokens]), reference)))
    # The stack has one model here; a swap counts in the run's own places.
    donors = lambda swap, _: donor(swap, index)  # noqa: E731
    on_prompt = effect(model, torch.tensor([tokens])[None], interventions, reference, donors)
    on_set = effect(model, reference[None], interventions, reference, donors)
    label = int(on_prompt.labels)
    before = _answer(on_prompt.before[0, 0].softmax(-1), label)
    after = _answer(on_prompt.after[0, 0].softmax(-1), label)
    old = on_set.accuracies[0].item()
    new = on_set.accuracies[1].item()
    return {
        "text": render(tokens, task),
        "interventions": json.loads(to_json(interventions)),
        "label": label,
        "before": before,
        "after": after,
        "probability_change": after["label_probability"] - before["label_probability"],
        "accuracy": {"before": old, "after": new, "change": new - old, "n": len(reference)},
        "run": run.name,
        "seed": run.members[index].seed,
        "step": step,
    }


def _check_matches(interventions: Sequence[Intervention], prompt: Positions, reference: Positions) -> None:
    """Refuses an intervention that acts on nothing, and notes one that acts on nothing in the prompt."""
    from assignadd.interventions.apply import matches
    from assignadd.interventions.specification import to_json

    for i, intervention in enumerate(interventions):
        if matches(intervention, prompt):
            continue
        if not matches(intervention, reference):
            raise ConfigError(f"interventions[{i}]", to_json([intervention]), "tokens or edges that some sequence has")
        note(f"interventions[{i}] acts on nothing in this prompt, which has no such token or edge")


def _answer(probabilities: Any, label: int) -> dict[str, Any]:
    best = int(probabilities.argmax())
    return {"answer": best, "probability": float(probabilities[best]), "label_probability": float(probabilities[label])}


def _before_and_after(reply: dict[str, Any]) -> list[Table | str]:
    where = f"{reply['run']}, seed {reply['seed']}, step {reply['step']:,}"
    heading = f"{reply['text']}  the answer is {reply['label']}; {where}"
    rows: list[tuple[Any, ...]] = []
    for name in ("before", "after"):
        part = reply[name]
        rows.append((name, part["answer"], part["probability"], part["label_probability"], reply["accuracy"][name]))
    rows.append(("change", None, None, reply["probability_change"], reply["accuracy"]["change"]))
    table_columns = [
        Column("when", " "),
        Column("answer"),
        Column("probability", "its probability", ".4f"),
        Column("label_probability", f"that of {reply['label']}", ".4f"),
        Column("accuracy", f"accuracy on {reply['accuracy']['n']}", ".4f"),
    ]
    return [heading, Table("the model, without and with the intervention", table_columns, rows)]


@dataclass(frozen=True, kw_only=True)
class Interchange(OneModel, Printing):
    """Exchange part of an activation between two prompts, and count how often the answer changes as it should.

    It should change where that part holds a variable of the program: a binding tag, the query, a value, the sum.

    --json prints {"run", "seed", "step", "alignments": {name: {"n", "whole", "named", ..., "by_variables"}},
    "not_defined": {name: why}}; with --checkpoints {..., "steps", "accuracy", "onsets"}.
    """

    pairs: int | None = None
    """About how many pairs of prompts for each alignment: 4000, or 1000 a checkpoint, unless given."""
    checkpoints: int | None = None
    """Instead, the accuracies at this many checkpoints, evenly over training."""
    threads: int = 1
    """CPU threads."""

    def main(self) -> Output:
        _check(self)
        from assignadd.training.trainer import prepare

        run = options.run_or_newest(self.run)
        prepare("cpu", options.resolve_threads(self.threads), run.config)
        index = run.index_of(self.seed)
        reply: dict[str, Any] = {"run": run.name, "seed": run.members[index].seed}
        if self.checkpoints is not None:
            reply |= _over_time(run, index, self.checkpoints, self.pairs)
            return Output([_over_time_table(reply)], reply)
        reply |= _aligned(run, index, self)
        for name, reason in reply["not_defined"].items():
            note(f"{name} is not defined for this network: it {reason}")
        return Output([_aligned_table(reply)], reply)


def _check(args: Interchange) -> None:
    """What can be told before a run is opened."""
    if args.checkpoints is not None and args.step is not None:
        raise UsageError("--checkpoints goes along training: it does not take --step")
    for name, value, least in (("pairs", args.pairs, LEAST_PAIRS), ("checkpoints", args.checkpoints, 2)):
        if value is not None:
            options.within(name, value, least, 1_000_000)


def _aligned(run: Run, index: int, args: Interchange) -> dict[str, Any]:
    from assignadd.paper.causes.interchange import Interchange as Test
    from assignadd.paper.causes.interchange import defined_alignments, defined_variants

    step, model = run.model_at(args.step, index)
    test = Test(run.configs[index], run.seen[index], args.pairs or PAIRS)
    names = defined_alignments(run.config)
    trained = test(model, defined_variants(run.config), names)
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
        shares = causes_at(
            config, seen, steps, lambda steps: run.trajectory(steps, index), n or PAIRS_OVER_TIME, listener
        )
    accuracy = {
        name: [None if math.isnan(x) else x for x in values.tolist()]
        for name, values in shares.items()
        if name != "step"
    }
    return {"steps": shares["step"].tolist(), "accuracy": accuracy, "onsets": onset_steps(shares)}


def _untrained(run: Run, index: int) -> Stack:
    from assignadd.model.stack import initial_stack

    return initial_stack(run.config, [run.configs[index].seed.init or 0])


def _shares(outcome: Outcome, untrained: Outcome, variant: str = "whole") -> dict[str, Any]:
    """The number of pairs and the accuracy of each variant; that of one of them on the untrained model."""
    if not outcome.n:
        return {"n": 0} | dict.fromkeys([*outcome.hits, "untrained"])
    shares = {name: outcome.accuracy(name) for name in outcome.hits}
    return {"n": outcome.n} | shares | {"untrained": untrained.accuracy(variant)}


def _title(reply: dict[str, Any]) -> str:
    return f"{reply['run']}, seed {reply['seed']}" + (f", step {reply['step']:,}" if "step" in reply else "")


def _aligned_table(reply: dict[str, Any]) -> Table:
    captions = {
        "whole": "the whole activation",
        "named": "its part in the directions the paper names",
        "random": "in as many random directions",
        "elsewhere": "the activation at another place",
        "untrained": "the whole activation of the untrained model",
    }
    keys = [key for key in captions if key not in reply["not_defined"]]
    by_name = {
        (name if n is None else f"{name} {n}-var"): row
        for name, whole in reply["alignments"].items()
        for n, row in whole.get("by_variables", {None: whole}).items()
    }
    rows = [(name, row["n"], *(row[key] for key in keys)) for name, row in by_name.items()]
    caption = f"interchange accuracy when this is exchanged: {'; '.join(captions[key] for key in keys)}"
    return Table(
        _title(reply), [*columns("variable", "pairs"), *(Column(key, form=".3f") for key in keys)], rows, caption
    )


def _over_time_table(reply: dict[str, Any]) -> Table:
    rows = [
        (name, reply["onsets"][name], reply["onsets"][name] or "never", values[-1])
        for name, values in reply["accuracy"].items()
    ]
    title = f"{_title(reply)}, {len(reply['steps'])} checkpoints to {reply['steps'][-1]:,}"
    named = [
        Column("variable"),
        Column("onset", only="data"),
        Column("", "above one half from step", only="people"),
        Column("last", "at the last", ".3f"),
    ]
    return Table(title, named, rows, "interchange accuracy")
