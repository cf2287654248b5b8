"""assignadd intervene"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from assignadd.cli import options
from assignadd.cli.screen import console, escape, note, print_table, say, show
from assignadd.config import ConfigError
from assignadd.config.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignadd.interventions.specification import Intervention
    from assignadd.model.stack import Stack
    from assignadd.runs.folder import Run
    from assignadd.task.positions import Positions


@dataclass(frozen=True)
class Intervene:
    """Change something inside a trained model and see what it does to one prompt, and to accuracy on 512 prompts."""

    specification: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SPECIFICATION")]
    """A JSON list of interventions, or a file that holds one, such as
    [{"action": "cut", "layer": 2, "query": "equals", "key": "first_value"}];
    or {"protocol": 1, "checkpoint": SHA256, "interventions": [...]}, for this checkpoint alone."""
    prompt: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PROMPT")]
    """Such as "c=1, b=17, a=42, b+19=?" or "c 1 . b 17 + b 19 ="."""
    run: str | None = None
    """A run folder, or its name under runs/. If None, the newest run, or census-six of the package."""
    step: int | None = None
    """The checkpoint. If None, the last one."""
    seed: int | None = None
    """Which model of the run. If None, its first."""
    explain: bool = False
    """First say in words what the specification does."""
    json: bool = False
    """Print {"protocol", "checkpoint", "interventions", "before", "after", "label", "accuracy", ...}."""


def main(arguments: list[str]) -> None:
    args = options.read(Intervene, arguments, "intervene")
    from assignadd.interventions.specification import PROTOCOL, explain, read_specification

    asked = read_specification(args.specification)
    run = options.run_or_newest(args.run)
    index = run.index_of(args.seed)
    step, one = options.model_at(run, index, args.step)
    have = run.checkpoint_sha256(step)
    if asked.checkpoint not in (None, have):
        raise RunError(
            f"the specification is for the checkpoint with sha256 {asked.checkpoint}; {run.name} at step {step} has "
            f"{have}: give the other --run or --step, or remove `checkpoint` from the specification"
        )
    words = [explain(intervention) for intervention in asked.interventions] or ["Changes nothing."]
    if args.explain and not args.json:
        for sentence in words:
            say(sentence)
    reply = _reply(run, step, index, one, args.prompt, asked.interventions)
    reply = {"protocol": PROTOCOL, "checkpoint": have} | reply | ({"explanation": words} if args.explain else {})
    show(reply, args.json, _print)


def _reply(
    run: Run, step: int, index: int, one: Stack, prompt: str, interventions: Sequence[Intervention]
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
    on_prompt, on_set = (
        effect(one, t[None], interventions, reference, donors) for t in (torch.tensor([tokens]), reference)
    )
    label = int(on_prompt.labels)
    before, after = (_answer(logits[0, 0].softmax(-1), label) for logits in (on_prompt.before, on_prompt.after))
    old, new = (x.item() for x in on_set.accuracies)
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

    for i, one in enumerate(interventions):
        if matches(one, prompt):
            continue
        if not matches(one, reference):
            raise ConfigError(f"interventions[{i}]", to_json([one]), "tokens or edges that some sequence has")
        note(f"interventions[{i}] acts on nothing in this prompt, which has no such token or edge")


def _answer(probabilities: Any, label: int) -> dict[str, Any]:
    best = int(probabilities.argmax())
    return {"answer": best, "probability": float(probabilities[best]), "label_probability": float(probabilities[label])}


def _print(reply: dict[str, Any]) -> None:
    rows: list[list[Any]] = []
    for name in ("before", "after"):
        part = reply[name]
        numbers = (part["probability"], part["label_probability"], reply["accuracy"][name])
        rows.append([name, part["answer"], *(f"{number:.4f}" for number in numbers)])
    change = f"{reply['probability_change']:+.4f}", f"{reply['accuracy']['change']:+.4f}"
    console.print(
        f"{reply['text']}  [dim]the answer is {reply['label']}; "
        f"{escape(reply['run'])}, seed {reply['seed']}, step {reply['step']:,}"
    )
    columns = ["", "answer", "its probability", f"that of {reply['label']}", f"accuracy on {reply['accuracy']['n']}"]
    print_table("the model, without and with the intervention", columns, [*rows, ["change", "", "", *change]])
