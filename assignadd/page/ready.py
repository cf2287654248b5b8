"""The page of the package's networks, ready-made: what takes long to measure is in an archive beside this file.

`make explorer-ready` writes the archive. It has all data of the page but the weights: these are computed from the
networks themselves, with NumPy alone, as PyTorch takes longer to load than all the rest.
"""

from __future__ import annotations

import json
import lzma
import math
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assignadd.page.folder import PageFolder

ARCHIVE = Path(__file__).with_name("ready.json.xz")
NETWORKS = Path(__file__).parents[1] / "networks"
# The runs whose networks are on the page, in its order.
RUNS = ("census-six", "small-trajectory")
Matrix = NDArray[np.float32]


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


def write(ready: Ready) -> None:
    """Replaces the archive."""
    ARCHIVE.write_bytes(lzma.compress(json.dumps(vars(ready)).encode(), preset=9))


def unpack(out: Path) -> Path:
    """Writes the page into the folder `out`, and returns the path of its index.html."""
    from safetensors.numpy import load_file

    ready = read()
    folder = PageFolder(out)
    folder.write_bundle()
    for name, text in ready.files.items():
        folder.write(name, text.encode())
    loaded: dict[Path, dict[str, Any]] = {}
    for key, run, index, step in ready.checkpoints:
        file = NETWORKS / run / "checkpoints" / f"{step:08d}.safetensors"
        if file not in loaded:
            loaded[file] = load_file(file)
        folder.write(f"data/{key}/{step:08d}.js", script(key, step, loaded[file], index).encode())
    folder.remove_others()
    return out / "index.html"


def script(key: str, step: int, weights: Mapping[str, Any], index: int) -> str:
    """The script of one model's weights as `data.script` writes it, from the arrays (M, ...) of a checkpoint's file."""
    flat = np.concatenate([matrix.ravel() for matrix in circuits(weights, index)]).astype("<f2")
    return f"assignadd.weights({json.dumps(key)},{step},{json.dumps(b64encode(flat.tobytes()).decode())});\n"


def circuits(weights: Mapping[str, Any], index: int) -> list[Matrix]:
    """The matrices of one model in the order of `data.circuits`."""

    def of(name: str) -> Matrix:
        """The weight of this name in single precision."""
        return np.asarray(weights[name][index], dtype=np.float32)

    def product(layer: int, left: str, right: str) -> Matrix:
        """The circuit of a layer's only head: QK for the factors W_Q and W_K, OV for W_V and W_O."""
        a = of(f"blocks.{layer - 1}.attn.{left}")[0]
        b = of(f"blocks.{layer - 1}.attn.{right}")[0]
        return a @ b.T / math.sqrt(a.shape[1]) if right == "W_K" else a @ b

    return [
        of("embed.W_E"),
        of("pos_embed.W_pos"),
        product(1, "W_Q", "W_K"),
        product(1, "W_V", "W_O"),
        product(2, "W_Q", "W_K"),
        product(2, "W_V", "W_O"),
        of("blocks.1.mlp.W_in"),
        of("blocks.1.mlp.W_out"),
        of("unembed.W_U"),
    ]
