"""From cells to stacks."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from assignadd.cli import main
from assignadd.config import PRESETS, Member
from assignadd.sweeps.jobs import (
    MOST_TOGETHER,
    Job,
    bytes_per_model,
    estimated_seconds,
    jobs_of,
    models_together,
    run_job,
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
    assert models_together(paper, "cuda", memory=10 * each) == 8  # a fifth is left free
    assert models_together(paper, "cuda", memory=10**15) == MOST_TOGETHER
    assert models_together(paper, "cuda", memory=1) == models_together(paper, "cpu") == 1
    wide = replace(paper, model=replace(paper.model, d_model=256, d_head=256))
    assert each < bytes_per_model(wide) < 4 * each


def test_the_estimate_is_work_over_rate(tmp_path):
    paper = PRESETS["paper"]
    job = Job(tmp_path, paper, tuple(Member(i) for i in range(128)))
    seconds = estimated_seconds([job], "cuda", 1)
    assert 90 < seconds < 180  # 128 models x 30,000 steps at about 33 us a model-step on an H200
    assert estimated_seconds([job, job], "cuda", 2) == seconds
    assert estimated_seconds([replace(job, done=15_000)], "cuda", 1) == seconds / 2


def test_runs_that_are_there_keep_their_cells_whatever_the_device_holds_now(tmp_path):
    first, second = jobs_of(SWEEP, tmp_path, together=2)
    run_job(first, "cpu")
    (again, *others) = jobs_of(SWEEP, tmp_path, together=1)
    assert (again.path, again.members, again.done) == (first.path, first.members, CONFIG.optim.steps)
    assert [j.members for j in others] == [(m,) for m in second.members] and all(j.done == 0 for j in others)
    assert again.model_steps == 0 and others[0].model_steps == CONFIG.optim.steps
    other = replace(SWEEP, config=replace(CONFIG, optim=replace(CONFIG.optim, steps=50)))
    assert all(job.done == 0 for job in jobs_of(other, tmp_path, together=2))  # another sweep in the same folder


def test_a_dry_run_says_what_would_be_done_and_does_nothing(tmp_path, capsys):
    flags = ["--seeds", "100", "--dry-run", "--json", "--out", str(tmp_path / "x")]
    assert main(["sweep", "seeds", *flags, "--device", "cpu", "--threads", "2"]) == 0
    here = json.loads(capsys.readouterr().out)
    assert (here["cells"], here["steps"], here["stacks"], here["at_a_time"]) == (100, 30_000, [1] * 100, 2)
    assert (
        main(["sweep", "fraction", *flags, "--device", "cuda", "--engine", "ray"]) == 0
    )  # the cluster's GPUs, not ours
    there = json.loads(capsys.readouterr().out)
    assert there["cells"] == 1600 and sum(there["stacks"]) == 1600 and max(there["stacks"]) <= MOST_TOGETHER
    assert there["mib_per_stack"] < 40 * 1024 and not (tmp_path / "x").exists()
