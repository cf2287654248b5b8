"""The card of a published run: YAML metadata for the Hub, the networks, how to load them, what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from assignadd import __version__
from assignadd.claims.record import Record
from assignadd.report.claims_table import ORDER, group
from assignadd.runs.folder import Run
from assignadd.runs.hub import SCHEME, Index
from assignadd.task.evalsets import LABELS

ARXIV = "2605.31497"

CARD = """\
---
license: {license}
library_name: assignadd
tags:
- mechanistic-interpretability
- modular-arithmetic
- arxiv:{arxiv}
---

# {title}

{models} small transformer{s} ({layers} layers, width {width}) trained to look variables up and compute with their
values modulo {modulus}; `config.json` has the settings of the task. The study is [Assign and Add: A Mechanistic Study
of Compositional Arithmetic](https://arxiv.org/abs/{arxiv}); published with assignadd {version}.

## Load a network

```python
import assignadd  # pip install 'assignadd[hub]'

model = assignadd.load("{address}", step={step}, seed={seed})
```

Weights of seed{s} {seeds} at step{steps_s} {steps}. `config.json` has every setting, `splits.safetensors` which
pairs of numbers each model trained on, `metrics.jsonl` a row per model and evaluation. `files.json` has the sha256 of
every file, which `assignadd.load` checks. Without assignadd: `model.safetensors` (seed {seed}, step {step}) and the
files in `checkpoints/` hold one model each, by TransformerLens's names; the metadata of a file has its seed and step.

## Accuracy at the last evaluation during training

{accuracies}

## Claims

{claims}
"""


def card(run: Run, repository: str, index: Index, records: Sequence[Record], license: str) -> str:
    """The text of README.md."""
    seeds, first = [member.seed for member in run.members], run.members[0].seed
    steps = index.steps(first)
    model = run.config.model
    return CARD.format(
        license=license, arxiv=ARXIV, title=_plain(repository), models=len(seeds), s="s" * (len(seeds) > 1),
        layers=model.n_layers, width=model.d_model, modulus=run.config.task.modulus, version=__version__,
        address=SCHEME + repository, step=steps[-1], seed=first, seeds=", ".join(map(str, seeds)),
        steps_s="s" * (len(steps) > 1), steps=", ".join(f"{step:,}" for step in steps),
        accuracies=_accuracies(run), claims=_claims(records),
    )  # fmt: skip


def _accuracies(run: Run) -> str:
    last = {row["model"]: row for row in run.metrics()}
    if not last:
        return "The run was not evaluated during training."
    sets = dict.fromkeys(name for row in last.values() for name in row["accuracy"])
    rows = [
        [LABELS[name], *(f"{row['accuracy'][name]:.3f}" if name in row["accuracy"] else "" for row in last.values())]
        for name in sets
    ]
    return _table(["evaluation set", *map(_column, last.values())], rows)


def _column(row: Mapping[str, Any]) -> str:
    diverged = "" if row.get("diverged_at") is None else f", diverged at step {row['diverged_at']:,}"
    return f"seed {row['seed']}, step {row['step']:,}{diverged}"


def _claims(records: Sequence[Record]) -> str:
    if not records:
        return "None were measured for this card; `assignadd claims RUN` measures them."
    counts = Counter(group(record.verdict) for record in records)
    counted = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ORDER if counts[verdict])
    rows = [[f"`{r.id}`", r.claim, _measured(r), r.verdict] for r in records if r.value is not None]
    table = _table(["id", "claim", "measured (95 % interval)", "verdict"], rows)
    intro = "What the paper says of its network, and further readings, tested on these networks by `assignadd claims`"
    every_one = f"<details><summary>Every one</summary>\n\n{table}\n\n</details>"
    return f"{intro}: {counted}. All of them are in `claims.json`.\n\n{every_one}"


def _measured(record: Record) -> str:
    sampled = record.low is not None and record.low != record.high
    return f"{record.value:.4g}" + (f" ({record.low:.4g} to {record.high:.4g})" if sampled else "")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(_plain(cell) for cell in line)} |" for line in lines)


def _plain(text: str) -> str:
    """A text that ends neither its line nor its cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
