"""A run of a few kilobytes, and a stand-in for training: every save is a function of the state before it."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch import Tensor

from assignadd.config import Config, Member, Model, Optim, Recording, Task
from assignadd.model.stack import Stack, initial_stack
from assignadd.runs.manifest import Environment
from assignadd.runs.writer import Writer

CONFIG = Config(
    task=Task(modulus=5, n_vars=3, length=8, max_assignments=2, banned_first="a", banned_second=""),
    model=Model(d_model=4, d_head=4, d_mlp=(None, 6)),
    optim=Optim(steps=30),
    record=Recording(checkpoint_every=10, eval_every=5, state_every=10),
)
MEMBERS = (Member(3), Member(7, lr=0.01))
SEEN = torch.arange(50).view(2, 5, 5) % 3 != 0
HERE = Environment("3.11", "2.13", "2.4", "0.1", "cpu", 1, None, False)


def hold(path: Path, config: Config = CONFIG, members=MEMBERS, seen: Tensor = SEEN, environment: Environment = HERE):
    return Writer.hold(path, config, members, seen, environment)


def first_weights() -> Tensor:
    return initial_stack(CONFIG, [3, 7]).flat


def later(weights: Tensor, step: int) -> Tensor:
    """The weights after one more step."""
    return weights * 0.99 + torch.sin(weights * step)


def save(run: Writer, step: int, weights: Tensor) -> None:
    """Commit as training would: always a state, rows every 5 steps, a checkpoint every 10."""
    rows = [{"step": step, "model": i, "accuracy": {}, "loss": float(w.square().mean())} for i, w in enumerate(weights)]
    run.commit(
        step,
        state={"weights": weights, "step": torch.tensor(step)},
        checkpoint=Stack(CONFIG, weights) if step % 10 == 0 else None,
        rows=rows,
        finished=step == CONFIG.optim.steps,
    )


def train(path: Path, steps: int = CONFIG.optim.steps, pause: float = 0.0) -> list[str]:
    """From wherever the run stands up to `steps`; gives the notes of the opening."""
    with hold(path) as run:
        if run.finished:
            return run.notes
        state = run.latest_state()
        step, weights = (0, first_weights()) if state is None else (int(state["step"]), state["weights"])
        if state is None:
            save(run, step, weights)
        while step < steps:
            step, weights = step + 1, later(weights, step + 1)
            time.sleep(pause)
            if step % 5 == 0:
                save(run, step, weights)
        return run.notes


def weights_at(step: int) -> Tensor:
    weights = first_weights()
    for s in range(1, step + 1):
        weights = later(weights, s)
    return weights


def contents(path: Path) -> dict[str, bytes]:
    """Every file that must come out the same whatever happened on the way; the manifest has the clock in it."""
    files = (p for p in path.rglob("*") if p.is_file())
    return {str(p.relative_to(path)): p.read_bytes() for p in files if p.name not in ("manifest.json", "lock")}
