"""Claims on causes (ours): what interventions on one network say where the paper shows cosines, probes and patterns.

Activations are exchanged between two prompts, paths are replaced by their mean, and MLP2 is trained again (sections 5.1
and 5.2). A search trains the directions, or a non-linear map, that are exchanged. A map that is free enough aligns any
network with any program (Sutter et al., 2025), so every number of a search has beside it that of the untrained network,
and networks that never learned binding are seeds of the record as all others are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from assignadd.alignment.interchange import PAPER_MEASURES, QUERY_AND_TAG, THRESHOLD, Outcome
from assignadd.alignment.subspaces import SEARCHED
from assignadd.claims.addition import needs_two_variables
from assignadd.claims.causal import EXCHANGED, INITIAL, TRAINED
from assignadd.claims.circuits import CIRCUIT_ALONE, PATHS
from assignadd.claims.evidence import Evidence
from assignadd.claims.measured import Measured, highest, lowest, paired_difference
from assignadd.claims.record import NOT_REPORTED, OURS, Claim, Measure
from assignadd.dynamics.curves import Onset, onset
from assignadd.measures.columns import measure_of, require_column
from assignadd.model.architecture import LAST_MLP, PAPER_NEEDS, require
from assignadd.stats import Z_95
from assignadd.verdicts import AtLeast, AtMost

UNIT = "pairs of prompts"
# How often the sequences behind a correlation are resampled.
RESAMPLES = 300


def _share(outcome: Outcome, variant: str = "whole") -> Measured | None:
    return Measured.share(outcome.count(variant), outcome.n, UNIT) if outcome.n else None


def _outcome(e: Evidence, name: str, variant: str = "whole") -> Outcome:
    """The outcome of an alignment; raises `NotDefined` where the architecture does not have it or this variant."""
    if name == "sum":
        require(e.config, "the exchange of the sum", LAST_MLP)
    if variant in ("named", "random"):
        require(e.config, "the directions that the paper names", *PAPER_NEEDS)
    return e.causal.interchange[name]


def exchanged(name: str, n_vars: int | None = None) -> Measure:
    """The interchange accuracy of an alignment, over all pairs or over sums with this number of variables."""

    def measure(e: Evidence) -> Measured | None:
        found = _outcome(e, name)
        return _share(found if n_vars is None else found.with_variables(n_vars))

    return measure


def _by_slot(e: Evidence, name: str) -> tuple[Measured | None, Measured | None]:
    """The interchange accuracy on sums with one variable: in the first slot, in the second."""
    one = _outcome(e, name).with_variables(1)
    return _share(one.where(one.first_is_variable)), _share(one.where(~one.first_is_variable))


def literal_second(name: str) -> Measure:
    """The interchange accuracy on sums of a variable in the first slot and a literal in the second."""
    return lambda e: _by_slot(e, name)[0]


def by_slot(name: str) -> Callable[[Evidence], str]:
    """The interchange accuracy on sums with one variable by the variable's slot, in words."""

    def detail(e: Evidence) -> str:
        first, second = ("none" if m is None else str(m) for m in _by_slot(e, name))
        return f"variable in the first slot {first}, in the second slot {second}"

    return detail


def highest_control(variant: str) -> Measure:
    """The highest accuracy of a control over the alignments, with its own interval."""
    return lambda e: highest(_share(_outcome(e, name, variant), variant) for name in e.causal.interchange)


def highest_untrained(e: Evidence) -> Measured | None:
    """The highest interchange accuracy of the initial network over the alignments, with its own interval."""
    return highest(map(_share, e.causal.untrained.values()))


def loss_by_named(e: Evidence) -> Measured | None:
    """The largest loss of an alignment if only the directions that the paper names are exchanged, with its interval."""
    found = [o.hits for name in EXCHANGED if (o := _outcome(e, name, "named")).n]
    return highest(paired_difference(hits["whole"].numpy(), hits["named"].numpy(), UNIT) for hits in found)


def delay(earlier: str, later: str) -> Measure:
    """Steps from the onset of one cause to that of another, each above one half for 1,000 steps; None without both."""

    def measure(e: Evidence) -> Measured | None:
        require(e.config, "the exchange of the sum", LAST_MLP)
        if not _has_order(e):
            return None
        return _between(e.causal.onsets[earlier], e.causal.onsets[later], e.causal.over_time["step"])

    return measure


