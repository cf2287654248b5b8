"""Accuracy on sums with variables along training, minus what adding and binding predict.

`adding` is the accuracy on literal sums (of held-out pairs), `binding` that on trained sums with one variable divided
by that on trained literal sums. If the two are independent skills,

    one variable, held-out pair   adding x binding

A network that does not bind still guesses. With g and h the accuracies of these guesses on trained and held-out pairs,
`bound` = (binding - g) / (1 - g), and

    one variable, held-out pair   adding x bound + h (1 - bound)
"""

from dataclasses import dataclass

import numpy as np

from assignadd.dynamics import ADDITION, BINDING, Curves
from assignadd.sweeps import SeedCurves

from .rule import HELD_OUT, TRAINED, has_rule, rule_accuracy

LITERALS = "0-var train"
# The sets whose curves are compared, in the order of `composition`.
NEEDED = (LITERALS, ADDITION.set, BINDING.set, HELD_OUT)


@dataclass(frozen=True)
class Composition:
    """Accuracy minus the prediction at each evaluation of one network from which on it adds held-out pairs."""

    one_variable: np.ndarray  # (evaluations,): the accuracy on trained sums with one variable
    bound: np.ndarray  # (evaluations,), bool: it is 95 % or more from here to the end
    held_out: np.ndarray  # (evaluations,): one variable, held-out pairs, minus the product
    held_out_guessing: np.ndarray  # (evaluations,): one variable, held-out pairs, minus the prediction with guesses


def composition(curves: Curves, guess: float, guess_held_out: float) -> Composition:
    """The residuals of the product along training; the guesses are the accuracies without names."""
    adds = np.maximum.accumulate(curves.accuracy[ADDITION.set]) >= ADDITION.threshold
    used = (curves.accuracy[LITERALS] > 0) & adds
    literals, adding, one, held_out = (curves.accuracy[name][used] for name in NEEDED)
    binding = one / literals
    share = np.clip((binding - guess) / (1 - guess), 0, 1)
    return Composition(
        one_variable=one,
        bound=np.flip(np.logical_and.accumulate(np.flip(one >= BINDING.threshold))),
        held_out=held_out - adding * binding,
        held_out_guessing=held_out - (adding * share + guess_held_out * (1 - share)),
    )


def composition_of(seed: SeedCurves) -> Composition | None:
    """The residuals of one seed; None for a task without the sums, or that the rule without names is not about."""
    if not has_rule(seed.task) or not seed.curves.accuracy.keys() >= set(NEEDED):
        return None
    return composition(seed.curves, rule_accuracy(seed.task, TRAINED), rule_accuracy(seed.task, HELD_OUT))
