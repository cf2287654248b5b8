"""Claims about networks: a number with its interval, a rule, and the verdict."""

from assignadd.ledger.claim import Claim, Reading, judge
from assignadd.network import Network, networks_of, per_network
from assignadd.stats import AtLeast, AtMost, Between, Measured

__all__ = [
    "AtLeast",
    "AtMost",
    "Between",
    "Claim",
    "Measured",
    "Network",
    "Reading",
    "judge",
    "networks_of",
    "per_network",
]
