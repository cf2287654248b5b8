"""One damaged run does not hide the others, and what a shell, a disk or a terminal does to a command is one line."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from assignadd import api
from assignadd.cli import main
from assignadd.config import PRESETS
from assignadd.config.errors import LONGEST_LINE
from assignadd.runs.manifest import Blob, File, read_manifest
from tests.runs.small import train
from tests.runs.test_damage import flip
from tests.runs.test_destination import everything

COMMAND = [sys.executable, "-m", "assignadd"]


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    for name in ("old", "new"):
        train(folder / "runs" / name, 10)
    return folder


@pytest.fixture
def place(two_runs, tmp_path, monkeypatch) -> Path:
    shutil.copytree(two_runs, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    os.utime("runs/old/manifest.json", ns=(0, 0))
    return tmp_path / "place"


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "manifest.json"])
def test_one_damaged_run_does_not_hide_the_others(place, name, capsys):
    flip(place / "runs/new" / name, 40)
    assert main(["runs", "list"]) == 0
    said = capsys.readouterr().out
    assert "old" in said and f"runs/new/{name}" in said


HOSTILE = (
    ("manifest.json", b'"step": 10,', b'"step": 1' + b"0" * 30 + b","),
    ("config.json", b'"seed": 3', b'"seed": 3, "seed.split": "\\ud800"'),
    ("config.json", b'"seed": 3', b'"seed": 3, "lr": [[[]]]'),
    ("metrics.jsonl", b'"step"', b'"st\xffp"'),
)


@pytest.mark.parametrize(("name", "text", "hostile"), HOSTILE)
def test_one_hostile_run_does_not_hide_the_others(place, name, text, hostile, capsys):
    """With a manifest that fits the files, sealed as ours are."""
    run = place / "runs/new"
    data = (run / name).read_bytes().replace(text, hostile, 1)
    assert hostile in data
    (run / name).write_bytes(data)
    if name != "manifest.json":
        manifest, blob = read_manifest(run), Blob.of(data)
        changes = {"files": manifest.files | {name: File(blob.size, blob.sha256)}}
        changes = {"metrics": blob} if name == "metrics.jsonl" else changes
        (run / "manifest.json").write_bytes(replace(manifest, **changes).sealed())
    assert main(["runs", "list"]) == 0
    said = capsys.readouterr().out
    assert "old" in said and [f"runs/new/{name}" in line for line in said.splitlines()].count(True) == 1


def test_ask_refuses_the_newest_run_where_it_is_damaged(place, capsys):
    flip(place / "runs/new/config.json", 40)
    assert main(["ask", "b=1, b+1=?"]) == 1
    assert capsys.readouterr().err.startswith("assignadd: runs/new/config.json ")


@pytest.mark.parametrize("name", ["\x1b]0;owned\x07", "a\nb", "b\udcff", "[red]x", "ü", "r[1]", "*", "-o", " "])
def test_hostile_names_of_runs_are_shown_and_not_obeyed(place, name, capsys):
    shutil.copytree("runs/old", Path("runs") / name)
    for arguments in (["runs", "list"], ["runs", "verify", f"runs/{name}"]):
        assert main(arguments) == 0
        printed = capsys.readouterr()
        text = printed.out + printed.err
        assert "\x1b]0" not in text and "\x07" not in text
        text.encode()
    assert main(["measure", f"runs/{name}/missing"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_error_lines_are_bounded_and_name_the_path(place, capsys):
    for name in ("x" * 5000, "y" * 200 + "/" + "z" * 5000):
        assert main(["measure", name]) in (1, 2)
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and len(said) < LONGEST_LINE + 20 and name[:50] in said


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("tried to allocate 9 bytes")])
def test_out_of_memory_is_one_line(error, monkeypatch, capsys):
    def fail(arguments):
        raise error

    monkeypatch.setattr("assignadd.cli.ask.Show.main", fail)
    assert main(["ask", "show"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("assignadd: out of memory") and said.count("\n") == 1


@pytest.mark.parametrize("redirect", [">&-", "2>&-", ">/dev/full", "| true"])
def test_a_closed_or_full_output_is_no_traceback(redirect, tmp_path):
    command = f"{sys.executable} -m assignadd --help {redirect}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, env=environment())
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_a_letter_that_the_terminals_encoding_lacks_is_an_escape(place):
    Path("runs/old").rename("runs/\u00fc")
    ascii_alone = environment() | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*COMMAND, "runs", "list"], capture_output=True, text=True, env=ascii_alone)
    assert done.returncode == 0 and "\\xfc" in done.stdout and done.stderr == ""


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("seconds", [0.3, 0.8])
def test_ctrl_c_at_any_time_is_no_traceback(seconds, tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "ask", "show", "--n", "3"],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    error = process.communicate()[1].decode()
    # Before Python has read our first line, the traceback is Python's own.
    assert "Traceback" not in error or "assignadd" not in error, error


def test_the_package_imports_little_before_a_command_can_answer_ctrl_c():
    """`-S`, as what site-packages import at the start is not ours."""
    code = "import sys, assignadd; print(sorted({'re', 'torch', 'typing'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env=environment())
    assert done.stdout == "[]\n", done.stderr


def test_a_run_that_may_only_be_read_is_measured_without_storing(tmp_path, capsys, monkeypatch):
    from assignadd.config.errors import RunError
    from assignadd.runs import atomic

    run = api.train(PRESETS["smoke"], [0], tmp_path / "run")
    before = everything(run.path)

    def read_only(path, data):
        raise RunError(f"{path} could not be written: Read-only file system; nothing was changed")

    monkeypatch.setattr(atomic, "write", read_only)
    assert main(["measure", "phases", str(run.path), "--threads", "1"]) == 0
    assert "are not stored" in capsys.readouterr().err and everything(run.path) == before
