"""assignadd intervene, assignadd intervene interchange"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assignadd.cli import options
from assignadd.cli.options import OneModel, positional
from assignadd.cli.screen import Column, Output, Printing, Table, columns, note
from assignadd.config import ConfigError, require_built_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from assignadd.interventions.specification import Intervention
    from assignadd.model.stack import Stack
    from assignadd.paper.causes.interchange import Outcome
    from assignadd.runs.folder import Run
    from assignadd.task.positions import Positions

# One for each two types of sums.
LEAST_PAIRS = 9
# How well these are exchanged depends on the number of variables in the sum, which the ledger keeps apart too.
QUERIES = ("operand query", "query in QK2")
# What `intervene interchange` exchanges, by the name of its column.
EXCHANGED = {
    "whole": "the whole activation",
    "elsewhere": "the activation at another place",
    "untrained": "the whole activation of the untrained model",
}


@dataclass(frozen=True, kw_only=True)
class Intervene(OneModel, Printing):
    """Change something inside a trained model and see what it does to one prompt, and to accuracy on 512 prompts.

    --json prints {"interventions", "before", "after", "label", "accuracy", ...}.
    """

    specification: str = positional()
    """A JSON list of interventions, or a file that holds one, such as
    [{"action": "cut", "layer": 2, "query": "equals", "key": "first_value"}]."""
    prompt: str = positional()
    """Such as "c=1, b=17, a=42, b+19=?" or "c 1 . b 17 + b 19 ="."""
    explain: bool = False
    """First say in words what the specification does."""

    def main(self) -> Output:
        from assignadd.interventions.specification import read_specification
        from assignadd.interventions.words import explain

        interventions = read_specification(self.specification)
        run = options.run_or_newest(self.run)
        require_built_in(run.config, "intervene")
        index = run.index_of(self.seed)
        step, model = run.model_at(self.step, index)
        reply = _reply(run, step, index, model, self.prompt, interventions)
        words = [explain(intervention) for intervention in interventions] or ["Changes nothing."]
        if not self.explain:
            return Output(_before_and_after(reply), reply)
        return Output([*words, *_before_and_after(reply)], reply | {"explanation": words})


def _reply(
    run: Run, step: int, index: int, model: Stack, prompt: str, interventions: Sequence[Intervention]
) -> dict[str, Any]:
    """The answers to a prompt, and the accuracy on the reference sequences, before and after the interventions."""
    import torch

    from assignadd.interventions.apply import apply, donors_of, reference_sequences
    from assignadd.interventions.specification import to_json
    from assignadd.task.positions import Positions, answers
    from assignadd.task.text import parse, render

    task = run.config.task
    tokens = torch.tensor([parse(prompt, task)])
    reference = reference_sequences(run.configs[index], run.seen[index])
    _check_matches(interventions, Positions(task, tokens), Positions(task, reference))
    donor = donors_of(run, step)
    # The stack has one model here; a swap counts in the run's own places.
    donors = lambda swap, _: donor(swap, index)  # noqa: E731
    label = int(answers(task, tokens))
    parts: dict[str, dict[str, Any]] = {}
    accuracies: dict[str, float] = {}
    for when, changes in {"before": (), "after": interventions}.items():
        on_prompt = apply(model, tokens[None], changes, reference, donors)[0, 0]
        on_reference = apply(model, reference[None], changes, reference, donors)[0]
        parts[when] = _answer(on_prompt.softmax(-1), label)
        accuracies[when] = (on_reference.argmax(-1) == answers(task, reference)).float().mean().item()
    return {
        "text": render(tokens[0].tolist(), task),
        "interventions": json.loads(to_json(interventions)),
        "label": label,
        **parts,
        "probability_change": parts["after"]["label_probability"] - parts["before"]["label_probability"],
        "accuracy": {**accuracies, "change": accuracies["after"] - accuracies["before"], "n": len(reference)},
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


def _answer(probabilities: Tensor, label: int) -> dict[str, Any]:
    """The most probable answer, its probability, and that of the right answer."""
    best = int(probabilities.argmax())
    return {"answer": best, "probability": float(probabilities[best]), "label_probability": float(probabilities[label])}


def _before_and_after(reply: dict[str, Any]) -> list[Table | str]:
    """The prompt with its answer, and a table of what the intervention changes."""
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

    --json prints {"run", "seed", "step", "alignments": {name: {"n", "whole", "elsewhere", "untrained",
    "by_variables"}}, "not_defined": {name: why}}.
    """

    pairs: int = 4000
    """About how many pairs of prompts for each alignment."""
    threads: int = 1
    """CPU threads."""

    def main(self) -> Output:
        options.within("pairs", self.pairs, LEAST_PAIRS, 1_000_000)
        from assignadd.model.architecture import LAST_MLP, lacking
        from assignadd.paper.causes.interchange import EXCHANGES, defined_alignments
        from assignadd.training.trainer import prepare

        run = options.run_or_newest(self.run)
        require_built_in(run.config, "intervene")
        prepare("cpu", options.resolve_threads(self.threads), run.config)
        index = run.index_of(self.seed)
        step, model = run.model_at(self.step, index)
        not_defined = {
            name: lacking(run.config, LAST_MLP) for name in EXCHANGES.keys() - defined_alignments(run.config)
        }
        for name, reason in not_defined.items():
            note(f"{name} is not defined for this network: it {reason}")
        reply = {
            "run": run.name,
            "seed": run.members[index].seed,
            "step": step,
            "alignments": _alignments(run, index, model, self.pairs),
            "not_defined": not_defined,
        }
        return Output([_alignments_table(reply)], reply)


