"""Which checkpoints the page carries: all that happens early and around the spikes, and enough of the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence

from assignadd.dynamics.spikes import Spike

# How the slider's length is shared out: to the logarithm of the step, to the step, and to each spike.
LOGARITHMIC, LINEAR, PER_SPIKE = 1.0, 1.0, 0.5
# A spike's surroundings, as a share of all steps.
SPIKE_WIDTH = 0.015


def chosen_steps(steps: Sequence[int], spikes: Sequence[Spike], most: int) -> list[int]:
    """At most `most` of the steps: the ends and both sides of each spike, then each time the one farthest from those chosen.

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
