"""The jobs of a sweep: which stacks to train, what they cost, and how one of them is trained."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from assignadd.config import Config, Member
from assignadd.config.errors import RunError, UserError
from assignadd.measures.columns import ProgressObserver, StackProgress
from assignadd.model.forward import CHUNK
from assignadd.model.stack import Stack, weight_shapes
from assignadd.model.table import covers
from assignadd.runs.config_json import run_document
from assignadd.runs.folder import Run, find_runs
from assignadd.runs.writer import check_observed
from assignadd.sweeps.final_tests import addition_tests, end_exams, final_exam
from assignadd.sweeps.settings import Sweep
from assignadd.task.splits import splits_of
from assignadd.task.vocabulary import Vocabulary
from assignadd.training.loop import Listener, last_evaluations, train_run
from assignadd.training.speed import flops
from assignadd.training.start import check_start
from assignadd.training.trainer import Observer

# Beyond this many models a step on an H200 costs the same per model (docs/scale.md), and an interruption costs more.
MOST_TOGETHER = 256
# For the estimates of a dry run: rates of matrix products that a training step reaches, in GFLOP/s (on a GPU without
# and with TF32), what a step of any stack and the compilation of an architecture without tables take on a GPU, and what
# comes on top for each stack there: building the evaluation sets, evaluating, saving (38 s a stack in the study of
# operations, 57 in that of operands; results/).
GPU_GFLOPS, CORE_GFLOPS = {False: 26_000.0, True: 46_000.0}, 26.0
GPU_STEP_SECONDS, COMPILE_SECONDS, AROUND_SECONDS = 0.4e-3, 30.0, 45.0
SHARE_OF_MEMORY = 0.8
# What a GPU of a cluster is taken to have where this machine has none to ask.
ELSEWHERE = 40 * 2**30
# (number of the job, the step it is at)
Report = Callable[[int, int], None]


class SweepStopped(UserError):
    """The sweep was asked to stop; every stack has saved."""

    def __init__(self, signum: int):
        super().__init__("stopped; run the same command to go on")
        self.exit_code = 128 + signum


class JobFailed(UserError):
    exit_code = 1


@dataclass(frozen=True)
class Job:
    """One run folder to be made: a stack of cells that train together."""

    path: Path
    config: Config
    members: tuple[Member, ...]
    done: int = 0
    """The step the folder is at."""
    observe: Observer | None = None
    """As in `Sweep`."""

    @property
    def model_steps(self) -> int:
        """Updates still to be made, over all models."""
        return (self.config.optim.steps - self.done) * len(self.members)


def jobs_of(sweep: Sweep, out: Path, device: str = "cpu", together: int | None = None, per_gpu: int = 1) -> list[Job]:
    """The runs under `out` that hold cells of the sweep, unchanged, and new stacks for all other cells.

    Cells whose tensors have the same shapes share stacks of at most `together` models, by default as many as the
    device holds, where `per_gpu` stacks share it.
    """
    runs, problems = find_runs(out)
    if problems:
        raise RunError(f"{problems[0]}; remove that folder to train its models again")
    # The cells that no run holds: each the configuration of its stack and its member, in order.
    without_run = dict.fromkeys(cell.in_stack(sweep.config) for cell in sweep.cells)
    jobs = []
    for run in runs:
        cells_of_run = [(run.config, member) for member in run.members if (run.config, member) in without_run]
        if cells_of_run:
            check_observed(run, getattr(sweep.observe, "observed", None))
            jobs.append(Job(run.path, run.config, run.members, run.step, sweep.observe))
        for cell in cells_of_run:
            del without_run[cell]
    check_start([member.config(config) for config, member in without_run])
    members_of: dict[Config, list[Member]] = {}
    for config, member in without_run:
        members_of.setdefault(config, []).append(member)
    new_jobs = []
    for config, members in members_of.items():
        most = models_together(config, device, per_gpu=per_gpu) if together is None else together
        for stack in stacks(members, most):
            new_jobs.append(Job(out / _folder(config, stack), config, stack, observe=sweep.observe))
    return jobs + new_jobs


def stacks(cells: Sequence[Member], together: int) -> list[tuple[Member, ...]]:
    """The cells, in order, in the fewest stacks of at most `together` models, of nearly equal size."""
    n = math.ceil(len(cells) / together)
    ends = [round(i * len(cells) / n) for i in range(n + 1)] if n else []
    return [tuple(cells[a:b]) for a, b in pairwise(ends)]


def models_together(config: Config, device: str, memory: int | None = None, per_gpu: int = 1) -> int:
    """How many models a stack may have: one on a CPU, where each trains alone; on a GPU what its memory holds, where
    `per_gpu` stacks share it."""
    if device == "cpu":
        return 1
    if memory is None:
        memory = int(torch.cuda.mem_get_info()[1]) if torch.cuda.is_available() else ELSEWHERE
    return max(1, min(MOST_TOGETHER, int(SHARE_OF_MEMORY * memory / per_gpu / bytes_per_model(config))))


def bytes_per_model(config: Config) -> int:
    """Memory of a model in training on a GPU: weights, moments, a step's tensors, prepared data, an evaluation."""
    task, model, B = config.task, config.model, config.optim.batch
    weights = sum(math.prod(shape) for shape in weight_shapes(config).values())
    C = Vocabulary(task).size + task.length
    if covers(config):
        width = (model.d_mlp[-1] or 0) * 3 + 6 * model.d_model
        per_sequence = 3 * task.length**2 + 4 * (3 * C + 1) + width + 2 * task.modulus
    else:  # every layer at every position, what autograd keeps, and one-hot tokens
        of_layers = model.n_layers * (8 * model.d_model + model.n_heads * (4 * model.d_head + 3 * task.length))
        per_sequence = 2 * task.length * (of_layers + 2 * sum(h or 0 for h in model.d_mlp) + C) + 2 * task.modulus
    evaluated = CHUNK if covers(config) else CHUNK // 4  # without what autograd keeps
    words = 6 * weights + (B + evaluated) * per_sequence + 10 * C * (C + model.d_model)
    exams = 12 * config.record.eval_sequences * (task.length + 1) * 2
    return (8 if config.numerics.dtype == "float64" else 4) * (words + exams)


