"""One job, wherever an engine runs it: train a stack into its folder, from wherever that stands."""

from __future__ import annotations

import torch

from assignadd.runs.folder import Run
from assignadd.sweeps.observing import Watch
from assignadd.sweeps.plan import Job
from assignadd.task.splits import pair_split
from assignadd.training.loop import Listener, train_run


def run_job(job: Job, device: str, threads: int = 1, listener: Listener = lambda _: None) -> Run:
    configs = [member.config(job.config) for member in job.members]
    seen = torch.stack([pair_split(c.task, c.seed.split or 0) for c in configs])
    return train_run(job.path, job.config, job.members, seen, device, threads, listener, observe=Watch)
