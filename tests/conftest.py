"""The paper's own checkpoints as one run, and a browser: where they are at hand."""

import os
import shutil

import pytest
import torch

from assignadd.config import PRESETS
from assignadd.runs.transformer_lens import import_state_dicts
from tests.reference import REFERENCE


@pytest.fixture(scope="session")
def paper_run(tmp_path_factory):
    """All eleven checkpoints as a trajectory, the last at step 40,000."""
    if not REFERENCE.is_dir():
        pytest.skip(f"no reference checkpoints at {REFERENCE.name}/ beside the checkout")
    torch.set_num_threads(1)
    return import_state_dicts(
        sorted(REFERENCE.glob("*.pth")), PRESETS["authors"], tmp_path_factory.mktemp("paper") / "run"
    )


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all pages: the one on this machine, or that which CHROMIUM names."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="the dev extra's playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        pytest.skip("no Chromium on this machine; `make test` installs it where it is root and has apt")
    with sync_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield made
        made.close()
