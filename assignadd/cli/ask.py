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
    from assignadd.runs.folder import Run


@dataclass(frozen=True, kw_only=True)
class Ask(OneModel, Printing):
    """Give one prompt to a trained model: its answer, the runner-up, and what `=` attends to in both layers.

    --json prints {"answer", "probability", "correct", "tokens", "attention", ...}.
    """

    prompt: str = positional()
    """Such as "c=1, b=17, a=42, b+19=?" or "c 1 . b 17 + b 19 ="."""
    padding: int | None = None
    """Seed for where PADs fall between the assignments. If None, in front."""

    def main(self) -> Output:
        from assignadd.task.text import parse

        run = options.run_or_newest(self.run)
        require_built_in(run.config, "ask")
        tokens = parse(self.prompt, run.config.task, options.check_seed("padding", self.padding))
        from assignadd.model.transformer import Transformer  # with torch, which takes a second to load

        index = run.index_of(self.seed)
        step, model = run.model_at(self.step, index)
        reply = _reply(run, Transformer.from_stack(model, 0), tokens, index) | {"run": run.name, "step": step}
        return Output([_answer(reply), _attention(reply)], reply)


def _reply(run: Run, model: Any, tokens: list[int], index: int) -> dict[str, Any]:
    import torch

    from assignadd.task.text import answer, render
    from assignadd.task.vocabulary import Vocabulary

    task, vocabulary = run.config.task, Vocabulary(run.config.task)
    with torch.no_grad():
        logits, cache = model.run_with_cache(
            torch.tensor([tokens]), names_filter=lambda name: name.endswith("hook_pattern")
        )
    probabilities = logits[0, -1].softmax(-1)
    best = probabilities.topk(2)
    label = answer(tokens, task)
    attention = {
        f"layer {i + 1}" + (f" head {head}" if len(pattern[0]) > 1 else ""): weights[-1].tolist()
        for i, pattern in enumerate(cache.values())
        for head, weights in enumerate(pattern[0])  # (heads, T, T)
    }
    return {
        "text": render(tokens, task),
        "tokens": [vocabulary.name(t) for t in tokens],
        "answer": int(best.indices[0]),
        "probability": float(best.values[0]),
        "runner_up": int(best.indices[1]),
        "runner_up_probability": float(best.values[1]),
        "label": label,
        "correct": int(best.indices[0]) == label,
        "kind": _kind(task, run, tokens, index),
        "attention": attention,
        "seed": run.members[index].seed,
    }


def _kind(task: Task, run: Run, tokens: list[int], index: int) -> str:
    """How near to training the prompt is: variables, seen or held-out pair, banned slots."""
    from assignadd.task.evalsets import LITERAL, TUPLE, count_banned
    from assignadd.task.positions import operand_slots
    from assignadd.task.text import operand_values
    from assignadd.task.vocabulary import Vocabulary

    vocabulary = Vocabulary(task)
    asked = [tokens[slot] for slot in operand_slots(task)]
    operands = [t - vocabulary.first_variable if vocabulary.is_variable(t) else LITERAL for t in asked]
    values = operand_values(tokens, task)
    pair = f"{'seen' if run.seen[index][values] else 'held-out'} {TUPLE[task.operands]} ({', '.join(map(str, values))})"
    banned, n_vars = count_banned(task, *operands), sum(x != LITERAL for x in operands)
    return f"{n_vars}-var, {pair}" + (f", {banned} banned slot{'s' * (banned > 1)}" if banned else "")


def _answer(reply: dict[str, Any]) -> Text:
    """The prompt with its answer, and how sure the model is."""
    right = ("green", "as it should be") if reply["correct"] else ("red", f"wrong, the answer is {reply['label']}")
    colour, verdict = right
    where = f"{printable(reply['run'])}, seed {reply['seed']}, step {reply['step']:,}"
    return Text.assemble(
        f"{reply['text']}  ",
        (str(reply["answer"]), f"bold {colour}"),
        f"  ({verdict}; p = {reply['probability']:.4f})\n",
        (f"runner-up {reply['runner_up']} (p = {reply['runner_up_probability']:.4f}); {reply['kind']}\n", "dim"),
        (where, "dim"),
    )


def _attention(reply: dict[str, Any]) -> Table:
    """A row for each layer (and head), a column for each token."""
    tokens = [Column(token, "PAD" if token == "." else token, "3.0f", style=_heat) for token in reply["tokens"]]
    rows = [(layer, *(100 * weight for weight in weights)) for layer, weights in reply["attention"].items()]
    return Table("attention from =, in percent", [Column("layer", " "), *tokens], rows)


def _heat(percent: float) -> str:
    """The style of a share of attention: blue that deepens with it."""
    level = min(1.0, percent / 100) ** 0.5
    red, green, blue = (round(255 + (c - 255) * level) for c in (8, 81, 156))
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
        task = Config(task=self.task).task  # checked
        options.check_count("n", self.n)
        options.check_seed("seed", self.seed)
        options.check_seed("padding", self.padding)
        from assignadd.task.evalsets import all_sets
        from assignadd.task.sampler import Sampler
        from assignadd.task.splits import pair_split
        from assignadd.task.text import answer, parse, render
        from assignadd.task.vocabulary import Vocabulary

        vocabulary = Vocabulary(task)
        if self.prompt is not None:
            sequences = [parse(self.prompt, task, self.padding)]
        else:
            sets = {s.name: s for s in all_sets(task)}
            if self.set is not None and self.set not in sets:
                raise ConfigError("set", self.set, one_of(self.set, sets))
            sampler = Sampler([task], pair_split(task, self.seed)[None], [self.seed], sets.get(self.set or ""))
            sequences = sampler.sample(0, self.n).tokens[0].tolist()
        rows = [([vocabulary.name(t) for t in s], render(s, task), answer(s, task)) for s in sequences]
        document = [{"tokens": tokens, "text": text, "answer": label} for tokens, text, label in rows]
        cells = [(" ".join(f"{token:>2}" for token in tokens), label) for tokens, _, label in rows]
        title = rows[0][1] if self.prompt is not None else self.set or "sequences of the training law"
        return Output([Table(title, columns("tokens", "answer"), cells)], document)
