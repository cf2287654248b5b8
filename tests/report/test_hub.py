"""A run published on the Hub and loaded back, against a server on loopback that speaks the client's endpoints."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import assignadd
from assignadd.cli import main
from assignadd.config import PRESETS, Member
from assignadd.config.errors import RunError
from assignadd.model.stack import initial_stack
from assignadd.runs.encoding import decode_tensors
from assignadd.runs.files import MARK
from assignadd.runs.manifest import Environment
from assignadd.runs.writer import Writer
from assignadd.task.splits import pair_split
from tests.report.hub_server import COMMIT, TOKEN, hub

CONFIG = PRESETS["smoke"]
SEEDS, STEPS = (3, 7), (0, 20, 60)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run of two seeds with three checkpoints and a state, whose weights are random and whose accuracies made up."""
    folder = tmp_path_factory.mktemp("runs") / "mine"
    members = [Member(seed) for seed in SEEDS]
    seen = torch.stack([pair_split(CONFIG.task, seed) for seed in SEEDS])
    with Writer.hold(folder, CONFIG, members, seen, Environment.here("cpu", 1)) as writer:
        for step in STEPS:
            stack = initial_stack(CONFIG, [seed + step for seed in SEEDS])
            rows = [
                {"model": i, "seed": seed, "step": step, "accuracy": {"0-var add-restricted": (step + seed) / 100}}
                for i, seed in enumerate(SEEDS)
            ]
            writer.commit(step, state={"weights": stack.flat, "step": torch.tensor(step)}, checkpoint=stack, rows=rows)
    return folder


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("published") / "out"
    command = ["runs", "publish", str(run), "--repo", "owner/name", "--steps", "all", "--no-claims", "--dry-run"]
    assert main([*command, "--out", str(out)]) == 0
    return out


def test_the_folder_is_the_run_without_its_states(run, folder):
    """Every file that was committed is there, byte by byte, and one model by the field's names."""
    assert (run / "states").exists() and not (folder / "states").exists()
    names = ["config.json", "splits.safetensors", "metrics.jsonl", *map(name_of, STEPS)]
    assert all((folder / name).read_bytes() == (run / name).read_bytes() for name in names)
    others = {"manifest.json", "model.safetensors", "claims.json", "README.md", MARK}
    assert {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} == {*names, *others}
    weights = decode_tensors((folder / "model.safetensors").read_bytes(), "it")
    model = assignadd.load(run, STEPS[-1], SEEDS[0]).state_dict()
    assert weights.keys() == model.keys() and all(torch.equal(weights[name], model[name]) for name in model)


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
    assert len([line for line in lines if '"value": 0.25' in line and "link" in line]) == 1


def test_the_card_has_metadata_and_says_how_to_load(folder):
    yaml = pytest.importorskip("yaml", reason="the client of the Hub, which needs it, is not installed")
    _, front, text = (folder / "README.md").read_text().split("---\n", 2)
    metadata = yaml.safe_load(front)
    del metadata["model-index"]
    assert metadata == {
        "license": "mit",
        "library_name": "assignadd",
        "tags": ["mechanistic-interpretability", "modular-arithmetic", "arxiv:2605.31497"],
    }
    assert 'assignadd.load("hf://owner/name", step=60, seed=3)' in text and "seeds 3, 7 at steps 0, 20, 60" in text


@pytest.mark.parametrize(("step", "accuracies"), [(60, [0.63, 0.67]), (20, [0.23, 0.27])])
def test_the_results_are_those_of_the_last_published_step_in_the_form_of_the_hub(run, tmp_path, step, accuracies):
    """As the client of the Hub reads them."""
    cards = pytest.importorskip("huggingface_hub", reason="pip install 'assignadd[hub]'")
    command = ["runs", "publish", str(run), "--repo", "owner/name", "--no-claims", "--dry-run", "--steps", str(step)]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    data = cards.ModelCard((tmp_path / "out/README.md").read_text()).data
    assert data.model_name == "owner/name"
    for seed, accuracy, result in zip(SEEDS, accuracies, data.eval_results, strict=True):
        assert (result.metric_type, result.metric_value) == ("accuracy", accuracy)
        assert result.metric_name == f"accuracy, seed {seed}, step {step}"
        assert (result.dataset_type, result.dataset_split) == ("assign-and-add", "0-var add-restricted")
        assert result.dataset_name == "Assign and Add: literals alone, held-out pair"


def name_of(step: int) -> str:
    return f"checkpoints/{step:08d}.safetensors"


