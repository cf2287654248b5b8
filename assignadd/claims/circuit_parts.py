"""Claims on the circuit alone: what the parts that the paper names do without the rest of the network (sections 5 and 7)."""

from __future__ import annotations

from collections.abc import Callable

from assignadd.claims.evidence import Evidence
from assignadd.claims.paired import paired_difference, paired_share
from assignadd.claims.record import AtLeast, AtMost, Claim, Measured
from assignadd.interventions.circuit import (
    COMPLEMENT,
    COPIED_ALL,
    COPIED_SLOTS,
    EQUALS_BOTH,
    EQUALS_SLOTS,
    LOSS,
    POSITION_NUMBERS,
    POSITION_SLOTS,
    SECTION_5,
    SECTION_7,
    SECTION_7_STEP,
    WHOLE,
)

Measure = Callable[[Evidence], Measured | None]
OURS, NOT_REPORTED = "ours", "not reported"
FAITHFUL = AtLeast(0.9)


def faithfulness(name: str) -> Measure:
    """Accuracy over all sets with parts kept, divided by the network's own."""

    def measure(e: Evidence) -> Measured | None:
        found = e.causal.circuit_alone
        return paired_share(
            found.answers("together", name).ravel(), found.answers("together", WHOLE).ravel(), "sequences"
        )

    return measure


def by_variables(name: str) -> Callable[[Evidence], str]:
    """The same for sums with 0, 1 and 2 variables, in words."""

    def detail(e: Evidence) -> str:
        found = e.causal.circuit_alone
        kept, whole = (found.answers("together", row) for row in (name, WHOLE))
        sets = [found.with_variables(k) for k in e.types]
        shares = [paired_share(kept[own].ravel(), whole[own].ravel(), "sequences") for own in sets]
        said = ["none" if s is None else f"{s.value:.3f} [{s.low:.3f}, {s.high:.3f}]" for s in shares]
        return f"sums with {', '.join(map(str, e.types))} variables: {', '.join(said)} of the network's accuracy"

    return detail


def lowest_set(name: str, n_vars: int) -> Measure:
    """The lowest accuracy of the sets with so many variables."""

    def measure(e: Evidence) -> Measured | None:
        found = e.causal.circuit_alone
        counts = found.answers("together", name)[found.with_variables(n_vars)].sum(1)
        return Measured.share(int(counts.min()), found.n, "sequences") if len(counts) else None

    return measure


def loss_without(name: str) -> Measure:
    """The most that any set loses without a part."""

    def measure(e: Evidence) -> Measured:
        found = e.causal.circuit_alone
        worst = found.worst_set("removed alone", name)
        whole, without = (found.answers(*row)[worst] for row in (("together", WHOLE), ("removed alone", name)))
        return paired_difference(whole, without, "sequences")

    return measure


def _faithful(id: str, row: str, claim: str, paper: str, comment: str = "") -> Claim:
    return Claim(id, OURS, claim, paper, faithfulness(row), FAITHFUL, comment=comment, detail=by_variables(row))


TWO_ROWS = "The token `=` and the last position always occur together, so p_T may stand for both embeddings."

SECTION_5_ALONE = (
    _faithful(
        "circuit-faithful", SECTION_5, "Section 5's parts alone have 90 % of the network's accuracy over all sets.",
        "section 5 describes the look-up of variables; section 7 adds how literals are found",
        "QK1 in four blocks, OV1 on variables, QK2 on the identity block, OV2 on numbers in the network's frequencies, MLP2 alone.",
    ),
    Claim(
        "circuit-two-variables", OURS, "Section 5's parts alone add two variables (the lowest set).",
        "implied by section 5", lowest_set(SECTION_5, 2), FAITHFUL,
    ),
    Claim(
        "circuit-literals", OURS, "Section 5's parts alone add two literals (the lowest set).",
        "not claimed: section 7 has a block for literals", lowest_set(SECTION_5, 0), FAITHFUL,
    ),
)  # fmt: skip

