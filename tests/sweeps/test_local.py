"""A sweep on this machine: the same bytes whatever the stack, the processes and the interruptions."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import polars
import pytest
import torch

from assignadd.cli import main
from assignadd.config import PRESETS, Member, Optim
from assignadd.config.errors import DestinationError, RunError
from assignadd.runs.folder import Run
from assignadd.sweeps.engine import run_job, run_local, run_sweep
from assignadd.sweeps.plan import Machines, Sweep, jobs_of, named_sweep, plan
from assignadd.sweeps.results import results_table, tally
from tests.runs.test_damage import flip
from tests.sweeps.small import CONFIG, SWEEP, rows_by_cell, stores

torch.set_num_threads(1)
# Of the table of SWEEP: the share of seen pairs, seed and step of every row.
ROWS = [(f, s, t) for f in (0.5, 1.0) for s in (0, 1) for t in (0, 20, 40)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The sweep in one go, a model at a time."""
    out = tmp_path_factory.mktemp("whole")
    return out, run_sweep(SWEEP, out, Machines(most_together=1)).collect()


def test_a_cell_comes_out_the_same_whatever_stack_it_was_in(tmp_path, whole):
    alone = rows_by_cell(plan(SWEEP, whole[0], Machines(most_together=1)).jobs)
    assert set(alone) == set(SWEEP.cells) and all(len(rows) == 3 for rows in alone.values())
    table = run_sweep(SWEEP, tmp_path, Machines(most_together=3)).collect()  # a stack of three and one of one
    assert rows_by_cell(plan(SWEEP, tmp_path, Machines(most_together=3)).jobs) == alone
    assert table.equals(whole[1])


def test_a_damaged_finished_stack(tmp_path, whole):
    """A checkpoint is left to `runs verify`; metrics and settings are refused at once."""
    out = Path(shutil.copytree(whole[0], tmp_path / "out"))
    first, second = sorted(folder for folder in out.iterdir() if folder.is_dir())[:2]
    flip(second / "checkpoints/00000040.safetensors", 50)
    assert run_sweep(SWEEP, out, Machines(most_together=1)).collect().equals(whole[1])
    assert "00000040.safetensors" in Run.open(second).verify()[0]
    flip(second / "metrics.jsonl", 50)
    with pytest.raises(RunError, match=rf"{second}/metrics.jsonl is damaged.*; remove {second} to train"):
        run_sweep(SWEEP, out, Machines(most_together=1))
    flip(first / "config.json", 50)
    with pytest.raises(RunError, match=rf"{first}/config.json is damaged.*; remove that folder to train"):
        run_sweep(SWEEP, out, Machines(most_together=1))


def test_a_table_that_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / "table.parquet").write_text("years of work")
    with pytest.raises(DestinationError, match=r"holds other files, such as 'table.parquet'"):
        run_sweep(SWEEP, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["table.parquet"]


def test_the_table_has_a_row_per_cell_and_evaluation(whole):
    out, table = whole
    assert table.select("seen_fraction", "seed", "step").rows() == ROWS
    assert table.equals(polars.read_parquet(out / "table.parquet"))
    last = table.filter(polars.col("step") == 40)
    assert (
        last["2-var test"].null_count() == 0 and table.filter(polars.col("step") < 40)["2-var test"].null_count() == 8
    )
    assert last["0-var held out"].is_null().to_list() == [False, False, True, True]  # nothing is held out at f = 1
    assert table["0-var add-restricted"].is_null().to_list() == [False] * 6 + [True] * 6
    rows = [row for job in plan(SWEEP, out, Machines(most_together=1)).jobs for row in Run.open(job.path).metrics()]
    assert sorted(table["1-var train"].to_list()) == pytest.approx(
        sorted(row["accuracy"]["1-var train"] for row in rows)
    )
    assert sorted(table["accuracy c first"].to_list()) == pytest.approx(
        sorted(row["measures"]["accuracy c first"] for row in rows)
    )
    about = msgspec.json.decode((out / "table.json").read_bytes())
    assert about["cells"] == 4 and about["made_with"][0]["torch"] == torch.__version__ and about["wall_seconds"] > 0
    assert {"command", "config", "started", "stacks"} <= about.keys() and about["made_with"][0]["device"].startswith(
        "cpu"
    )


def test_a_table_made_in_parts_is_the_same_and_has_every_cell_once(whole, tmp_path, monkeypatch):
    monkeypatch.setattr("assignadd.sweeps.results.ROWS_AT_ONCE", 2)
    runs = [Run.open(job.path) for job in plan(SWEEP, whole[0], Machines(most_together=1)).jobs]
    for some in (runs, runs[::-1], [*runs, *runs]):  # the last as where two processes have planned other stacks
        with results_table(some, SWEEP, tmp_path) as table:
            parts = table.collect()
        assert parts.select("seen_fraction", "seed", "step").rows() == ROWS and parts.equals(whole[1])


def test_a_second_call_trains_nothing_and_more_seeds_only_what_is_new(tmp_path):
    config = replace(CONFIG, optim=Optim(batch=8, steps=20))
    run_sweep(named_sweep("seeds", config, (0, 1)), tmp_path, Machines(most_together=2))
    before = {
        p: (p.stat().st_mtime_ns, p.read_bytes())
        for p in tmp_path.rglob("*")
        if p.is_file() and p.parent != tmp_path and p.name != "lock"
    }
    reports: list[tuple[int, int]] = []
    table = run_sweep(
        named_sweep("seeds", config, (0, 1, 2)),
        tmp_path,
        Machines(most_together=2),
        report=lambda *at: reports.append(at),
    )
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in before} == before
    assert {job for job, _ in reports} == {1} and sorted(table.collect()["seed"].unique()) == [0, 1, 2]
    assert tally(table, named_sweep("seeds", config, (0, 1, 2))) == {
        "models": 3,
        "diverged": 0,
        "bind": 0,
        "do_not_bind": 3,
    }


