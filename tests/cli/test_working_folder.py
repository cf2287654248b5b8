"""No command imports a module from the folder it is called in, in none of its processes.

A downloaded folder may hold a json.py. Each of the files here writes its name into `imported` when it is imported.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """import sys
from assignadd.__main__ import main
if __name__ == "__main__":
    sys.exit(main())
"""
PACKAGES = ("torch", "numpy", "polars", "numba", "llvmlite", "matplotlib", "rich", "msgspec", "scipy", "safetensors")
# What Python itself imports for `python -m`, before it looks for the package (docs/reliability.md).
OF_PYTHON = {"importlib", "warnings", "contextlib", "collections", "keyword", "operator", "reprlib", "functools"}
OF_PYTHON |= {"types"}
TRAP = "import os\nwith open({marker!r}, 'a') as file:\n    file.write(__name__ + ' ')\nos._exit(77)\n"


@pytest.fixture(scope="module")
def trapped(tmp_path_factory) -> Path:
    """A folder with a file named like each module of the standard library and of the packages that we use."""
    folder = tmp_path_factory.mktemp("trapped")
    (folder / "assign").write_text(SCRIPT)  # as pip writes it
    here = folder / "here"
    here.mkdir()
    for name in {*sys.stdlib_module_names, *PACKAGES} - set(sys.builtin_module_names):
        (here / f"{name}.py").write_text(TRAP.format(marker=str(folder / "imported")))
    return here


def call(trapped: Path, as_module: bool, words: str) -> None:
    start = ["-m", "assignadd"] if as_module else [str(trapped.parent / "assign")]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONSAFEPATH", None)
    aside = [trapped / f"{name}.py" for name in OF_PYTHON if as_module]
    for path in aside:
        path.rename(trapped.parent / path.name)
    try:
        done = subprocess.run(
            [sys.executable, *start, *words.split()], cwd=trapped, env=environment, capture_output=True, text=True
        )
    finally:
        for path in aside:
            (trapped.parent / path.name).rename(path)
    imported = trapped.parent / "imported"
    assert not imported.exists(), f"{words}: imports {imported.read_text()}"
    assert done.returncode == 0, done.stderr


COMMANDS = (
    "train --preset smoke --optim.steps 3 --threads 2 --out run",
    "ask a=1,a+2=? run",
    "explore run -o page",
    "study",
    "sweep seeds --preset smoke --steps 3 --n-seeds 2 --threads 2 --device cpu --out sweep",
    "claims run --threads 2 --n 100",
    "report run --threads 2 --n 100 -o report",
)


def test_a_command_and_the_processes_of_a_sweep_import_nothing_from_here(trapped):
    call(trapped, True, "ask show --n 2")
    call(trapped, False, COMMANDS[4])


@pytest.mark.slow
@pytest.mark.parametrize("as_module", [False, True], ids=["script", "module"])
def test_no_command_imports_anything_from_here(trapped, as_module):
    (trapped / "findings" / "theirs").mkdir(parents=True, exist_ok=True)
    (trapped / "findings" / "theirs" / "study.py").write_text((trapped / "json.py").read_text())
    (trapped / "ours").mkdir(exist_ok=True)
    (trapped / "ours" / "study.py").write_text(STUDY)
    commands = [
        words.replace("-o ", f"-o {as_module}-").replace("--out sweep", f"--out {as_module}-sweep")
        for words in COMMANDS
    ]
    for words in (*commands, "study ours --threads 2 --device cpu"):
        call(trapped, as_module, words)


STUDY = """
from dataclasses import replace
from assignadd import PRESETS
from assignadd.study import BASE, Cell, Study, share

RECORD = replace(BASE.record, eval_every=20, eval_sequences=32, checkpoint_every=20, final_sequences=50)
STUDY = Study(
    name="ours", question="?", base=replace(PRESETS["smoke"], record=RECORD), steps=20, seeds=1,
    cells=(Cell("one"), Cell("two", {"optim.lr": 0.002})), outcomes=("binds",),
    ask=(share("binds").of("one").at_least(0.5),),
)
"""
