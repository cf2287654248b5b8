"""The names of `assignadd.interventions`: replace, cut, set and swap parts of a network, and see the effect."""

import torch

from assignadd import load_stack, open_run, parse
from assignadd.interventions import Cut, Pattern, Replace, Swap, apply, read_specification

run = open_run("census-six")
stack = load_stack(run).models(0)  # seed 0, which binds
tokens = torch.tensor([[parse("c=1, b=17, a=42, b+19=?", run.config.task)]])  # (1, B, T)

for change in (
    Cut(layer=1, query="equals", key="first"),
    Pattern(layer=2, query="equals", weights={"first_value": 0.5, "second_value": 0.5}),
    Replace("zero", "blocks.1.hook_mlp_out"),
):
    answers = [apply(stack, tokens, changes).argmax(-1).item() for changes in ([], [change])]
    print(change, "before and after:", answers)

# From JSON, as `assignadd intervene` takes it and the interactive page copies it.
print(read_specification('[{"action": "cut", "layer": 1, "query": "equals", "key": "first"}]'))

# QK2 of seed 1, which never binds, in seed 0; the last argument says whose weights are taken.
stuck = load_stack(run).models(1)
logits = apply(stack, tokens, [Swap("qk2", seed=1)], donors=lambda swap, model: stuck)
print("with QK2 of seed 1:", logits.argmax(-1).item())
