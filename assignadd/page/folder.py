"""The folder of a page: which files are ours, how they are written, and which are of an earlier page."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from assignadd.runs import atomic
from assignadd.runs.files import claim_folder, folder_inside

BUNDLE = ("index.html", "app.js", "app.css")
INDEX = "data/index.js"
# The names of the files of models and of checkpoints.
DATA = re.compile(r"m[0-9]+\.js|[0-9]{8,}\.js")


class PageFolder:
    """The folder of the page, and the files written into it."""

    def __init__(self, out: Path):
        """Claims the folder `out`; a DestinationError where it holds anything else."""
        claim_folder(out, "explorer page")
        self.out = out
        self.written: set[Path] = set()

    def write_bundle(self) -> None:
        """Writes the files that are the same for every page."""
        for name in BUNDLE:
            self.write(name, (files("assignadd.page") / "built" / name).read_bytes())

    def write(self, name: str, data: bytes) -> None:
        """Writes a file, by its path inside the folder."""
        path = folder_inside(self.out, str(Path(name).parent)) / Path(name).name
        atomic.write(path, data)
        self.written.add(path)

    def remove_others(self) -> None:
        """Removes the data of models and checkpoints of an earlier page that this one does not have."""
        data_folder = folder_inside(self.out, "data")
        model_folders = [
            path for path in data_folder.iterdir() if re.fullmatch("m[0-9]+", path.name) and not path.is_symlink()
        ]
        scripts = list(data_folder.glob("m*.js"))
        for folder in model_folders:
            scripts += folder.glob("*.js")
        for script in scripts:
            if script not in self.written and DATA.fullmatch(script.name):
                atomic.discard(script)
        for folder in model_folders:
            with suppress(OSError):  # a folder that is not empty stays
                folder.rmdir()
