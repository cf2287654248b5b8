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
from assignadd.task.vocabulary import sizes_of
from assignadd.training.loop import Listener, last_evaluations, train_run
from assignadd.training.speed import flops
from assignadd.training.start import check_start
from assignadd.training.trainer import Observer

# Beyond this many models a step on an H200 costs the same per model (docs/scale.md), and an interruption costs more.
MOST_TOGETHER = 256
# For the estimates of a dry run. The rates of matrix products that a training step reaches, in GFLOP/s: on a core, and
# on a GPU by whether TF32 is used.
CORE_GFLOPS = 26.0
GPU_GFLOPS = {False: 26_000.0, True: 46_000.0}
# What a step of any stack takes on a GPU at least, and compiling an architecture without tables.
GPU_STEP_SECONDS = 0.4e-3
COMPILE_SECONDS = 30.0
# For each stack on a GPU: building the evaluation sets, evaluating, saving (38 s a stack in the study of operations, 57
# in that of operands; results/).
AROUND_SECONDS = 45.0
# The share of a GPU's memory that stacks may fill, and the memory of a GPU where this machine has none to ask.
SHARE_OF_MEMORY = 0.8
MEMORY_ELSEWHERE = 40 * 2**30
# Called with the number of a job and the step it is at.
Report = Callable[[int, int], None]


class SweepStopped(UserError):
    """The sweep was asked to stop; every stack has saved."""

    def __init__(self, signum: int):
        super().__init__("stopped; run the same command to go on")
        self.exit_code = 128 + signum


class JobFailed(UserError):
    """A job of a sweep cannot go on; the others have saved."""

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
    # The cells that no run holds, as pairs of a stack's configuration and a member of it: a dict keeps their order.
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
    members_by_config: dict[Config, list[Member]] = {}
    for config, member in without_run:
        members_by_config.setdefault(config, []).append(member)
    for config, members in members_by_config.items():
        most = models_together(config, device, per_gpu=per_gpu) if together is None else together
        for stack in stacks(members, most):
            jobs.append(Job(out / _folder_name(config, stack), config, stack, observe=sweep.observe))
    return jobs


def stacks(cells: Sequence[Member], together: int) -> list[tuple[Member, ...]]:
    """The cells, in order, in the fewest stacks of at most `together` models, of nearly equal size."""
    n_stacks = math.ceil(len(cells) / together)
    if n_stacks == 0:
        return []
    bounds = [round(i * len(cells) / n_stacks) for i in range(n_stacks + 1)]  # 10 cells in 3 stacks: 0, 3, 7, 10
    return [tuple(cells[start:end]) for start, end in pairwise(bounds)]


def models_together(config: Config, device: str, memory: int | None = None, per_gpu: int = 1) -> int:
    """How many models a stack may have: one on a CPU, where each trains alone; on a GPU what its memory holds.

    `per_gpu` stacks share the memory, which is that of this machine's GPU unless it is given in bytes.
    """
    if device == "cpu":
        return 1
    if memory is None:
        memory = int(torch.cuda.mem_get_info()[1]) if torch.cuda.is_available() else MEMORY_ELSEWHERE
    n_models = int(SHARE_OF_MEMORY * memory / per_gpu / bytes_per_model(config))
    return max(1, min(MOST_TOGETHER, n_models))


