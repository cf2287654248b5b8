"""Claims on causes: what interventions on one network say where the paper shows cosines, probes and patterns.

Activations are exchanged between two prompts, parts of the circuit are kept and removed, paths are replaced by their
mean, and MLP2 is trained again (sections 5.1, 5.2 and 7). Circuits of paths are judged by CPR and CMD, as the MIB
benchmark defines them (see `paths`). Controls of the exchanges are in `assignadd intervene interchange`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

import numpy as np

from assignadd.dynamics.curves import Onset
from assignadd.dynamics.trajectory import binds
from assignadd.ledger.claim import IMPLIED, Claim, Measure, Reading, uses
from assignadd.model.architecture import LAST_MLP, PAPER_NEEDS, require
from assignadd.network import Network
from assignadd.paper.addition.claims import needs_two_variables
from assignadd.paper.causes.circuit import (
    COMPLEMENT,
    EQUALS_BOTH,
    EQUALS_SLOTS,
    LOSS,
    POSITION_NUMBERS,
    POSITION_SLOTS,
    SECTION_5,
    SECTION_7,
    SECTION_7_STEP,
    WHOLE,
    circuit_alone_of,
)
from assignadd.paper.causes.interchange import (
    EXCHANGED,
    QUERY_AND_TAG,
    Outcome,
    cause_onsets,
    causes_over_time,
    interchange_of,
)
from assignadd.paper.causes.one_addition import frequency_agreement, grafted_accuracy
from assignadd.paper.causes.paths import (
    BY_EFFECT,
    BY_SIZE,
    LAYER_1,
    MLP2,
    PAPER_PATHS,
    PROPORTIONS,
    direct_parts,
    path_answers,
    path_circuits,
    path_effects,
)
from assignadd.stats import (
    Z_95,
    AtLeast,
    AtMost,
    Measured,
    highest,
    lowest,
    paired_difference,
    paired_share,
    ratio_of_means,
)

PAIRS, SEQUENCES = "pairs of prompts", "sequences"  # what is counted
# Where the kept parts have as good as all of the network's accuracy.
FAITHFUL = AtLeast(0.9)


def _share(outcome: Outcome) -> Measured | None:
    return Measured.share(outcome.count(), outcome.n, PAIRS) if outcome.n else None


def _outcome(network: Network, name: str, variant: str = "whole") -> Outcome:
    """The outcome of an alignment; raises `NotDefined` where the architecture does not have it or this variant."""
    if name == "sum":
        require(network.config, "the exchange of the sum", LAST_MLP)
    if variant in ("named", "random"):
        require(network.config, "the directions that the paper names", *PAPER_NEEDS)
    return interchange_of(network)[name]


def interchange_accuracy(name: str, n_vars: int | None = None) -> Measure:
    """The interchange accuracy of an alignment, over all pairs or over sums with this number of variables."""

    def measure(network: Network) -> Measured | None:
        outcome = _outcome(network, name)
        return _share(outcome if n_vars is None else outcome.with_variables(n_vars))

    return measure


def literal_second(name: str) -> Measure:
    """The interchange accuracy on sums of a variable in the first slot and a literal in the second."""

    def measure(network: Network) -> Measured | None:
        one_variable = _outcome(network, name).with_variables(1)
        return _share(one_variable.where(one_variable.first_is_variable))

    return measure


def loss_by_named(network: Network) -> Measured | None:
    """The largest loss of an alignment if only the directions that the paper names are exchanged, with its interval."""
    outcomes = [_outcome(network, name, "named") for name in EXCHANGED]
    hits = [outcome.hits for outcome in outcomes if outcome.n]
    return highest(paired_difference(x["whole"].numpy(), x["named"].numpy(), PAIRS) for x in hits)


def delay(earlier: str, later: str) -> Measure:
    """Steps from the onset of one cause to that of another, each above one half for 1,000 steps; None without both."""

    @uses(lambda network: causes_over_time(network)["step"].tolist())
    def measure(network: Network) -> Measured | None:
        require(network.config, "the exchange of the sum", LAST_MLP)
        if not binds(network) or len(network.steps) < 2:
            return None
        first = cause_onsets(network)[earlier]
        second = cause_onsets(network)[later]
        return None if first is None or second is None else _between(first, second, causes_over_time(network)["step"])

    return measure


def _between(first: Onset, second: Onset, steps: np.ndarray) -> Measured:
    """Steps between two onsets; the interval covers the spacing of checkpoints and the noise of both (see `Onset`)."""
    earliest = [min(o.low + 1, o.step) for o in (first, second)]
    latest = [int(steps[-1]) if o.high is None else o.high for o in (first, second)]
    low, high = earliest[1] - latest[0], latest[1] - earliest[0]
    return Measured(second.step - first.step, low, high, len(steps), "checkpoints")


@needs_two_variables
def across_types(network: Network) -> Measured | None:
    """The lowest interchange accuracy of one operand between sequences of two different types, with its interval."""
    shares = []
    for name in ("first value", "second value"):
        outcome = interchange_of(network)[name]
        for base_vars, source_vars in permutations(range(3), 2):
            chosen = (outcome.base_vars == base_vars) & (outcome.source_vars == source_vars)
            shares.append(_share(outcome.where(chosen)))
    return lowest(shares)


def faithfulness(name: str) -> Measure:
    """Accuracy over all sets with only these parts kept, divided by the network's own."""

    def measure(network: Network) -> Measured | None:
        circuit = circuit_alone_of(network)
        kept = circuit.answers("together", name)
        whole = circuit.answers("together", WHOLE)
        return paired_share(kept.ravel(), whole.ravel(), SEQUENCES)

    return measure


