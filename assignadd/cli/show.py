"""assignadd show"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from assignadd.cli import options
from assignadd.cli.screen import print_json, print_table
from assignadd.config import Config, ConfigError, Task


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


def main(arguments: list[str]) -> None:
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
