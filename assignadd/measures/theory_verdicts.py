"""Verdicts on whether one network's training follows the direction of theorem C.1 while it learns to bind."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from assignadd.measures.theory_gradient import DIRECTIONS, Alignment, TheoryGradient
from assignadd.verdicts import UNTESTABLE, Statement, decided

CLAIMS = {
    "real_gradient": (
        "While a network learns to bind, the gradient of QK2 on one-variable data points along the predicted memory",
        "section 7: sum_v OV1 e_v (OV1 e_v + p_T)^T is in the negative gradient (simplified setup)",
    ),
    "real_change": (
        "While a network learns to bind, QK2 moves along the predicted memory",
        "section 7: an update along this negative gradient leads to the QK_2 mechanism",
    ),
    "real_dominant": (
        "The predicted memory is the dominant term of a real gradient",
        'section 7: "has the following associative memory as its dominant term"',
    ),
    "real_spurious": (
        "The memory comes with a term in p_T of the same weight",
        "section 7: (OV1 e_v + p_T), where both have coefficient one",
    ),
}

# The threshold of the first two is a quantile of an explicit null distribution (the same cosine for directions without
# the binding), not the null's own value: a network without the effect passes in at most about 5 % of cases.
NULL = (
    f"holds if the mean cosine is above the 95 % quantile of {DIRECTIONS} directions with variables permuted and of "
    f"{DIRECTIONS} random ones"
)
RULES = {
    "real_gradient": NULL,
    "real_change": NULL,
    "real_dominant": "holds if it has more than half of the gradient's squared norm at some checkpoint: a cosine above "
    "0.707",
    "real_spurious": "holds if the p_T term's cosine is more than half of the binding's",
}


def untested(why: str) -> list[Statement]:
    """Each of the four statements as one that cannot be tested, with the reason."""
    return [Statement(f"theory.{key}", *words, None, UNTESTABLE, why, RULES[key]) for key, words in CLAIMS.items()]


def real_statements(found: TheoryGradient | None, name: str = "") -> list[Statement]:
    """The four verdicts for the model called `name`, over the last quarter of the steps before its first spike."""
    if found is None:
        return untested("no run was given")
    end = found.spike_at
    if end is None:
        best = float(found.accuracy.max())
        return untested(f"{name} does not bind variables ({best:.2f} on one-variable sequences at best)")
    steps = torch.tensor(found.steps)
    during, before, after = (steps >= 0.75 * end) & (steps < end), steps < 0.75 * end, steps >= end
    moving = (steps[1:] > 0.75 * end) & (steps[:-1] < end)  # changes that overlap with that quarter
    if not during.any():
        return untested(f"{name} has no checkpoint in the last quarter of the steps before its first spike, at {end:,}")
    where = f"{name}, the last quarter of the {end:,} steps until its first spike (checkpoints: {int(during.sum())})"
    gradient, change = _Means(found.descent, during), _Means(found.change, moving)
    also = f"; {_mean(found.descent.memory, before)} before, {_mean(found.descent.memory, after)} after"
    top = float(found.descent.memory.max())
    ratio = gradient.spurious / gradient.binding
    share = f"largest cosine at any of {len(steps)} checkpoints of {name} ({top**2:.1%} of the squared norm)"
    changed = f"mean cosine of the change of QK2 between checkpoints, {where}; {change.beside}"
    parts = f"mean cosine with p_T^T sum c_v ({gradient.spurious:+.3f}) over that with sum c_v^T c_v"
    values: dict[str, tuple[float, bool, str]] = {
        "real_gradient": (gradient.memory, gradient.above, f"mean cosine, {where}; {gradient.beside}{also}"),
        "real_change": (change.memory, change.above, changed),
        "real_dominant": (top, top > math.sqrt(0.5), share),
        "real_spurious": (ratio, ratio > 0.5, f"{parts} ({gradient.binding:+.3f}), {where}"),
    }
    return [
        Statement(f"theory.{key}", *CLAIMS[key], value, decided(holds), detail, RULES[key])
        for key, (value, holds, detail) in values.items()
    ]


class _Means:
    """Means over some checkpoints; each permuted or random direction is averaged over the checkpoints."""

    def __init__(self, found: Alignment, chosen: Tensor):
        self.memory, self.binding, self.spurious = (
            float(x[chosen].mean()) for x in (found.memory, found.binding, found.spurious)
        )
        permuted, random = found.permuted[chosen].mean(0), found.random[chosen].mean(0)
        limits = [float(x.quantile(0.95)) for x in (permuted, random)]
        self.above = self.memory > max(limits)
        of_permuted = f"permuted {float(permuted.mean()):+.3f} (95 % below {limits[0]:+.3f})"
        self.beside = f"{of_permuted}, random (95 % below {limits[1]:+.3f})"


def _mean(values: Tensor, chosen: Tensor) -> str:
    return f"{float(values[chosen].mean()):+.3f}" if chosen.any() else "none"
