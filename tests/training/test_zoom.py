"""A zoomed run goes the way of the run it looks into, bit for bit."""

import dataclasses

import pytest
import torch

from assignadd.api import train
from assignadd.config import PRESETS, ConfigError
from assignadd.config.errors import RunError
from assignadd.training.loop import zoom
from tests.runs.small import hold

SMOKE = PRESETS["smoke"]
CONFIG = dataclasses.replace(
    SMOKE,
    record=dataclasses.replace(SMOKE.record, checkpoint_every=20, state_every=20),
    optim=dataclasses.replace(SMOKE.optim, steps=80),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(CONFIG, [0, 1], tmp_path_factory.mktemp("zoom") / "run", threads=1)


def test_the_window_is_on_the_same_path(run, tmp_path):
    dense, differing = zoom(run, tmp_path / "dense", around=50, every=3, within=12)
    assert dense.steps == [39, 42, 45, 48, 50, 51, 54, 57, 60, 62] and differing == []
    assert torch.equal(dense.checkpoint(60).flat, run.checkpoint(60).flat)
    assert not torch.equal(dense.checkpoint(57).flat, dense.checkpoint(60).flat)
    steps = {row["step"] for row in dense.metrics()}
    assert {39, 42, 60, 62} <= steps and not {20, 40} & steps
    again, _ = zoom(run, tmp_path / "dense", around=50, every=3, within=12)  # finished: nothing is trained twice
    assert again.manifest == dense.manifest


def test_a_window_at_the_end_stops_with_the_run(run, tmp_path):
    dense, differing = zoom(run, tmp_path / "dense", around=75, every=5, within=10)
    assert dense.step == 80 and differing == [] and dense.steps[0] == 65


@pytest.mark.parametrize(
    ("around", "every", "within", "words"),
    [(81, 5, 5, "from 0 to 80"), (50, 0, 5, "every = 0"), (50, 5, 0, "within = 0")],
)
def test_bad_windows_are_refused(run, tmp_path, around, every, within, words):
    with pytest.raises(ConfigError, match=words):
        zoom(run, tmp_path / "dense", around, every, within)
    assert not (tmp_path / "dense").exists()


def test_a_run_that_has_only_begun_has_no_way_on(tmp_path):
    with hold(tmp_path / "begun") as begun, pytest.raises(RunError, match="no optimizer state"):
        zoom(begun, tmp_path / "dense", around=0)
    assert not (tmp_path / "dense").exists()


def test_imported_weights_have_no_way_on(paper_run, tmp_path):
    with pytest.raises(RunError, match="no optimizer state"):
        zoom(paper_run, tmp_path / "dense", around=5301)
