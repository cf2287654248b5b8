"""Circuit quality as the MIB benchmark defines it (Mueller et al., 2025, arXiv 2504.13151, section 3.1), for paths.

A ranking of n paths gives a circuit of every size: its first int(k n) paths are kept, all others are replaced by their
means at once. With m(C) the mean margin of the right answer, the faithfulness of the circuit C is

    f = (m(C) - m(no path)) / (m(network) - m(no path)).

CPR, the integrated circuit performance ratio, is the area under f over the ten sizes k in `PROPORTIONS`, by the
trapezoidal rule; higher is better. CMD, the integrated circuit-model distance, is the area between f and 1; 0 is best.
As in the benchmark, paths are ranked by their effect for CPR, and by its absolute value for CMD.

The benchmark's margin is the logit of the right answer less that of another prompt's answer. Here it is less the mean
of all logits, which is the mean over other answers drawn at random up to a factor that f does not depend on. An effect
is the margin lost when one path is replaced alone; sequences with even index rank the paths, odd ones give m.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from assignadd.interventions.paths import PathAnswers, PathPatching
from assignadd.task.randomness import Stream, permutation

PROPORTIONS = np.array((0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0))
# The weight of each size in the trapezoidal rule.
WEIGHTS = (np.diff(PROPORTIONS, prepend=PROPORTIONS[0]) + np.diff(PROPORTIONS, append=PROPORTIONS[-1])) / 2
BY_EFFECT, BY_SIZE, AT_RANDOM = "by effect", "by absolute effect", "at random"
RANDOM_ORDERS = 5


@dataclass(frozen=True)
class CircuitCurve:
    """The margin of every test sequence with circuits of the sizes `PROPORTIONS`, with no path, and as it is."""

    kept: np.ndarray  # (sizes, sequences)
    empty: np.ndarray  # (sequences,)
    whole: np.ndarray  # (sequences,)

    @property
    def gain(self) -> np.ndarray:
        """What all paths together add to the margin of each sequence."""
        return self.whole - self.empty

    @property
    def faithfulness(self) -> np.ndarray:
        """f of each size, (sizes,)."""
        return (self.kept - self.empty).mean(1) / self.gain.mean()

    @property
    def performance(self) -> np.ndarray:
        """The area under the margins of each sequence; its mean divided by that of `gain` is CPR."""
        return WEIGHTS @ (self.kept - self.empty)

    @property
    def distance(self) -> np.ndarray:
        """The signed area to the whole margins of each sequence; its mean divided by that of `gain` is CMD."""
        return (WEIGHTS * np.sign(1 - self.faithfulness)) @ (self.whole - self.kept)

    @property
    def cpr(self) -> float:
        return float(self.performance.mean() / self.gain.mean())

    @property
    def cmd(self) -> float:
        return float(self.distance.mean() / self.gain.mean())


def circuit_curves(patching: PathPatching, found: PathAnswers) -> dict[str, CircuitCurve]:
    """The curves of the paths ranked by effect, by absolute effect, and in `RANDOM_ORDERS` random orders (their mean).

    `found` are the answers of the same patching.
    """
    paths, whole = patching.paths, patching.margins(patching.trace.logits)
    effects = torch.stack([(whole - found.margins[path])[0::2].mean() for path in paths])
    orders = {
        BY_EFFECT: [effects.argsort(descending=True, stable=True)],
        BY_SIZE: [effects.abs().argsort(descending=True, stable=True)],
        AT_RANDOM: [permutation(len(paths), Stream.ORDER, i) for i in range(RANDOM_ORDERS)],
    }
    sizes = [int(k * len(paths)) for k in PROPORTIONS]

    def margins(kept: Iterable[int]) -> np.ndarray:
        """Of every test sequence, with the paths of these numbers kept."""
        logits = patching.logits(set(paths) - {paths[i] for i in kept})
        return patching.margins(logits)[1::2].double().numpy()

    empty, all_kept = margins([]), margins(range(len(paths)))
    ends = {0: empty, len(paths): all_kept}

    def curve(tried: Sequence[Tensor]) -> CircuitCurve:
        between = {n: np.mean([margins(order[:n].tolist()) for order in tried], 0) for n in {*sizes} - {*ends}}
        return CircuitCurve(np.stack([(ends | between)[n] for n in sizes]), empty, all_kept)

    return {name: curve(tried) for name, tried in orders.items()}
