"""A run published on the Hub and loaded back, against a server on loopback that speaks the client's endpoints."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

import assignadd
from assignadd.cli import main
from assignadd.config import PRESETS, Member
from assignadd.model.stack import initial_stack
from assignadd.report.hub_folder import with_metadata
from assignadd.runs.encoding import decode_tensors, encode_tensors
from assignadd.runs.files import MARK
from assignadd.runs.manifest import Environment
from assignadd.runs.writer import Writer
from assignadd.task.splits import pair_split
from tests.report.hub_server import COMMIT, TOKEN, hub

CONFIG = PRESETS["smoke"]
SEEDS, STEPS = (3, 7), (0, 20, 60)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run of two seeds with three checkpoints, whose weights are random."""
    folder = tmp_path_factory.mktemp("runs") / "mine"
    members = [Member(seed) for seed in SEEDS]
    seen = torch.stack([pair_split(CONFIG.task, seed) for seed in SEEDS])
    with Writer.hold(folder, CONFIG, members, seen, Environment.here("cpu", 1)) as writer:
        for step in STEPS:
            writer.commit(step, checkpoint=initial_stack(CONFIG, [seed + step for seed in SEEDS]))
    return folder


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("published") / "out"
    command = ["runs", "publish", str(run), "--repo", "owner/name", "--steps", "all", "--no-claims", "--dry-run"]
    assert main([*command, "--out", str(out)]) == 0
    return out


def test_the_folder_has_every_model_at_every_step_with_seed_and_step_in_its_metadata(run, folder):
    for step in STEPS:
        for seed in SEEDS:
            with safe_open(folder / f"checkpoints/seed-{seed}/{step:08d}.safetensors", "pt") as file:
                assert file.metadata() == {"format": "pt", "seed": str(seed), "step": str(step)}
                weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            model = assignadd.load(run, step, seed)
            assert weights.keys() == model.state_dict().keys()
            assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
    first = folder / f"checkpoints/seed-{SEEDS[0]}/{STEPS[-1]:08d}.safetensors"
    assert (folder / "model.safetensors").read_bytes() == first.read_bytes()
    assert (folder / "config.json").read_bytes() == (run / "config.json").read_bytes()
    assert (folder / "splits.safetensors").read_bytes() == (run / "splits.safetensors").read_bytes()


def test_every_file_is_listed_with_its_sha256(folder):
    listed = json.loads((folder / "files.json").read_text())
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != MARK}
    del found["files.json"]
    assert listed["files"] == {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in found.items()
    }
    assert listed["seeds"] == list(SEEDS)


def test_the_card_names_the_sets_of_any_task(tmp_path):
    """A task with links has evaluation sets that the paper's has not."""
    config = replace(CONFIG, task=replace(CONFIG.task, hops=1))
    rows = [{"model": 0, "seed": 0, "step": 0, "accuracy": {"0-var train": 0.5, "1-var 1 link": 0.25}}]
    seen = pair_split(config.task, 0)[None]
    with Writer.hold(tmp_path / "linked", config, [Member(0)], seen, Environment.here("cpu", 1)) as writer:
        writer.commit(0, checkpoint=initial_stack(config, [0]), rows=rows)
    command = ["runs", "publish", str(tmp_path / "linked"), "--repo", "owner/name", "--no-claims", "--dry-run"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    lines = (tmp_path / "out" / "README.md").read_text().splitlines()
    assert len([line for line in lines if line.endswith("| 0.250 |") and "link" in line]) == 1


def test_the_card_has_metadata_and_says_how_to_load(folder):
    yaml = pytest.importorskip("yaml", reason="the client of the Hub, which needs it, is not installed")
    _, front, text = (folder / "README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(front) == {
        "license": "mit",
        "library_name": "assignadd",
        "tags": ["mechanistic-interpretability", "modular-arithmetic", "arxiv:2605.31497"],
    }
    assert 'assignadd.load("hf://owner/name", step=60, seed=3)' in text and "seeds 3, 7 at steps 0, 20, 60" in text


def test_metadata_leaves_the_tensors_as_they_are():
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor([True])}
    data = with_metadata(encode_tensors(tensors), {"step": "7", "note": 'ünï "quoted"'})
    assert all(torch.equal(found, tensors[name]) for name, found in decode_tensors(data, "x").items())
    assert int.from_bytes(data[:8], "little") % 8 == 0


# In a process of its own, as the client reads its settings when it is imported: publishes, and loads what it is asked.
CLIENT = """
import contextlib, io, json, torch, assignadd
from assignadd.cli import main
with contextlib.redirect_stdout(io.StringIO()) as said:
    code = main(json.loads(input()))
print(json.dumps([code, said.getvalue()]), flush=True)
while line := input():
    address, step, seed = json.loads(line)
    try:
        model = assignadd.load(address, step=step, seed=seed)
        reply = torch.cat([w.flatten() for w in model.state_dict().values()]).tolist()
    except Exception as error:
        reply = f"{type(error).__name__}: {error}"
    print(json.dumps(reply), flush=True)
"""


