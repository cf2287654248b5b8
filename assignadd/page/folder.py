"""The folder of a page: which files are ours, how they are written, and which are of an earlier page."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import torch
from torch import Tensor

from assignadd.config.errors import RunError
from assignadd.model.circuits import OV, QK
from assignadd.model.stack import Stack
from assignadd.runs import atomic
from assignadd.runs.files import claim_folder, folder_inside

BUNDLE = ("index.html", "app.js", "app.css")
INDEX = "data/index.js"
# The files of models (m0.js) and of checkpoints (m0/00030000.js) in the folder `data`.
DATA = re.compile(r"m[0-9]+\.js|m[0-9]+/[0-9]{8,}\.js")


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

    def write_weights(self, key: str, step: int, stack: Stack) -> None:
        """Writes the script of one checkpoint, whose arguments are those of `script`."""
        self.write(f"data/{key}/{step:08d}.js", script(key, step, stack).encode())

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
        for folder in data_folder.glob("m[0-9]*"):
            with suppress(OSError):  # a link, or a folder that is not empty, stays
                folder.rmdir()


def script(key: str, step: int, stack: Stack) -> str:
    """The script of one checkpoint of one model: all its matrices (`circuits`), one after the other, as float16."""
    numbers = torch.cat([matrix.flatten() for matrix in circuits(stack).values()]).half()
    if not numbers.isfinite().all():
        raise RunError("weights that are not finite, or too large for half precision, cannot be shown")
    text = b64encode(numbers.numpy().astype("<f2").tobytes()).decode()
    return f"assignadd.weights({json.dumps(key)},{step},{json.dumps(text)});\n"


def circuits(stack: Stack) -> dict[str, Tensor]:
    """The matrices of a stack of one model by the page's names and in the page's order, each (rows, columns).

    The page has the products QK and OV instead of their factors, which are larger.
    """
    matrices = {
        "W_E": stack.W_E, "W_pos": stack.W_pos,
        "QK1": QK(stack, 1), "OV1": OV(stack, 1), "QK2": QK(stack, 2), "OV2": OV(stack, 2),
        "W_in": stack["blocks.1.mlp.W_in"], "W_out": stack["blocks.1.mlp.W_out"], "W_U": stack.W_U,
    }  # fmt: skip
    return {name: matrix[0] for name, matrix in matrices.items()}
