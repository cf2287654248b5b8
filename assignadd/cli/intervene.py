"""assignadd intervene, assignadd intervene interchange"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assignadd.cli import options
from assignadd.cli.options import OneModel, positional
from assignadd.cli.screen import Column, Output, Printing, Table, note
from assignadd.config import ConfigError, require_built_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from assignadd.interventions.specification import Intervention, Swap
    from assignadd.model.stack import Stack
    from assignadd.runs.folder import Run
    from assignadd.task.positions import Positions

# A pair of prompts for each of the 3 x 3 combinations of their types: no, one or two variables in the sum.
LEAST_PAIRS = 9
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
    """Such as "c=1, b=17, a=42, b+19=?", "17+19=?" or "c 1 . b 17 + b 19 ="."""

    def main(self) -> Output:
        from assignadd.interventions.specification import read_specification

        interventions = read_specification(self.specification)
        run = options.run_or_newest(self.run)
        require_built_in(run.config, "intervene")
        reply = self._reply(run, interventions)
        return Output(_before_and_after(reply), reply)

    def _reply(self, run: Run, interventions: Sequence[Intervention]) -> dict[str, Any]:
        """The reply for --json: answers to the prompt, and accuracy on training sequences, before and after."""
        import torch

        from assignadd.interventions.apply import apply, donors_of, reference_sequences
        from assignadd.interventions.specification import to_json
        from assignadd.task.positions import Positions, answers
        from assignadd.task.text import render

        index = run.index_of(self.seed)
        step, model = run.model_at(self.step, index)  # as a stack of one
        task = run.config.task
        tokens = torch.tensor([options.read_prompt(self.prompt, task)])  # (1, T)
        reference = reference_sequences(run.configs[index], run.seen[index])  # (sequences, T)
        _check_matches(interventions, Positions(task, tokens), Positions(task, reference))
        donor_in_run = donors_of(run, step)

        def donor(swap: Swap, _: int) -> Stack:
            """The model that gives its weights to a swap; the second argument is 0, the index in our stack of one."""
            return donor_in_run(swap, index)

        def logits(sequences: Tensor, changes: Sequence[Intervention]) -> Tensor:
            """The model's logits for sequences, (B, T), under these interventions, (B, N)."""
            logits_of_stack = apply(model, sequences[None], changes, reference, donor)  # (1, B, N)
            return logits_of_stack[0]

        label = int(answers(task, tokens))
        before = _answer(logits(tokens, ())[0], label)
        after = _answer(logits(tokens, interventions)[0], label)
        labels = answers(task, reference)  # (B,)
        accuracy_before = (logits(reference, ()).argmax(-1) == labels).float().mean().item()
        accuracy_after = (logits(reference, interventions).argmax(-1) == labels).float().mean().item()
        change = accuracy_after - accuracy_before
        return {
            "text": render(tokens[0].tolist(), task),
            "interventions": json.loads(to_json(interventions)),
            "label": label,
            "before": before,
            "after": after,
            "probability_change": after["label_probability"] - before["label_probability"],
            "accuracy": {"before": accuracy_before, "after": accuracy_after, "change": change, "n": len(labels)},
            "run": run.name,
            "seed": run.members[index].seed,
            "step": step,
        }


def _answer(logits: Tensor, label: int) -> dict[str, Any]:
    """The model's answer, its probability, and that of the right answer `label`, from the logits of a prompt, (N,)."""
    probabilities = logits.softmax(-1)
    best = int(probabilities.argmax())
    return {
        "answer": best, "probability": float(probabilities[best]), "label_probability": float(probabilities[label]),
    }  # fmt: skip


def _check_matches(interventions: Sequence[Intervention], prompt: Positions, reference: Positions) -> None:
    """Notes interventions that act on nothing in the prompt; refuses those that act on no reference sequence either."""
    from assignadd.interventions.apply import matches
    from assignadd.interventions.specification import to_json

    for i, intervention in enumerate(interventions):
        if matches(intervention, prompt):
            continue
        if not matches(intervention, reference):
            raise ConfigError(f"interventions[{i}]", to_json([intervention]), "tokens or edges that some sequence has")
        note(f"interventions[{i}] acts on nothing in this prompt, which has no such token or edge")


