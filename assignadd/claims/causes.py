"""Claims of section 5 as causes: what interventions say where the paper has cosines, probes and patterns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from assignadd.claims.causal import causal
from assignadd.claims.evidence import Evidence
from assignadd.claims.record import AtLeast, AtMost, Claim, Measured
from assignadd.interventions.circuit import COMPLEMENT, COPIED, LITERALS, PAPER
from assignadd.interventions.interchange import ALIGNMENTS
from assignadd.interventions.paths import EMBEDDING, KEY, LAYER_1, LAYER_2, LOGITS, MLP2, QUERY, VALUE, Path
from assignadd.interventions.timeline import MEASURES, onset_steps

Measure = Callable[[Evidence], Measured | None]
OURS, NOT_REPORTED = "ours", "not reported"
SAYS = {
    "binding tag": "Layer 1's output at an assigned number is its binding: exchanged between prompts, the look-up follows it.",
    "operand query": "Layer 1's output at `=` is the query: exchanged between prompts, other variables are looked up.",
    "query in QK2": "Layer 1's output at `=` is the query also where only layer 2's scores read the exchanged output.",
    "first value": "What layer 2 brings from the first value's place is the first operand: exchanged, the sum follows.",
    "second value": "What layer 2 brings from the second value's place is the second operand: exchanged, the sum follows.",
    "values": "Layer 2's output at `=` is the two operands: exchanged, the sum follows.",
    "sum": "MLP2's output is the sum: exchanged, the answer follows.",
}
# The paper's story as paths, on sums with one variable.
STORY = frozenset(
    [Path(EMBEDDING, "operand variable", LAYER_1, "operand number"), Path(LAYER_1, "operand number", KEY), Path(LAYER_1, "=", QUERY)]
    + [Path(EMBEDDING, slot, LAYER_1) for slot in ("first", "second")]
    + [Path(EMBEDDING, role, VALUE) for role in ("operand number", "first", "second")]
    + [Path(LAYER_2, "=", MLP2), Path(MLP2, "=", LOGITS)]
)


def exchanged(name: str, variant: str = "whole") -> Measure:
    def measure(e: Evidence) -> Measured | None:
        found = causal(e).interchange[name]
        return Measured.share(found.count(variant), found.n, "pairs of prompts") if found.n else None

    return measure


def extreme(variant: str, pick: Callable[[list[float]], float], among: Sequence[str] = ALIGNMENTS) -> Measure:
    """The lowest or highest accuracy of a variant over the alignments; `untrained` is the initial network's."""

    def measure(e: Evidence) -> Measured:
        outcomes = causal(e).untrained if variant == "untrained" else causal(e).interchange
        found = [outcomes[name] for name in among if outcomes[name].n]
        values = [o.accuracy("whole" if variant == "untrained" else variant) for o in found]
        return Measured.exactly(pick(values), sum(o.n for o in found), "pairs of prompts")

    return measure


def across_types(e: Evidence) -> Measured | None:
    """The lowest interchange accuracy of one operand between sequences of different type."""
    if len(e.types) < 3:  # a task without two-variable sums
        return None
    tables = [causal(e).interchange[name].by_types() for name in ("first value", "second value")]
    values = [t[i, j].item() for t in tables for i in range(3) for j in range(3) if i != j and t[i, j].isfinite()]
    return Measured.exactly(min(values), 2 * len(values), "pairs of types")


def alone(group: str, name: str) -> Measure:
    """Mean accuracy over the sets with parts kept, as a part of the network's."""

    def measure(e: Evidence) -> Measured:
        found = causal(e).circuit_alone
        return Measured.exactly(found.relative(group, name), found.n * len(found.sets), "sequences")

    return measure


def alone_on(name: str, n_vars: str) -> Measure:
    """The lowest accuracy of the sets with so many variables."""

    def measure(e: Evidence) -> Measured | None:
        found = causal(e).circuit_alone
        values = [x for x, s in zip(found.row("together", name), found.sets, strict=True) if s.startswith(n_vars)]
        return Measured.share(round(min(values) * found.n), found.n, "sequences") if values else None

    return measure


