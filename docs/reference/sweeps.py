"""The names of `assignadd.sweeps`: read populations of seeds, and examine networks as those of a study are."""

import dataclasses

from assignadd import load_stack, open_run
from assignadd.model import Stack
from assignadd.sweeps import Populations, SeedCurves, final_exam, shipped_population

# The census: 128 seeds that come with the package, each with its curves and its final exam.
census = shipped_population("census")
seed: SeedCurves = census.seeds[0]
print(seed.seed, seed.binds, seed.phases.binding, seed.final("1-var train"))

# What a claim about many seeds is asked of.
both = Populations((census, shipped_population("authors")))
print(sum(seed.binds for seed in both.seeds), "of", len(both.seeds), "seeds bind")

# The exam that every network of a sweep takes at the end, here on 200 sequences of each set.
run = open_run("census-six")
few = dataclasses.replace(run.config, record=dataclasses.replace(run.config.record, final_sequences=200))
stack = Stack(few, load_stack(run).flat[:1])
print(final_exam(stack, run.configs[:1], run.seen[:1])[0]["1-var train (final)"])
