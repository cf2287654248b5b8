"""Claims of sections 5.1 and 5.2 as causes: what interventions say where the paper has cosines, probes and patterns."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from assignadd.claims.causal import EXCHANGED
from assignadd.claims.circuit_parts import ALONE
from assignadd.claims.evidence import Evidence
from assignadd.claims.paired import paired_difference, ratio_of_means
from assignadd.claims.record import AtLeast, AtMost, Claim, Measured
from assignadd.dynamics.onsets import Onset, onset
from assignadd.interventions.interchange import MEASURES, QUERY_AND_TAG, THRESHOLD, Outcome
from assignadd.interventions.paths import EMBEDDING, KEY, LAYER_1, LAYER_2, LOGITS, MLP2, QUERY, VALUE, Path
from assignadd.measures.columns import measure_of
from assignadd.stats import Z_95

Measure = Callable[[Evidence], Measured | None]
OURS, NOT_REPORTED = "ours", "not reported"
# Of the sequences behind a correlation of losses.
RESAMPLES = 300
SAYS = {
    "binding tag": "Layer 1's output at an assigned number is its binding: exchanged between prompts, the look-up follows it.",
    "first value": "What layer 2 brings from the first value's place is the first operand: exchanged, the sum follows.",
    "second value": "What layer 2 brings from the second value's place is the second operand: exchanged, the sum follows.",
    "values": "Layer 2's output at `=` is the two operands: exchanged, the sum follows.",
    "sum": "MLP2's output is the sum: exchanged, the answer follows.",
}
QUERIES_SAY = {
    "operand query": "Layer 1's output at `=` is the query: exchanged between prompts, other variables are looked up.",
    "query in QK2": "Layer 1's output at `=` is the query also where only layer 2's scores read the exchanged output.",
}
# The paper's story as paths, on sums with one variable.
STORY = frozenset(
    [
        Path(EMBEDDING, "operand variable", LAYER_1, "operand number"),
        Path(LAYER_1, "operand number", KEY),
        Path(LAYER_1, "=", QUERY),
    ]
    + [Path(EMBEDDING, slot, LAYER_1) for slot in ("first", "second")]
    + [Path(EMBEDDING, role, VALUE) for role in ("operand number", "first", "second")]
    + [Path(LAYER_2, "=", MLP2), Path(MLP2, "=", LOGITS)]
)


def exchanged(name: str, n_vars: int | None = None) -> Measure:
    """The interchange accuracy of an alignment, over all pairs or over sums with so many variables."""

    def measure(e: Evidence) -> Measured | None:
        found = e.causal.interchange[name]
        return _share(found if n_vars is None else found.with_variables(n_vars))

    return measure


def _share(outcome: Outcome, variant: str = "whole") -> Measured | None:
    return Measured.share(outcome.count(variant), outcome.n, "pairs of prompts") if outcome.n else None


def literal_second(name: str) -> Measure:
    """The interchange accuracy on sums of a variable in the first slot and a literal in the second."""
    return lambda e: _share(_by_slot(e.causal.interchange[name])[0])


def _by_slot(outcome: Outcome) -> tuple[Outcome, Outcome]:
    """The outcome on sums with one variable: in the first slot, in the second."""
    one = outcome.with_variables(1)
    return one.where(one.first_is_variable), one.where(~one.first_is_variable)


def by_slot(name: str) -> Callable[[Evidence], str]:
    """The interchange accuracy on sums with one variable by the variable's slot, in words."""

    def detail(e: Evidence) -> str:
        found = [_share(outcome) for outcome in _by_slot(e.causal.interchange[name])]
        first, second = ("none" if m is None else f"{m.value:.3f} [{m.low:.3f}, {m.high:.3f}]" for m in found)
        return f"variable in the first slot {first}, in the second slot {second}"

    return detail


def highest(variant: str) -> Measure:
    """The highest accuracy of a control over the alignments, with its own interval; `untrained` is the initial network's."""

    def measure(e: Evidence) -> Measured:
        outcomes = e.causal.untrained if variant == "untrained" else e.causal.interchange
        found = [_share(outcomes[name], "whole" if variant == "untrained" else variant) for name in EXCHANGED]
        return max((m for m in found if m is not None), key=lambda m: m.value)

    return measure


