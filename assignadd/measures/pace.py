"""How fast the progress measures are, beside a plain loop over checkpoints through the hooked transformer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from assignadd.config import Config, Member
from assignadd.measures.progress import Progress
from assignadd.model.stack import Stack, initial_stack
from assignadd.model.transformer import Transformer
from assignadd.task.splits import pair_split
from assignadd.training.speed import milliseconds
from assignadd.training.trainer import prepare


def checkpoint_ms(config: Config, seconds: float) -> dict[str, float]:
    """Milliseconds a checkpoint on one thread: every progress measure here, and the paper's in the plain way."""
    prepare("cpu", 1, config)
    own = Member(0).config(config)
    progress, stack = Progress([own], pair_split(config.task, 0)[None]), initial_stack(config, [0])
    ours = milliseconds(lambda: progress(stack), seconds, 3)
    return {"progress_ms": ours, "plain_ms": milliseconds(plain_measures(progress, stack), seconds, 2)}


def plain_measures(progress: Progress, stack: Stack) -> Callable[[], None]:
    """What a script would do for one checkpoint: all positions of every sequence, and the addition circuit number by number."""
    model: Any = Transformer.from_stack(stack, 0)
    numbers = range(stack.config.task.modulus)

    @torch.no_grad()
    def measure() -> None:
        for tokens in progress.tokens.values():
            model.run_with_cache(tokens[0].T, names_filter=lambda name: name.endswith(("hook_pattern", "hook_resid_post")))
        model(progress.exam.tokens[0].T)
        x = stack.W_E[0, : len(numbers)] @ model.blocks[1].attn.W_V[0] @ model.blocks[1].attn.W_O[0]
        for n in numbers:
            for m in numbers:
                (model.blocks[1].mlp((x[n] + x[m]).view(1, 1, -1)) @ stack.W_U[0]).argmax()

    return measure
