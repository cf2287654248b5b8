"""Claims on alignment searches (ours): which of their numbers depend on what the network computes.

A search trains the directions, or a non-linear map, that are exchanged between prompts. A map that is free enough
aligns any network with any program (Sutter et al., 2025), so every number has beside it that of the untrained network,
and networks that never learned binding are seeds of the record as all others are.
"""

from __future__ import annotations

from assignadd.alignment.subspaces import SEARCHED
from assignadd.claims.causal import INITIAL, TRAINED
from assignadd.claims.evidence import Evidence
from assignadd.claims.measured import Measured
from assignadd.claims.record import NOT_REPORTED, OURS, Claim, Measure
from assignadd.verdicts import AtLeast, AtMost


def sum_found(network: str, how: str) -> Measure:
    """How often the answer is the source's sum if what the search `how` found is exchanged."""

    def measure(e: Evidence) -> Measured | None:
        outcome = getattr(e.causal.searched[network], how)
        return Measured.share(outcome.count(SEARCHED), outcome.n, "pairs of prompts") if outcome.n else None

    return measure


SUBSPACE = "one half of the directions before MLP2, found by a search,"
MAP = "one half of a non-linear map's coordinates before MLP2"
FITTED, UNSEEN = "on the pairs that the map was fitted to", "on pairs that the map was not fitted to"
PAIRS = "As many pairs are for the search as for the test."
SUTTER = "Sutter et al. (2025): a map that is free enough aligns any network with any program."

ALIGNMENT = (
    Claim("search-sum", OURS, f"If {SUBSPACE} are exchanged, the answer is the other prompt's sum.",
          NOT_REPORTED, sum_found(TRAINED, "subspace"), AtLeast(0.9), PAIRS, of_last_layer=True),
    Claim("search-sum-untrained", OURS, f"Control: in the untrained network, {SUBSPACE} do not hold the sum.",
          NOT_REPORTED, sum_found(INITIAL, "subspace"), AtMost(0.1), PAIRS, of_last_layer=True),
    Claim("search-map", OURS, f"If {MAP} are exchanged, the answer is the other prompt's sum, {UNSEEN}.",
          NOT_REPORTED, sum_found(TRAINED, "unseen"), AtLeast(0.9), PAIRS, of_last_layer=True),
    Claim("search-map-untrained", OURS, f"Control: in the untrained network, {MAP} do not hold the sum, {UNSEEN}.",
          NOT_REPORTED, sum_found(INITIAL, "unseen"), AtMost(0.1), PAIRS, of_last_layer=True),
    Claim("search-map-fitted", OURS, f"If {MAP} are exchanged, the answer is the other prompt's sum, {FITTED}.",
          NOT_REPORTED, sum_found(TRAINED, "fitted"), AtLeast(0.9), SUTTER, of_last_layer=True),
    Claim("search-map-fitted-untrained", OURS,
          f"Control: in the untrained network, {MAP} do not hold the sum, {FITTED}.",
          NOT_REPORTED, sum_found(INITIAL, "fitted"), AtMost(0.1), SUTTER, of_last_layer=True),
)  # fmt: skip
