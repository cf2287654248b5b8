"""The names of `assignadd.measures`: numbers of every network of a stack, and the sequences to count them on."""

from assignadd import load_stack, open_run
from assignadd.ledger import networks_of
from assignadd.measures import (
    ProgressObserver,
    accuracies_of,
    every_pair,
    ov2_mlp2_accuracy,
    qk2_ov1_var_identity,
    sequences,
)
from assignadd.model import LastLayer, answers
from assignadd.task import roles

run = open_run("census-six")
stack = load_stack(run)  # seeds 0, 3 and 4 bind, 1, 2 and 15 do not

# Read off the weights, one number per model.
print("a variable finds itself:", qk2_ov1_var_identity(stack))
print("OV2 and MLP2 add:", ov2_mlp2_accuracy(stack))

# Counted on sequences: as in training, or with every pair of numbers once.
batch = sequences(run.configs, run.seen, n_vars=1, n=200)
of_first = batch.tokens[0]  # (B, T)
attention = LastLayer(stack.models(0)).trace(of_first).attention(2)[:, 0, 0]  # (B, T), from `=` in layer 2
value_positions = roles(run.config.task, of_first).value_positions  # (B, 2)
print("attention to both values:", attention.gather(-1, value_positions).sum(-1).mean())
pairs = every_pair(run.configs[:1], run.seen[:1], n_vars=0)
print("of all pairs:", (answers(stack.models(0), pairs.tokens) == pairs.labels).float().mean())

network = networks_of(run, n=200)[0][0]  # one network, which keeps what was measured
print(accuracies_of(network)["1-var train"])
columns = ProgressObserver(run.configs[:1], run.seen[:1])(stack.models(0), step=0)[0]
print(len(columns), "columns of `assignadd measure curves`")
