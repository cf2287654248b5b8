"""A run as a folder for the Hugging Face Hub: the run itself, one model for other libraries, claims and a card."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from assignadd import __version__
from assignadd.ledger.claim import Record
from assignadd.report.beside import ARXIV, claims_json
from assignadd.report.claims_table import ORDER, verdict_group
from assignadd.runs import atomic
from assignadd.runs.encoding import encode_tensors
from assignadd.runs.files import claim_folder, folder_inside
from assignadd.runs.folder import Run
from assignadd.runs.hub import SCHEME
from assignadd.runs.manifest import CHECKPOINTS, MANIFEST, METRICS
from assignadd.task.evalsets import all_sets


def write_hub_folder(
    run: Run, folder: Path, repository: str, steps: Sequence[int], records: Sequence[Record], license: str
) -> list[Path]:
    """Writes the folder that is published, the manifest last: checkpoints of `steps`, no state. Returns its files."""
    claim_folder(folder, "publication")
    atomic.discard(folder / MANIFEST)
    checkpoints = [run.manifest.names_by_step(CHECKPOINTS)[step] for step in steps]
    # Files of no step, such as the settings, and these checkpoints; not the states, which have steps too.
    listed = {name: file for name, file in run.manifest.files.items() if file.step is None or name in checkpoints}
    weights = run.checkpoint(steps[-1]).weights
    made_here = {  # the contents of files that the run does not have
        "model.safetensors": encode_tensors({name: weight[0] for name, weight in weights.items()}),  # the first model
        "claims.json": claims_json(records),
        "README.md": card(run, repository, steps, records, license).encode(),
    }
    names = [*listed, METRICS, *made_here]
    for name in names:
        parent = folder_inside(folder, str(Path(name).parent))
        content = made_here[name] if name in made_here else run.committed(name)
        atomic.write(parent / Path(name).name, content)
    for path in (folder / CHECKPOINTS).glob("[0-9]*.safetensors"):
        if f"{CHECKPOINTS}/{path.name}" not in listed:
            atomic.discard(path)  # weights of an earlier publication
    replace(run.manifest, files=listed).write(folder)
    return [folder / name for name in (*names, MANIFEST)]


def card(run: Run, repository: str, steps: Sequence[int], records: Sequence[Record], license: str) -> str:
    """The text of README.md, which the Hub shows as the page of the repository, with checkpoints of these steps."""
    seeds = [member.seed for member in run.members]
    model, modulus = run.config.model, run.config.task.modulus
    step, seed, address = steps[-1], seeds[0], SCHEME + repository
    s, steps_s = "s" * (len(seeds) > 1), "s" * (len(steps) > 1)
    every_seed, every_step = ", ".join(map(str, seeds)), ", ".join(f"{step:,}" for step in steps)
    return f"""\
---
license: {license}
library_name: assignadd
tags:
- mechanistic-interpretability
- modular-arithmetic
- arxiv:{ARXIV}
{_model_index(run, repository, step)}---

# {repository}

{len(seeds)} small transformer{s} ({model.n_layers} layers, width {model.d_model}) trained to look variables up and
compute with their values modulo {modulus}; `config.json` has the settings of the task. The study is [Assign and Add: A
Mechanistic Study of Compositional Arithmetic](https://arxiv.org/abs/{ARXIV}); published with assignadd {__version__}.

## Load a network

```python
import assignadd  # pip install 'assignadd[hub]'

model = assignadd.load("{address}", step={step}, seed={seed})
```

The files are a run, with weights of seed{s} {every_seed} at step{steps_s} {every_step}: `{address}` is accepted
wherever assignadd takes a run, as in `assignadd measure {address}`, and so is a folder into which
`hf download {repository} --local-dir FOLDER` puts them. `config.json` has every setting, `splits.safetensors` which
pairs of numbers each model trained on, `metrics.jsonl` a row per model and evaluation, and `manifest.json` the sha256
of these files and of the weights, which is checked.

Without assignadd: `model.safetensors` has the model of seed {seed} at step {step} by TransformerLens's names. In
`checkpoints/` the same tensors have one axis more, the first, for the seeds.

## Claims

{_verdicts_sentence(records)}
"""


def _model_index(run: Run, repository: str, step: int) -> str:
    """The accuracies at each model's last evaluation up to `step`, as lines of the Hub's metadata; "" without any."""
    # By model; a later row replaces an earlier one.
    last_rows = {row["model"]: row for row in run.metrics() if row["step"] <= step}
    labels = {evalset.name: evalset.label for evalset in all_sets(run.config.task)}
    task = {"type": "modular-arithmetic", "name": f"arithmetic modulo {run.config.task.modulus}"}
    metrics_of_set: dict[str, list[dict[str, Any]]] = {}
    for row in last_rows.values():
        about = f"accuracy, seed {row['seed']}, step {row['step']}"
        if row.get("diverged_at") is not None:
            about += f", diverged at step {row['diverged_at']}"
        for name, accuracy in row["accuracy"].items():
            metrics_of_set.setdefault(name, []).append({"type": "accuracy", "value": accuracy, "name": about})
    results = ""  # a line for each evaluation set
    for name, metrics in metrics_of_set.items():
        dataset = {"type": "assign-and-add", "name": f"Assign and Add: {labels[name]}", "split": name}
        result = {"task": task, "dataset": dataset, "metrics": metrics}
        results += f"  - {json.dumps(result)}\n"  # JSON is YAML too
    return f"model-index:\n- name: {repository}\n  results:\n{results}" if results else ""


def _verdicts_sentence(records: Sequence[Record]) -> str:
    """How many claims have each verdict, in a sentence."""
    if not records:
        return "None were measured for this card; `assignadd claims RUN` measures them."
    counts = Counter(verdict_group(record.verdict) for record in records)
    counted = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ORDER if counts[verdict])
    intro = "What the paper says of its network, and further readings, tested on these networks by `assignadd claims`"
    return f"{intro}: {counted}. All of them are in `claims.json`."
