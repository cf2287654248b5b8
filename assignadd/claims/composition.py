"""Claims on sums with variables as a product of adding and binding, along the trajectories of a census.

From the curves of one network: `adding` is the accuracy on literal sums (of held-out pairs), `binding` that on trained
sums with one variable divided by that on trained literal sums. If the two are independent skills,

    one variable, held-out pair   adding x binding
    two variables, trained pair   accuracy on literal sums x binding^2

Binding can also be measured without answers: `attending`, the share of trained sums with one variable in which the top
two keys of `=` in the last layer are the two values. Then

    one variable, trained pair    accuracy on literal sums x attending

Below 95 % binding is not a skill that is there or not: a network without it still guesses (`measures.nameless`).
With g and h the accuracies of these guesses on trained and held-out pairs, `bound` = (binding - g) / (1 - g), and

    one variable, held-out pair   adding x bound + h (1 - bound)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from assignadd.claims.measured import Measured
from assignadd.claims.record import NOT_REPORTED, OURS, Claim
from assignadd.dynamics.binding import BINDING_SET, binds
from assignadd.dynamics.phases import ADDITION_SET, ADDITION_THRESHOLD, Curves
from assignadd.measures.nameless import HELD_OUT, TRAINED, has_rule, nameless_accuracy
from assignadd.measures.progress import TRAINING_LAW
from assignadd.sweeps.population import Populations, SeedCurves
from assignadd.task.evalsets import EVAL_SETS
from assignadd.verdicts import Between

ATTENDING = f"attn_l2_equal_to_values (1-var, {TRAINING_LAW})"
# The sets whose curves are compared, in the order of `composition`.
NEEDED = ("0-var train", ADDITION_SET, BINDING_SET, "1-var add-restricted", "2-var train")


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


def composition_of(seed: SeedCurves) -> Composition | None:
    """The residuals of one seed; None for a task without the sums, or that the rule without names is not about."""
    if not has_rule(seed.task) or not seed.curves.accuracy.keys() >= set(NEEDED):
        return None
    sets = {s.name: s for s in EVAL_SETS}
    attending = seed.columns.get(ATTENDING, np.full(len(seed.curves.steps), np.nan))
    return composition(
        seed.curves, attending, *(nameless_accuracy(seed.task, sets[name]) for name in (TRAINED, HELD_OUT))
    )


def median_residual(field: str, bound: bool, binding: bool = True) -> Callable[[Populations], Measured | None]:
    """The median over seeds of their mean residual while bound, or before, of seeds that bind in the end or never."""

    def measured(populations: Populations) -> Measured | None:
        values = []
        for seed in populations.seeds:
            found = composition_of(seed) if seed.learned_binding == binding else None
            own = np.array([]) if found is None else getattr(found, field)[found.bound == bound]
            if len(own) and np.isfinite(own).all():
                values.append(float(own.mean()))
        return Measured.median(values, "seeds")

    return measured


PHASES = (
    ("bound", "Once a seed binds,", {"bound": True}),
    ("before", "Before a seed binds,", {"bound": False}),
    ("never", "In a seed that never binds,", {"bound": False, "binding": False}),
)
HELD = "the accuracy on sums with one variable and a held-out pair is"
PRODUCTS = (
    ("", "held_out", f"{HELD} that on literal sums times binding."),
    ("-two-variables", "two_variables",
     "the accuracy on sums with two variables is that on literal sums times binding squared."),
    ("-attention", "attending",
     "the accuracy on sums with one variable is that on literal sums times the share in which `=` attends to both "
     "values."),
    ("-guessing", "held_out_guessing", f"{HELD} that of a mixture of binding and of guesses without names."),
)  # fmt: skip
COMPOSITION = tuple(
    Claim(f"composition-{phase}{id}", OURS, f"{when} {says}", NOT_REPORTED, rule=Between(-0.05, 0.05),
          measured=median_residual(field, **of),
          comment="The value is the accuracy less the prediction, the median over seeds.")
    for id, field, says in PRODUCTS for phase, when, of in PHASES
)  # fmt: skip