SECTION_7_ADDED = (
    _faithful(
        "circuit-section-7", SECTION_7,
        "With section 7's block as it is written they have 90 %: in QK2, p_T asks for p_13, p_14 and every number e_n.",
        "implied by section 7 (eq. init_w0)", "The embedding of the last position alone, without that of the token `=`.",
    ),
    _faithful(
        "circuit-section-7-slots", POSITION_SLOTS, "With the first half of that block they have 90 %: p_T asks for p_13 and p_14.",
        "a part of section 7's block",
    ),
    _faithful(
        "circuit-section-7-numbers", POSITION_NUMBERS, "With the second half of that block they have 90 %: p_T asks for every number e_n.",
        "a part of section 7's block",
    ),
    _faithful(
        "circuit-section-7-step", SECTION_7_STEP,
        "With section 7's block after the theorem's step they have 90 %: p_T asks for copied variables OV1(e_v) as well.",
        "implied by section 7 (informal theorem)",
    ),
    _faithful(
        "circuit-section-7-equals", EQUALS_BOTH,
        "With section 7's block read as that of `=` they have 90 %: E_= + p_T asks for p_13, p_14 and every number e_n.",
        "implied by section 7 (eq. init_w0)", TWO_ROWS,
    ),
    _faithful(
        "circuit-with-literals", EQUALS_SLOTS, "The operand slots are enough for that: E_= + p_T asks for p_13 and p_14 alone.",
        "a part of section 7's block", TWO_ROWS,
    ),
    Claim(
        "circuit-section-7-literals", OURS, "With section 7's block as it is written (p_T) they add two literals (the lowest set).",
        "implied by section 7", lowest_set(SECTION_7, 0), FAITHFUL,
    ),
    Claim(
        "circuit-section-7-equals-literals", OURS,
        "With section 7's block read as that of `=` (E_= + p_T) they add two literals (the lowest set).",
        "implied by section 7", lowest_set(EQUALS_BOTH, 0), FAITHFUL, comment=TWO_ROWS,
    ),
)  # fmt: skip

STILL_MISSING = (
    _faithful(
        "circuit-with-copied-numbers", COPIED_ALL,
        "With E_= + p_T to the operand slots and all that copied numbers ask for, the parts have 90 %.",
        NOT_REPORTED, "Copied numbers: those that layer 1 writes into `=`.",
    ),
    Claim(
        "circuit-still-missing-literals", OURS, "These parts add two literals (the lowest set).",
        NOT_REPORTED, lowest_set(COPIED_ALL, 0), FAITHFUL,
    ),
    Claim(
        "circuit-still-missing-slots", OURS, "Copied numbers need ask for the operand slots alone to add two literals (the lowest set).",
        NOT_REPORTED, lowest_set(COPIED_SLOTS, 0), FAITHFUL, detail=by_variables(COPIED_SLOTS),
    ),
)  # fmt: skip

NEEDED = (
    Claim(
        "circuit-complete", OURS, "Without any of section 5's parts nothing is left: 10 % of the accuracy.",
        NOT_REPORTED, faithfulness(COMPLEMENT), AtMost(0.1),
    ),
    *(
        Claim(
            f"circuit-needs-{slug}", OURS, f"QK1 is needed from {words}: without it some set loses at least {LOSS:g}.",
            "combined effects", loss_without(f"QK1: {block}"), AtLeast(LOSS),
        )
        for slug, words, block in (
            ("equals-slots", "`=` to the operand slots (black)", "= to slots"),
            ("numbers-variables", "numbers to variables (purple)", "numbers to variables"),
            ("positions-variables", "positions to variables (orange)", "positions to variables"),
            ("positions", "positions to positions (red)", "positions to positions"),
        )
    ),
    Claim("circuit-needs-identity", OURS, "QK2's identity block is needed.", "enables", loss_without("QK2: identity block"), AtLeast(LOSS)),
)  # fmt: skip

ALONE = (*SECTION_5_ALONE, *SECTION_7_ADDED, *STILL_MISSING, *NEEDED)
