"""A run as a folder for the Hugging Face Hub: weights, settings, claims and a card (`runs/hub.py` has the layout)."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from assignadd import __version__
from assignadd.ledger.claim import Record
from assignadd.report.beside import ARXIV, claims_json
from assignadd.report.claims_table import ORDER, group
from assignadd.runs import atomic
from assignadd.runs.encoding import encode_tensors
from assignadd.runs.files import claim_folder, folder_inside, read_regular
from assignadd.runs.folder import Run
from assignadd.runs.hub import FILES, SCHEME, Index, checkpoint_name
from assignadd.runs.manifest import CONFIG, METRICS, SPLITS, Blob
from assignadd.task.evalsets import all_sets


def write_hub_folder(
    run: Run, folder: Path, repository: str, steps: Sequence[int], records: Sequence[Record], license: str
) -> Index:
    """Writes the folder that is published and returns its index, the list of its files, which is written last.

    `steps` are the checkpoints to publish, of which the last is also written as `model.safetensors`, for the first
    model. An earlier or interrupted publication in the same folder is replaced.
    """
    claim_folder(folder, "publication")
    atomic.discard(folder / FILES)
    files: dict[str, Blob] = {}

    def write(name: str, data: bytes) -> None:
        """Writes a file, by its path inside the folder, and adds it to the list."""
        parent = folder_inside(folder, str(Path(name).parent))
        atomic.write(parent / Path(name).name, data)
        files[name] = Blob.of(data)

    for name in (CONFIG, SPLITS):
        write(name, run.committed(name))
    run.metrics()  # raises an error where the file is not as committed
    write(METRICS, read_regular(run.path, METRICS, first=run.manifest.metrics.size))
    write("claims.json", claims_json(records))
    for step in steps:
        stack = run.checkpoint(step)
        for i, member in enumerate(run.members):
            data = encode_tensors({name: weight[i] for name, weight in stack.weights.items()})
            data = with_metadata(data, {"format": "pt", "seed": str(member.seed), "step": str(step)})
            write(checkpoint_name(member.seed, step), data)
            if i == 0 and step == steps[-1]:
                write("model.safetensors", data)
    index = Index(run.name, run.manifest.seeds, files)
    # The card names the files written so far; `write` then lists it too, in the same dictionary as the index has.
    write("README.md", card(run, repository, index, records, license).encode())
    for parent, _, names in os.walk(folder):  # does not follow links
        for name in names:
            path = Path(parent) / name
            if name.endswith(".safetensors") and path.relative_to(folder).as_posix() not in files:
                atomic.discard(path)  # weights of an earlier publication
    atomic.write(folder / FILES, msgspec.json.format(msgspec.json.encode(index), indent=1) + b"\n")
    return index


def with_metadata(data: bytes, metadata: Mapping[str, str]) -> bytes:
    """The bytes of a safetensors file, with this metadata in its header.

    The format is the length of a JSON header in eight bytes, the header, the tensors. The safetensors library is not
    asked to add metadata: it writes several entries in an order that differs from one process to the next.
    """
    length = int.from_bytes(data[:8], "little")
    tensors = data[8 + length :]
    header = json.loads(data[8 : 8 + length]) | {"__metadata__": dict(metadata)}
    new_header = json.dumps(header, separators=(",", ":")).encode()
    new_header += b" " * (-len(new_header) % 8)  # to a multiple of eight bytes, so that the tensors stay aligned
    return len(new_header).to_bytes(8, "little") + new_header + tensors


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
    """The text of README.md, which the Hub shows as the page of the repository; `index` lists the other files."""
    seeds = [member.seed for member in run.members]
    steps = index.steps(seeds[0])
    model = run.config.model
    return CARD.format(
        license=license,
        arxiv=ARXIV,
        title=_plain(repository),
        models=len(seeds),
        s="s" * (len(seeds) > 1),
        layers=model.n_layers,
        width=model.d_model,
        modulus=run.config.task.modulus,
        version=__version__,
        address=SCHEME + repository,
        step=steps[-1],
        seed=seeds[0],
        seeds=", ".join(map(str, seeds)),
        steps_s="s" * (len(steps) > 1),
        steps=", ".join(f"{step:,}" for step in steps),
        accuracies=_accuracies(run),
        claims=_claims(records),
    )


def _accuracies(run: Run) -> str:
    """The accuracies at the last evaluation in training as a Markdown table: a row for each set, a column a model."""
    last_rows = list({row["model"]: row for row in run.metrics()}.values())  # of each model the last evaluation
    if not last_rows:
        return "The run was not evaluated during training."
    headings = ["evaluation set"]
    for row in last_rows:
        diverged = "" if row.get("diverged_at") is None else f", diverged at step {row['diverged_at']:,}"
        headings.append(f"seed {row['seed']}, step {row['step']:,}{diverged}")
    labels = {evalset.name: evalset.label for evalset in all_sets(run.config.task)}
    sets = dict.fromkeys(name for row in last_rows for name in row["accuracy"])  # each once, in order
    lines = [headings, ["---"] * len(headings)]
    for name in sets:
        accuracies = [row["accuracy"].get(name) for row in last_rows]
        lines.append([labels[name], *("" if accuracy is None else f"{accuracy:.3f}" for accuracy in accuracies)])
    return "\n".join(f"| {' | '.join(_plain(cell) for cell in line)} |" for line in lines)


def _claims(records: Sequence[Record]) -> str:
    """How many claims have each verdict, in a sentence."""
    if not records:
        return "None were measured for this card; `assignadd claims RUN` measures them."
    counts = Counter(group(record.verdict) for record in records)
    counted = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ORDER if counts[verdict])
    intro = "What the paper says of its network, and further readings, tested on these networks by `assignadd claims`"
    return f"{intro}: {counted}. All of them are in `claims.json`."


def _plain(text: str) -> str:
    """A text on one line, in which nothing ends a cell of a Markdown table or begins an HTML tag."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