def test_a_sweep_of_untrained_networks_has_their_evaluations(tmp_path):
    sweep = named_sweep("seeds", replace(CONFIG, optim=Optim(batch=8, steps=0)), (0, 1))
    table = run_sweep(sweep, tmp_path, Machines(most_together=2)).collect()
    assert table.select("seed", "step").rows() == [(0, 0), (1, 0)]
    assert run_sweep(sweep, tmp_path, Machines(most_together=2)).collect().equals(table)


def test_a_diverged_model_is_a_result(tmp_path):
    sweep = Sweep("hot", CONFIG, (Member(0, lr=1e-3), Member(0, lr=10.0, weight_decay=100.0)))
    table = run_sweep(sweep, tmp_path, Machines(most_together=2)).collect()
    assert table.filter(polars.col("lr") == 10.0)["diverged_at"].to_list()[-1] is not None
    assert table.filter(polars.col("lr") == 1e-3)["diverged_at"].to_list() == [None] * 3
    found = tally(table.lazy(), sweep)
    assert (found["models"], found["diverged"]) == (2, 1)


def test_processes_side_by_side_make_the_same_files_even_when_one_is_killed(tmp_path):
    """Each of two processes gets jobs; one is killed in training, and another takes its job up."""
    # Long enough for several reports, which are POLL_SECONDS apart.
    sweep = replace(SWEEP, config=replace(CONFIG, optim=Optim(batch=16, steps=600)))
    jobs = jobs_of(sweep, tmp_path / "processes", Machines(most_together=2))
    for job in jobs_of(sweep, tmp_path / "alone", Machines(most_together=2)):
        run_job(job, "cpu")
    killed: list[int] = []

    def kill_once(job: int, step: int) -> None:
        if not killed and 0 < step < 600:
            killed.append(int((jobs[job].path / "lock").read_text().split()[1]))
            os.kill(killed[0], signal.SIGKILL)

    run_local(jobs, "cpu", 2, kill_once)
    assert killed and killed[0] != os.getpid()
    assert stores(tmp_path / "processes") == stores(tmp_path / "alone")


def test_sigterm_saves_and_the_same_command_goes_on(tmp_path):
    flags = (
        "--preset smoke --n-seeds 2 --steps 6000 --every 1000 --save-every 1000 "
        "--final-sequences 0 --threads 2 --device cpu --out"
    )
    command = [sys.executable, "-m", "assignadd", "sweep", "seeds", *flags.split(), str(tmp_path / "killed")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    threading.Timer(120, process.kill).start()
    while not list(tmp_path.rglob("00000020.safetensors")):
        assert process.poll() is None
        time.sleep(0.02)
    process.terminate()
    assert process.communicate()[1] == "assignadd: stopped; run the same command to go on\n"
    assert process.returncode == 143
    steps = [Run.open(p.parent).step for p in (tmp_path / "killed").rglob("manifest.json")]
    assert max(steps) >= 20 and min(steps) < 6000
    assert main([*command[3:], "--threads", "1"]) == 0  # here, one after the other
    base = PRESETS["smoke"]
    record = replace(base.record, eval_every=1000, measure_every=1000, checkpoint_every=1000, state_every=1 << 31)
    sweep = named_sweep("seeds", replace(base, optim=replace(base.optim, steps=6000), record=record), (0, 1))
    run_sweep(sweep, tmp_path / "whole")
    assert stores(tmp_path / "killed") == stores(tmp_path / "whole")
