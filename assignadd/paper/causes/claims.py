"""Claims on causes: what interventions on one network say where the paper shows cosines, probes and patterns.

Activations are exchanged between two prompts, and parts of the circuit are kept and removed (sections 5.1, 5.2 and 7).
Controls of the exchanges are in `assignadd intervene interchange`.
"""

from __future__ import annotations

from functools import partial
from itertools import permutations

from assignadd.ledger.claim import IMPLIED, Claim, Reading
from assignadd.model.architecture import LAST_MLP, require
from assignadd.network import Network
from assignadd.paper.addition.claims import has_two_variables
from assignadd.paper.causes import circuit
from assignadd.paper.causes.interchange import Outcome, interchange_of
from assignadd.stats import AtLeast, AtMost, Measured, highest, lowest, paired_share

PAIRS, SEQUENCES = "pairs of prompts", "sequences"  # what is counted
FAITHFUL = AtLeast(0.9)  # of the network's accuracy, with some parts kept


def interchange_accuracy(network: Network, alignment: str, n_vars: int | None = None) -> Measured | None:
    """The share of pairs of prompts in which an exchanged activation changes the answer as the program says.

    `alignment` is a name in `interchange.EXCHANGES`. With `n_vars`, only pairs whose base is a sum with that many
    variables count; None if there are no such pairs.
    """
    if alignment == "sum":
        require(network.config, "the exchange of the sum", LAST_MLP)
    outcome = interchange_of(network)[alignment]
    return _share(outcome if n_vars is None else outcome.with_variables(n_vars))


def _share(outcome: Outcome) -> Measured | None:
    """The interchange accuracy with its interval; None without pairs."""
    return Measured.share(outcome.count, outcome.n, PAIRS) if outcome.n else None


def across_types(network: Network) -> Measured | None:
    """The lowest interchange accuracy of one operand between sequences of two different types."""
    if not has_two_variables(network):
        return None
    accuracies = []
    for name in ("first value", "second value"):
        outcome = interchange_of(network)[name]
        for base_vars, source_vars in permutations(range(3), 2):  # the types have 0, 1 and 2 variables
            of_types = (outcome.base_vars == base_vars) & (outcome.source_vars == source_vars)
            accuracies.append(_share(outcome.where(of_types)))
    return lowest(accuracies)


def faithfulness(network: Network, row: str, n_vars: int | None = None) -> Measured | None:
    """The accuracy with some parts alone divided by the network's, on all sets or those with `n_vars` variables.

    `row` names the parts that are kept, such as `circuit.SECTION_5`: it is one of `CircuitAlone.names`. None where the
    network answers no sequence correctly.
    """
    alone = circuit.circuit_alone_of(network)
    of_parts, of_network = alone.correct_in(row), alone.correct_in(circuit.WHOLE)  # (sets, sequences) each
    if n_vars is not None:
        chosen_sets = alone.with_variables(n_vars)
        of_parts, of_network = of_parts[chosen_sets], of_network[chosen_sets]
    return paired_share(of_parts.ravel(), of_network.ravel(), SEQUENCES)


def faithfulness_in_words(network: Network, row: str) -> str:
    """The `faithfulness` of the kept parts that `row` names, in words, for each number of variables."""
    ratios = [faithfulness(network, row, n_vars) for n_vars in network.types]
    words = ", ".join("none" if ratio is None else str(ratio) for ratio in ratios)
    return f"sums with {', '.join(map(str, network.types))} variables: {words} of the network's accuracy"


def lowest_accuracy(network: Network, row: str, n_vars: int) -> Measured | None:
    """The lowest accuracy on any set with `n_vars` variables, with only the parts that `row` keeps."""
    alone = circuit.circuit_alone_of(network)
    counts = alone.correct_in(row)[alone.with_variables(n_vars)].sum(1)  # of right answers, for each of these sets
    return Measured.share(int(counts.min()), alone.n, SEQUENCES) if len(counts) else None


def loss_without(network: Network, removed: str) -> Measured | None:
    """The largest loss of accuracy on any set where one part is removed; `removed` is the name of its row."""
    alone = circuit.circuit_alone_of(network)
    by_set = zip(alone.correct_in(circuit.WHOLE), alone.correct_in(removed), strict=True)
    return highest(Measured.paired_difference(whole, without, SEQUENCES) for whole, without in by_set)


MECHANISM = "section 5.2"
SUGGESTED = "suggested by patterns and cosines"  # the `paper` of these claims
# By alignment: the label of the claim, and what follows from the paper's mechanism.
FOLLOWS = {
    "binding tag": (MECHANISM, "Layer 1's output at an assigned number holds the variable it is assigned to: if it is "
                    "exchanged between prompts, other numbers are looked up."),
    "first value": ("section 5.1", "What layer 2 brings from the first value's position is the first operand: if it is "
                    "exchanged, the sum changes with it."),
    "second value": ("section 5.1", "What layer 2 brings from the second value's position is the second operand: if it "
                     "is exchanged, the sum changes with it."),
    "values": ("section 5.1", "Layer 2's output at `=` holds the two operands: if it is exchanged, the sum changes "
               "with it."),
    "sum": ("section 5.1", "MLP2's output holds the sum: if it is exchanged, the answer changes with it."),
}  # fmt: skip
LOOKED_UP = "On sums with two variables, layer 1's output at `=` determines which variables are looked up"