def estimated_seconds(jobs: Sequence[Job], device: str, slots: int) -> float:
    """Estimated seconds of training, with compiling, evaluations and saving on a GPU."""
    return sum(_seconds(job, device) for job in jobs if job.model_steps) / slots


def _seconds(job: Job, device: str) -> float:
    """Estimated seconds of one job."""
    work = job.model_steps * flops(job.config, device) / 1e9
    if device == "cpu":
        return work / CORE_GFLOPS
    launching = (job.config.optim.steps - job.done) * GPU_STEP_SECONDS
    fixed = AROUND_SECONDS + (0 if covers(job.config) else COMPILE_SECONDS)
    return work / GPU_GFLOPS[job.config.numerics.tf32] + launching + fixed


def _folder(config: Config, members: Sequence[Member]) -> str:
    """A name that the same cells always get."""
    return f"stack-{hashlib.sha256(run_document(config, members)).hexdigest()[:12]}"


class SweepObserver(ProgressObserver):
    """Measures the models of a sweep during training, as far as the settings ask for it.

    The cheap measures, the exams of the last evaluations and, after the last step, the tests of the paper and the final
    exam.
    """

    def __init__(self, configs: Sequence[Config], seen: Tensor):
        super().__init__(configs, seen, StackProgress)

    def __call__(self, stack: Stack, step: int) -> list[dict[str, Any]]:
        every, is_last = stack.config.record.measure_every, step == stack.config.optim.steps
        measured = bool(every) and (is_last or step % every == 0)
        rows = super().__call__(stack, step) if measured else [{} for _ in self.configs]
        tests = []  # for each test, the accuracies of every model
        if is_last and every:
            tests.append(addition_tests(stack, self.configs, self.seen))
        if is_last:
            tests.append(final_exam(stack, self.configs, self.seen))
        end = last_evaluations(stack.config)
        if step in end:
            tests.append(end_exams(stack, self.configs, self.seen, len(end) - 1 - end.index(step)))
        for of_stack in tests:
            for row, accuracies in zip(rows, of_stack, strict=True):
                row.setdefault("tests", {}).update(accuracies)
        return rows


def run_job(job: Job, device: str, threads: int = 1, listener: Listener = lambda _: None) -> Run:
    """Trains what is missing of a job, and returns its run."""
    seen = splits_of([member.config(job.config) for member in job.members])
    return train_run(
        job.path, job.config, job.members, seen, device, threads, listener, observe=job.observe or SweepObserver
    )