def behind_measure(name: str) -> Measure:
    """Steps by which a cause follows the paper's measure of it, each above one half for 1,000 steps."""

    def measure(e: Evidence) -> Measured | None:
        require_column(e.config, PAPER_MEASURES[name])
        if not _has_order(e):
            return None
        steps, measured = e.causal.over_time["step"], PAPER_MEASURES[name]
        column = e.column(measured)[np.isin(e.trajectory["step"], steps)]  # at the same checkpoints
        correlate = onset(steps, column, measure_of(measured).n, THRESHOLD)
        return _between(correlate, e.causal.onsets[name], steps)

    return measure


def _has_order(e: Evidence) -> bool:
    return e.learned_binding and len(e.steps) > 1


def _between(first: Onset | None, second: Onset | None, steps: np.ndarray) -> Measured | None:
    """Steps between two onsets; the interval covers the spacing of checkpoints and the noise of both (see `Onset`)."""
    if first is None or second is None:
        return None
    earliest = [min(o.low + 1, o.step) for o in (first, second)]
    latest = [int(steps[-1]) if o.high is None else o.high for o in (first, second)]
    return Measured(
        second.step - first.step, earliest[1] - latest[0], latest[1] - earliest[0], len(steps), "checkpoints"
    )


def _id(name: str) -> str:
    return name.lower().replace(" ", "-")


@needs_two_variables
def across_types(e: Evidence) -> Measured | None:
    """The lowest interchange accuracy of one operand between sequences of two different types, with its interval."""
    cells = [
        o.where((o.base_vars == i) & (o.source_vars == j))
        for o in (e.causal.interchange[name] for name in ("first value", "second value"))
        for i in range(3)
        for j in range(3)
        if i != j
    ]
    return lowest(map(_share, cells))


