"""The paper's own checkpoints as one run, where they are at hand."""

import pytest
import torch

from assignadd.config import PRESETS
from assignadd.runs.tlens import import_state_dicts
from tests.reference import REFERENCE


@pytest.fixture(scope="session")
def paper_run(tmp_path_factory):
    """All eleven checkpoints as a trajectory, the last at step 40,000."""
    if not REFERENCE.is_dir():
        pytest.skip(f"no reference checkpoints at {REFERENCE.name}/ beside the checkout")
    torch.set_num_threads(1)
    return import_state_dicts(sorted(REFERENCE.glob("*.pth")), PRESETS["authors"], tmp_path_factory.mktemp("paper") / "run")
