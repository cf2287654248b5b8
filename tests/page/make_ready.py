"""Writes the archive of the ready-made page: `python -m tests.page.make_ready`, or `make explorer-ready`."""

from __future__ import annotations

import json
import lzma
import shutil
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from assignadd import __version__
from assignadd.network import networks_of
from assignadd.page import data, ready
from assignadd.page.export import FORMAT, export
from assignadd.page.ready import RUNS, Ready
from assignadd.paper.ledger import CLAIMS
from assignadd.runs.folder import Run, shipped

# What is measured along training is stored beside a run: here it is measured again.
STORED = "measures.parquet"
# The tables about many seeds.
POPULATIONS = ("census", "authors", "fraction", "two-var")


def inputs() -> str:
    """A hash of what the data are computed from: networks, population tables, and the words of claims and labels."""
    results = Path(data.__file__).parents[1] / "results"
    files = [
        file for name in RUNS for file in sorted(shipped(name).rglob("*")) if file.is_file() and file.name != STORED
    ]
    files += [results / f"{name}.parquet" for name in POPULATIONS]
    told = {id.partition(":")[0] for id in data.STORY_CLAIMS}
    words = [
        (claim.id, claim.claim, claim.paper, [(reading.id, reading.says) for reading in claim.readings])
        for claim in CLAIMS
        if claim.id in told
    ]
    of_code = [__version__, FORMAT, data.STORY_CLAIMS, words, data.package_tables()]
    hashes = [sha256(file.read_bytes()).hexdigest() for file in files]
    return sha256(json.dumps([hashes, of_code]).encode()).hexdigest()


def made(out: Path) -> Ready:
    """The archive as it should be now; `out` is a folder for the page, which takes half a minute."""
    without_stored = shutil.ignore_patterns(STORED)
    runs = [Run.open(shutil.copytree(shipped(name), out.parent / name, ignore=without_stored)) for name in RUNS]
    networks = [network for run in runs for network in networks_of(run)[0]]
    export(networks, out, f"assignadd claims {RUNS[0]}")
    models = [(network.name, network.index) for network in networks]
    checkpoints = [
        (f"m{i}", run, index, int(file.stem))
        for i, (run, index) in enumerate(models)
        for file in sorted((out / "data" / f"m{i}").glob("*.js"))
    ]
    texts = {f"data/{file.name}": file.read_text() for file in sorted((out / "data").glob("*.js"))}
    return Ready(inputs(), texts, checkpoints)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        document = json.dumps(vars(made(Path(folder) / "page")))
    ready.ARCHIVE.write_bytes(lzma.compress(document.encode(), preset=9))
