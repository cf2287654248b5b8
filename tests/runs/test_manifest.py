"""Manifests that somebody wrote by hand, sealed as ours are: refused, and nothing outside the folder is touched."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
import safetensors.torch
import torch
from msgspec.structs import replace

from assignadd.config.errors import RunError
from assignadd.model.stack import Stack
from assignadd.runs.folder import Run, find_runs
from assignadd.runs.manifest import Blob, File, read_manifest
from tests.runs.small import CONFIG, train, weights_at

NEWEST = "states/00000025.safetensors"


@pytest.fixture(scope="module")
def at_25(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("manifest") / "run"
    train(path, 25)
    return path


@pytest.fixture
def run(tmp_path, at_25) -> Path:
    return Path(shutil.copytree(at_25, tmp_path / "run"))


def refused(path: Path, name: str) -> str:
    """The one line that opening or verifying says."""
    try:
        (line,) = Run.open(path).verify()
    except RunError as error:
        line = str(error)
    assert str(path / name) in line and "\n" not in line
    return line


def forge(run: Path, **changes: object) -> None:
    (run / "manifest.json").write_bytes(replace(read_manifest(run), **changes).sealed())


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "/etc/hostname",
        "checkpoints/../../x.safetensors",
        "states/x.safetensors",
        "states/1.safetensors",
        "others/00000001.safetensors",
        "lock",
        "",
    ],
)
def test_a_manifest_that_lists_other_files(run, name):
    files = read_manifest(run).files | {name: File(3, "0" * 64, 1)}
    forge(run, files=files)
    assert repr(name) in refused(run, "manifest.json")
    with pytest.raises(RunError, match="not a file of a run"):
        train(run)


def test_a_manifest_that_contradicts_itself(run):
    whole, files = (run / "manifest.json").read_bytes(), read_manifest(run).files
    state = files[NEWEST]
    for changed in (
        {k: f for k, f in files.items() if k != "config.json"},
        files | {NEWEST: replace(state, step=20)},
        files | {NEWEST: replace(state, step=None)},
        files | {"states/00000026.safetensors": replace(state, step=26)},
        files | {NEWEST: replace(state, metrics=Blob(10**6, "0" * 64))},
    ):
        forge(run, files=changed)
        refused(run, "manifest.json")
        (run / "manifest.json").write_bytes(whole)


@pytest.mark.parametrize(
    "change",
    [
        {"step": "25"},
        {"step": -1},
        {"finished": 1},
        {"files": []},
        {"files": {"config.json": {"size": 1, "sha256": "xyz"}}},
        {"metrics": {"size": 1.5, "sha256": "0" * 64}},
        {"sessions": [{}]},
        {"surprise": 1},
        {"format": 2},
        {"format": "one"},
    ],
)
def test_a_manifest_with_wrong_types(run, change):
    data = msgspec.json.decode((run / "manifest.json").read_bytes())
    (run / "manifest.json").write_bytes(msgspec.json.encode(data | change))
    refused(run, "manifest.json")


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"format": 1}'])
def test_a_manifest_that_is_none(run, data):
    (run / "manifest.json").write_bytes(data)
    refused(run, "manifest.json")
    runs, broken = find_runs(run.parent)
    assert runs == [] and len(broken) == 1


@pytest.mark.parametrize(
    "tensors",
    [
        {"embed.W_E": torch.zeros(2, 11, 4)},
        dict(Stack(CONFIG, weights_at(0)).weights) | {"extra": torch.zeros(1)},
        dict(Stack(CONFIG, weights_at(0).double()).weights),
        dict(Stack(CONFIG, weights_at(0)[:1]).weights),
    ],
)
def test_a_listed_checkpoint_of_another_model(run, tensors):
    name, data = "checkpoints/00000010.safetensors", safetensors.torch.save({k: t.clone() for k, t in tensors.items()})
    (run / name).write_bytes(data)
    forge(run, files=read_manifest(run).files | {name: File(len(data), Blob.of(data).sha256, 10)})
    with pytest.raises(RunError, match=f"{name} does not fit the run's model"):
        Run.open(run).checkpoint(10)
