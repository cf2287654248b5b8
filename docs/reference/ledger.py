"""The names of `assignadd.ledger`: claims about networks, numbers with intervals, rules and verdicts."""

import numpy as np

from assignadd import open_run
from assignadd.ledger import (
    AtLeast,
    AtMost,
    Between,
    Claim,
    Measured,
    Network,
    Reading,
    judge,
    networks_of,
    per_network,
)
from assignadd.measures import qk2_ov1_var_identity, sequences
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
    Claim.ours(
        "one-variable",
        "One-variable sums are answered.",
        accuracy,
        AtLeast(0.9),
        readings=(Reading("strict", "Nearly all of them are.", AtLeast(0.99)),),
    ),
    Claim.ours("identity", "A variable matches itself best.", identity, Between(0.9, 1.0), if_binding=False),
)
for claim in claims:
    record = judge(claim, networks, command="docs/reference/ledger.py")
    print(record.id, record.value, record.verdict)

# Numbers with 95 % intervals, and comparisons of them.
best, worst = accuracy(networks[0]), accuracy(networks[1])
print("seed 0 minus seed 1:", best.minus(worst), AtMost(0.1).verdict(best.minus(worst)))
right = [right_answers(network) for network in networks]
print("on the same sums:", Measured.paired_difference(right[0], right[1], "sequences"))
shares = np.array([accuracy(network).value for network in networks])
print("mean of the networks:", Measured.mean(shares.mean(), shares.std(ddof=1), len(shares), "networks"))
