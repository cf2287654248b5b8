"""Claims on sums with variables as a product of adding and binding, along the trajectories of a census."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assignadd.claims.measured import Measured
from assignadd.claims.record import NOT_REPORTED, OURS, Claim
from assignadd.dynamics.composition import Composition, composition
from assignadd.measures.nameless import HELD_OUT, TRAINED
from assignadd.stats import median_interval
from assignadd.sweeps.population import Populations, SeedCurves
from assignadd.task.chains import has_chains
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.nameless import nameless_accuracy
from assignadd.verdicts import Between


def composition_of(seed: SeedCurves) -> Composition | None:
    """The residuals of one seed; None for a task that the rule without names is not about."""
    if has_chains(seed.task):
        return None
    sets = {s.name: s for s in EVAL_SETS}
    return composition(seed.curves, *(nameless_accuracy(seed.task, sets[name]) for name in (TRAINED, HELD_OUT)))


def median_residual(field: str, bound: bool, binding: bool = True) -> Callable[[Populations], Measured | None]:
    """The median over seeds of their mean residual while bound, or before, of seeds that bind in the end or never."""

    def measured(populations: Populations) -> Measured | None:
        values = []
        for seed in populations.seeds:
            found = composition_of(seed) if seed.learned_binding == binding else None
            if found is not None and (found.bound == bound).any():
                values.append(float(np.mean(getattr(found, field)[found.bound == bound])))
        value, interval = median_interval(values) if values else (0.0, None)
        return Measured(value, interval.low, interval.high, len(values), "seeds") if interval else None

    return measured


HELD = "one variable and a held-out pair"
RESIDUAL = "The value is the accuracy less the product, the median over seeds."
PRODUCT = f"accuracy on sums with {HELD} is that of literal sums times binding"
GUESSES = "The value is the accuracy less the prediction, the median over seeds. It counts guesses without names."
COMPOSITION = (
    Claim("composition-bound", OURS, f"Once a seed binds, its {PRODUCT}.", NOT_REPORTED,
          rule=Between(-0.01, 0.01), measured=median_residual("held_out", bound=True), comment=RESIDUAL),
    Claim("composition-bound-two-variables", OURS,
          "Once a seed binds, its accuracy on sums with two variables is that of literal sums times binding squared.",
          NOT_REPORTED, rule=Between(-0.02, 0.02), measured=median_residual("two_variables", bound=True),
          comment=RESIDUAL),
    Claim("composition-before", OURS, f"Before a seed binds, its {PRODUCT}.", NOT_REPORTED,
          rule=Between(-0.05, 0.05), measured=median_residual("held_out", bound=False), comment=RESIDUAL),
    Claim("composition-never", OURS, f"In a seed that never binds, the {PRODUCT}.", NOT_REPORTED,
          rule=Between(-0.05, 0.05), measured=median_residual("held_out", bound=False, binding=False),
          comment=RESIDUAL),
    Claim("composition-before-guessing", OURS,
          f"Before a seed binds, its accuracy on sums with {HELD} is that of a mixture of binding and guessing.",
          NOT_REPORTED, rule=Between(-0.05, 0.05), measured=median_residual("held_out_guessing", bound=False),
          comment=GUESSES),
    Claim("composition-never-guessing", OURS,
          f"In a seed that never binds, the accuracy on sums with {HELD} is that of a mixture of binding and guessing.",
          NOT_REPORTED, rule=Between(-0.05, 0.05),
          measured=median_residual("held_out_guessing", bound=False, binding=False), comment=GUESSES),
)  # fmt: skip