def loss_without(name: str) -> Measure:
    def measure(e: Evidence) -> Measured:
        found = causal(e).circuit_alone
        return Measured.exactly(found.worst_loss("removed alone", name), found.n, "sequences a set")

    return measure


def outside_story(e: Evidence) -> Measured:
    """The most that a path outside the paper's story is worth on sums with one variable."""
    effects = causal(e).paths[1]
    return Measured.exactly(max(v for path, v in effects.items() if path not in STORY), len(effects) - len(STORY), "other paths")


def direct_share(e: Evidence) -> Measured:
    """The part of the right answer's logit that MLP2 adds itself, in the type that has the least of it."""
    shares = [found[MLP2] / sum(found.values()) for found in causal(e).direct_logits.values()]
    return Measured.exactly(min(shares), len(shares), "types of sequences")


def grafted(e: Evidence) -> Measured | None:
    """The lowest accuracy on sums with variables, none in a banned slot, of an MLP2 that was trained on literals alone."""
    found = [a for name, a in causal(e).grafted.items() if not name.startswith("0-var") and "var-restricted" not in name]
    worst = min(found, key=lambda a: a.accuracy)
    return Measured(worst.accuracy, worst.interval.low, worst.interval.high, worst.n, "sequences")


def frequency_agreement(e: Evidence) -> Measured | None:
    """None where there are too few frequencies to compare, or none of them matters."""
    found = causal(e).frequency_damage
    agreement = found.agreement if len(found.frequencies) > 2 else math.nan
    return Measured.exactly(agreement, len(found.frequencies), "frequencies") if math.isfinite(agreement) else None


def delay(earlier: str, later: str) -> Measure:
    """Steps from the onset of one cause to that of another, each above one half for 1,000 steps; None where one never comes."""

    def measure(e: Evidence) -> Measured | None:
        if not _in_order(e):
            return None
        onsets = causal(e).onsets
        first, second = onsets[earlier], onsets[later]
        return (
            None if first is None or second is None else Measured.exactly(second - first, len(causal(e).over_time["step"]), "checkpoints")
        )

    return measure


def _in_order(e: Evidence) -> bool:
    """A network that never binds, or of which one checkpoint is there, has no order to tell."""
    return e.learned_binding and len(e.run.steps) > 1


def behind_measure(name: str) -> Measure:
    """Steps by which a cause comes after the paper's measure of it, each above one half for 1,000 steps, at the same checkpoints."""

    def measure(e: Evidence) -> Measured | None:
        if not _in_order(e):
            return None
        steps = causal(e).over_time["step"]
        column = e.trajectory[MEASURES[name]][np.isin(e.trajectory["step"], steps)]
        cause, correlate = causal(e).onsets[name], onset_steps({"step": steps, name: column})[name]
        return None if cause is None or correlate is None else Measured.exactly(cause - correlate, len(steps), "checkpoints")

    return measure


INTERCHANGE = (
    *(
        Claim(f"cause-{name.lower().replace(' ', '-')}", OURS, says, "suggested by patterns and cosines", exchanged(name), AtLeast(0.9))
        for name, says in SAYS.items()
    ),
    Claim(
        "cause-named-directions", OURS, "Only the directions the paper names need be exchanged (the alignment with the least).",
        "OV1(e_v), OV2(a) + OV2(b)", extreme("named", min), AtLeast(0.85),
    ),
    Claim(
        "cause-control-random", OURS, "Control: exchanging as many random directions does nothing (the alignment with the most).",
        NOT_REPORTED, extreme("random", max), AtMost(0.1),
    ),
    Claim(
        "cause-control-elsewhere", OURS, "Control: nor does exchanging another place (the alignment with the most).",
        NOT_REPORTED, extreme("elsewhere", max), AtMost(0.1),
    ),
    Claim(
        "cause-control-untrained", OURS, "Control: nor does it in the untrained network (the alignment with the most).",
        NOT_REPORTED, extreme("untrained", max), AtMost(0.1),
    ),
)  # fmt: skip

