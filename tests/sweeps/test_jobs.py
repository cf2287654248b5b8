"""From cells to stacks."""

import json
from dataclasses import replace

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignadd.cli import main
from assignadd.config import PRESETS, Member, with_settings
from assignadd.sweeps.cost import SECONDS_OF_STACK, bytes_per_model
from assignadd.sweeps.engine import run_job, run_sweep
from assignadd.sweeps.plan import (
    MOST_TOGETHER,
    Machines,
    Plan,
    Sweep,
    grid,
    jobs_of,
    models_together,
    stacks,
)
from tests.sweeps.small import CONFIG, SWEEP


@given(st.integers(0, 300), st.integers(1, 100))
def test_stacks_hold_every_cell_once_in_order_and_are_few_and_even(n, together):
    cells = [Member(i) for i in range(n)]
    found = stacks(cells, together)
    assert [c for stack in found for c in stack] == cells
    assert len(found) == -(-n // together)
    assert all(len(stack) <= together for stack in found)
    assert not found or max(map(len, found)) - min(map(len, found)) <= 1


def test_a_stack_is_what_the_memory_holds():
    paper = PRESETS["paper"]
    each = bytes_per_model(paper)
    assert (
        30e6 < each < 80e6
    )  # of the 128-model census on an H200: 2.5 GiB in tensors, 20 MB a model, without the final tests
    assert models_together(paper, Machines("cuda"), memory=10 * each) == 8  # a fifth is left free
    assert models_together(paper, Machines("cuda", per_gpu=4), memory=10 * each) == 2
    assert models_together(paper, Machines("cuda"), memory=10**15) == MOST_TOGETHER
    assert models_together(paper, Machines("cuda"), memory=1) == models_together(paper, Machines()) == 1
    wide = replace(paper, model=replace(paper.model, d_model=256, d_head=256))
    assert each < bytes_per_model(wide) < 4 * each


def test_runs_that_are_there_keep_their_cells_whatever_the_device_holds_now(tmp_path):
    first, second = jobs_of(SWEEP, tmp_path, Machines(most_together=2))
    run_job(first, "cpu")
    (again, *others) = jobs_of(SWEEP, tmp_path, Machines(most_together=1))
    assert (again.path, again.members, again.done) == (first.path, first.members, CONFIG.optim.steps)
    assert [j.members for j in others] == [(m,) for m in second.members] and all(j.done == 0 for j in others)
    assert again.model_steps == 0 and others[0].model_steps == CONFIG.optim.steps
    other = replace(SWEEP, config=replace(CONFIG, optim=replace(CONFIG.optim, steps=50)))
    assert all(
        job.done == 0 for job in jobs_of(other, tmp_path, Machines(most_together=2))
    )  # another sweep in the same folder


def test_small_models_share_a_stack_on_a_cpu_and_stacks_do_not_depend_on_when_a_process_plans(tmp_path):
    small, paper = (Sweep("s", config, grid({}, range(300))) for config in (CONFIG, PRESETS["paper"]))
    assert 10 < models_together(CONFIG, Machines()) <= 100 and models_together(PRESETS["paper"], Machines()) == 1
    jobs = jobs_of(small, tmp_path, Machines())
    assert [m for job in jobs for m in job.members] == list(small.cells) and len(jobs) < 30
    assert len(jobs_of(paper, tmp_path, Machines())) == 300
    run_job(replace(jobs[1], members=jobs[1].members[:1]), "cpu")  # by a process that planned otherwise
    found, *others = jobs_of(small, tmp_path, Machines())
    assert found.members == jobs[1].members[:1]
    assert [job.members for job in others] == [job.members[job is jobs[1] :] for job in jobs]
    assert [job.path for job in others[2:]] == [job.path for job in jobs[2:]]


def test_an_estimate_is_of_the_work_that_is_left(tmp_path):
    sweep = Sweep("s", CONFIG, grid({}, range(40)))
    jobs, machines = jobs_of(sweep, tmp_path, Machines(most_together=10)), Machines(most_together=10)
    seconds = Plan(sweep, machines, jobs).seconds()
    finished = [replace(job, done=CONFIG.optim.steps, run=tmp_path) for job in jobs]
    assert seconds is not None and 4 * SECONDS_OF_STACK < seconds < 60
    assert Plan(sweep, machines, finished).seconds() == 0.0
    half = Plan(sweep, machines, [*jobs[:2], *finished[2:]]).seconds()
    assert half is not None and half < seconds
    assert Plan(sweep, replace(machines, device="cuda"), jobs).seconds() is None


def test_cells_of_one_shape_share_a_stack_whatever_else_differs(tmp_path):
    heads = {"model.n_heads": (1, 2)}
    cells = grid(heads | {"optim.lr": (1e-3, 2e-3), "model.init_scale": (0.5, 0.8), "seed.split": (3, 4)}, (0, 1))
    jobs = jobs_of(Sweep("mixed", CONFIG, cells), tmp_path, Machines(most_together=100))
    assert [(j.config.model.n_heads, len(j.members)) for j in jobs] == [(1, 16), (2, 16)]
    assert {m.config(j.config) for j in jobs for m in j.members} == {c.config(CONFIG) for c in cells}


def test_a_sweep_over_shapes_has_a_row_for_each_model_as_it_comes_out_alone(tmp_path):
    small = {"model.n_heads": 2, "model.d_head": 4, "model.n_layers": 3, "model.d_mlp": (None, 8, 8)}
    cells = (Member(0), Member(0, {"task.modulus": 5, "task.n_vars": 3}), Member(1, {**small, "optim.steps": 20}))
    record = replace(CONFIG.record, measure_every=0)
    sweep = Sweep("shapes", replace(CONFIG, record=record), cells)
    table = run_sweep(sweep, tmp_path / "all", Machines(most_together=2)).collect()
    table = table.filter(polars.col("step") == polars.col("optim.steps"))  # the last row of each
    named = table.select("task.modulus", "model.d_mlp", "optim.steps", "step", "seed").rows()
    assert set(named) == {(7, "[null, 32]", 40, 40, 0), (5, "[null, 32]", 40, 40, 0), (7, "[null, 8, 8]", 20, 20, 1)}
    assert table["1-var train (final)"].null_count() == 0 and "2-var test" not in table.columns
    of_stack, alone = cells[2].divided()
    config = with_settings(sweep.config, dict(of_stack))
    (job,) = jobs_of(Sweep("alone", config, (alone,)), tmp_path / "alone", Machines())
    rows = run_job(job, "cpu").metrics()
    assert rows[-1]["loss"] == pytest.approx(table.filter(table["seed"] == 1)["loss"].item(), rel=1e-6)


def test_a_dry_run_says_what_would_be_done_and_does_nothing(tmp_path, capsys):
    flags = ["--n-seeds", "100", "--dry-run", "--json", "--out", str(tmp_path / "x")]
    assert main(["sweep", "seeds", *flags, "--device", "cpu", "--threads", "2"]) == 0
    here = json.loads(capsys.readouterr().out)
    assert (here["cells"], here["steps"], here["stacks"], here["at_a_time"]) == (100, 30_000, [1] * 100, 2)
    assert here["seconds"] > 100
    assert (
        main(["sweep", "fraction", *flags, "--device", "cuda", "--engine", "ray"]) == 0
    )  # the cluster's GPUs, not ours
    there = json.loads(capsys.readouterr().out)
    assert there["cells"] == 1600 and sum(there["stacks"]) == 1600 and max(there["stacks"]) <= MOST_TOGETHER
    assert not (tmp_path / "x").exists()
