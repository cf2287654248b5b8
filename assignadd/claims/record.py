"""A claim of the paper, the rule that decides it, and the record of what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assignadd.claims.evidence import Evidence
from assignadd.claims.measured import Measured
from assignadd.model.architecture import NotDefined
from assignadd.stats import median_interval
from assignadd.sweeps.population import NO_POPULATIONS, Populations, SeedCurves
from assignadd.verdicts import HOLDS, NOT_APPLICABLE, UNDECIDED, UNMEASURED, UNTESTABLE, Rule

Measure = Callable[[Evidence], Measured | None]
"""A number for one trained model; None if the model cannot be tested (its split has no held-out pairs, for example)."""

# Labels and values of claims that the paper does not make.
OURS, NOT_REPORTED, IMPLIED = "ours", "not reported", "implied"
# A claim about all seeds is tested on at least this many: if none fails, fewer than 10 % of all seeds do (95 %).
SEEDS_FOR_ALL = 35
CANNOT = (
    "No network given here can be tested: the test needs a network that learned binding (or, if it is about those that "
    "did not, one that adds), with checkpoints from its training (train with --record.checkpoint-every 100), and a "
    "task and split that have such sequences."
)
NO_POPULATION = (
    "No such population of this task is available: --census, --fraction and --two-var take the folder of an "
    "`assignadd sweep`."
)
NO_SEED = "The population has no seed to which this applies, too few of them, or no rise with the setting."
OF_BINDING = "The value is that of the {} seeds that learned binding"
LAST_LAYER = "In this network layer 2 and MLP2 are the last layer, and layer 1 is all layers before it."
ANOTHER_TASK = "This population has another task or architecture than the paper."


@dataclass(frozen=True)
class Claim:
    """One sentence or number of the paper in our words, and the way to check it.

    `measure` is a number of one trained model. A claim about every initialisation has `seed_measure` instead, a number
    of one seed of a census: its value is the share of seeds in which it holds. `measured` is a number of a whole
    population, such as a threshold.

    The rule compares its threshold with the 95 % interval: `holds` and `does not hold` where the whole interval is on
    one side, `undecided` otherwise.
    """

    id: str
    label: str
    """The paper's figure label or section; `ours` for readings the paper does not have."""
    claim: str
    paper: str
    """What the paper reports, in its words."""
    measure: Measure | None = None
    rule: Rule | None = None
    comment: str = ""
    seed_measure: Callable[[SeedCurves], Measured | None] | None = None
    measured: Callable[[Populations], Measured | None] | None = None
    sweep: str = ""
    """Which sweep `measured` reads, `fraction` or `two_var`; the census unless given."""
    detail: Callable[[Evidence], str] | None = None
    """More about one network, in words."""
    of_last_layer: bool = False
    """Whether layer 2 and MLP2 stand for the last layer in networks with another number of layers."""


@dataclass(frozen=True)
class SeedResult:
    """The number and verdict of one model."""

    run: str
    """The name of its run folder or population: two runs may have the same seed."""
    seed: int
    value: float
    low: float
    high: float
    holds: bool
    """By the value alone, which is how seeds are counted."""
    verdict: str
    """By the interval."""

    @classmethod
    def of(cls, run: str, seed: int, measured: Measured, rule: Rule) -> SeedResult:
        point = Measured.exactly(measured.value, measured.n, measured.unit)
        holds = rule.verdict(point) == HOLDS
        return cls(run, seed, measured.value, measured.low, measured.high, holds, rule.verdict(measured))


@dataclass(frozen=True)
class Record:
    """A line of the ledger."""

    id: str
    label: str
    claim: str
    paper: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    unit: str
    seeds: int
    verdict: str
    rule: str
    comment: str
    command: str
    by_seed: tuple[SeedResult, ...]
    population: str = ""
    """The population of seeds behind the number; empty for the given networks and for the theory."""

    @property
    def sample(self) -> str:
        """What the number was counted on, such as "2,000 sequences" or "1 network"; empty where it was not."""
        return f"{self.n:,} {self.unit.removesuffix('s') if self.n == 1 else self.unit}" if self.n else ""


