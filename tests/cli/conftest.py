"""A workplace with a finished run, and commands that search for a moment."""

from functools import partialmethod
from pathlib import Path

import pytest

from assignadd.alignment.subspaces import Search
from assignadd.api import train
from assignadd.claims import causal
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


@pytest.fixture
def short_searches(monkeypatch) -> None:
    """Searches for alignments of two steps; they have tests of their own."""
    monkeypatch.setattr(causal, "SEARCH_STEPS", 2)
    monkeypatch.setattr(Search, "non_linear", partialmethod(Search.non_linear, steps=2))
