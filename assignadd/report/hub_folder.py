"""A run as a folder for the Hugging Face Hub: weights, settings, claims and a card (`runs/hub.py` has the layout)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from assignadd.claims.record import Record
from assignadd.errors import RunError
from assignadd.model.stack import Stack
from assignadd.report.hub_card import card
from assignadd.runs import atomic
from assignadd.runs.destination import claim_folder, folder_inside
from assignadd.runs.files import encode_tensors, read_regular
from assignadd.runs.folder import Run, read_committed
from assignadd.runs.hub import FILES, Index, checkpoint_name
from assignadd.runs.manifest import CONFIG, METRICS, SPLITS, Blob


def write_hub_folder(
    run: Run, folder: Path, repository: str, steps: Sequence[int], records: Sequence[Record], license: str
) -> Index:
    """Writes the folder and returns its list of files, which is written last: without it the folder is unfinished.

    `steps` are the checkpoints to publish, the last of them also as `model.safetensors`. An earlier publication in the
    same folder is replaced, and so is one that was interrupted.
    """
    claim_folder(folder, "publication", lambda found: (found / FILES).is_file() and _is_index(found))
    atomic.discard(folder / FILES)
    files: dict[str, Blob] = {}

    def write(name: str, data: bytes) -> None:
        atomic.write(folder_inside(folder, str(Path(name).parent)) / Path(name).name, data)
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
    for inside, _, names in os.walk(folder):  # weights of an earlier publication; does not follow links
        for path in (Path(inside) / name for name in names if name.endswith(".safetensors")):
            if path.relative_to(folder).as_posix() not in files:
                atomic.discard(path)
    atomic.write(folder / FILES, msgspec.json.format(msgspec.json.encode(index), indent=1) + b"\n")
    return index


def _is_index(folder: Path) -> bool:
    """Whether the folder has the list of files of a publication from before folders were marked."""
    try:
        msgspec.json.decode(read_regular(folder, FILES), type=Index)
    except (msgspec.MsgspecError, RunError):
        return False
    return True


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
