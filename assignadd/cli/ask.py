"""assignadd ask, assignadd ask show"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.text import Text

from assignadd.cli import options
from assignadd.cli.options import FromPreset, OneModel, positional
from assignadd.cli.screen import Column, Output, Printing, Table, columns
from assignadd.config import Config, ConfigError, Task, require_built_in
from assignadd.config.errors import one_of, printable

if TYPE_CHECKING:
    from torch import Tensor

    from assignadd.model.transformer import Transformer
    from assignadd.runs.folder import Run


@dataclass(frozen=True, kw_only=True)
class Ask(OneModel, Printing):
    """Give one prompt to a trained model: its answer, the runner-up, and what `=` attends to in both layers.

    --json prints {"answer", "probability", "correct", "tokens", "attention", ...}.
    """

    prompt: str = positional()
    """Such as "c=1, b=17, a=42, b+19=?", "17+19=?" or "c 1 . b 17 + b 19 ="."""
    padding: int | None = None
    """Seed for where PADs fall between the assignments. If None, in front."""

    def main(self) -> Output:
        run = options.run_or_newest(self.run)
        require_built_in(run.config, "ask")
        padding = options.check_seed("padding", self.padding)
        tokens = options.read_prompt(self.prompt, run.config.task, padding)
        from assignadd.model.transformer import Transformer  # here, as it loads torch, which takes a second

        index = run.index_of(self.seed)
        step, stack = run.model_at(self.step, index)
        reply = _reply(run, Transformer.from_stack(stack, 0), tokens, index) | {"run": run.name, "step": step}
        return Output([_answer(reply), _attention(reply)], reply)


def _reply(run: Run, model: Transformer, tokens: list[int], index: int) -> dict[str, Any]:
    """What --json prints: the answer of a run's model with this index to one prompt, and the attention of `=`."""
    import torch

    from assignadd.task.text import answer, render
    from assignadd.task.vocabulary import Vocabulary

    task = run.config.task
    vocabulary = Vocabulary(task)
    with torch.no_grad():
        # The hooked patterns are one per layer, in the order of the layers, each (1, heads, T, T).
        logits, patterns = model.run_with_cache(
            torch.tensor([tokens]), names_filter=lambda name: name.endswith("hook_pattern")
        )
    best_two = logits[0, -1].softmax(-1).topk(2)
    label = answer(tokens, task)
    attention: dict[str, list[float]] = {}  # of `=`, the last token, to every token
    for layer, pattern in enumerate(patterns.values(), 1):
        heads = pattern[0]  # (heads, T, T)
        for head, weights in enumerate(heads):
            name = f"layer {layer}" if len(heads) == 1 else f"layer {layer} head {head}"
            attention[name] = weights[-1].tolist()
    return {
        "text": render(tokens, task),
        "tokens": [vocabulary.name(token) for token in tokens],
        "answer": int(best_two.indices[0]),
        "probability": float(best_two.values[0]),
        "runner_up": int(best_two.indices[1]),
        "runner_up_probability": float(best_two.values[1]),
        "label": label,
        "correct": int(best_two.indices[0]) == label,
        "kind": _kind(task, run.seen[index], tokens),
        "attention": attention,
        "seed": run.members[index].seed,
    }


def _kind(task: Task, seen: Tensor, tokens: list[int]) -> str:
    """How near to training a prompt is, such as "1-var, held-out pair (17, 19), 1 banned slot".

    `seen` says for each pair of numbers whether training may add it, (N, N).
    """
    from assignadd.task.evalsets import LITERAL, TUPLE, count_banned
    from assignadd.task.positions import operand_slots
    from assignadd.task.text import operand_values
    from assignadd.task.vocabulary import Vocabulary

    vocabulary = Vocabulary(task)
    operand_tokens = [tokens[slot] for slot in operand_slots(task)]
    # The index of each operand's variable, or LITERAL for a number.
    operands = [
        token - vocabulary.first_variable if vocabulary.is_variable(token) else LITERAL for token in operand_tokens
    ]
    n_vars = sum(operand != LITERAL for operand in operands)
    values = operand_values(tokens, task)
    seen_or_not = "seen" if seen[values] else "held-out"
    kind = f"{n_vars}-var, {seen_or_not} {TUPLE[task.operands]} ({', '.join(map(str, values))})"
    n_banned = count_banned(task, *operands)
    if n_banned:
        kind += f", {n_banned} banned slot{'s' * (n_banned > 1)}"
    return kind


