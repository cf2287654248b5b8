"""The commit that a run notes: that of the source tree it runs from, if that is what the folder is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from assignadd.runs.manifest import Environment, source_commit

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> str:
    identity = [
        "-c",
        "user.name=n",
        "-c",
        "user.email=e",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "core.hooksPath=/dev/null",
    ]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_source_commit(tmp_path, monkeypatch):
    package = tmp_path / "package"
    package.mkdir()
    (package / "code.py").write_text("1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    git(tmp_path, "init", "-q")
    assert source_commit(package) == (None, False)  # a repository that does not know it, such as one around a .venv
    git(tmp_path, "add", ".")
    assert source_commit(package) == (None, False)  # no commit yet
    git(tmp_path, "commit", "-qm", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert source_commit(package) == (commit, False)
    (tmp_path / "notes").write_text("outside of the package")
    assert source_commit(package) == (commit, False)
    (package / "code.py").write_text("2")
    assert source_commit(package) == (commit, True)
    git(tmp_path, "checkout", "-q", ".")
    (package / "new.py").write_text("3")
    assert source_commit(package) == (commit, True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))  # as inside a hook
    assert source_commit(package) == (commit, True)
    monkeypatch.setenv("PATH", "")
    assert source_commit(package) == (None, False)


def test_here():
    here = Environment.here("cpu", 3)
    assert (here.torch, here.threads) == (torch.__version__, 3)
    assert here.device.startswith("cpu (")
    assert here.changes(here) == []
