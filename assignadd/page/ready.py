"""The page of the package's networks, ready-made: what takes long to measure is in an archive beside this file.

`make explorer-ready` writes the archive. It has all data of the page but the weights, which the networks have.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assignadd.page.folder import PageFolder

ARCHIVE = Path(__file__).with_name("ready.json.xz")
NETWORKS = Path(__file__).parents[1] / "networks"
# The runs whose networks are on the page, in its order.
RUNS = ("census-six", "small-trajectory")


@dataclass(frozen=True)
class Ready:
    """The content of the archive."""

    inputs: str
    """The hash of all that the data were computed from (tests/page/make_ready.py)."""
    files: dict[str, str]
    """The text of each data file, by its path in the page."""
    checkpoints: list[tuple[str, str, int, int]]
    """For each file of weights: the page's name of the model, its run, its place in the run, and the step."""


def read() -> Ready:
    """The archive."""
    return Ready(**json.loads(lzma.decompress(ARCHIVE.read_bytes())))


def unpack(out: Path) -> Path:
    """Writes the ready-made page into the folder `out`, and returns the path of its index.html."""
    from safetensors.numpy import load_file

    ready = read()
    folder = PageFolder(out)
    folder.write_bundle()
    for name, text in ready.files.items():
        folder.write(name, text.encode())
    loaded: dict[Path, dict[str, Any]] = {}  # the weights of a whole run at a step, by their file
    for key, run, index, step in ready.checkpoints:
        file = NETWORKS / run / "checkpoints" / f"{step:08d}.safetensors"
        if file not in loaded:
            loaded[file] = load_file(file)
        folder.write_weights(key, step, loaded[file], index)
    folder.remove_others()
    return out / "index.html"
