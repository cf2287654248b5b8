"""The folder of a page: which files are ours, how they are written, and which are of an earlier page.

The weights are computed with NumPy alone: PyTorch takes longer to load than the ready-made page to be written.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assignadd.config.errors import RunError
from assignadd.runs import atomic
from assignadd.runs.files import claim_folder, folder_inside

BUNDLE = ("index.html", "app.js", "app.css")
INDEX = "data/index.js"
# The files of models (m0.js) and of checkpoints (m0/00030000.js) in the folder `data`.
DATA = re.compile(r"m[0-9]+\.js|m[0-9]+/[0-9]{8,}\.js")
Matrix = NDArray[np.float32]


class PageFolder:
    """The folder `out` of the page, and in `written` the files that were written into it."""

    def __init__(self, out: Path):
        """Claims the folder `out`; a DestinationError where it holds anything else."""
        claim_folder(out, "explorer page")
        self.out = out
        self.written: set[Path] = set()

    def write_bundle(self) -> None:
        """Writes the files that are the same for every page."""
        for name in BUNDLE:
            self.write(name, (files("assignadd.page") / "built" / name).read_bytes())

    def write_weights(self, key: str, step: int, weights: Mapping[str, Any], index: int = 0) -> None:
        """Writes the script of one checkpoint, whose arguments are those of `script`."""
        self.write(f"data/{key}/{step:08d}.js", script(key, step, weights, index).encode())

    def write(self, name: str, data: bytes) -> None:
        """Writes a file, by its path inside the folder."""
        path = folder_inside(self.out, str(Path(name).parent)) / Path(name).name
        atomic.write(path, data)
        self.written.add(path)

    def remove_others(self) -> None:
        """Removes the data of models and checkpoints of an earlier page that this one does not have."""
        data_folder = folder_inside(self.out, "data")
        for path in [*data_folder.glob("*.js"), *data_folder.glob("m*/*.js")]:
            is_ours = DATA.fullmatch(path.relative_to(data_folder).as_posix()) and not path.parent.is_symlink()
            if is_ours and path not in self.written:
                atomic.discard(path)
        for folder in data_folder.iterdir():
            if re.fullmatch("m[0-9]+", folder.name):
                with suppress(OSError):  # a link, or a folder that is not empty, stays
                    folder.rmdir()


def script(key: str, step: int, weights: Mapping[str, Any], index: int = 0) -> str:
    """The script of one checkpoint: all matrices (`circuits`) of the model `key`, one after the other, as float16."""
    matrices = circuits(weights, index).values()
    with np.errstate(over="ignore"):  # refused below
        numbers = np.concatenate([matrix.ravel() for matrix in matrices]).astype("<f2")
    if not np.isfinite(numbers).all():
        raise RunError("weights that are not finite, or too large for half precision, cannot be shown")
    text = b64encode(numbers.tobytes()).decode()
    return f"assignadd.weights({json.dumps(key)},{step},{json.dumps(text)});\n"


def circuits(weights: Mapping[str, Any], index: int = 0) -> dict[str, Matrix]:
    """The matrices of one model by the page's names and in the page's order, each (rows, columns).

    The page has the products QK and OV instead of their factors, which are larger. `weights` has arrays with a leading
    axis M, by TransformerLens's names; `index` is the model's place on that axis.
    """

    def weight(name: str) -> Matrix:
        """The array of this name, of the model alone."""
        return np.asarray(weights[name][index], dtype=np.float32)

    matrices = {"W_E": weight("embed.W_E"), "W_pos": weight("pos_embed.W_pos")}
    for layer in (1, 2):
        attention = f"blocks.{layer - 1}.attn"
        # [0] is the only head.
        W_Q = weight(f"{attention}.W_Q")[0]  # (d, d_head)
        W_K = weight(f"{attention}.W_K")[0]  # (d, d_head)
        W_V = weight(f"{attention}.W_V")[0]  # (d, d_head)
        W_O = weight(f"{attention}.W_O")[0]  # (d_head, d)
        d_head = W_Q.shape[1]
        matrices[f"QK{layer}"] = W_Q @ W_K.T / math.sqrt(d_head)
        matrices[f"OV{layer}"] = W_V @ W_O
    last_mlp = {"W_in": weight("blocks.1.mlp.W_in"), "W_out": weight("blocks.1.mlp.W_out")}
    return matrices | last_mlp | {"W_U": weight("unembed.W_U")}