def _interchange_claim(
    alignment: str, label: str, says: str, n_vars: int | None = None, readings: tuple[Reading, ...] = ()
) -> Claim:
    """The claim that an activation holds a variable of the program, for bases with `n_vars` variables (None: any)."""
    id = f"cause-{alignment.lower().replace(' ', '-')}"  # cause-binding-tag for `binding tag`
    measure = partial(interchange_accuracy, alignment=alignment, n_vars=n_vars)
    return Claim(id, label, says, paper=SUGGESTED, measure=measure, rule=AtLeast(0.9), readings=readings)


def _query_claim(alignment: str, says: str) -> Claim:
    """The claim that an activation says which variables are looked up, on sums of two; a reading is on sums of one."""
    measure = partial(interchange_accuracy, alignment=alignment, n_vars=1)
    reading = Reading("one-variable", "On sums with one variable.", AtLeast(0.9), measure)
    return _interchange_claim(alignment, MECHANISM, says, n_vars=2, readings=(reading,))


INTERCHANGE = (
    *(_interchange_claim(alignment, label, says) for alignment, (label, says) in FOLLOWS.items()),
    _query_claim("operand query", f"{LOOKED_UP}."),
    _query_claim("query in QK2", f"{LOOKED_UP}, even if only the scores of layer 2 read the exchanged output."),
    Claim("one-module-exchange", "section 5.1",
          "If one operand is exchanged between literals and variables, the sum changes with it, for all types of "
          "sequences.",
          "shared mechanism", across_types, AtLeast(0.95), "The value is the lowest accuracy over pairs of types."),
)  # fmt: skip

TWO_ROWS = "The token `=` and the last position always occur together, so p_T may stand for both embeddings."
LOWEST_SET = "For readings about some sums, the value is the lowest accuracy of their sets."
ALONE, BLOCK = "Section 5's parts alone", "Section 5's parts, with section 7's block"
INIT, TOGETHER = "implied by section 7 (eq. init_w0)", "combined effects"
BLOCK_7 = "eq:init_w0"


def _faithful_claim(
    id: str, label: str, row: str, subject: str, paper: str, comment: str, readings: tuple[Reading, ...] = ()
) -> Claim:
    """The claim that the kept parts of a row have nearly the network's accuracy; it has a reading on sums of literals.

    `row` is a row of `CircuitAlone`, and `subject` says in words what it keeps.
    """
    says = f"{subject} have at least 90 % of the network's accuracy over all sets."
    literals = Reading("literals", "They add two literals.", FAITHFUL, partial(lowest_accuracy, row=row, n_vars=0))
    return Claim(id, label, says, paper, partial(faithfulness, row=row), FAITHFUL, f"{comment} {LOWEST_SET}",
                 detail=partial(faithfulness_in_words, row=row), readings=(*readings, literals))  # fmt: skip


CIRCUIT_ALONE = (
    _faithful_claim("circuit-section-5", "section 5.2", circuit.SECTION_5, ALONE,
              "section 5 describes the look-up of variables; section 7 adds how literals are found",
              "The parts are four blocks of QK1, OV1 on variables, QK2's identity block, OV2 on numbers in the "
              "network's frequencies, and MLP2.",
              (Reading("two-variables", "They add two variables.", FAITHFUL,
                       partial(lowest_accuracy, row=circuit.SECTION_5, n_vars=2)),)),
    _faithful_claim("circuit-section-7", BLOCK_7, circuit.SECTION_7,
              f"{BLOCK} in QK2 as it is written (p_T attends to p_13, p_14 and every number e_n),", INIT,
              "The embedding of the last position alone is used, without that of the token `=`."),
    _faithful_claim("circuit-section-7-equals", BLOCK_7, circuit.SECTION_7_EQUALS,
              f"{BLOCK} in QK2 read as that of `=` (E_= + p_T attends to p_13, p_14 and every number e_n),", INIT,
              TWO_ROWS),
    Claim("circuit-complete", "section 5.2",
          "Without all of section 5's parts, at most 10 % of the network's accuracy is left.",
          IMPLIED, partial(faithfulness, row=circuit.COMPLEMENT), AtMost(0.1)),
    *(
        Claim(f"circuit-needs-{slug}", label,
              f"Without the block of {words}, some set loses at least {circuit.LOSS:g} of accuracy.",
              paper, partial(loss_without, removed=part), AtLeast(circuit.LOSS),
              "The value is the largest loss of any set.")
        for slug, label, words, part, paper in (
            ("equals-slots", "qk0", "QK1 from `=` to the operand slots (black)", circuit.QK1_EQUALS, TOGETHER),
            ("numbers-variables", "qk0", "QK1 from numbers to variables (purple)", circuit.QK1_NUMBERS, TOGETHER),
            ("positions-variables", "qk0", "QK1 from positions to variables (orange)", circuit.QK1_VARIABLES, TOGETHER),
            ("positions", "qk0", "QK1 from positions to positions (red)", circuit.QK1_POSITIONS, TOGETHER),
            ("identity", "qk0pos_and_qk1", "QK2 that matches copied variables with themselves", circuit.QK2_IDENTITY,
             "enables"),
        )
    ),
)  # fmt: skip

CAUSES = (*INTERCHANGE, *CIRCUIT_ALONE)