def flat(model) -> list[float]:
    return torch.cat([w.flatten() for w in model.state_dict().values()]).tolist()


# What is done with any run, on the command line.
COMMANDS = [
    ["ask", "a=1, a+2=?", "RUN", "--seed", "7", "--json"],
    ["measure", "RUN", "--n", "50", "--json"],
    ["claims", "RUN", "--only", "qk2-identity", "--n", "40", "--json"],
    ["explore", "RUN", "--no-ledger", "--checkpoints", "2", "--threads", "1"],
    ["runs", "verify", "RUN"],
]


def without_mark(folder: Path, there: Path) -> Path:
    """The files of a published folder as they are downloaded into a folder: our mark is not among them."""
    return shutil.copytree(folder, there, ignore=shutil.ignore_patterns(MARK))


def like_the_cache(folder: Path, cache: Path) -> Path:
    """The files of a published folder as the client has them in its cache: links to files named after their hash."""
    snapshot = cache / "models--owner--name/snapshots" / COMMIT
    for file in [p for p in folder.rglob("*") if p.is_file() and p.name != MARK]:
        blob = cache / "models--owner--name/blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
        link = snapshot / file.relative_to(folder)
        for path in (blob, link):
            path.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(file.read_bytes())
        link.symlink_to(os.path.relpath(blob, link.parent))
    return snapshot


@pytest.mark.parametrize("downloaded", [without_mark, like_the_cache], ids=["a folder", "the cache"])
def test_a_downloaded_folder_is_a_run(run, folder, tmp_path, monkeypatch, capsys, downloaded):
    monkeypatch.chdir(tmp_path)
    there = downloaded(folder, tmp_path / "name")
    assert torch.equal(assignadd.load_stack(there, 20).flat, assignadd.load_stack(run, 20).flat)
    trajectory = assignadd.open_run(there).trajectory(model=1)
    assert torch.equal(trajectory.flat, assignadd.open_run(run).trajectory(model=1).flat) and len(trajectory) == 3
    assert assignadd.metrics(there).equals(assignadd.metrics(run))
    for command in COMMANDS[:3]:
        printed = []
        for name in (there, run):
            assert main([str(name) if word == "RUN" else word for word in command]) == 0
            printed.append(capsys.readouterr().out.replace(str(run), str(there)).replace("mine", "name"))
        assert printed[0] == printed[1]


def test_links_out_of_the_cache_are_refused(folder, tmp_path):
    snapshot = like_the_cache(folder, tmp_path / "cache")
    file = snapshot / name_of(20)
    file.unlink()
    file.symlink_to(folder / name_of(20))  # the very bytes
    with pytest.raises(RunError, match=r"00000020.safetensors is refused: .* symbolic links"):
        assignadd.load_stack(snapshot, 20)


# In a process of its own, as the client reads its settings when it is imported: does the commands that it is sent.
CLIENT = """
import contextlib, io, json, sys, assignadd
from assignadd.cli import main
while line := input():
    words = json.loads(line)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        if words[0] == "load":
            model = assignadd.load(*words[1:])
            print(json.dumps([w for weight in model.state_dict().values() for w in weight.flatten().tolist()]))
            code = 0
        else:
            code = main(words)
    print(json.dumps([code, printed.getvalue()]), flush=True)
"""


