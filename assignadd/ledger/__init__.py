"""Claims about networks: a number with its interval, a rule, and the verdict."""

from assignadd.ledger.claim import IMPLIED, NOT_REPORTED, OURS, Claim, Reading, judge
from assignadd.network import Network, networks_of, per_network
from assignadd.stats.intervals import Z_95, wilson
from assignadd.stats.measured import Measured, difference, highest, lowest, mean_of, paired_difference
from assignadd.stats.verdicts import AtLeast, AtMost, Between

__all__ = [
    "IMPLIED",
    "NOT_REPORTED",
    "OURS",
    "Z_95",
    "AtLeast",
    "AtMost",
    "Between",
    "Claim",
    "Measured",
    "Network",
    "Reading",
    "difference",
    "highest",
    "judge",
    "lowest",
    "mean_of",
    "networks_of",
    "paired_difference",
    "per_network",
    "wilson",
]
