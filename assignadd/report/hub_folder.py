"""A run as a folder for the Hugging Face Hub: weights, settings, claims and a card (`runs/hub.py` has the layout)."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from assignadd import __version__
from assignadd.ledger.claim import Record
from assignadd.report.claims_table import ORDER, group
from assignadd.runs import atomic
from assignadd.runs.encoding import encode_tensors
from assignadd.runs.files import claim_folder, folder_inside, read_regular
from assignadd.runs.folder import Run, read_committed
from assignadd.runs.hub import FILES, SCHEME, Index, checkpoint_name
from assignadd.runs.manifest import CONFIG, METRICS, SPLITS, Blob
from assignadd.task.evalsets import all_sets


def write_hub_folder(
    run: Run, folder: Path, repository: str, steps: Sequence[int], records: Sequence[Record], license: str
) -> Index:
    """Writes the folder and returns its list of files, which is written last: without it the folder is unfinished.

    `steps` are the checkpoints to publish, the last of them also as `model.safetensors`. An earlier publication in the
    same folder is replaced, and so is one that was interrupted.
    """
    claim_folder(folder, "publication")
    atomic.discard(folder / FILES)
    files: dict[str, Blob] = {}

    def write(name: str, data: bytes) -> None:
        atomic.write(folder_inside(folder, str(Path(name).parent)) / Path(name).name, data)
        files[name] = Blob.of(data)

    for name in (CONFIG, SPLITS):
        write(name, read_committed(run.path, run.manifest, name, run.most_bytes(name)))
    run.metrics()  # raises an error where the file is not as committed
    write(METRICS, read_regular(run.path, METRICS, first=run.manifest.metrics.size))
    write("claims.json", json.dumps([asdict(record) for record in records], indent=1, allow_nan=False).encode() + b"\n")
    for step in steps:
        stack = run.checkpoint(step)
        for i, member in enumerate(run.members):
            data = encode_tensors({name: weight[i] for name, weight in stack.weights.items()})
            data = with_metadata(data, {"format": "pt", "seed": str(member.seed), "step": str(step)})
            write(checkpoint_name(member.seed, step), data)
            if i == 0 and step == steps[-1]:
                write("model.safetensors", data)
    index = Index(run.name, run.manifest.seeds, files)
    # The card names the files written so far, and is then listed itself.
    write("README.md", card(run, repository, index, records, license).encode())
    for inside, _, names in os.walk(folder):  # weights of an earlier publication; does not follow links
        for path in (Path(inside) / name for name in names if name.endswith(".safetensors")):
            if path.relative_to(folder).as_posix() not in files:
                atomic.discard(path)
    atomic.write(folder / FILES, msgspec.json.format(msgspec.json.encode(index), indent=1) + b"\n")
    return index


def with_metadata(data: bytes, metadata: Mapping[str, str]) -> bytes:
    """Safetensors bytes with this metadata.

    The format is the length of a JSON header in eight bytes, the header, the tensors. The library would write several
    entries in an order that differs from one process to the next.
    """
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length]) | {"__metadata__": dict(metadata)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors stay aligned
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


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
    labels = {s.name: s.label for s in all_sets(run.config.task)}
    sets = dict.fromkeys(name for row in last.values() for name in row["accuracy"])
    rows = [
        [labels[name], *(f"{row['accuracy'][name]:.3f}" if name in row["accuracy"] else "" for row in last.values())]
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
    intro = "What the paper says of its network, and further readings, tested on these networks by `assignadd claims`"
    return f"{intro}: {counted}. All of them are in `claims.json`."


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(_plain(cell) for cell in line)} |" for line in lines)


def _plain(text: str) -> str:
    """A text that ends neither its line nor its cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