def judge(
    claim: Claim, evidences: Sequence[Evidence], command: str, populations: Populations = NO_POPULATIONS
) -> Record:
    """The record of a claim: over these models, or over the population that the claim is about."""
    if claim.seed_measure is not None:
        return _over_census(claim, populations, command)
    if claim.measured is not None:
        return _of_population(claim, populations, command)
    if claim.measure is None or claim.rule is None:
        return _record(claim, [], [], UNMEASURED, claim.comment, command)
    found, undefined = _measured(claim.measure, evidences)
    if not found:
        verdict, reason = (NOT_APPLICABLE, f"Not defined for this architecture: it {undefined}.") if undefined else (
            UNTESTABLE, CANNOT
        )  # fmt: skip
        return _record(claim, [], [], verdict, reason, command)
    results = [SeedResult.of(e.name, e.seed, m, claim.rule) for e, m in found]
    binding = [(m, r) for (e, m), r in zip(found, results, strict=True) if e.learned_binding]
    shown = [m for m, _ in binding] or [m for _, m in found]
    first = next((e for e, _ in found if e.learned_binding), None)
    comments = [
        f"{OF_BINDING.format(len(binding))}; it holds in "
        f"{sum(r.holds for _, r in binding)} of them." if 0 < len(binding) < len(found) else "",
        _range(shown),
        claim.comment,
        LAST_LAYER if claim.of_last_layer and any(e.config.model.n_layers != 2 for e, _ in found) else "",
        f"Some networks have an architecture for which it is not defined: it {undefined}." if undefined else "",
        f"Seed {first.seed}: {claim.detail(first)}." if claim.detail and first else "",
    ]  # fmt: skip
    return _record(claim, shown, results, verdict_over(results), " ".join(filter(None, comments)), command)


def _measured(measure: Measure, evidences: Sequence[Evidence]) -> tuple[list[tuple[Evidence, Measured]], str]:
    """The models that the measure has a number for; why it is not defined for the architecture of others, if so."""
    found, undefined = [], ""
    for e in evidences:
        try:
            measured = measure(e)
        except NotDefined as error:
            undefined = error.reason
            continue
        if measured is not None:
            found.append((e, measured))
    return found, undefined


def verdict_over(results: Sequence[SeedResult]) -> str:
    """The common verdict of several models; otherwise in how many the claim holds, and how many are undecided."""
    verdicts = {r.verdict for r in results}
    if len(verdicts) <= 1:
        return verdicts.pop() if verdicts else UNTESTABLE
    undecided = sum(r.verdict == UNDECIDED for r in results)
    counted = f"holds in {sum(r.holds for r in results)} of {len(results)} seeds"
    return f"{counted} ({undecided} undecided)" if undecided else counted


def _over_census(claim: Claim, populations: Populations, command: str) -> Record:
    """The share of seeds in which the claim holds, among those to which it applies."""
    assert claim.seed_measure is not None and claim.rule is not None
    found = [(s, m) for s in populations.seeds if (m := claim.seed_measure(s)) is not None]
    if not found:
        return _record(claim, [], [], UNTESTABLE, NO_SEED if populations.seeds else NO_POPULATION, command)
    results = [SeedResult.of(s.population, s.seed, m, claim.rule) for s, m in found]
    verdict = verdict_over(results)
    if verdict == HOLDS and len(results) < SEEDS_FOR_ALL:
        verdict = UNTESTABLE
    share = Measured.share(sum(r.holds for r in results), len(results), "seeds")
    comment = claim.comment if populations.as_in_the_paper else f"{claim.comment} {ANOTHER_TASK}".strip()
    return _record(claim, [share], results, verdict, comment, command, populations.census_name)


def _of_population(claim: Claim, populations: Populations, command: str) -> Record:
    """A number of a whole population; for another task than the paper's it is shown and not judged."""
    assert claim.measured is not None and claim.rule is not None
    found = claim.measured(populations)
    if found is None:
        reason = NO_SEED if populations.there(claim.sweep) else NO_POPULATION
        return _record(claim, [], [], UNTESTABLE, reason, command)
    verdict, comment = claim.rule.verdict(found), claim.comment
    if not populations.as_in_the_paper:
        verdict, comment = UNTESTABLE, f"{comment} {ANOTHER_TASK} The paper's number is about its own task.".strip()
    return _record(claim, [found], [], verdict, comment, command, populations.name(claim.sweep))


def _record(
    claim: Claim, found: Sequence[Measured], results: Sequence[SeedResult], verdict: str, comment: str, command: str,
    population: str = "",
) -> Record:  # fmt: skip
    """One number as measured; of several the median, with its interval from six numbers on."""
    value, low, high, n, unit = None, None, None, sum(m.n for m in found), found[0].unit if found else ""
    if len(found) == 1:
        value, low, high = found[0].value, found[0].low, found[0].high
    elif found:
        value, interval = median_interval([m.value for m in found])
        low, high = (interval.low, interval.high) if interval else (None, None)
    rule = by_interval(claim.rule) if claim.rule else ""
    seeds = len(results) or (n if unit == "seeds" else 0)
    return Record(
        claim.id, claim.label, claim.claim, claim.paper, value, low, high, n, unit, seeds, verdict, rule, comment,
        command,
        tuple(results), population,
    )  # fmt: skip


def by_interval(rule: Rule) -> str:
    """A rule in words, with what the interval does."""
    return f"{rule}; undecided if the 95 % interval reaches to both sides of the threshold"


def _range(found: Sequence[Measured]) -> str:
    """The range of several seeds, where they are too few for an interval of their median."""
    values = [m.value for m in found]
    if len(values) < 2 or median_interval(values)[1] is not None:
        return ""
    return f"Median of {len(values)} seeds, from {min(values):.4g} to {max(values):.4g}; too few for an interval."