def frequency_agreement(e: Evidence) -> Measured | None:
    """The lowest correlation of two types' losses over the frequencies, with its interval over resampled sequences.

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


def grafted(e: Evidence) -> Measured:
    """The lowest accuracy, on sums with variables in trained slots, with an MLP2 trained on literals only."""
    worst = min(e.causal.grafted.values(), key=lambda a: a.accuracy)
    return Measured(worst.accuracy, worst.interval.low, worst.interval.high, worst.n, "sequences")


SUGGESTED = "suggested by patterns and cosines"
PLACES = {
    "binding tag": "Layer 1's output at an assigned number holds the variable it is assigned to: if it is exchanged "
    "between prompts, other numbers are looked up.",
    "first value": "What layer 2 brings from the first value's position is the first operand: if it is exchanged, "
    "the sum changes with it.",
    "second value": "What layer 2 brings from the second value's position is the second operand: if it is exchanged, "
    "the sum changes with it.",
    "values": "Layer 2's output at `=` holds the two operands: if it is exchanged, the sum changes with it.",
    "sum": "MLP2's output holds the sum: if it is exchanged, the answer changes with it.",
}
QUERIES = {
    "operand query": "layer 1's output at `=` determines which variables are looked up",
    "query in QK2": "layer 1's output at `=` determines which variables are looked up, even if only the scores of "
    "layer 2 read the exchanged output",
}
FIRST_VARIABLE = "On sums of a variable and then a literal, exchanging"
MOST = "The value is the highest accuracy of any alignment."

INTERCHANGE = (
    *(
        Claim(f"cause-{_id(name)}", OURS, says, SUGGESTED, exchanged(name), AtLeast(0.9))
        for name, says in PLACES.items()
    ),
    *(
        Claim(f"cause-{_id(name)}-{words}-variable{'s' * (n - 1)}", OURS,
              f"On sums with {words} variable{'s' * (n - 1)}, {says}.",
              SUGGESTED, exchanged(name, n), AtLeast(0.9), detail=by_slot(name) if n == 1 else None)
        for n, words in ((1, "one"), (2, "two"))
        for name, says in QUERIES.items()
    ),
    Claim("cause-operand-query-literal-second", OURS,
          f"{FIRST_VARIABLE} layer 1's output at `=` is enough to look up another variable.",
          NOT_REPORTED, literal_second("operand query"), AtLeast(0.9)),
    Claim("cause-query-and-tag-literal-second", OURS,
          f"{FIRST_VARIABLE} layer 1's output at `=` and at the literal's slot is enough to look up another variable.",
          NOT_REPORTED, literal_second(QUERY_AND_TAG), AtLeast(0.9),
          "Layer 1 copies the variable before it into the literal's slot, as if the literal were assigned to it."),
    Claim("cause-named-directions-loss", OURS,
          "Exchanging only the directions that the paper names costs no alignment more than 0.05 of its accuracy.",
          "OV1(e_v), OV2(a) + OV2(b)", loss_by_named, AtMost(0.05),
          "The value is that of the alignment that loses most."),
    Claim("cause-control-random", OURS, "Control: exchanging equally many random directions has no effect.",
          NOT_REPORTED, highest_control("random"), AtMost(0.1), MOST),
    Claim("cause-control-elsewhere", OURS, "Control: exchanging activations at another position has no effect.",
          NOT_REPORTED, highest_control("elsewhere"), AtMost(0.1), MOST),
    Claim("cause-control-untrained", OURS, "Control: exchanging activations in the untrained network has no effect.",
          NOT_REPORTED, highest_untrained, AtMost(0.1), MOST),
)  # fmt: skip

ONE_MODULE = (
    Claim("one-module-exchange", OURS,
          "If one operand is exchanged between literals and variables, the sum changes with it, for all types of "
          "sequences.",
          "shared mechanism", across_types, AtLeast(0.95), "The value is the lowest accuracy over pairs of types."),
    Claim("one-module-frequencies", OURS, "Removing a frequency has the same effect on sums with 0, 1 and 2 variables.",
          "shared mechanism", frequency_agreement, AtLeast(0.9),
          "The value is the correlation, over frequencies, of the loss in the correct answer's margin: the lowest of "
          "three."),
    Claim("one-module-graft", OURS, "An MLP2 trained again on literals only also works for sums with variables.",
          "shared mechanism", grafted, AtLeast(0.95),
          "The value is the lowest set without banned slots; all other weights are unchanged."),
)  # fmt: skip

ORDER = (
    Claim("cause-sum-before-binding", OURS,
          "In training, exchanging the sum has an effect before exchanging the binding has one (steps between).",
          "addition first", delay("sum", "binding tag"), AtLeast(1)),
    *(
        Claim(f"cause-after-measure-{_id(name)}", OURS,
              f"In training, the paper's measure rises before exchanging the {name} has an effect (steps between).",
              NOT_REPORTED, behind_measure(name), AtLeast(1),
              f"The measure is {column}; an onset is the start of 1,000 steps above one half.")
        for name, column in PAPER_MEASURES.items()
    ),
)  # fmt: skip

CAUSES = tuple(
    replace(claim, of_last_layer=True) for claim in (*INTERCHANGE, *CIRCUIT_ALONE, *PATHS, *ONE_MODULE, *ORDER)
)


def sum_found(network: str, how: str) -> Measure:
    """How often the answer is the source's sum if what the search `how` found is exchanged."""
    return lambda e: _share(getattr(e.causal.searched[network], how), SEARCHED)


SUBSPACE = "one half of the directions before MLP2, found by a search,"
MAP = "one half of a non-linear map's coordinates before MLP2"
FITTED, UNSEEN = "on the pairs that the map was fitted to", "on pairs that the map was not fitted to"
PAIRS = "As many pairs are for the search as for the test."
SUTTER = "Sutter et al. (2025): a map that is free enough aligns any network with any program."

ALIGNMENT = tuple(
    Claim(f"{id}{suffix}", OURS, says.format(what, which), NOT_REPORTED, sum_found(network, how), rule, comment,
          of_last_layer=True)
    for id, what, which, how, comment in (
        ("search-sum", SUBSPACE, "", "subspace", PAIRS),
        ("search-map", MAP, f", {UNSEEN}", "unseen", PAIRS),
        ("search-map-fitted", MAP, f", {FITTED}", "fitted", SUTTER),
    )
    for suffix, says, network, rule in (
        ("", "If {} are exchanged, the answer is the other prompt's sum{}.", TRAINED, AtLeast(0.9)),
        ("-untrained", "Control: in the untrained network, {} do not hold the sum{}.", INITIAL, AtMost(0.1)),
    )
)  # fmt: skip
