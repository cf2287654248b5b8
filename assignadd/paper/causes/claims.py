"""Claims on causes: what interventions on one network say where the paper shows cosines, probes and patterns.

Activations are exchanged between two prompts, paths are replaced by their mean, and MLP2 is trained again (sections 5.1
and 5.2). Controls (random directions, other positions, untrained networks) are in `assignadd interchange`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from assignadd.dynamics.curves import Onset
from assignadd.dynamics.of_network import binds
from assignadd.ledger.claim import Claim, Measure, Reading, uses
from assignadd.model.architecture import LAST_MLP, PAPER_NEEDS, require
from assignadd.network import Network
from assignadd.paper.addition.claims import needs_two_variables
from assignadd.paper.causes.circuit_claims import CIRCUIT_ALONE, PATHS
from assignadd.paper.causes.interchange import (
    EXCHANGED,
    QUERY_AND_TAG,
    Outcome,
    cause_onsets,
    causes_over_time,
    interchange_of,
)
from assignadd.paper.causes.one_addition import frequency_damage_of, grafted_accuracies
from assignadd.stats import Z_95, AtLeast, AtMost, Measured, highest, lowest, paired_difference

UNIT = "pairs of prompts"
# How often the sequences behind a correlation are resampled.
RESAMPLES = 300


def _share(outcome: Outcome, variant: str = "whole") -> Measured | None:
    return Measured.share(outcome.count(variant), outcome.n, UNIT) if outcome.n else None


def _outcome(e: Network, name: str, variant: str = "whole") -> Outcome:
    """The outcome of an alignment; raises `NotDefined` where the architecture does not have it or this variant."""
    if name == "sum":
        require(e.config, "the exchange of the sum", LAST_MLP)
    if variant in ("named", "random"):
        require(e.config, "the directions that the paper names", *PAPER_NEEDS)
    return interchange_of(e)[name]


def exchanged(name: str, n_vars: int | None = None) -> Measure:
    """The interchange accuracy of an alignment, over all pairs or over sums with this number of variables."""

    def measure(e: Network) -> Measured | None:
        found = _outcome(e, name)
        return _share(found if n_vars is None else found.with_variables(n_vars))

    return measure


def _by_slot(e: Network, name: str) -> tuple[Measured | None, Measured | None]:
    """The interchange accuracy on sums with one variable: in the first slot, in the second."""
    one = _outcome(e, name).with_variables(1)
    return _share(one.where(one.first_is_variable)), _share(one.where(~one.first_is_variable))


def literal_second(name: str) -> Measure:
    """The interchange accuracy on sums of a variable in the first slot and a literal in the second."""
    return lambda e: _by_slot(e, name)[0]


def loss_by_named(e: Network) -> Measured | None:
    """The largest loss of an alignment if only the directions that the paper names are exchanged, with its interval."""
    found = [o.hits for name in EXCHANGED if (o := _outcome(e, name, "named")).n]
    return highest(paired_difference(hits["whole"].numpy(), hits["named"].numpy(), UNIT) for hits in found)


def delay(earlier: str, later: str) -> Measure:
    """Steps from the onset of one cause to that of another, each above one half for 1,000 steps; None without both."""

    @uses(lambda e: causes_over_time(e)["step"].tolist())
    def measure(e: Network) -> Measured | None:
        require(e.config, "the exchange of the sum", LAST_MLP)
        if not _has_order(e):
            return None
        return _between(cause_onsets(e)[earlier], cause_onsets(e)[later], causes_over_time(e)["step"])

    return measure


def _has_order(e: Network) -> bool:
    return binds(e) and len(e.steps) > 1


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
def across_types(e: Network) -> Measured | None:
    """The lowest interchange accuracy of one operand between sequences of two different types, with its interval."""
    cells = [
        o.where((o.base_vars == i) & (o.source_vars == j))
        for o in (interchange_of(e)[name] for name in ("first value", "second value"))
        for i in range(3)
        for j in range(3)
        if i != j
    ]
    return lowest(map(_share, cells))


def frequency_agreement(e: Network) -> Measured | None:
    """The lowest correlation of two types' losses over the frequencies, with its interval over resampled sequences.

    None where there are too few frequencies to compare, or none of them matters.
    """
    found = frequency_damage_of(e)
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


def grafted(e: Network) -> Measured:
    """The lowest accuracy, on sums with variables in trained slots, with an MLP2 trained on literals only."""
    worst = min(grafted_accuracies(e).values(), key=lambda a: a.accuracy)
    return Measured(worst.accuracy, worst.interval.low, worst.interval.high, worst.n, "sequences")


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
QUERIES = {
    "operand query": "layer 1's output at `=` determines which variables are looked up",
    "query in QK2": "layer 1's output at `=` determines which variables are looked up, even if only the scores of "
    "layer 2 read the exchanged output",
}
TAG = "Layer 1 copies the variable before it into the literal's slot, as if the literal were assigned to it."

INTERCHANGE = (
    *(
        Claim(f"cause-{_id(name)}", label, says, SUGGESTED, exchanged(name), AtLeast(0.9))
        for name, (label, says) in PLACES.items()
    ),
    *(
        Claim(f"cause-{_id(name)}", MECHANISM, f"On sums with two variables, {says}.",
              SUGGESTED, exchanged(name, 2), AtLeast(0.9), TAG if readings else "",
              readings=(Reading("one-variable", "On sums with one variable.", AtLeast(0.9), exchanged(name, 1)),
                        *readings))
        for (name, says), readings in zip(QUERIES.items(), (
            (Reading("literal-second", "On sums of a variable and then a literal.", AtLeast(0.9),
                     literal_second("operand query")),
             Reading("and-tag", "On these sums, exchanging also layer 1's output at the literal's slot.", AtLeast(0.9),
                     literal_second(QUERY_AND_TAG))),
            (),
        ), strict=True)
    ),
    Claim("cause-named-directions", MECHANISM,
          "Exchanging only the directions that the paper names costs no alignment more than 0.05 of its accuracy.",
          "OV1(e_v), OV2(a) + OV2(b)", loss_by_named, AtMost(0.05),
          "The value is that of the alignment that loses most."),
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
          SHARED, grafted, AtLeast(0.95),
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
