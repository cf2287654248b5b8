"""A page of networks whose answers are known: made by hand, the second without the part that looks up variables."""

from pathlib import Path

import torch

from assignadd.config import Config, Member, Optim, Recording, Task
from assignadd.model.accuracy import Exam
from assignadd.model.handmade import handmade
from assignadd.model.stack import Stack, concatenate
from assignadd.network import networks_of
from assignadd.page.export import export
from assignadd.runs.folder import Run
from assignadd.runs.manifest import Environment
from assignadd.runs.writer import Writer
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.splits import pair_split

CONFIG = Config(
    task=Task(modulus=13, n_vars=5, length=12, max_assignments=3, banned_first="a", banned_second="b"),
    optim=Optim(steps=3000),
    record=Recording(eval_sequences=64),
)
# A name that becomes markup wherever it is not escaped.
HOSTILE = "<img src=x onerror=alert(1)>&quot;'"
STEPS = range(0, 3001, 500)
SPIKE = 1500
HERE = Environment("3.11", "2.13", "2.4", "0.1", "cpu", 1, None, False)


def states() -> tuple[Stack, Stack, Stack]:
    """Nothing, addition alone, and both."""
    whole = handmade(CONFIG)
    adds = whole.clone()
    adds["blocks.0.attn.W_V"].zero_()  # no variable is ever copied
    nothing = whole.clone()
    nothing.flat.mul_(0.01)
    return nothing, adds, whole


def write_run(path: Path) -> Run:
    """Seed 0 adds from step 500 and binds from step 1500; seed 1 never binds."""
    nothing, adds, whole = states()
    config = whole.config
    seen = torch.stack([pair_split(config.task, seed) for seed in (0, 1)])
    members = (Member(0), Member(1))
    exams = [
        Exam([m.config(config)], seen[i : i + 1], EVAL_SETS, config.record.eval_sequences)
        for i, m in enumerate(members)
    ]
    with Writer.hold(path, config, members, seen, HERE) as run:
        for step in STEPS:
            early = nothing if step < 500 else adds
            models = [early if step < SPIKE else whole, early]
            rows = [
                {
                    "step": step,
                    "model": i,
                    "seed": i,
                    "loss": 1.0,
                    "diverged_at": None,
                    "accuracy": accuracies(exams[i], one),
                }
                for i, one in enumerate(models)
            ]
            run.commit(step, state={}, checkpoint=concatenate(models), rows=rows, finished=step == STEPS[-1])
    return Run.open(path)


def accuracies(exam: Exam, one: Stack) -> dict[str, float]:
    return dict(zip(exam.names, (exam.count_correct(one)[0] / exam.n).tolist(), strict=True))


def write_page(folder: Path) -> Path:
    run = write_run(folder / HOSTILE)
    return export(networks_of(run, n=64)[0], folder / "page", "assignadd claims RUN")
