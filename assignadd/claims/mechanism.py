"""Claims of section 5.2, variable assignment: where the heads attend, and the weights behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from assignadd.claims.evidence import Evidence
from assignadd.claims.record import AtLeast, Claim, Measured
from assignadd.measures import scores
from assignadd.measures.scores import EXCLUDED, Excluded

RATES = {
    "attn_l1_equal_to_operands": "In layer 1 `=` looks at the two operand slots",
    "attn_l1_num_to_prev": "In layer 1 an assigned number looks at the variable before it",
    "attn_l2_equal_to_values": "In layer 2 `=` looks at the two numbers to be added",
}


ALL, TRAINED = 0, 1  # which of the two laws of `Evidence.routing`


def rate(name: str, law: int = ALL) -> Callable[[Evidence], Measured]:
    """An attention pattern's rate over all types of sequences."""

    def measure(evidence: Evidence) -> Measured:
        by_type = [getattr(found[law], name).item() for found in evidence.routing.values()]
        return Measured.share(sum(by_type) * evidence.n, evidence.n * len(by_type), "sequences")

    return measure


def mass(name: str) -> Callable[[Evidence], Measured]:
    """The share of attention where a pattern wants it, in the type of sequence that has the least of it.

    A mean of masses between 0 and 1 varies at most as much as a share of the same size, which gives its interval.
    """
    return lambda e: Measured.share(
        min(getattr(found[ALL], name).item() for found in e.routing.values()) * e.n, e.n, "sequences"
    )


def every_pattern(evidence: Evidence) -> Measured:
    """The lowest rate of the three patterns over the types of sequences."""
    lowest = min(getattr(found[ALL], name).item() for found in evidence.routing.values() for name in RATES)
    return Measured.share(lowest * evidence.n, evidence.n, "sequences")


def block(effect: str) -> Callable[[Evidence], Measured]:
    return lambda e: Measured.exactly(getattr(scores.qk1_blocks(e.stack), effect).item(), 1, "set of weights")


def previous(excluded: Collection[Excluded], first_row: int = 1) -> Callable[[Evidence], Measured]:
    def measure(evidence: Evidence) -> Measured:
        rows = evidence.config.task.prefix - first_row
        return Measured.exactly(
            scores.qk1_num_to_prev_var(evidence.stack, excluded, first_row).item(), rows, "positions"
        )

    return measure


def identity(evidence: Evidence) -> Measured:
    return Measured.exactly(
        scores.qk2_ov1_var_identity(evidence.stack).item(), evidence.config.task.n_vars, "variables"
    )


# Differences of scores as ratios of attention.
TWICE, TEN_TIMES = math.log(2), math.log(10)
TIMES = "Difference of mean scores: ln 2 is twice as much attention, ln 10 ten times."

ROUTING = (
    *(
        Claim(name.replace("_", "-"), "attention", f"{says}, more than anywhere else.", "consistent", rate(name), AtLeast(0.99))
        for name, says in RATES.items()
    ),
    *(
        Claim(
            f"{name.replace('_', '-')}-training-law", "ours", f"{says}, more than anywhere else: the sequences that training could show.",
            "consistent", rate(name, TRAINED), AtLeast(0.99),
        )
        for name, says in RATES.items()
    ),
    Claim(
        "attention-mass", "attention", "In layer 2 `=` attends strongly to the two numbers: most of its attention is theirs.",
        "strongly", mass("mass_l2_equal_to_values"), AtLeast(0.5), comment="The type of sequence with the least of it counts.",
    ),
    Claim(
        "attention-mass-strict", "ours", "The same with nine tenths of its attention.",
        "strongly", mass("mass_l2_equal_to_values"), AtLeast(0.9),
    ),
    Claim(
        "attention-every-sequence", "attention", "The three patterns are the same in all sequences: no exception among those drawn.",
        "all sequences", every_pattern, AtLeast(1.0), comment="The lowest of the three patterns' rates, over 0, 1 and 2 variables.",
    ),
)  # fmt: skip

WEIGHTS = (
    Claim(
        "qk1-equals-operands", "qk0", "QK1 lets `=` prefer the positions of the two operands to all others (black).",
        "prefers 13 and 14", block("equals_prefers_operands"), AtLeast(TWICE),
        comment="Score of the lesser operand slot less that of the best other position; ln 2 is twice the attention.",
    ),
    Claim(
        "qk1-numbers-variables", "qk0", "QK1 lets numbers prefer variables to other tokens (purple).",
        "strong preference", block("numbers_prefer_variables"), AtLeast(TWICE), comment=TIMES,
    ),
    Claim(
        "qk1-numbers-variables-strong", "ours", "The same, ten times as much attention (purple).",
        "strong preference", block("numbers_prefer_variables"), AtLeast(TEN_TIMES), comment=TIMES,
    ),
    Claim(
        "qk1-positions-variables", "qk0", "QK1 lets the positions of the prefix prefer variables to other tokens (orange).",
        "prefer variables", block("positions_prefer_variables"), AtLeast(TWICE), comment=TIMES,
    ),
    Claim(
        "qk1-positions-variables-strong", "ours", "The same, ten times as much attention (orange).",
        "prefer variables", block("positions_prefer_variables"), AtLeast(TEN_TIMES), comment=TIMES,
    ),
    Claim(
        "qk1-positions-increase", "qk0", "Among positions QK1 generally increases towards the right (red).",
        "generally increases", block("positions_increase"), AtLeast(0.75),
        comment="Share of neighbouring causal keys of which the later one scores higher; one half for random weights.",
    ),
    Claim(
        "qk1-previous", "qk0pos_and_qk1", "By position alone the previous one wins in every row, with j = i and j = i - 2 left out.",
        "every row", previous(EXCLUDED), AtLeast(1.0), comment="Two of the eleven rows have one key left and cannot fail.",
    ),
    Claim(
        "qk1-previous-rows-3", "qk0pos_and_qk1", "The same over the rows that can fail, from position 3 on.",
        "every row", previous(EXCLUDED, 3), AtLeast(1.0),
    ),
    Claim(
        "qk1-previous-self", "ours", "The same with only j = i left out: leaving out j = i - 2 is not needed.",
        "every row", previous(EXCLUDED[:1]), AtLeast(1.0),
    ),
    Claim(
        "qk1-previous-none", "ours", "The same with nothing left out: a strict previous-token head.",
        "strict preference", previous(()), AtLeast(1.0), comment="The paper leaves j = i out; without that a position may prefer itself.",
    ),
    Claim(
        "qk2-identity", "qk0pos_and_qk1",
        "A copied variable matches itself best under QK2: (E OV1) QK2 (E OV1)^T is largest on its diagonal.",
        "every variable", identity, AtLeast(1.0),
    ),
)  # fmt: skip
