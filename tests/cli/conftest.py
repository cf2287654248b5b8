"""A workplace with a finished run."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def workplace(tmp_path_factory) -> Path:
    """A folder with a finished run of two seeds in runs/smoke-seeds-0-1."""
    folder = tmp_path_factory.mktemp("workplace")
    subprocess.run(
        [sys.executable, "-m", "assignadd", "train", "--preset", "smoke", "--seeds", "0..1"],
        cwd=folder,
        check=True,
        timeout=300,
    )
    return folder


@pytest.fixture
def here(workplace, monkeypatch) -> Path:
    monkeypatch.chdir(workplace)
    return workplace
