"""Is the accuracy on sums with variables the product of adding and binding, along training?

From the curves of one network: `adding` is the accuracy on literal sums (of held-out pairs), `binding` that on trained
sums with one variable divided by that on trained literal sums. If the two are independent skills,

    one variable, held-out pair   adding x binding
    two variables, trained pair   accuracy on literal sums x binding^2

Binding can also be measured without answers: `attending`, the share of trained sums with one variable in which the top
two keys of `=` in the last layer are the two values. Then

    one variable, trained pair    accuracy on literal sums x attending

Below 95 % binding is not a skill that is there or not: a network that does not bind still guesses (`task.nameless`).
With g and h the accuracies of these guesses on trained and held-out pairs, `bound` = (binding - g) / (1 - g), and

    one variable, held-out pair   adding x bound + h (1 - bound)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assignadd.dynamics.binding import BINDING_SET, binds
from assignadd.dynamics.phases import ADDITION_SET, ADDITION_THRESHOLD, Curves

LITERALS, HELD_OUT, TWO = "0-var train", "1-var add-restricted", "2-var train"
NEEDED = (LITERALS, ADDITION_SET, BINDING_SET, HELD_OUT, TWO)


@dataclass(frozen=True)
class Composition:
    """Accuracy minus the prediction at each evaluation of one network from which on it adds held-out pairs."""

    one_variable: np.ndarray  # (evaluations,): the accuracy on trained sums with one variable
    bound: np.ndarray  # (evaluations,), bool: it is 95 % or more from here to the end
    held_out: np.ndarray  # (evaluations,): one variable, held-out pairs, less the product
    two_variables: np.ndarray  # (evaluations,): two variables less the product
    attending: np.ndarray  # (evaluations,): one variable, trained pairs, less the product with attention
    held_out_guessing: np.ndarray  # (evaluations,): one variable, held-out pairs, less the prediction with guesses


def composition(curves: Curves, attending: np.ndarray, guess: float, guess_held_out: float) -> Composition:
    """The residuals of the product along training.

    `attending` is (evaluations,) as the curves are, NaN if not measured; the guesses are the accuracies without names.
    """
    literals, adding, one, held_out, two = (curves.accuracy[name] for name in NEEDED)
    used = (literals > 0) & (np.maximum.accumulate(adding) >= ADDITION_THRESHOLD)
    literals, adding, one, held_out, two, attending = (
        x[used] for x in (literals, adding, one, held_out, two, attending)
    )
    binding = one / literals
    share = np.clip((binding - guess) / (1 - guess), 0, 1)
    stays = np.flip(np.logical_and.accumulate(np.flip(binds(one))))
    guessing = adding * share + guess_held_out * (1 - share)
    return Composition(
        one_variable=one,
        bound=stays,
        held_out=held_out - adding * binding,
        two_variables=two - literals * binding**2,
        attending=one - literals * attending,
        held_out_guessing=held_out - guessing,
    )
