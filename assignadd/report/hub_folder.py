"""A run as a folder for the Hugging Face Hub: weights, settings, claims and a card (`runs/hub.py` has the layout)."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from assignadd.claims.record import Record
from assignadd.errors import ConfigError
from assignadd.model.stack import Stack
from assignadd.report.hub_card import card
from assignadd.runs.files import encode_tensors, read_regular
from assignadd.runs.folder import Run, read_committed
from assignadd.runs.hub import FILES, Index, checkpoint_name
from assignadd.runs.manifest import CONFIG, METRICS, SPLITS, Blob


def write_hub_folder(
    run: Run, folder: Path, repository: str, steps: Sequence[int], records: Sequence[Record], license: str
) -> Index:
    """Writes the folder, all of it or nothing, and returns its list of files.

    `steps` are the checkpoints to publish, the last of them also as `model.safetensors`.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError("out", str(folder), "a folder that does not exist yet or is empty")
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        index = _fill(run, made, repository, steps, records, license)
        made.chmod(0o755)
        os.rename(made, folder)
    except BaseException:
        shutil.rmtree(made)
        raise
    return index


def _fill(
    run: Run, folder: Path, repository: str, steps: Sequence[int], records: Sequence[Record], license: str
) -> Index:
    files: dict[str, Blob] = {}

    def write(name: str, data: bytes) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        files[name] = Blob.of(data)

    for name in (CONFIG, SPLITS):
        write(name, read_committed(run.path, run.manifest, name))
    run.metrics()  # raises an error where the file is not as committed
    write(METRICS, read_regular(run.path, METRICS, most=run.manifest.metrics.size))
    write("claims.json", json.dumps([asdict(record) for record in records], indent=1, allow_nan=False).encode() + b"\n")
    for step in steps:
        stack = run.checkpoint(step)
        for i, member in enumerate(run.members):
            data = _weights(stack, i, member.seed, step)
            write(checkpoint_name(member.seed, step), data)
            if i == 0 and step == steps[-1]:
                write("model.safetensors", data)
    index = Index(run.name, run.manifest.seeds, files)
    # The card names the files written so far, and is then listed itself.
    write("README.md", card(run, repository, index, records, license).encode())
    (folder / FILES).write_bytes(msgspec.json.format(msgspec.json.encode(index), indent=1) + b"\n")
    return index


def _weights(stack: Stack, model: int, seed: int, step: int) -> bytes:
    """One model's weights as safetensors bytes, with its seed and step as metadata."""
    data = encode_tensors({name: weight[model] for name, weight in stack.weights.items()})
    return with_metadata(data, {"format": "pt", "seed": str(seed), "step": str(step)})


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