def _answer(reply: dict[str, Any]) -> Text:
    """The prompt with its answer, whether that is right, and how sure the model is."""
    if reply["correct"]:
        colour, verdict = "green", "as it should be"
    else:
        colour, verdict = "red", f"wrong, the answer is {reply['label']}"
    where = f"{printable(reply['run'])}, seed {reply['seed']}, step {reply['step']:,}"
    return Text.assemble(
        f"{reply['text']}  ",
        (str(reply["answer"]), f"bold {colour}"),
        f"  ({verdict}; p = {reply['probability']:.4f})\n",
        (f"runner-up {reply['runner_up']} (p = {reply['runner_up_probability']:.4f}); {reply['kind']}\n", "dim"),
        (where, "dim"),
    )


def _attention(reply: dict[str, Any]) -> Table:
    """The attention of `=`: a row for each layer (and head), a column for each token of the prompt."""
    table_columns = [Column("layer", " ")]
    for token in reply["tokens"]:
        table_columns.append(Column(token, "PAD" if token == "." else token, "3.0f", style=_heat))
    rows = [(layer, *(100 * weight for weight in weights)) for layer, weights in reply["attention"].items()]
    return Table("attention from =, in percent", table_columns, rows)


def _heat(percent: float) -> str:
    """The style of a share of attention, in the words of `rich`: from black on white to white on dark blue."""
    level = min(1.0, percent / 100) ** 0.5  # the root makes small shares visible
    dark_blue = (8, 81, 156)
    red, green, blue = (round(255 + (channel - 255) * level) for channel in dark_blue)
    ink = "white" if level > 0.55 else "black"
    return f"{ink} on rgb({red},{green},{blue})"


@dataclass(frozen=True, kw_only=True)
class Show(FromPreset, Printing):
    """Sequences as a model sees them: a prompt you type, or ones drawn from the training law or an evaluation set.

    --json prints [{"tokens", "text", "answer"}].
    """

    prompt: str | None = positional(None)
    """Such as "c=1, b=17, a=42, b+19=?"; without one, sequences are drawn."""
    task: Task = field(default_factory=Task)
    set: str | None = None
    """An evaluation set, such as "2-var var-restricted (1)"; the training law unless given."""
    n: int = 8
    """How many sequences."""
    seed: int = 0
    """The seed of the split and of the sequences."""
    padding: int | None = None
    """Seed for where a typed prompt's PADs fall. If None, in front."""

    def main(self) -> Output:
        task = Config(task=self.task).task  # a configuration checks its settings
        options.check_count("n", self.n)
        options.check_seed("seed", self.seed)
        options.check_seed("padding", self.padding)
        from assignadd.task.evalsets import all_sets
        from assignadd.task.sampler import Sampler
        from assignadd.task.splits import pair_split
        from assignadd.task.text import answer, render
        from assignadd.task.vocabulary import Vocabulary

        vocabulary = Vocabulary(task)
        if self.prompt is not None:
            sequences = [options.read_prompt(self.prompt, task, self.padding)]
        else:
            sets = {evalset.name: evalset for evalset in all_sets(task)}
            if self.set is not None and self.set not in sets:
                raise ConfigError("set", self.set, one_of(self.set, sets))
            evalset = None if self.set is None else sets[self.set]  # None: the training law
            sampler = Sampler([task], pair_split(task, self.seed)[None], [self.seed], evalset)
            sequences = sampler.sample(0, self.n).tokens[0].tolist()
        document: list[dict[str, Any]] = [
            {
                "tokens": [vocabulary.name(token) for token in sequence],
                "text": render(sequence, task),
                "answer": answer(sequence, task),
            }
            for sequence in sequences
        ]
        rows = [(" ".join(f"{token:>2}" for token in line["tokens"]), line["answer"]) for line in document]
        title = document[0]["text"] if self.prompt is not None else self.set or "sequences of the training law"
        return Output([Table(title, columns("tokens", "answer"), rows)], document)
