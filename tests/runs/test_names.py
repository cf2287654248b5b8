"""One scheme of folder names, for the shell and for Python."""

from dataclasses import replace
from pathlib import Path

import pytest

import assignadd
from assignadd.cli import main
from assignadd.config import PRESETS, Member
from assignadd.runs.naming import default_folder

SMOKE = PRESETS["smoke"]
CHANGED = replace(SMOKE, optim=replace(SMOKE.optim, lr=1.0, steps=2))


def name(config, *seeds):
    return default_folder(config, [Member(s) for s in seeds]).name


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_named_by_itself(preset):
    assert default_folder(PRESETS[preset], [Member(3)]) == Path("runs") / f"{preset}-seed-3"


@pytest.mark.parametrize(
    ("seeds", "label"),
    [([0, 1, 2, 3], "seeds-0-3"), ([0, 3], "seeds-0+3"), ([0, 4, 5], "seeds-0+4+5"), (range(40), "seeds-0-39")],
)
def test_seeds_are_part_of_the_name(seeds, label):
    assert name(PRESETS["paper"], *seeds) == f"paper-{label}"


def test_other_settings_and_members_get_a_hash():
    assert name(CHANGED, 0).startswith("smoke-seed-0-") and len(name(CHANGED, 0)) == len("smoke-seed-0-123456")
    assert name(replace(CHANGED, optim=replace(CHANGED.optim, lr=1)), 0) == name(CHANGED, 0)
    own = [default_folder(SMOKE, [Member(0, lr=lr)]).name for lr in (0.1, 0.2)]
    many = [name(SMOKE, *range(n, n + 7), 99) for n in range(2)]
    assert len({*own, *many, "smoke-seed-0"}) == 5 and all(n.startswith("smoke-8-seeds-") for n in many)


def test_the_shell_and_python_use_one_folder(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ["train", "--preset", "smoke", "--seeds", "0,2", "--optim.steps", "2", "--threads", "1", "--device", "cpu"]
    assert main([*flags, "--optim.lr", "1"]) == 0
    run = assignadd.train(CHANGED, seeds=[0, 2])
    assert [folder.name for folder in (tmp_path / "runs").iterdir()] == [run.name] == [name(CHANGED, 0, 2)]
    assert len(run.manifest.sessions) == 1  # found finished, not trained again