def by_variables(name: str) -> Callable[[Network], str]:
    """That ratio for sums with 0, 1 and 2 variables, in words."""

    def detail(network: Network) -> str:
        circuit = circuit_alone_of(network)
        kept = circuit.answers("together", name)
        whole = circuit.answers("together", WHOLE)
        sets = [circuit.with_variables(k) for k in network.types]
        shares = [paired_share(kept[of_type].ravel(), whole[of_type].ravel(), SEQUENCES) for of_type in sets]
        words = ", ".join("none" if share is None else str(share) for share in shares)
        return f"sums with {', '.join(map(str, network.types))} variables: {words} of the network's accuracy"

    return detail


def lowest_set(name: str, n_vars: int) -> Measure:
    """The lowest accuracy, with only these parts kept, of the sets with this number of variables."""

    def measure(network: Network) -> Measured | None:
        circuit = circuit_alone_of(network)
        counts = circuit.answers("together", name)[circuit.with_variables(n_vars)].sum(1)
        return Measured.share(int(counts.min()), circuit.n, SEQUENCES) if len(counts) else None

    return measure


def loss_without(name: str) -> Measure:
    """The largest loss of accuracy of any set without a part."""

    def measure(network: Network) -> Measured:
        circuit = circuit_alone_of(network)
        worst = circuit.worst_set("removed alone", name)
        whole = circuit.answers("together", WHOLE)
        without = circuit.answers("removed alone", name)
        return paired_difference(whole[worst], without[worst], SEQUENCES)

    return measure


def outside_paper_paths(network: Network) -> Measured | None:
    """The largest effect of a path that the paper does not describe, on the accuracy of sums with one variable."""
    answers = path_answers(network)[1]
    outside = [correct for path, correct in answers.patched.items() if path not in PAPER_PATHS]
    return highest(paired_difference(answers.whole.numpy(), correct.numpy(), SEQUENCES) for correct in outside)


def largest_outside(network: Network) -> str:
    """The path with the largest effect that the paper does not describe, in words."""
    effects = {path: effect for path, effect in path_effects(network)[1].items() if path not in PAPER_PATHS}
    path = max(effects, key=lambda p: effects[p])
    receiver = f"{path.receiver} at {path.at}" if path.receiver == LAYER_1 else path.receiver
    return f"the largest effect is that of {path.sender} at {path.role} on {receiver}, {effects[path]:.3f}"


def only_paper_paths(network: Network) -> Measured | None:
    """Accuracy on sums with one variable with all other paths replaced at once, divided by the network's own."""
    answers = path_answers(network)[1]
    return paired_share(answers.paper_only.numpy(), answers.whole.numpy(), SEQUENCES)


def direct_share(network: Network) -> Measured | None:
    """The share of the correct answer's logit that MLP2 itself adds, in the type of sequence with the lowest share."""
    by_type = [{name: x.double().numpy() for name, x in parts.items()} for parts in direct_parts(network).values()]
    return lowest(ratio_of_means(parts[MLP2], np.sum(list(parts.values()), 0), SEQUENCES) for parts in by_type)


def performance_ratio(ranking: str) -> Measure:
    """CPR of a ranking; None if all paths together add nothing to the margin, and nothing can be divided by it."""

    def measure(network: Network) -> Measured | None:
        curve = path_circuits(network)[ranking]
        return ratio_of_means(curve.performance, curve.gain, SEQUENCES) if _matters(curve.gain) else None

    return measure


def model_distance(network: Network) -> Measured | None:
    """CMD of the ranking by absolute effect; None as in `performance_ratio`."""
    curve = path_circuits(network)[BY_SIZE]
    return ratio_of_means(curve.distance, curve.gain, SEQUENCES) if _matters(curve.gain) else None


def _matters(gain: np.ndarray) -> bool:
    """Whether the mean is above zero by more than its 95 % interval."""
    return bool(gain.mean() > Z_95 * gain.std() / np.sqrt(len(gain)))


