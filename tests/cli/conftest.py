"""A workplace with a finished run."""

from pathlib import Path

import pytest

from assignadd.api import train
from assignadd.config import PRESETS


@pytest.fixture(scope="session")
def workplace(tmp_path_factory) -> Path:
    """A folder with a finished run of two seeds in runs/smoke-seeds-0-1."""
    folder = tmp_path_factory.mktemp("workplace")
    train(PRESETS["smoke"], (0, 1), folder / "runs" / "smoke-seeds-0-1", threads=1)
    return folder


@pytest.fixture
def here(workplace, monkeypatch) -> Path:
    monkeypatch.chdir(workplace)
    return workplace