def loss_by_named(e: Evidence) -> Measured:
    """The most that an alignment loses when only the directions that the paper names are exchanged, with its own interval."""
    found = [o for name in EXCHANGED if (o := e.causal.interchange[name]).n]
    losses = [paired_difference(o.hits["whole"].numpy(), o.hits["named"].numpy(), "pairs of prompts") for o in found]
    return max(losses, key=lambda m: m.value)


def across_types(e: Evidence) -> Measured | None:
    """The lowest interchange accuracy of one operand between sequences of two different types, with its own interval."""
    if len(e.types) < 3:  # a task without two-variable sums
        return None
    cells = [
        _share(o.where((o.base_vars == i) & (o.source_vars == j)))
        for o in (e.causal.interchange[name] for name in ("first value", "second value"))
        for i in range(3)
        for j in range(3)
        if i != j
    ]
    return min((m for m in cells if m is not None), key=lambda m: m.value)


def outside_story(e: Evidence) -> Measured:
    """The most that a path outside the paper's story is worth on sums with one variable."""
    found = e.causal.path_answers[1]
    others = [correct for path, correct in found.patched.items() if path not in STORY]
    return max((paired_difference(found.whole.numpy(), c.numpy(), "sequences") for c in others), key=lambda m: m.value)


def largest_outside(e: Evidence) -> str:
    """That path in words."""
    effects = {path: effect for path, effect in e.causal.paths[1].items() if path not in STORY}
    path = max(effects, key=lambda p: effects[p])
    receiver = f"{path.receiver} at {path.at}" if path.receiver == LAYER_1 else path.receiver
    return f"the most is worth {path.sender} at {path.role} to {receiver}, {effects[path]:.3f}"


def direct_share(e: Evidence) -> Measured:
    """The part of the right answer's logit that MLP2 adds itself, in the type that has the least of it."""
    shares = []
    for parts in e.causal.direct_parts.values():
        total = np.sum([x.double().numpy() for x in parts.values()], 0)
        shares.append(ratio_of_means(parts[MLP2].double().numpy(), total, "sequences"))
    return min(shares, key=lambda m: m.value)


def grafted(e: Evidence) -> Measured | None:
    """The lowest accuracy on sums with variables, none in a banned slot, of an MLP2 that was trained on literals alone."""
    found = [a for name, a in e.causal.grafted.items() if not name.startswith("0-var") and "var-restricted" not in name]
    worst = min(found, key=lambda a: a.accuracy)
    return Measured(worst.accuracy, worst.interval.low, worst.interval.high, worst.n, "sequences")


def frequency_agreement(e: Evidence) -> Measured | None:
    """The least correlation of two types' losses over the frequencies, with its interval over sequences drawn anew.

    None where there are too few frequencies to compare, or none of them matters.
    """
    found = e.causal.frequency_damage
    agreement = found.agreement if len(found.frequencies) > 2 else math.nan
    if not math.isfinite(agreement):
        return None
    # On Fisher's scale, where the spread of a correlation does not depend on its value.
    centre, drawn = (
        np.arctanh(np.clip(np.asarray(x, dtype=float), -1 + 1e-9, 1 - 1e-9))
        for x in (agreement, found.resampled(RESAMPLES).numpy())
    )
    half = Z_95 * drawn[np.isfinite(drawn)].std()
    return Measured(agreement, math.tanh(centre - half), math.tanh(centre + half), found.before.numel(), "sequences")


def delay(earlier: str, later: str) -> Measure:
    """Steps from the onset of one cause to that of another, each above one half for 1,000 steps; None where one never comes."""

    def measure(e: Evidence) -> Measured | None:
        if not _in_order(e):
            return None
        first, second = (e.causal.onsets[name] for name in (earlier, later))
        return _between(first, second, e.causal.over_time["step"])

    return measure