ALONE = (
    Claim(
        "circuit-faithful", OURS, "The parts that the paper names, alone, do what the network does: 90 % of its mean accuracy.",
        "implied", alone("together", PAPER), AtLeast(0.9),
        comment="QK1 in four blocks, OV1 on variables, QK2 on the identity block, OV2 on numbers in the network's frequencies, MLP2 alone.",
    ),
    Claim(
        "circuit-two-variables", OURS, "They do on sums of two variables (the lowest set).",
        "implied", alone_on(PAPER, "2-var"), AtLeast(0.9),
    ),
    Claim("circuit-literals", OURS, "They do on sums of literals (the lowest set).", "implied", alone_on(PAPER, "0-var"), AtLeast(0.9)),
    Claim(
        "circuit-with-literals", OURS, "What is missing is how literals are found: QK2 from `=` itself to the operand slots.",
        NOT_REPORTED, alone("together", LITERALS), AtLeast(0.9),
    ),
    Claim(
        "circuit-with-copied-numbers", OURS, "With that and the numbers that layer 1 copies into `=` the circuit is whole.",
        NOT_REPORTED, alone("together", COPIED), AtLeast(0.9),
    ),
    Claim(
        "circuit-complete", OURS, "Without any of the named parts nothing is left: 10 % of the accuracy.",
        NOT_REPORTED, alone("together", COMPLEMENT), AtMost(0.1),
    ),
    *(
        Claim(
            f"circuit-needs-{slug}", OURS, f"QK1 is needed from {words}: without it some set loses at least .1.",
            "combined effects", loss_without(f"QK1: {block}"), AtLeast(0.1),
        )
        for slug, words, block in (
            ("equals-slots", "`=` to the operand slots (black)", "= to slots"),
            ("numbers-variables", "numbers to variables (purple)", "numbers to variables"),
            ("positions-variables", "positions to variables (orange)", "positions to variables"),
            ("positions", "positions to positions (red)", "positions to positions"),
        )
    ),
    Claim("circuit-needs-identity", OURS, "QK2's identity block is needed.", "enables", loss_without("QK2: identity block"), AtLeast(0.1)),
    Claim(
        "paths-story", OURS, "On sums with one variable no path outside the paper's story is worth more than .1 of the accuracy.",
        NOT_REPORTED, outside_story, AtMost(0.1), comment="Each path alone carries its mean over tokens of the same role.",
    ),
    Claim("paths-direct", OURS, "MLP2 writes the answer: 95 % of its logit directly.", "implied", direct_share, AtLeast(0.95)),
)  # fmt: skip

MODULE = (
    Claim(
        "one-module-exchange", OURS, "One operand can be exchanged between literals and variables: the sum follows for all types.",
        "shared mechanism", across_types, AtLeast(0.95),
    ),
    Claim(
        "one-module-frequencies", OURS, "Removing a frequency hurts sums of 0, 1 and 2 variables alike: correlation over frequencies.",
        "shared mechanism", frequency_agreement, AtLeast(0.9), comment="Loss of the right answer's margin; the least of three.",
    ),
    Claim(
        "one-module-graft", OURS, "An MLP2 trained anew on literals alone serves sums with variables as well (the lowest set).",
        "shared mechanism", grafted, AtLeast(0.95), comment="Sets without banned slots; all other weights as they were.",
    ),
)  # fmt: skip

ORDER = (
    Claim(
        "cause-sum-before-binding", OURS, "The sum is a cause before the binding is: steps between.",
        "addition first", delay("sum", "binding tag"), AtLeast(1),
    ),
    *(
        Claim(
            f"cause-after-measure-{name.lower().replace(' ', '-')}", OURS,
            f"The paper's measure comes before the cause: {name}, steps between.",
            NOT_REPORTED, behind_measure(name), AtLeast(1), comment=f"Measure: {column}. Each above one half for 1,000 steps.",
        )
        for name, column in MEASURES.items()
    ),
)  # fmt: skip

CAUSES: tuple[Claim, ...] = (*INTERCHANGE, *ALONE, *MODULE, *ORDER)
