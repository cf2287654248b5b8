"""The names of `assignadd.dynamics`: when a skill comes to last, phases, spikes and bursts."""

import numpy as np

from assignadd import open_run
from assignadd.dynamics import (
    ADDITION_SET,
    ADDITION_THRESHOLD,
    BINDING_SET,
    BINDING_SETS,
    BINDING_THRESHOLD,
    THRESHOLD,
    Curves,
    binds,
    bursts,
    curves_of,
    fast_rises,
    find_phases,
    onset,
)
from assignadd.ledger import networks_of

network = networks_of(open_run("small-trajectory"), n=200)[0][0]
curves: Curves = curves_of(network)  # accuracies along training, by evaluation set
phases = find_phases(curves)
print("adds from", phases.addition, "binds from", phases.binding, "first spike", phases.first_spike)
print("binds in the end:", binds(network))

# The same by hand.
for name, level in ((ADDITION_SET, ADDITION_THRESHOLD), (BINDING_SET, BINDING_THRESHOLD)):
    print(name, onset(curves.steps, curves.accuracy[name], curves.n, level))
lowest = np.min([curves.accuracy[name] for name in BINDING_SETS], axis=0)
print("all sets with variables:", onset(curves.steps, lowest, curves.n, THRESHOLD))
print("rises by .1 within 100 steps:", fast_rises(curves.steps, curves.accuracy[BINDING_SET]))

loss = np.array([1.0, 0.5, 0.2, 0.2, 0.9, 0.2])
print("bursts of the loss:", bursts(np.arange(0, 600, 100), loss))
