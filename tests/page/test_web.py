"""The page's sources, if Node's packages are installed: types, numbers against PyTorch, and the shipped bundle."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.page.numbers import main as write_numbers

WEB = Path(__file__).parents[2] / "assignadd" / "page" / "web"
pytestmark = pytest.mark.skipif(
    shutil.which("npm") is None or not (WEB / "node_modules").is_dir(),
    reason="no Node packages for the page's sources; `make explorer-web` installs them",
)


def npm(*arguments: str, **environment: str) -> None:
    done = subprocess.run(
        ["npm", "run", *arguments], cwd=WEB, env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_sources_are_well_typed():
    npm("check")


def test_forward_pass_interventions_and_parser_agree_with_pytorch(tmp_path):
    write_numbers(str(tmp_path))
    npm("test", NUMBERS=str(tmp_path))


def test_the_shipped_bundle_is_what_the_sources_build(tmp_path):
    npm("build", "--", "--outDir", str(tmp_path))
    for name in ("app.js", "app.css"):
        assert (tmp_path / name).read_bytes() == (WEB.parent / "built" / name).read_bytes(), (
            f"{name} differs: run `make explorer-web`"
        )
