"""A small task with every kind of sequence, a random stack on it, and the model that solves it by construction."""

import dataclasses

import torch

from assignadd.config import PRESETS, Config, Member, Model, Task
from assignadd.measures.sequences import sequences
from assignadd.model.handmade import handmade
from assignadd.model.stack import initial_stack
from assignadd.task.splits import pair_split

TASK = Task(modulus=11, n_vars=5, length=10, max_assignments=3, seen_fraction=0.8, banned_first="a", banned_second="b")
CONFIG = Member(0).config(Config(task=TASK, model=Model(d_model=24, d_head=16, d_mlp=(None, 40))))
SEEN = pair_split(TASK, 0)
HANDMADE = handmade(CONFIG)
PAPER = Member(0).config(PRESETS["paper"])


def random_stack(models: int = 2):
    """A stack whose attention is far from uniform, so that nothing is equal by accident."""
    stack = initial_stack(
        dataclasses.replace(CONFIG, numerics=dataclasses.replace(CONFIG.numerics, dtype="float64")), range(models)
    )
    stack.flat.mul_(3)
    return stack


def tokens(n: int = 8) -> torch.Tensor:
    """(1, T, 3 n): n sequences of each type."""
    return torch.cat([sequences([CONFIG], SEEN[None], kind, n).tokens for kind in (0, 1, 2)], 1)
