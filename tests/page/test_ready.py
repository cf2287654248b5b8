"""The ready-made page of the package's networks: current, whole, small, and there without PyTorch."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from assignadd.page import ready
from assignadd.page.folder import script
from assignadd.runs.folder import Run, shipped
from tests.page import make_ready
from tests.page.test_export import argument, whole_numbers

REMAKE = "the archive is not of these networks, tables and claims: run `make explorer-ready`"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    return ready.unpack(tmp_path_factory.mktemp("ready") / "explorer").parent


def test_the_archive_is_current():
    assert ready.read().inputs == make_ready.inputs(), REMAKE


def test_the_archive_is_small():
    assert ready.ARCHIVE.stat().st_size < 200_000


def test_every_file_that_the_index_names_is_there(unpacked):
    index = argument(unpacked / "data" / "index.js")
    assert {model["run"] for model in index["models"]} == set(ready.RUNS) and len(index["ledger"]) > 10
    for model in index["models"]:
        assert (unpacked / "data" / f"{model['key']}.js").is_file()
        for step in model["steps"]:
            assert (unpacked / "data" / model["key"] / f"{step:08d}.js").is_file()
    assert index["population"]["census"]["n"] == 160 and (unpacked / "app.js").stat().st_size > 100_000


def test_the_first_verdict_of_the_story_is_a_clear_one(unpacked):
    verdicts = [record["verdict"] for record in argument(unpacked / "data" / "index.js")["ledger"]]
    assert verdicts[0] == "holds" and "undecided" in verdicts  # the borderline one is not left out


def test_weights_are_those_that_the_export_writes(unpacked):
    for key, name, index, step in ready.read().checkpoints:
        stack = Run.open(shipped(name)).model_at(step, index)[1]
        wanted, found = script(key, step, stack.weights), (unpacked / "data" / key / f"{step:08d}.js").read_text()
        assert found.split('"')[:3] == wanted.split('"')[:3]
        values = [
            torch.tensor(whole_numbers(text.split('"')[3]), dtype=torch.int16).view(torch.half)
            for text in (wanted, found)
        ]
        assert torch.allclose(values[0].float(), values[1].float(), rtol=2**-10, atol=1e-6)  # of another processor too


def test_it_takes_no_pytorch(tmp_path):
    """Loading PyTorch alone takes longer than the two seconds that the page may take."""
    code = (
        "import sys; from assignadd.cli import main; code = main(['explore']);"
        "sys.exit(code or 'torch' in sys.modules or 'polars' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("explorer/index.html: ") and (tmp_path / "explorer" / "index.html").is_file()


@pytest.mark.slow
def test_the_archive_has_what_the_export_measures(tmp_path):
    """Numbers may differ a little from one processor to another; nothing else may."""
    now, before = make_ready.made(tmp_path / "page"), ready.read()
    assert now.checkpoints == [tuple(row) for row in before.checkpoints] and now.files.keys() == before.files.keys(), (
        REMAKE
    )
    ready.unpack(tmp_path / "unpacked")
    for name in now.files:
        page, archive = (argument(tmp_path / folder / name) for folder in ("page", "unpacked"))
        assert_alike(page, archive, name)


def assert_alike(one, other, where):
    assert type(one) is type(other), where
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            assert_alike(one[key], other[key], f"{where}/{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for i, pair in enumerate(zip(one, other, strict=True)):
            assert_alike(*pair, f"{where}/{i}")
    elif isinstance(one, float):
        assert np.isclose(one, other, atol=0.005), where
    else:
        assert one == other, where