def _alignments(run: Run, index: int, model: Stack, pairs: int) -> dict[str, Any]:
    """The interchange accuracies of every alignment; those of queries also by the number of variables in the sum."""
    from assignadd.paper.causes.interchange import ELSEWHERE, untrained
    from assignadd.paper.causes.interchange import Interchange as Test

    test = Test(run.configs[index], run.seen[index], pairs)
    outcomes = {
        "whole": test(model),
        "elsewhere": test(model, ELSEWHERE),
        "untrained": test(untrained(run.configs[index])),
    }
    alignments: dict[str, Any] = {}
    for name in outcomes["whole"]:
        of_alignment = {column: by_name[name] for column, by_name in outcomes.items()}
        alignments[name] = _accuracies(of_alignment)
        if name in QUERIES:
            by_variables = {}
            for n_vars in run.config.task.variable_counts[1:]:
                of_sums = {column: outcome.with_variables(n_vars) for column, outcome in of_alignment.items()}
                by_variables[str(n_vars)] = _accuracies(of_sums)
            alignments[name]["by_variables"] = by_variables
    return alignments


def _accuracies(outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """The number of pairs, and the accuracy of each outcome on them; None without pairs."""
    n = outcomes["whole"].n
    return {"n": n} | {name: outcome.accuracy if n else None for name, outcome in outcomes.items()}


def _alignments_table(reply: dict[str, Any]) -> Table:
    """The interchange accuracies; queries have a row for each number of variables in the sum."""
    accuracies: dict[str, dict[str, Any]] = {}
    for name, of_all in reply["alignments"].items():
        if "by_variables" in of_all:
            accuracies |= {f"{name} {n_vars}-var": row for n_vars, row in of_all["by_variables"].items()}
        else:
            accuracies[name] = of_all
    return Table(
        f"{reply['run']}, seed {reply['seed']}, step {reply['step']:,}",
        [*columns("variable", "pairs"), *(Column(name, form=".3f") for name in EXCHANGED)],
        [(name, row["n"], *(row[column] for column in EXCHANGED)) for name, row in accuracies.items()],
        "interchange accuracy when this is exchanged: " + "; ".join(EXCHANGED.values()),
    )
