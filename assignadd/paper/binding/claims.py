"""Claims of section 5.2, variable assignment: where the heads attend, and the weights that cause it."""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import partial

from assignadd.ledger.claim import Claim, Reading
from assignadd.measures import scores
from assignadd.measures.columns import require_column
from assignadd.measures.routing import TRAINING_LAW, routing_columns
from assignadd.measures.scores import EXCLUDED, Excluded
from assignadd.network import Network
from assignadd.stats import AtLeast, Measured

PATTERNS = {
    "attn_l1_equal_to_operands": "In layer 1 `=` attends to the two operand slots",
    "attn_l1_num_to_prev": "In layer 1 an assigned number attends to the variable before it",
    "attn_l2_equal_to_values": "In layer 2 `=` attends to the two numbers to be added",
}


def rates_by_type(network: Network, name: str, trained: bool = False) -> list[float]:
    """A rate or an attention mass for each type of sequences, which is their number of variables.

    It is over all sequences of the type or, if `trained`, over those that training could show. Raises `NotDefined`
    where the architecture lacks the measure.
    """
    require_column(network.config, f"{name} (1-var)")  # it stands for the columns of all types
    law = f", {TRAINING_LAW}" if trained else ""
    return [routing_columns(network)[f"{name} ({n_vars}-var{law})"].item() for n_vars in network.types]


def rate(network: Network, pattern: str, trained: bool = False) -> Measured:
    """The share of sequences with an attention pattern, all types together; `trained` as in `rates_by_type`."""
    rates = rates_by_type(network, pattern, trained)
    return Measured.share(sum(rates) * network.n, network.n * len(rates), "sequences")


def lowest_rate(network: Network, names: Collection[str]) -> Measured:
    """The lowest of these rates or attention masses over the types of sequences.

    A mean of masses between 0 and 1 varies at most as much as a share of the same size, which gives its interval.
    """
    lowest = min(min(rates_by_type(network, name)) for name in names)
    return Measured.share(lowest * network.n, network.n, "sequences")


def qk1_effect(network: Network, effect: str) -> Measured:
    """The strength of one effect of QK1 (figure qk0); `effect` is its name in `qk1_blocks`."""
    return Measured.exactly(scores.qk1_blocks(network.stack)[effect].item(), 1, "networks")


def previous_position_wins(network: Network, excluded: Collection[Excluded], first_row: int = 1) -> Measured:
    """The share of positions from `first_row` on whose best key under QK1, by position alone, is the previous position.

    Keys in `excluded`, such as the position itself, are not compared.
    """
    share = scores.qk1_num_to_prev_var(network.stack, excluded, first_row).item()
    return Measured.exactly(share, network.config.task.prefix - first_row, "positions")


def identity(network: Network) -> Measured:
    """The share of variables whose embedding after OV1 has a higher QK2 score with itself than with any other's."""
    return Measured.exactly(scores.qk2_ov1_var_identity(network.stack).item(), network.config.task.n_vars, "variables")


# A difference of attention scores is the logarithm of a ratio of attention weights.
TWICE, TEN_TIMES = math.log(2), math.log(10)
RATIO = "The value is a difference of mean scores: ln 2 is twice as much attention, ln 10 ten times as much."
MASS = partial(lowest_rate, names=["mass_l2_equal_to_values"])

MECHANISM = (
    *(
        Claim(name.replace("_", "-"), "attention", f"{says} more than to any other position.",
              "consistent", partial(rate, pattern=name), AtLeast(0.99),
              readings=(Reading("training-law", "In sequences that training could show.", AtLeast(0.99),
                                partial(rate, pattern=name, trained=True)),))
        for name, says in PATTERNS.items()
    ),
    Claim("attention-mass", "attention",
          "In layer 2 `=` gives more than half of its attention to the two numbers to be added.",
          "strongly", MASS, AtLeast(0.5), "The value is that of the type of sequence with the lowest share.",
          readings=(Reading("strict", "It gives at least 90 % of its attention to them.", AtLeast(0.9)),)),
    Claim("attention-every-sequence", "attention",
          "All three attention patterns are present in at least 99 % of the sequences drawn.",
          "all sequences", partial(lowest_rate, names=PATTERNS), AtLeast(0.99),
          "The value is the lowest rate of the three patterns over sums with 0, 1 and 2 variables.",
          readings=(Reading("strict", "They are present in every sequence (a sample can only refute it).",
                            AtLeast(1.0)),)),
    Claim("qk1-equals-operands", "qk0", "QK1 makes `=` prefer the positions of the two operands to all others (black).",
          "prefers 13 and 14", partial(qk1_effect, effect="equals_prefers_operands"), AtLeast(TWICE),
          "The value is the lower score of the two operand slots minus the best other; ln 2 is twice the attention."),
    *(
        Claim(f"qk1-{id}", "qk0", f"QK1 makes {who} prefer variables to other tokens ({colour}).",
              paper, partial(qk1_effect, effect=effect), AtLeast(TWICE), RATIO,
              readings=(Reading("strong", "With ten times the attention.", AtLeast(TEN_TIMES)),))
        for id, who, colour, paper, effect in (
            ("numbers-variables", "numbers", "purple", "strong preference", "numbers_prefer_variables"),
            ("positions-variables", "the positions of the prefix", "orange", "prefer variables",
             "positions_prefer_variables"),
        )
    ),
    Claim("qk1-positions-increase", "qk0", "Between positions, QK1 generally increases to the right (red).",
          "generally increases", partial(qk1_effect, effect="positions_increase"), AtLeast(0.75),
          "Share of neighbouring causal keys of which the later one scores higher; 0.5 for random weights."),
    Claim("qk1-previous", "qk0pos_and_qk1",
          "By position alone, the previous position has the highest QK1 score in every row, with keys j = i and "
          "j = i - 2 excluded.",
          "every row", partial(previous_position_wins, excluded=EXCLUDED), AtLeast(1.0),
          "Two of the eleven rows have only one key left and cannot fail.",
          readings=(
              Reading("rows-3", "In every row from position 3 on, the rows that can fail.", AtLeast(1.0),
                      partial(previous_position_wins, excluded=EXCLUDED, first_row=3)),
              Reading("self", "With only the key j = i excluded.", AtLeast(1.0),
                      partial(previous_position_wins, excluded=EXCLUDED[:1])),
              Reading("none", "With no key excluded: a position does not prefer itself.", AtLeast(1.0),
                      partial(previous_position_wins, excluded=())),
          )),
    Claim("qk2-identity", "qk0pos_and_qk1",
          "Every copied variable matches itself best under QK2: (E OV1) QK2 (E OV1)^T is largest on its diagonal.",
          "every variable", identity, AtLeast(1.0)),
)  # fmt: skip
