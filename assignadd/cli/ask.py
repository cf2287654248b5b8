"""assignadd ask, assignadd show"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from assignadd.cli import options
from assignadd.cli.screen import console, escape, print_json, print_table, show
from assignadd.config import Config, ConfigError, Task

if TYPE_CHECKING:
    from assignadd.runs.folder import Run


@dataclass(frozen=True)
class Ask:
    """Give one prompt to a trained model: its answer, the runner-up, and what `=` attends to in both layers."""

    prompt: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PROMPT")]
    """Such as "c=1, b=17, a=42, b+19=?" or "c 1 . b 17 + b 19 ="."""
    run: str | None = None
    """A run folder, or its name under runs/. If None, the newest run, or census-six of the package."""
    step: int | None = None
    """The checkpoint. If None, the last one."""
    seed: int | None = None
    """Which model of the run. If None, its first."""
    padding: int | None = None
    """Seed for where PADs fall between the assignments. If None, in front."""
    json: bool = False
    """Print {"answer", "probability", "correct", "tokens", ...}."""


def main(arguments: list[str]) -> None:
    args = options.read(Ask, arguments, "ask")
    from assignadd.task.text import parse

    run = options.run_or_newest(args.run)
    tokens = parse(args.prompt, run.config.task, options.check_seed("padding", args.padding))
    from assignadd.model.transformer import Transformer  # with torch, which takes a second to load

    index = run.index_of(args.seed)
    step, one = options.model_at(run, index, args.step)
    reply = _reply(run, Transformer.from_stack(one, 0), tokens, index) | {"run": run.name, "step": step}
    show(reply, args.json, _print)


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


def _print(reply: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    colour, verdict = (
        ("green", "as it should be") if reply["correct"] else ("red", f"wrong, the answer is {reply['label']}")
    )
    console.print(f"{reply['text']}  [bold {colour}]{reply['answer']}[/]  ({verdict}; p = {reply['probability']:.4f})")
    console.print(
        f"[dim]runner-up {reply['runner_up']} (p = {reply['runner_up_probability']:.4f}); {reply['kind']}; ", end=""
    )
    console.print(f"[dim]{escape(reply['run'])}, seed {reply['seed']}, step {reply['step']:,}")
    out = Table(
        title="attention from =, in percent", title_justify="left", header_style="bold", padding=(0, 0), box=SIMPLE_HEAD
    )
    out.add_column("")
    for token in reply["tokens"]:
        out.add_column("PAD" if token == "." else token, justify="right", min_width=3)
    for layer, weights in reply["attention"].items():
        out.add_row(layer + " ", *[_heat(w) for w in weights])
    console.print(out)


def _heat(weight: float) -> str:
    """A share of attention in percent, on blue that deepens with it."""
    level = min(1.0, weight) ** 0.5
    red, green, blue = (round(255 + (c - 255) * level) for c in (8, 81, 156))
    ink = "white" if level > 0.55 else "black"
    return f"[{ink} on rgb({red},{green},{blue})]{round(100 * weight):>3}[/]"


@dataclass(frozen=True)
class Show:
    """Sequences as the model sees them: a prompt you type, or ones drawn from the training law or an evaluation set."""

    prompt: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[PROMPT]")] = None
    """Such as "c=1, b=17, a=42, b+19=?"; without one, sequences are drawn."""
    task: Task = field(default_factory=Task)
    preset: str = "paper"
    """Whose task: paper, authors, tiny or smoke."""
    config: Path | None = None
    """A JSON file of settings that replace the preset's, such as the config.json of a run; flags replace both."""
    set: str | None = None
    """An evaluation set, such as "2-var var-restricted (1)"; the training law unless given."""
    n: int = 8
    """How many sequences."""
    seed: int = 0
    """The seed of the split and of the sequences."""
    padding: int | None = None
    """Seed for where a typed prompt's PADs fall. If None, in front."""
    json: bool = False
    """Print [{"tokens", "text", "answer"}]."""


def show_main(arguments: list[str]) -> None:
    base = options.base_config(arguments)
    args = options.read(Show, options.without_files(arguments), "show", default=Show(task=base.task))
    task = Config(task=args.task).task  # checked
    options.check_count("n", args.n)
    options.check_seed("seed", args.seed)
    options.check_seed("padding", args.padding)
    from assignadd.task.evalsets import all_sets
    from assignadd.task.sampler import Sampler
    from assignadd.task.splits import pair_split
    from assignadd.task.text import answer, parse, render
    from assignadd.task.vocabulary import Vocabulary

    vocabulary = Vocabulary(task)
    if args.prompt is not None:
        sequences = [parse(args.prompt, task, args.padding)]
    else:
        sets = {s.name: s for s in all_sets(task)}
        if args.set is not None and args.set not in sets:
            raise ConfigError("set", args.set, "one of " + ", ".join(sets))
        sampler = Sampler([task], pair_split(task, args.seed)[None], [args.seed], sets.get(args.set or ""))
        sequences = sampler.sample(0, args.n).tokens[0].tolist()
    rows = [([vocabulary.name(t) for t in s], render(s, task), answer(s, task)) for s in sequences]
    if args.json:
        return print_json([{"tokens": tokens, "text": text, "answer": label} for tokens, text, label in rows])
    cells = [(" ".join(f"{t:>2}" for t in tokens), label) for tokens, _, label in rows]
    title = rows[0][1] if args.prompt is not None else args.set or "sequences of the training law"
    print_table(title, ("tokens", "answer"), cells)
