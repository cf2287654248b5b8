"""The names of `assignadd.ledger`: claims about networks, numbers with intervals, rules and verdicts."""

import numpy as np
import torch

from assignadd import open_run
from assignadd.ledger import (
    IMPLIED,
    NOT_REPORTED,
    OURS,
    Z_95,
    AtLeast,
    AtMost,
    Between,
    Claim,
    Measured,
    Network,
    Reading,
    difference,
    highest,
    judge,
    lowest,
    mean_of,
    networks_of,
    paired_difference,
    per_network,
    wilson,
)
from assignadd.measures import qk2_ov1_var_identity, qk2_ov1_var_margin, sequences
from assignadd.model import answers

networks, notes = networks_of(open_run("census-six"), n=500)


@per_network()
def right_answers(network: Network) -> np.ndarray:
    """Which one-variable sums are answered correctly; kept with the network."""
    batch = sequences([network.config], network.seen[None], n_vars=1, n=network.n)
    return (answers(network.stack, batch.tokens) == batch.labels)[0].numpy()


def accuracy(network: Network) -> Measured:
    right = right_answers(network)
    return Measured.share(right.sum(), len(right), "sequences")


def identity(network: Network) -> Measured:
    """Nothing is sampled, so the interval is the number itself."""
    return Measured.exactly(qk2_ov1_var_identity(network.stack).item(), network.config.task.n_vars, "variables")


claims = (
    Claim("one-variable", OURS, "One-variable sums are answered.", NOT_REPORTED, accuracy, AtLeast(0.9),
          readings=(Reading("all", "All of them are.", AtLeast(1.0)),)),
    Claim("identity", OURS, "A variable matches itself best.", IMPLIED, identity, Between(0.9, 1.0), if_binding=False),
)  # fmt: skip
for claim in claims:
    record = judge(claim, networks, command="docs/reference/ledger.py")
    print(record.id, record.value, record.verdict, [reading.verdict for reading in record.readings])

# Numbers with 95 % intervals, and comparisons of them.
measured = [accuracy(network) for network in networks]
best, worst = highest(measured), lowest(measured)
assert best is not None and worst is not None
print("best minus worst:", difference(best, worst), AtMost(0.1).verdict(difference(best, worst)))
print("on the same sums:", paired_difference(right_answers(networks[0]), right_answers(networks[1]), "sequences"))
margins: torch.Tensor = qk2_ov1_var_margin(networks[0].stack)[0]
print("mean margin:", mean_of(margins, "variables"), "with", Z_95, "standard errors on each side")
print("131 of 160:", wilson(131, 160))
