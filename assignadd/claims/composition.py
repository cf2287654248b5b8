"""Claims on sums with variables as a product of adding and binding, along the trajectories of a census."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assignadd.claims.measured import Measured
from assignadd.claims.record import NOT_REPORTED, OURS, Claim
from assignadd.dynamics.composition import NEEDED, Composition, composition
from assignadd.measures.nameless import HELD_OUT, TRAINED
from assignadd.measures.progress import TRAINING_LAW
from assignadd.sweeps.population import Populations, SeedCurves
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.nameless import has_rule, nameless_accuracy
from assignadd.verdicts import Between

ATTENDING = f"attn_l2_equal_to_values (1-var, {TRAINING_LAW})"


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
