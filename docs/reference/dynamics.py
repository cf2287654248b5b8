"""The names of `assignadd.dynamics`: phases and spikes of training, and whether a network binds in the end."""

import polars

from assignadd import metrics, open_run
from assignadd.dynamics import ADDITION, BINDING, Curves, binds
from assignadd.ledger import networks_of

run = open_run("small-trajectory")
table = metrics(run).filter(polars.col("seed") == run.members[0].seed)  # a row per evaluation
curves = Curves.of_columns({name: table[name].to_numpy() for name in table.columns}, n=run.config.record.eval_sequences)
phases = curves.phases
print("adds from", phases.addition, "binds from", phases.binding, "first spike", phases.first_spike)
for skill in (ADDITION, BINDING):
    print(f"at least {skill.threshold:g} on {skill.set!r}; in the end {curves.accuracy[skill.set][-1]:.3f}")
print("binds in the end:", curves.binds, binds(networks_of(run, n=200)[0][0]))