def environment(server, home: Path) -> dict[str, str]:
    theirs = {"HF_ENDPOINT": server.address, "HF_TOKEN": TOKEN, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    return os.environ | theirs | quiet | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


@pytest.fixture(scope="module")
def connected(tmp_path_factory):
    """A server, the folder of its client, and a function: sends it a command, returns exit code and what it printed."""
    pytest.importorskip("huggingface_hub", reason="pip install 'assignadd[hub]'")
    folder = tmp_path_factory.mktemp("client")
    with hub() as server:
        process = subprocess.Popen(
            [sys.executable, "-c", CLIENT], env=environment(server, folder / "home"), cwd=folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        late = threading.Timer(600, process.kill)
        late.start()

        def do(*words):
            process.stdin.write(json.dumps(words) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        try:
            yield server, folder / "home", do
        finally:
            late.cancel()
            process.communicate("\n")


@pytest.fixture
def do(connected):
    return connected[2]


@pytest.fixture
def published(connected, folder):
    """The server, which has the published folder; its client has fetched nothing."""
    server, home, _ = connected
    shutil.rmtree(home, ignore_errors=True)
    server.forget()
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != MARK]
    server.files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}
    return server


def test_published_as_the_folder(run, published, do):
    expected, published.files = published.files, {}
    code, printed = do(
        "runs", "publish", str(run), "--repo", "owner/name", "--steps", "all", "--no-claims", "--private"
    )
    assert code == 0 and COMMIT in printed.replace("\n", "")
    assert published.files == expected
    assert published.created["name"] == "name" and published.created["organization"] == "owner"
    assert published.created["visibility" if "visibility" in published.created else "private"] in ("private", True)


def test_every_command_takes_the_address_and_fetches_what_it_reads(run, published, do, capsys):
    assert json.loads(do("load", "hf://owner/name", None, 7)[1]) == flat(assignadd.load(run, 60, 7))
    weights = {"manifest.json", "config.json", name_of(60)}
    assert set(published.fetched) == weights
    for command in COMMANDS:
        address = f"hf://owner/name@{COMMIT}" if command[0] == "claims" else "hf://owner/name"
        code, printed = do(*(address if word == "RUN" else word for word in command))
        assert code == 0, printed
        if command[0] in ("ask", "measure"):
            assert set(published.fetched) == weights | {"metrics.jsonl", "splits.safetensors"}
            assert main([str(run) if word == "RUN" else word for word in command]) == 0
            assert printed == capsys.readouterr().out.replace("mine", "name")
    listed = json.loads(published.files["manifest.json"])["files"]
    opened = [name for name in published.fetched if name != "manifest.json"]
    assert sorted(opened) == sorted([*listed, "metrics.jsonl"])  # each once


def test_what_is_not_there_is_said_in_one_line(published, do):
    for words, code, says in (
        (
            ("ask", "a=1, a+2=?", "hf://owner/name", "--step", "21"),
            1,
            "no checkpoint at step 21; the nearest is at 20",
        ),
        (("ask", "a=1, a+2=?", "hf://owner/name", "--seed", "4"), 1, "has no seed 4; it has 3, 7"),
        (
            ("measure", "hf://owner/nobody"),
            1,
            "hf://owner/nobody: manifest.json could not be fetched: the server answers 404",
        ),
        (("measure", "hf://../name"), 2, "repo = '../name': expected OWNER/NAME"),
    ):
        found, printed = do(*words)
        assert found == code and says in printed and printed.count("\n") == 1, printed


def test_a_server_is_not_trusted(published, connected):
    weights, manifest = published.files[name_of(60)], published.files["manifest.json"]
    bad = [  # another file, what is said, and whether the settings have been stored by then
        ({name_of(60): weights[:-1] + bytes([weights[-1] ^ 1])}, "its sha256 is not the manifest's", True),
        ({name_of(60): weights + b"x"}, f"it has more than the {len(weights):,} bytes that are read", True),
        ({name_of(60): weights[:-1]}, f"is truncated: it has {len(weights) - 1} of {len(weights)} bytes", True),
        ({"manifest.json": manifest.replace(name_of(60).encode(), b"../mine.safetensors")}, "was edited", False),
        ({"manifest.json": bytes(17 << 20)}, "it has more than the 16,777,216 bytes that are read", False),
    ]
    good, (_, home, do) = dict(published.files), connected
    for changed, says, has_settings in bad:
        published.files = good | changed
        code, printed = do("ask", "a=1, a+2=?", "hf://owner/name")
        assert code == 1 and says in printed and printed.count("\n") == 1, printed
        stored = {p.name for p in home.rglob("*") if p.is_file()} - {"manifest.json"}
        assert stored == ({"config.json"} if has_settings else set())
        shutil.rmtree(home, ignore_errors=True)
    published.files, published.commit = good, "../../mine"  # which is no commit: the newest is asked for instead
    assert do("ask", "a=1, a+2=?", "hf://owner/name")[0] == 0


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
    """Finished, or interrupted before its manifest was written; weights of other steps are gone."""
    folder = tmp_path / "out"
    command = ["runs", "publish", str(run), "--repo", "owner/name", "--no-claims", "--dry-run", "--out", str(folder)]
    assert main(command) == 0
    once = {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert main([*command, "--steps", "all"]) == 0
    assert len([p for p in folder.rglob("*") if p.is_file()]) > len(once)
    (folder / "manifest.json").unlink()
    (folder / "checkpoints/notes.txt").write_text("somebody's")
    assert main(command) == 0
    (folder / "checkpoints/notes.txt").unlink()
    assert {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()} == once


def test_without_the_client_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("assignadd.runs.hub.find_spec", lambda name: None)
    with pytest.raises(Exception, match=r"pip install 'assignadd\[hub\]'"):
        assignadd.load("hf://owner/name")