def curve_in_words(network: Network) -> str:
    """The faithfulness of the circuits of a twentieth, a tenth, a fifth and a half of the paths."""
    curve, shown = path_circuits(network)[BY_EFFECT], (0.05, 0.1, 0.2, 0.5)
    by_size = dict(zip(PROPORTIONS, curve.faithfulness, strict=True))
    words = ", ".join(f"{by_size[k]:.2f} with {100 * k:g} %" for k in shown)
    return f"of {len(path_answers(network)[1].patched)} paths, the faithfulness is {words}"


MECHANISM = "section 5.2"
SUGGESTED = "suggested by patterns and cosines"
# The label, what is exchanged, and what follows from the paper's mechanism.
PLACES = {
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
TAG = "Layer 1 copies the variable before it into the literal's slot, as if the literal were assigned to it."


def _id(alignment: str) -> str:
    return f"cause-{alignment.lower().replace(' ', '-')}"


def _query_claim(name: str, says: str, comment: str = "", readings: tuple[Reading, ...] = ()) -> Claim:
    one_variable = Reading("one-variable", "On sums with one variable.", AtLeast(0.9), interchange_accuracy(name, 1))
    return Claim(_id(name), MECHANISM, says, SUGGESTED, interchange_accuracy(name, 2), AtLeast(0.9),
                 comment, readings=(one_variable, *readings))  # fmt: skip


INTERCHANGE = (
    *(
        Claim(_id(name), label, says, SUGGESTED, interchange_accuracy(name), AtLeast(0.9))
        for name, (label, says) in PLACES.items()
    ),
    _query_claim("operand query", f"{LOOKED_UP}.", TAG, (
        Reading("literal-second", "On sums of a variable and then a literal.", AtLeast(0.9),
                literal_second("operand query")),
        Reading("and-tag", "On these sums, exchanging also layer 1's output at the literal's slot.", AtLeast(0.9),
                literal_second(QUERY_AND_TAG)),
    )),
    _query_claim("query in QK2", f"{LOOKED_UP}, even if only the scores of layer 2 read the exchanged output."),
    Claim("cause-named-directions", MECHANISM,
          "Exchanging only the directions that the paper names costs no alignment more than 0.05 of its accuracy.",
          "OV1(e_v), OV2(a) + OV2(b)", loss_by_named, AtMost(0.05),
          "The value is that of the alignment that loses most."),
)  # fmt: skip

TWO_ROWS = "The token `=` and the last position always occur together, so p_T may stand for both embeddings."
LOWEST_SET = "For readings about some sums, the value is the lowest accuracy of their sets."
ALONE, BLOCK = "Section 5's parts alone", "Section 5's parts, with section 7's block"
INIT, TOGETHER = "implied by section 7 (eq. init_w0)", "combined effects"
READ_AS_EQUALS = "read as that of `=`"

LITERALS = "They add two literals."
BLOCK_7 = "eq:init_w0"


def _faithful(
    id: str, label: str, row: str, subject: str, paper: str, comment: str, readings: tuple[Reading, ...] = ()
) -> Claim:
    says = f"{subject} have at least 90 % of the network's accuracy over all sets."
    return Claim(id, label, says, paper, faithfulness(row), FAITHFUL, comment, detail=by_variables(row),
                 readings=readings)  # fmt: skip


CIRCUIT_ALONE = (
    _faithful("circuit-section-5", "section 5.2", SECTION_5, ALONE,
              "section 5 describes the look-up of variables; section 7 adds how literals are found",
              "The parts are four blocks of QK1, OV1 on variables, QK2's identity block, OV2 on numbers in the "
              f"network's frequencies, and MLP2. {LOWEST_SET}",
              (Reading("two-variables", "They add two variables.", FAITHFUL, lowest_set(SECTION_5, 2)),
               Reading("literals", LITERALS, FAITHFUL, lowest_set(SECTION_5, 0)))),
    _faithful("circuit-section-7", BLOCK_7, SECTION_7,
              f"{BLOCK} in QK2 as it is written (p_T attends to p_13, p_14 and every number e_n),", INIT,
              f"The embedding of the last position alone is used, without that of the token `=`. {LOWEST_SET}",
              (Reading("literals", LITERALS, FAITHFUL, lowest_set(SECTION_7, 0)),
               Reading("slots", "With p_T attending to p_13 and p_14 alone.", FAITHFUL, faithfulness(POSITION_SLOTS)),
               Reading("numbers", "With p_T attending to every number e_n alone.", FAITHFUL,
                       faithfulness(POSITION_NUMBERS)))),
    _faithful("circuit-section-7-equals", BLOCK_7, EQUALS_BOTH,
              f"{BLOCK} in QK2 {READ_AS_EQUALS} (E_= + p_T attends to p_13, p_14 and every number e_n),", INIT,
              f"{TWO_ROWS} {LOWEST_SET}",
              (Reading("literals", LITERALS, FAITHFUL, lowest_set(EQUALS_BOTH, 0)),
               Reading("slots", "With E_= + p_T attending to p_13 and p_14 alone.", FAITHFUL,
                       faithfulness(EQUALS_SLOTS)))),
    _faithful("circuit-section-7-step", "thm:c1", SECTION_7_STEP,
              f"{BLOCK} in QK2 after the theorem's step (p_T attends also to copied variables OV1(e_v)),",
              "implied by section 7 (informal theorem)", ""),
    Claim("circuit-complete", "section 5.2",
          "Without all of section 5's parts, at most 10 % of the network's accuracy is left.",
          IMPLIED, faithfulness(COMPLEMENT), AtMost(0.1)),
    *(
        Claim(f"circuit-needs-{slug}", label,
              f"Without the block of {words}, some set loses at least {LOSS:g} of accuracy.",
              paper, loss_without(part), AtLeast(LOSS), "The value is the largest loss of any set.")
        for slug, label, words, part, paper in (
            ("equals-slots", "qk0", "QK1 from `=` to the operand slots (black)", "QK1: = to slots", TOGETHER),
            ("numbers-variables", "qk0", "QK1 from numbers to variables (purple)", "QK1: numbers to variables",
             TOGETHER),
            ("positions-variables", "qk0", "QK1 from positions to variables (orange)", "QK1: positions to variables",
             TOGETHER),
            ("positions", "qk0", "QK1 from positions to positions (red)", "QK1: positions to positions", TOGETHER),
            ("identity", "qk0pos_and_qk1", "QK2 that matches copied variables with themselves", "QK2: identity block",
             "enables"),
        )
    ),
)  # fmt: skip


ONE_VARIABLE = "On sums with one variable"
MIB = (
    "As the MIB benchmark defines it (Mueller et al., 2025): paths are ranked by the margin lost when each is "
    "replaced alone on one half of the sequences, and judged on the other half"
)

PATHS = (
    Claim("paths-story", "section 5.2",
          f"{ONE_VARIABLE}, no path that the paper does not describe changes the accuracy by more than 0.1.",
          IMPLIED, outside_paper_paths, AtMost(0.1),
          "Each path is replaced by its mean over tokens of the same role.", detail=largest_outside,
          readings=(Reading("all-others", "If all other paths are replaced at once, at least 90 % of the network's "
                            "accuracy is left (with the network's own attention in layer 1).", AtLeast(0.9),
                            only_paper_paths),)),
    Claim("paths-few", "section 5.2",
          f"{ONE_VARIABLE}, few paths do the work: the circuits of those with the largest effects have a CPR of at "
          "least 0.8.",
          IMPLIED, performance_ratio(BY_EFFECT), AtLeast(0.8),
          f"{MIB}. A ranking has at least this CPR if its first fifth of the paths does all of the work.",
          detail=curve_in_words,
          readings=(Reading("cmd", "Ranked by absolute effects, they have a CMD of at most 0.2.", AtMost(0.2),
                            model_distance),)),
    Claim("paths-direct", "section 5.1", "MLP2 writes at least 95 % of the correct answer's logit directly.",
          IMPLIED, direct_share, AtLeast(0.95), "The value is that of the type of sequence with the lowest share."),
)  # fmt: skip

SHARED = "shared mechanism"
ONE_MODULE = (
    Claim("one-module-exchange", "section 5.1",
          "If one operand is exchanged between literals and variables, the sum changes with it, for all types of "
          "sequences.",
          SHARED, across_types, AtLeast(0.95), "The value is the lowest accuracy over pairs of types."),
    Claim("one-module-frequencies", "section 5.1",
          "Removing a frequency has the same effect on sums with 0, 1 and 2 variables.",
          SHARED, frequency_agreement, AtLeast(0.9),
          "The value is the correlation, over frequencies, of the loss in the correct answer's margin: the lowest of "
          "three."),
    Claim("one-module-graft", "section 5.1",
          "An MLP2 trained again on literals only also works for sums with variables.",
          SHARED, grafted_accuracy, AtLeast(0.95),
          "The value is the lowest set without banned slots; all other weights are unchanged."),
)  # fmt: skip

ORDER = (
    Claim("cause-sum-before-binding", "section 1",
          "In training, exchanging the sum has an effect before exchanging the binding has one (steps between).",
          "addition first", delay("sum", "binding tag"), AtLeast(1)),
)  # fmt: skip

CAUSES = tuple(
    replace(claim, of_last_layer=True) for claim in (*INTERCHANGE, *CIRCUIT_ALONE, *PATHS, *ONE_MODULE, *ORDER)
)