def bytes_per_model(config: Config) -> int:
    """An estimate from above of a model's memory in training on a GPU, in bytes.

    The factors say about how many tensors of each size there are at a time.
    """
    task, model = sizes_of(config.task), config.model
    n_weights = sum(math.prod(shape) for shape in weight_shapes(config).values())
    C = task.n_tokens + task.length  # rows of the tables
    if covers(config):  # the tables: layer 2 at the position of "=" alone
        attention = 3 * task.length**2 + 4 * (3 * C + 1)
        residual_and_mlp = 6 * model.d_model + 3 * (model.d_mlp[-1] or 0)
        per_sequence = attention + residual_and_mlp + 2 * task.n_answers
        n_evaluated = CHUNK  # sequences at a time
    else:  # every layer at every position, what autograd keeps, and one-hot tokens
        heads = model.n_heads * (4 * model.d_head + 3 * task.length)
        mlps = 2 * sum(width or 0 for width in model.d_mlp)
        per_position = model.n_layers * (8 * model.d_model + heads) + mlps + C
        per_sequence = 2 * task.length * per_position + 2 * task.n_answers * (task.length if task.everywhere else 1)
        n_evaluated = CHUNK // 4  # autograd keeps nothing here, so a sequence takes less
    n_numbers = (
        6 * n_weights  # with gradients and moments
        + (config.optim.batch + n_evaluated) * per_sequence
        + 10 * C * (C + model.d_model)  # tables of scores and of outputs
        + 12
        * config.record.eval_sequences
        * (task.length + 1)
        * 2  # exams: tokens and label are 8 bytes each, two numbers
    )
    bytes_per_number = 8 if config.numerics.dtype == "float64" else 4
    return bytes_per_number * n_numbers


def estimated_seconds(jobs: Sequence[Job], device: str, slots: int) -> float:
    """Estimated seconds of training, with compiling, evaluations and saving on a GPU."""
    return sum(_seconds(job, device) for job in jobs if job.model_steps) / slots


def _seconds(job: Job, device: str) -> float:
    """Estimated seconds of one job."""
    gflop = job.model_steps * flops(job.config, device) / 1e9
    if device == "cpu":
        return gflop / CORE_GFLOPS
    launching = (job.config.optim.steps - job.done) * GPU_STEP_SECONDS
    compiling = 0.0 if covers(job.config) else COMPILE_SECONDS
    return gflop / GPU_GFLOPS[job.config.numerics.tf32] + launching + (AROUND_SECONDS + compiling)


def _folder_name(config: Config, members: Sequence[Member]) -> str:
    """The name of the folder for a stack of these members: the same cells always get the same."""
    return f"stack-{hashlib.sha256(run_document(config, members)).hexdigest()[:12]}"


class SweepObserver(ProgressObserver):
    """Measures the models of a sweep during training: at each evaluation a row of measures per model.

    As far as the settings ask for them: the cheap measures, the exams of the last evaluations and, after the last step,
    the paper's tests and the final exam. The accuracies of exams and tests are under "tests" of the row.
    """

    def __init__(self, configs: Sequence[Config], seen: Tensor):
        super().__init__(configs, seen, StackProgress)

    def __call__(self, stack: Stack, step: int) -> list[dict[str, Any]]:
        """The row of each model at this step."""
        measure_every = stack.config.record.measure_every  # 0 for never
        is_last = step == stack.config.optim.steps
        is_measured = measure_every > 0 and (is_last or step % measure_every == 0)
        rows = super().__call__(stack, step) if is_measured else [{} for _ in self.configs]
        tests = []  # for each test, the accuracies of every model
        if is_last and measure_every > 0:
            tests.append(addition_tests(stack, self.configs, self.seen))
        if is_last:
            tests.append(final_exam(stack, self.configs, self.seen))
        end = last_evaluations(stack.config)
        if step in end:
            n_evaluations_after = len(end) - 1 - end.index(step)
            tests.append(end_exams(stack, self.configs, self.seen, n_evaluations_after))
        for accuracies_of_models in tests:
            for row, accuracies in zip(rows, accuracies_of_models, strict=True):
                row.setdefault("tests", {}).update(accuracies)
        return rows


def run_job(job: Job, device: str, threads: int = 1, listener: Listener = lambda _: None) -> Run:
    """Trains what is missing of a job, and returns its run."""
    seen = splits_of([member.config(job.config) for member in job.members])
    return train_run(
        job.path, job.config, job.members, seen, device, threads, listener, observe=job.observe or SweepObserver
    )
