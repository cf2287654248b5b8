"""The checkpoints of the page: which steps it has, and their weights as scripts.

A page opened from disk may load scripts but not read files, so each checkpoint is a script that passes one string to
the page. It needs only the products QK and OV of each head, the paper's own letters and a quarter smaller than
the factors; they are in half precision.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Sequence

import torch
from torch import Tensor

from assignadd.dynamics.curves import Spike
from assignadd.errors import RunError
from assignadd.model.circuits import OV, QK
from assignadd.model.stack import Stack

# How the slider's length is shared out: to the logarithm of the step, to the step, and to each spike.
LOGARITHMIC, LINEAR, PER_SPIKE = 1.0, 1.0, 0.5
# A spike's surroundings, as a share of all steps.
SPIKE_WIDTH = 0.015


def chosen_steps(steps: Sequence[int], spikes: Sequence[Spike], most: int) -> list[int]:
    """At most `most` of the steps: the ends, both sides of each spike, then the farthest from those chosen so far.

    Distance is taken along a scale that stretches the early steps and the spikes.
    """
    if len(steps) <= most:
        return list(steps)
    last = max(steps)

    def place(step: int) -> float:
        jumps = (1 / (1 + math.exp(-(step - (s.before + s.after) / 2) / (SPIKE_WIDTH * last))) for s in spikes)
        return LOGARITHMIC * math.log1p(step) / math.log1p(last) + LINEAR * step / last + PER_SPIKE * sum(jumps)

    wanted = [max(s for s in steps if s <= x.before) for x in spikes] + [
        min(s for s in steps if s >= x.after) for x in spikes
    ]
    kept = sorted({min(steps), last, *wanted})[: max(most, 2)]
    places = {step: place(step) for step in steps}
    distance = {step: min(abs(places[step] - places[k]) for k in kept) for step in steps}
    while len(kept) < most:
        farthest = max(steps, key=lambda s: (distance[s], -s))
        kept.append(farthest)
        distance = {s: min(d, abs(places[s] - places[farthest])) for s, d in distance.items()}
    return sorted(kept)


def circuits(one: Stack) -> dict[str, Tensor]:
    """The matrices of a stack of one model, by the page's names and in the page's order, each (rows, columns)."""
    by_layer = {f"{name}{layer}": f(one, layer)[0] for layer in (1, 2) for name, f in (("QK", QK), ("OV", OV))}
    mlp = {"W_in": one["blocks.1.mlp.W_in"][0], "W_out": one["blocks.1.mlp.W_out"][0]}
    return {"W_E": one.W_E[0], "W_pos": one.W_pos[0], **by_layer, **mlp, "W_U": one.W_U[0]}


def shapes(one: Stack) -> list[tuple[str, int, int]]:
    """What the page needs to cut the string into matrices again."""
    return [(name, *matrix.shape) for name, matrix in circuits(one).items()]


def halves(one: Stack) -> Tensor:
    """All matrices in a row, as float16."""
    flat = torch.cat([matrix.flatten() for matrix in circuits(one).values()]).half()
    if not bool(flat.isfinite().all()):
        raise RunError("weights that are not finite, or too large for half precision, cannot be shown")
    return flat


def script(key: str, step: int, one: Stack) -> str:
    """The script of one checkpoint."""
    data = b64encode(halves(one).numpy().astype("<f2").tobytes()).decode()
    return f"assignadd.weights({json.dumps(key)},{step},{json.dumps(data)});\n"
