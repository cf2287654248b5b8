"""The names of `assignadd` itself: train, load, evaluate, measure, judge."""

import dataclasses
import tempfile

import torch

import assignadd
from assignadd.model import Stack

smoke: assignadd.Config = assignadd.PRESETS["smoke"]
try:
    dataclasses.replace(smoke, optim=dataclasses.replace(smoke.optim, lr=-1.0))
except ValueError as error:
    print(error)  # the setting, its value, and what is accepted


def embedding(stack: Stack) -> torch.Tensor:  # (M,)
    """Mean square of the embedding."""
    return stack.W_E.square().mean((1, 2))


# A run is a folder; without `out` it is runs/smoke-seeds-0-1. The metrics have the column `embedding` too.
run = assignadd.train(smoke, [0, 1], out=f"{tempfile.mkdtemp()}/run", observe=embedding)
run = assignadd.open_run(run.path)
print(assignadd.metrics(run)["embedding"].mean())  # what training recorded: a row per model and evaluation
print(assignadd.measure(run).height, "rows of measures")
print(assignadd.evaluate(run, n=100)[0]["0-var train"])

model = assignadd.load("census-six", seed=0)  # one model, with hooks
tokens = assignadd.parse("c=1, b=17, a=42, b+19=?", model.config.task)
print(assignadd.render(tokens, model.config.task))
print(model(torch.tensor([tokens]))[0, -1].argmax().item())  # the answer
stack = assignadd.load_stack("census-six")  # all six: weights with a leading axis
print(stack.W_E.shape)

record = assignadd.claims("census-six", n=100, only="qk2-identity")[0]
print(record.claim, record.verdict)
print(assignadd.table("census").shape)

again = assignadd.from_transformer_lens(dict(model.state_dict()), model.config)
try:
    bridge = assignadd.to_transformer_lens(again)
except Exception as error:
    print(error)  # pip install 'assignadd[lens]'
