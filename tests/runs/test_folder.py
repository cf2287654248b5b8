"""A run from its creation to its end, as its reader sees it."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import socket

import msgspec
import pytest
import torch

from assignadd.config import Member
from assignadd.config.errors import DestinationError, RunError
from assignadd.dynamics.trajectory import checkpoints_around, measured_run, phases_of
from assignadd.model.accuracy import Exam
from assignadd.network import networks_of
from assignadd.runs.encoding import stack_of
from assignadd.runs.folder import Run, find_runs, newest_run, open_run, shipped
from assignadd.runs.manifest import Environment
from assignadd.task.evalsets import EVAL_SETS
from tests.runs.small import CONFIG, HERE, MEMBERS, SEEN, contents, hold, save, train, weights_at


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("folder") / "r3f2"
    train(path)
    return path


def test_a_finished_run(path):
    run = Run.open(path)
    assert (run.name, run.step, run.finished) == ("r3f2", 30, True)
    assert (run.config, run.members) == (CONFIG, MEMBERS)
    assert torch.equal(run.seen, SEEN)
    assert run.steps == [0, 10, 20, 30]
    assert run.verify() == []
    assert run.diverged_at == [None, None]
    assert run.document == json.loads((path / "config.json").read_bytes())


def test_checkpoints_are_stacks(path):
    run = Run.open(path)
    for step in run.steps:
        assert torch.equal(run.checkpoint(step).flat, weights_at(step))
    trajectory = run.trajectory([10, 30], model=1)
    assert torch.equal(trajectory.flat, torch.stack([weights_at(10)[1], weights_at(30)[1]]))
    assert len(run.trajectory()) == 4
    with pytest.raises(RunError, match="no model 2; it has 2"):
        run.trajectory(model=2)


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (16, "the nearest is at 20: pass --step 20"),
        (12, "the nearest is at 10: pass --step 10"),
        (33, "the nearest is at 30: pass --step 30"),
        (-1, "the nearest is at 0: pass --step 0"),
    ],
)
def test_an_absent_step_says_what_to_type(path, step, says):
    with pytest.raises(RunError) as caught:
        Run.open(path).checkpoint(step)
    assert str(caught.value) == f"run r3f2 has no checkpoint at step {step}; {says}"


def test_states(path):
    run = Run.open(path)
    assert sorted(p.name for p in (path / "states").iterdir()) == [f"{s:08d}.safetensors" for s in (0, 10, 20, 30)]
    state = run.latest_state()
    assert state is not None and torch.equal(state["weights"], weights_at(30))
    for at_most, step in ((19, 10), (20, 20), (29, 20)):
        earlier = run.latest_state(at_most)
        assert earlier is not None and int(earlier["step"]) == step


def test_metrics_are_rows_without_a_clock(path):
    rows = Run.open(path).metrics()
    assert [(row["step"], row["model"]) for row in rows] == [(s, m) for s in range(0, 31, 5) for m in (0, 1)]
    assert set(rows[0]) == {"step", "model", "accuracy", "loss"}


def test_seeds(path):
    run = Run.open(path)
    assert (run.index_of(None), run.index_of(3), run.index_of(7)) == (0, 0, 1)
    with pytest.raises(RunError, match="run r3f2 has no seed 5; it has 3, 7"):
        run.index_of(5)


def test_a_model_whose_weights_are_not_finite_cannot_be_measured(path):
    run = Run.open(path)
    stack = run.checkpoint(30).clone()
    stack["embed.W_E"][1, 0, 0] = torch.nan
    assert run.unsound(30, stack) == {1: "seed 7 of r3f2 has weights at step 30 that are not finite"}


def test_sessions_add_up(tmp_path):
    train(tmp_path, 10)
    train(tmp_path, 20)
    train(tmp_path)
    sessions = Run.open(tmp_path).manifest.sessions
    assert [(s.from_step, s.to_step) for s in sessions] == [(0, 10), (10, 20), (20, 30)]
    assert Run.open(tmp_path).wall_seconds == sum(s.seconds for s in sessions) > 0
    before = (tmp_path / "manifest.json").read_bytes()
    train(tmp_path)  # nothing is left to do, and nothing is written
    assert (tmp_path / "manifest.json").read_bytes() == before


def test_nothing_names_the_machine(tmp_path):
    with hold(tmp_path / "r", environment=Environment.here("cpu", 1)) as run:
        save(run, 0, weights_at(0))
    assert run.provenance["threads"] == 1
    written = b"".join(contents(tmp_path / "r").values()) + (tmp_path / "r/manifest.json").read_bytes()
    for word in (str(tmp_path), socket.gethostname(), os.path.expanduser("~")):
        assert word.encode() not in written


def test_another_environment_is_noted(tmp_path):
    train(tmp_path, 10)
    with hold(tmp_path, environment=Environment("3.11", "9.9", "2.4", "0.1", "cpu", 2, None, False)) as run:
        assert run.notes == [
            "going on with torch 2.13 -> 9.9, threads 1 -> 2: the last bits may differ from an uninterrupted run"
        ]
    with hold(tmp_path, environment=msgspec.structs.replace(HERE, assignadd="0.9")) as run:
        change = "assignadd 0.1 -> 0.9"
        assert run.notes == [f"going on with {change}: the last bits and measures may differ from an uninterrupted run"]
    with hold(tmp_path, environment=HERE) as run:
        assert run.notes == []


def test_the_same_settings_go_on_and_others_are_refused(tmp_path):
    train(tmp_path, 10)
    before = contents(tmp_path)
    other = dataclasses.replace(CONFIG, optim=dataclasses.replace(CONFIG.optim, lr=0.5))
    with (
        pytest.raises(RunError, match=r"holds a run with optim\.lr = 0\.001, not 0\.5; give the same"),
        hold(tmp_path, other),
    ):
        pass
    with (
        pytest.raises(RunError, match=r"models\[0\]\.seed = 3, not 4"),
        hold(tmp_path, members=(Member(4), MEMBERS[1])),
    ):
        pass
    with pytest.raises(RunError, match="another split"), hold(tmp_path, seen=~SEEN):
        pass
    assert contents(tmp_path) == before
    with hold(tmp_path) as run:
        assert run.step == 10


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path):
    for i, name in enumerate(("thesis.tex", "config.json", "checkpoints")):
        folder = tmp_path / str(i)
        folder.mkdir()
        (folder / name).write_text("mine")
        with pytest.raises((DestinationError, RunError), match=f"holds (other files, such as )?'{name}'"):
            train(folder)
        assert [p.name for p in folder.iterdir()] == [name]
        assert (folder / name).read_text() == "mine"
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DestinationError, match="cannot be written into: Not a directory"):
        train(tmp_path / "file")
    with pytest.raises(DestinationError, match="cannot be written into: Not a directory"):
        train(tmp_path / "file" / "run")


def test_a_folder_that_lost_its_manifest_is_refused(tmp_path):
    train(tmp_path, 10)
    (tmp_path / "manifest.json").unlink()
    before = contents(tmp_path)
    with pytest.raises(DestinationError, match="holds other files, such as 'checkpoints'; choose another --out"):
        train(tmp_path)
    assert contents(tmp_path) == before


def test_finding_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match=r"^no run at x; `assignadd runs list` shows what there is$"):
        open_run("x")
    assert newest_run("runs") is None
    assert find_runs("runs") == ([], [])
    for name in ("b", "a", "sweep/one"):
        train(tmp_path / "runs" / name, 0)
        os.utime(tmp_path / "runs" / name / "manifest.json", ns=(0, ord(name[0])))
    (tmp_path / "runs/broken").mkdir()
    (tmp_path / "runs/broken/manifest.json").write_text("{}")
    runs, problems = find_runs("runs")
    assert [str(run.path) for run in runs] == ["runs/a", "runs/b", "runs/sweep/one"]
    assert len(problems) == 1 and "runs/broken/manifest.json" in problems[0]
    with pytest.raises(RunError, match=r"broken/manifest\.json"):
        newest_run("runs")
    shutil.rmtree(tmp_path / "runs/broken")
    assert newest_run("runs").name == "one"
    assert open_run("a").path == open_run("runs/a").path
    assert open_run(runs[0]) is runs[0]


def test_a_run_without_checkpoints_says_so(tmp_path):
    with hold(tmp_path) as run:
        for ask in (lambda: run.checkpoint(0), run.at, run.trajectory, lambda: measured_run(run)):
            with pytest.raises(RunError, match="has no checkpoints yet"):
                ask()
        assert run.latest_state() is None
        assert run.metrics() == []
        assert run.diverged_at == [None, None]


def test_verifying_while_a_writer_goes_on(tmp_path):
    train(tmp_path, 5)
    reader = Run.open(tmp_path)
    train(tmp_path, 15)  # removes the state of step 5
    assert reader.verify() == []


def test_runs_of_the_package_are_found_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    six = open_run("census-six")
    assert six.path == shipped("census-six") and sorted(m.seed for m in six.members) == [0, 1, 2, 3, 4, 15]
    assert [m.seed for m in open_run("census-two").members] == [39, 35]
    shutil.copytree(six.path, tmp_path / "runs" / "census-two")  # a run of one's own under this name comes first
    assert len(open_run("census-two").members) == 6
    with pytest.raises(RunError, match="no run 'census-ten' comes with the package; it has census-six, census-two"):
        shipped("census-ten")
    with pytest.raises(RunError, match="census-ten"):
        open_run("census-ten")


def test_the_trajectory_of_the_package_is_the_training_that_its_metrics_tell_of(tmp_path, monkeypatch):
    """Half-precision weights answer as the full ones did when they were evaluated, and both spikes are straddled."""
    monkeypatch.chdir(tmp_path)
    run = open_run("small-trajectory")
    assert len(run.steps) >= 10 and run.verify() == [] and run.checkpoint(run.steps[0]).flat.dtype == torch.float32
    exam = Exam(run.configs, run.seen, EVAL_SETS, run.config.record.eval_sequences)
    recorded = {row["step"]: row["accuracy"] for row in run.metrics()}
    for step in run.steps:
        again = exam.count_correct(run.checkpoint(step))[0] / exam.n
        assert again.tolist() == pytest.approx([recorded[step][name] for name in exam.names], abs=0.006), step
    one = networks_of(run, n=50)[0][0]
    first, second = (
        checkpoints_around(one.steps, s) for s in (phases_of(one).first_spike, phases_of(one).second_spike)
    )
    assert (first, second) == ((1500, 1600), (3800, 4200))
    banned = [s.name for s in EVAL_SETS if s.n_banned]
    before, after = (sum(recorded[step][name] for name in banned) / 3 for step in second)
    assert before < 0.3 and after > 0.9  # most of the second spike is between them


def test_the_second_spike_of_the_trajectory_is_the_one_that_can_be_seen(tmp_path, monkeypatch):
    """The largest step of the recorded accuracies, .50 to .92; from 9,400 to 9,500 they go from .95 to .99."""
    monkeypatch.chdir(tmp_path)
    run = open_run("small-trajectory")
    rows = [row for row in run.metrics() if row["step"] > 2000]  # after the first spike
    banned = [s.name for s in EVAL_SETS if s.n_banned]
    means = [sum(row["accuracy"][name] for name in banned) / len(banned) for row in rows]
    steepest = max(range(1, len(rows)), key=lambda i: means[i] - means[i - 1])
    assert [row["step"] for row in rows[steepest - 1 : steepest + 1]] == [4000, 4100]
    phases = phases_of(networks_of(run, n=50)[0][0])
    assert (phases.second_spike.before, phases.second_spike.after) == (4000, 4100)
    assert phases.second_spike.rise > 0.8 and phases.second_spike.end < phases.refinement.step == 9500


def test_weights_in_half_precision_are_widened_and_other_formats_refused(tmp_path):
    train(tmp_path / "r")
    run = Run.open(tmp_path / "r")
    weights, M = run.checkpoint(10).weights, len(run.members)
    halves = {name: w.half() for name, w in weights.items()}
    found = stack_of(run.config, halves, M, "x").weights
    assert all(torch.equal(found[name], halves[name].float()) for name in weights)
    with pytest.raises(RunError, match="bfloat16"):
        stack_of(run.config, {name: w.bfloat16() for name, w in weights.items()}, M, "x")