def _before_and_after(reply: dict[str, Any]) -> list[Table | str]:
    """A reply (`Intervene._reply`) for people: the prompt with the right answer, and a table of what changes."""
    where = f"{reply['run']}, seed {reply['seed']}, step {reply['step']:,}"
    accuracy = reply["accuracy"]
    rows: list[tuple[Any, ...]] = []
    for when in ("before", "after"):
        numbers = reply[when].values()  # the answer, its probability, that of the right answer (`_answer`)
        rows.append((when, *numbers, accuracy[when]))
    rows.append(("change", None, None, reply["probability_change"], accuracy["change"]))
    table_columns = [
        Column("when", " "), Column("answer"), Column("probability", "its probability", ".4f"),
        Column("label_probability", f"that of {reply['label']}", ".4f"),
        Column("accuracy", f"accuracy on {accuracy['n']}", ".4f"),
    ]  # fmt: skip
    heading = f"{reply['text']}  the answer is {reply['label']}; {where}"
    return [heading, Table("the model, without and with the intervention", table_columns, rows)]


@dataclass(frozen=True, kw_only=True)
class Interchange(OneModel, Printing):
    """Exchange part of an activation between two prompts, and count how often the answer changes as it should.

    It should change where that part holds a variable of the program: a binding tag, the query, a value, the sum.

    --json prints {"run", "seed", "step", "alignments": {name: {"n", "whole", "elsewhere", "untrained"}},
    "not_defined": {name: why}}.
    """

    pairs: int = 4000
    """About how many pairs of prompts for each alignment."""

    def main(self) -> Output:
        options.within("pairs", self.pairs, LEAST_PAIRS)
        from assignadd.model.architecture import LAST_MLP, lacking
        from assignadd.paper.causes.interchange import EXCHANGES, defined_alignments
        from assignadd.training.trainer import prepare

        run = options.run_or_newest(self.run)
        require_built_in(run.config, "intervene")
        prepare("cpu", 1, run.config)
        index = run.index_of(self.seed)
        step, model = run.model_at(self.step, index)  # as a stack of one
        # An alignment is not defined for an architecture without an MLP in the last layer.
        missing = EXCHANGES.keys() - defined_alignments(run.config)
        not_defined = {name: lacking(run.config, LAST_MLP) for name in missing}
        for name, reason in not_defined.items():
            note(f"{name} is not defined for this network: it {reason}")
        seed = run.members[index].seed
        alignments = _alignments(run, index, model, self.pairs)
        reply = {
            "run": run.name, "seed": seed, "step": step, "alignments": alignments, "not_defined": not_defined,
        }  # fmt: skip
        table = Table(
            f"{run.name}, seed {seed}, step {step:,}",
            [Column("variable"), Column("n", "pairs"), *(Column(exchanged, form=".3f") for exchanged in EXCHANGED)],
            [(name, *accuracies.values()) for name, accuracies in alignments.items()],
            "interchange accuracy when this is exchanged: " + "; ".join(EXCHANGED.values()),
        )
        return Output([table], reply)


def _alignments(run: Run, index: int, model: Stack, pairs: int) -> dict[str, dict[str, Any]]:
    """By alignment: `n`, the number of pairs of prompts, and under each key of EXCHANGED the interchange accuracy.

    An alignment says which part of an activation should hold which variable of the program. Without pairs the
    accuracies are None. About `pairs` pairs are drawn for each.
    """
    from assignadd.model.stack import initial_stack
    from assignadd.paper.causes.interchange import ELSEWHERE
    from assignadd.paper.causes.interchange import Interchange as Test  # `Interchange` is the command here

    config = run.configs[index]
    untrained = initial_stack(config, [config.seed.init or 0])
    test = Test(config, run.seen[index], pairs)
    outcomes = [test(model), test(model, ELSEWHERE), test(untrained)]  # in the order of EXCHANGED
    alignments: dict[str, dict[str, Any]] = {}
    for name, outcome in outcomes[0].items():  # all three have the same alignments and numbers of pairs
        accuracies = [by_alignment[name].accuracy if outcome.n else None for by_alignment in outcomes]
        alignments[name] = {"n": outcome.n} | dict(zip(EXCHANGED, accuracies, strict=True))
    return alignments