def environment(server, home: Path) -> dict[str, str]:
    theirs = {"HF_ENDPOINT": server.address, "HF_TOKEN": TOKEN, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    return os.environ | theirs | {"HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


@contextmanager
def client(server, folder: Path):
    """Gives a function that sends a line to the client and returns its reply."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT], env=environment(server, folder / "home"), cwd=folder, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    late = threading.Timer(300, process.kill)
    late.start()

    def ask(asked):
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    try:
        yield ask
        process.communicate("\n")
    finally:
        late.cancel()
        process.kill()


def name_of(seed: int, step: int) -> str:
    return f"checkpoints/seed-{seed}/{step:08d}.safetensors"


def flat(model) -> list[float]:
    return torch.cat([w.flatten() for w in model.state_dict().values()]).tolist()


def test_published_and_loaded_back(run, folder, tmp_path):
    pytest.importorskip("huggingface_hub", reason="pip install 'assignadd[hub]'")
    with hub() as server, client(server, tmp_path) as ask:
        code, printed = ask(
            ["runs", "publish", str(run), "--repo", "owner/name", "--steps", "all", "--no-claims", "--private"]
        )
        assert code == 0 and COMMIT in printed.replace("\n", "")
        # The same bytes as those of the other process.
        written = [p for p in folder.rglob("*") if p.is_file() and p.name != MARK]
        assert server.files == {str(p.relative_to(folder)): p.read_bytes() for p in written}
        assert server.created["name"] == "name" and server.created["organization"] == "owner"
        assert server.created["visibility" if "visibility" in server.created else "private"] in ("private", True)

        # Well formed weights, but not those of the list: one bit of the last number differs.
        good = server.files[name_of(3, 20)]
        server.files[name_of(3, 20)] = good[:-1] + bytes([good[-1] ^ 1])
        server.files[name_of(3, 0)] += b"x"
        one, other, step, seed, nobody, outside, damaged, longer = map(ask, [
            ("hf://owner/name", None, None), (f"hf://owner/name@{COMMIT}", 20, 7), ("hf://owner/name", 21, None),
            ("hf://owner/name", None, 4), ("hf://owner/nobody", None, None), ("hf://../name", None, None),
            ("hf://owner/name", 20, 3), ("hf://owner/name", 0, 3),
        ])  # fmt: skip
    assert one == flat(assignadd.load(run, 60, 3)) and other == flat(assignadd.load(run, 20, 7))
    weights = {name_of(3, 60), name_of(7, 20), name_of(3, 20), name_of(3, 0)}
    assert set(server.fetched) == {"files.json", "config.json", *weights}
    assert step.endswith("has no weights of seed 3 at step 21; it has 0, 20, 60")
    assert seed.endswith("has no seed 4; it has 3, 7")
    assert nobody.startswith("RunError: hf://owner/nobody/files.json could not be fetched: ") and "\n" not in nobody
    assert outside.startswith("ConfigError: repo = '../name'")
    assert longer.endswith(f"it has more than the {len(server.files[name_of(3, 0)]) - 1:,} bytes that are read")
    assert not (tmp_path / "home").exists(), "the client's cache would take names of files from the server"
    assert damaged.startswith("RunError: ") and "its sha256 is not the manifest's" in damaged


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--repo", "name"], "repo = 'name': expected OWNER/NAME"),
        (["--repo", "owner/name", "--steps", "21"], "steps = '21'"),
        (["--repo", "owner/name", "--license", "MIT\nx: y"], "license = "),
        ([], "arguments are required: --repo"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(run, tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert main(["runs", "publish", str(run), "--dry-run", "--no-claims", *arguments]) == 2
    assert words in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_a_folder_with_files_is_left_alone(run, tmp_path, capsys):
    (tmp_path / "mine").write_text("precious")
    command = ["runs", "publish", str(run), "--repo", "owner/name", "--no-claims", "--dry-run", "--out", str(tmp_path)]
    assert main(command) == 2 and "holds other files, such as 'mine'" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_the_same_command_replaces_its_own_folder(run, tmp_path, capsys):
    """Finished, or interrupted before its list of files was written; weights of other steps are gone."""
    folder = tmp_path / "out"
    command = ["runs", "publish", str(run), "--repo", "owner/name", "--no-claims", "--dry-run", "--out", str(folder)]
    assert main(command) == 0
    once = {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert main([*command, "--steps", "all"]) == 0
    assert len([p for p in folder.rglob("*") if p.is_file()]) > len(once)
    (folder / "files.json").unlink()
    assert main(command) == 0
    assert {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()} == once


def test_without_the_client_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("assignadd.runs.hub.find_spec", lambda name: None)
    with pytest.raises(Exception, match=r"pip install 'assignadd\[hub\]'"):
        assignadd.load("hf://owner/name")
