"""Every file that a user names is regular and of limited size; anything else is one line, at once."""

import ast
import json
import os
import time
from pathlib import Path

import pytest

import assignadd
from assignadd.cli import main
from assignadd.runs.files import read_input

PACKAGE = Path(assignadd.__file__).parent
NEVER_ENDING = ("/dev/zero", "fifo", "folder", "sparse", "/proc/self/mem", "missing")
QUICK = ("fifo", "sparse")  # the others with `make test-slow`
COMMANDS = (
    "train --preset smoke --task.operation {}",
    "train --config {}",
    "train --config operation.json",
    "ask show --task.operation {}",
    "sweep {}",
    "sweep sweep.json",
    "sweep seeds --config {}",
    "claims census-six --with {}",
    "study {}",
    "intervene {} a=1,a+2=? census-six",
    "runs import {}",
    "runs import {} --config {}",
    "claims census-six --census {}",
    "claims census-six --fraction {}",
    "report census-six --two-var {} -o new",
    "explore census-six --census {} -o new",
    "measure {}",
    "runs verify {}",
    "claims paper-network census-six -o {}",
)


@pytest.mark.parametrize("what", [pytest.param(w, marks=[pytest.mark.slow] * (w not in QUICK)) for w in NEVER_ENDING])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_never_ends_is_one_line_at_once(command, what, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = Path(what)
    if not file.is_absolute():
        # The names that checkpoints, studies and sweeps have.
        suffix = {"runs": ".pth", "sweep": ".json", "claims": ".py", "study": ".py"}.get(command.split()[0], "")
        file = Path("checkpoint_step_5" if suffix == ".pth" else what).with_suffix(suffix)
        {"fifo": os.mkfifo, "folder": os.mkdir, "sparse": sparse, "missing": lambda file: None}[what](file)
    Path("operation.json").write_text(json.dumps({"task": {"operation": str(file)}}))
    Path("sweep.json").write_text(json.dumps([{"task.operation": str(file)}]))
    if what == "missing" and " -o {}" in command:
        pytest.skip("a file that is not there is written")
    begun = time.monotonic()
    code = main(command.replace("{}", str(file)).split())
    error = capsys.readouterr().err
    lines = [line for line in error.splitlines() if not line.startswith("note: ")]
    assert code in (1, 2) and len(lines) == 1 and len(error) < 1200, error
    assert time.monotonic() - begun < 60  # seconds, most of them of imports
    assert not Path("new").exists() or not any(Path("new").glob("*.html"))


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 << 30)


# Files of the package itself, and what the same command has just written.
READ_ELSEWHERE = {
    "compiler_cache": 5,  # what the compiler kept, and hashes of our sources
    "page.folder": 1,  # the page's scripts
    "page.ready": 1,  # the ready-made page
    "model.kernels.cuda_attention": 1,  # attention.cu
    "dynamics.trajectory": 1,  # hashes of our sources
    "report.page": 3,  # the style, the script; pictures just drawn
    "report.reproduction": 1,  # captions of pictures just drawn
    "paper.ledger": 1,  # results/paper-network.json
    "cli": 2,  # /dev/null
    "sweeps.engine": 1,  # the table that it has just written
    "sweeps.results": 4,  # results/; a part of a table that was just written
    "sweeps.plan": 1,  # bytes that were read
    "runs.encoding": 2,  # bytes that were read
    "runs.files": 2,  # the one function that reads
    "runs.atomic": 1,  # the one function that opens
    "runs.writer": 1,  # the lock
    "user_file": 2,  # Python that was just executed, whose size is checked
    "measures.own": 1,  # likewise
    "runs.transformer_lens": 1,  # bytes that were read
}
READING = {"open", "read_text", "read_bytes", "load", "fdopen", "fromfile", "memmap", "genfromtxt", "loadtxt", "mmap"}
POLARS = {"read_parquet", "scan_parquet", "read_csv", "scan_csv", "read_json", "read_ndjson", "read_ipc", "read_excel"}
NOT_FILES = {
    "Run.open",
    "self._open",
    "safetensors.torch.load",
    "mmap.mmap",
    "populations.load",
    "tested_on.load",
    "tl.load",
    "builder.load",
}


def test_no_other_place_reads_files():
    """A file that a user names goes through `runs.files`, which knows how large it may be."""
    counted: dict[str, int] = {}
    for path in PACKAGE.rglob("*.py"):
        if "node_modules" in path.parts:
            continue
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                if name.rpartition(".")[2] in READING | POLARS and name not in NOT_FILES:
                    counted[module] = counted.get(module, 0) + 1
    assert counted == READ_ELSEWHERE


def test_a_pipe_and_a_device_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            read_input(path, 100)