def _between(first: Onset | None, second: Onset | None, steps: np.ndarray) -> Measured | None:
    """Steps between two onsets. Both lie between two checkpoints, and the noise of the curves widens that (see `Onset`)."""
    if first is None or second is None:
        return None
    earliest = [min(o.low + 1, o.step) for o in (first, second)]
    latest = [int(steps[-1]) if o.high is None else o.high for o in (first, second)]
    return Measured(
        second.step - first.step, earliest[1] - latest[0], latest[1] - earliest[0], len(steps), "checkpoints"
    )


def _in_order(e: Evidence) -> bool:
    """A network that never binds, or of which one checkpoint is there, has no order to tell."""
    return e.learned_binding and len(e.steps) > 1


def behind_measure(name: str) -> Measure:
    """Steps by which a cause comes after the paper's measure of it, each above one half for 1,000 steps, at the same checkpoints."""

    def measure(e: Evidence) -> Measured | None:
        if not _in_order(e):
            return None
        steps, measured = e.causal.over_time["step"], MEASURES[name]
        column = e.trajectory[measured][np.isin(e.trajectory["step"], steps)]
        correlate = onset(steps, column, measure_of(measured).n, THRESHOLD)
        return _between(correlate, e.causal.onsets[name], steps)

    return measure


def _id(name: str) -> str:
    return name.lower().replace(" ", "-")


SUGGESTED = "suggested by patterns and cosines"
INTERCHANGE = (
    *(Claim(f"cause-{_id(name)}", OURS, says, SUGGESTED, exchanged(name), AtLeast(0.9)) for name, says in SAYS.items()),
    *(
        Claim(
            f"cause-{_id(name)}-one-variable", OURS, f"{says} Sums with one variable.",
            SUGGESTED, exchanged(name, 1), AtLeast(0.9), detail=by_slot(name),
        )
        for name, says in QUERIES_SAY.items()
    ),
    *(
        Claim(f"cause-{_id(name)}-two-variables", OURS, f"{says} Sums with two variables.", SUGGESTED, exchanged(name, 2), AtLeast(0.9))
        for name, says in QUERIES_SAY.items()
    ),
    Claim(
        "cause-operand-query-literal-second", OURS,
        "The query alone is enough where the first operand is a variable and the second a literal.",
        NOT_REPORTED, literal_second("operand query"), AtLeast(0.9),
    ),
    Claim(
        "cause-query-and-tag-literal-second", OURS,
        "There the literal carries the tag of the variable before it, as if assigned to it: with the tag at its slot exchanged too, "
        "other variables are looked up.",
        NOT_REPORTED, literal_second(QUERY_AND_TAG), AtLeast(0.9),
    ),
    Claim(
        "cause-named-directions-loss", OURS,
        "Only the directions the paper names need be exchanged: no alignment loses more than .05 (the one that loses most).",
        "OV1(e_v), OV2(a) + OV2(b)", loss_by_named, AtMost(0.05),
    ),
    Claim(
        "cause-control-random", OURS, "Control: exchanging as many random directions does nothing (the alignment with the most).",
        NOT_REPORTED, highest("random"), AtMost(0.1),
    ),
    Claim(
        "cause-control-elsewhere", OURS, "Control: nor does exchanging another place (the alignment with the most).",
        NOT_REPORTED, highest("elsewhere"), AtMost(0.1),
    ),
    Claim(
        "cause-control-untrained", OURS, "Control: nor does it in the untrained network (the alignment with the most).",
        NOT_REPORTED, highest("untrained"), AtMost(0.1),
    ),
)  # fmt: skip

PATHS = (
    Claim(
        "paths-story", OURS, "On sums with one variable no path outside the paper's story is worth more than .1 of the accuracy.",
        NOT_REPORTED, outside_story, AtMost(0.1), comment="Each path alone carries its mean over tokens of the same role.",
        detail=largest_outside,
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

CAUSES: tuple[Claim, ...] = (*INTERCHANGE, *ALONE, *PATHS, *MODULE, *ORDER)
