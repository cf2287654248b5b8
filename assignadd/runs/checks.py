"""Whether what the files of a run hold fits the run: names, shapes and types of tensors, and finite weights."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from assignadd.config import Config, Member
from assignadd.model.stack import Stack, weight_shapes
from assignadd.runs.manifest import CHECKPOINTS, Manifest


def checkpoint_problem(weights: Mapping[str, Tensor], config: Config, n_models: int) -> str | None:
    """What is wrong with the weights of a checkpoint."""
    expected = {weight: (n_models, *shape) for weight, shape in weight_shapes(config).items()}
    if weights.keys() != expected.keys():
        odd = sorted(weights.keys() ^ expected.keys())[0]
        return f"{odd} is {'extra' if odd in weights else 'missing'}"
    for weight, shape in expected.items():
        found = weights[weight]
        if found.shape != shape or str(found.dtype) != f"torch.{config.numerics.dtype}":
            have, want = f"{found.dtype} {tuple(found.shape)}", f"{config.numerics.dtype} {shape}"
            return f"{weight} is {have}, not {want}"
    return None


def state_problem(state: Mapping[str, Tensor], config: Config, n_models: int, step: int | None) -> str | None:
    """What is wrong with a training state: its weights and its step must be those of the run."""
    weights, at = state.get("weights", torch.empty(0)), state.get("step", torch.empty(0))
    size = sum(math.prod(shape) for shape in weight_shapes(config).values())
    if weights.shape != (n_models, size) or str(weights.dtype) != f"torch.{config.numerics.dtype}":
        return f"its weights are {weights.dtype} {tuple(weights.shape)}, not {config.numerics.dtype} {(n_models, size)}"
    return None if at.numel() == 1 and at.item() == step else f"it is not of step {step}"


def unsound_models(
    name: str,
    members: Sequence[Member],
    steps: Sequence[int],
    diverged_at: Sequence[int | None],
    step: int,
    stack: Stack,
) -> dict[int, str]:
    """Which models of a checkpoint cannot be measured, and why: they had diverged, or have weights not finite."""
    found, finite = {}, stack.flat.isfinite().all(1).tolist()
    for i, (member, end) in enumerate(zip(members, diverged_at, strict=True)):
        if end is not None and end <= step:
            before = [s for s in steps if s < end]
            earlier = f"; --step {before[-1]} is from before that" if before else ""
            found[i] = f"seed {member.seed} of {name} diverged at step {end}: its loss was not finite{earlier}"
        elif not finite[i]:
            found[i] = f"seed {member.seed} of {name} has weights at step {step} that are not finite"
    return found


def absent_checkpoint(name: str, manifest: Manifest, config: Config, step: int) -> str:
    """What to say of a step that has no checkpoint."""
    steps = list(manifest.numbered(CHECKPOINTS))
    at = bisect.bisect(steps, step)
    near = steps[max(at - 1, 0) : at + 1]
    if not near:
        return f"run {name} has no checkpoints yet; train it on"
    closest = min(near, key=lambda s: (abs(s - step), -s))
    listed = f"nearest are {near[0]} and {near[1]}" if len(near) == 2 else f"nearest is {near[0]}"
    says = f"run {name} has no checkpoint at step {step}; {listed}. Pass --step {closest}"
    if manifest.sources or not 0 <= step <= manifest.step:
        return f"{says}."
    return f"{says}, or train with --record.checkpoint-every {math.gcd(step, config.record.checkpoint_every)}."
