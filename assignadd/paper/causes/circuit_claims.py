"""Claims on circuits: what the parts that the paper names do alone, and which paths the answer needs.

Sections 5 and 7 of the paper name the parts. Circuits of paths are judged by CPR and CMD, as the MIB benchmark defines
them (see `interventions.paths`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assignadd.ledger.claim import IMPLIED, Claim, Measure, Reading
from assignadd.network import Network
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

UNIT = "sequences"
FAITHFUL = AtLeast(0.9)


def faithfulness(name: str) -> Measure:
    """Accuracy over all sets with only these parts kept, divided by the network's own."""

    def measure(e: Network) -> Measured | None:
        kept, whole = (circuit_alone_of(e).answers("together", row).ravel() for row in (name, WHOLE))
        return paired_share(kept, whole, UNIT)

    return measure


def by_variables(name: str) -> Callable[[Network], str]:
    """That ratio for sums with 0, 1 and 2 variables, in words."""

    def detail(e: Network) -> str:
        found = circuit_alone_of(e)
        kept, whole = (found.answers("together", row) for row in (name, WHOLE))
        sets = [found.with_variables(k) for k in e.types]
        shares = [paired_share(kept[own].ravel(), whole[own].ravel(), UNIT) for own in sets]
        said = ["none" if s is None else str(s) for s in shares]
        return f"sums with {', '.join(map(str, e.types))} variables: {', '.join(said)} of the network's accuracy"

    return detail


def lowest_set(name: str, n_vars: int) -> Measure:
    """The lowest accuracy, with only these parts kept, of the sets with this number of variables."""

    def measure(e: Network) -> Measured | None:
        found = circuit_alone_of(e)
        counts = found.answers("together", name)[found.with_variables(n_vars)].sum(1)
        return Measured.share(int(counts.min()), found.n, UNIT) if len(counts) else None

    return measure


def loss_without(name: str) -> Measure:
    """The largest loss of accuracy of any set without a part."""

    def measure(e: Network) -> Measured:
        found = circuit_alone_of(e)
        worst = found.worst_set("removed alone", name)
        whole, without = (found.answers(*row)[worst] for row in (("together", WHOLE), ("removed alone", name)))
        return paired_difference(whole, without, UNIT)

    return measure


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


def outside_paper_paths(e: Network) -> Measured | None:
    """The largest effect of a path that the paper does not describe, on the accuracy of sums with one variable."""
    found = path_answers(e)[1]
    others = [correct for path, correct in found.patched.items() if path not in PAPER_PATHS]
    return highest(paired_difference(found.whole.numpy(), c.numpy(), UNIT) for c in others)


def largest_outside(e: Network) -> str:
    """The path with the largest effect that the paper does not describe, in words."""
    effects = {path: effect for path, effect in path_effects(e)[1].items() if path not in PAPER_PATHS}
    path = max(effects, key=lambda p: effects[p])
    receiver = f"{path.receiver} at {path.at}" if path.receiver == LAYER_1 else path.receiver
    return f"the largest effect is that of {path.sender} at {path.role} on {receiver}, {effects[path]:.3f}"


def only_paper_paths(e: Network) -> Measured | None:
    """Accuracy on sums with one variable with all other paths replaced at once, divided by the network's own."""
    found = path_answers(e)[1]
    return paired_share(found.paper_only.numpy(), found.whole.numpy(), UNIT)


def direct_share(e: Network) -> Measured | None:
    """The share of the correct answer's logit that MLP2 itself adds, in the type of sequence with the lowest share."""
    by_type = [{name: x.double().numpy() for name, x in parts.items()} for parts in direct_parts(e).values()]
    return lowest(ratio_of_means(parts[MLP2], np.sum(list(parts.values()), 0), UNIT) for parts in by_type)


def performance_ratio(ranking: str) -> Measure:
    """CPR of a ranking; None if all paths together add nothing to the margin, and nothing can be divided by it."""

    def measure(e: Network) -> Measured | None:
        curve = path_circuits(e)[ranking]
        return ratio_of_means(curve.performance, curve.gain, UNIT) if _matters(curve.gain) else None

    return measure


def model_distance(e: Network) -> Measured | None:
    """CMD of the ranking by absolute effect; None as in `performance_ratio`."""
    curve = path_circuits(e)[BY_SIZE]
    return ratio_of_means(curve.distance, curve.gain, UNIT) if _matters(curve.gain) else None


def _matters(gain: np.ndarray) -> bool:
    """Whether the mean is above zero by more than its 95 % interval."""
    return bool(gain.mean() > Z_95 * gain.std() / np.sqrt(len(gain)))


def curve_in_words(e: Network) -> str:
    """The faithfulness of the circuits of a twentieth, a tenth, a fifth and a half of the paths."""
    curve, shown = path_circuits(e)[BY_EFFECT], (0.05, 0.1, 0.2, 0.5)
    by_size = dict(zip(PROPORTIONS, curve.faithfulness, strict=True))
    said = ", ".join(f"{by_size[k]:.2f} with {100 * k:g} %" for k in shown)
    return f"of {len(path_answers(e)[1].patched)} paths, the faithfulness is {said}"


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
