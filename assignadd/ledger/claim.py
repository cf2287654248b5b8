"""A claim of the paper, the rules that decide it, and the record of what was measured.

A claim is about single networks, about every seed of a census, or about a number of a whole population. Each of the
three has a function that measures it, and one way to make a verdict of what it returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from assignadd.dynamics.trajectory import binds
from assignadd.model.architecture import NotDefined
from assignadd.network import Network
from assignadd.stats import (
    BROKEN,
    FAILS,
    HOLDS,
    NOT_APPLICABLE,
    UNDECIDED,
    UNMEASURED,
    UNTESTABLE,
    Measured,
    Rule,
    median_interval,
    wilson,
)
from assignadd.sweeps.population import NO_POPULATIONS, Populations, SeedCurves

Measure = Callable[[Network], Measured | None]
"""A number for one trained model; None if the model cannot be tested (its split has no held-out pairs, for example)."""
SeedMeasure = Callable[[SeedCurves], Measured | None]
PopulationMeasure = Callable[[Populations], Measured | None]
Steps = Callable[[Network], Sequence[int]]
"""The checkpoints of a network that a measure looks at."""
Wrapped = TypeVar("Wrapped", bound=Callable[..., Any])

# Labels and values of claims that the paper does not make.
OURS, NOT_REPORTED, IMPLIED = "ours", "not reported", "implied"
# A claim about all seeds is tested on at least this many: if none fails, fewer than 10 % of all seeds do (95 %).
SEEDS_FOR_ALL = 35
CANNOT = (
    "No network given here can be tested: the test needs checkpoints from its training (train with "
    "--record.checkpoint-every 100), or a task and split that have such sequences."
)
NONE_BINDS = "No network given here binds variables, which this claim is about."
NO_POPULATION = (
    "No such population of this task is available: --census, --fraction and --two-var take the folder of an "
    "`assignadd sweep`."
)
NO_SEED = "The population has no seed to which this applies, too few of them, or no rise with the setting."
LAST_LAYER = "In this network layer 2 and MLP2 are the last layer, and layer 1 is all layers before it."
ANOTHER_TASK = "This population has another task or architecture than the paper."


def uses(steps: Steps) -> Callable[[Wrapped], Wrapped]:
    """Says which checkpoints a measure looks at; without it, it is the network's last one."""

    def mark(measure: Wrapped) -> Wrapped:
        measure.steps = steps  # type: ignore[attr-defined]
        return measure

    return mark


def steps_of(measure: Measure, network: Network) -> list[int]:
    """The checkpoints of a network that a measure looks at."""
    return sorted(getattr(measure, "steps", lambda network: [network.step])(network))


@dataclass(frozen=True)
class Reading:
    """Another reading of a claim, mostly a stricter one: a second line of its record."""

    id: str
    """Its name within the record: `over-98:strict` is the reading `strict` of `over-98`."""
    says: str
    rule: Rule
    measure: Any = None
    """A function like the claim's; if None, the claim's."""


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
    seed_measure: SeedMeasure | None = None
    measured: PopulationMeasure | None = None
    sweep: str = ""
    """Which sweep `measured` reads, `fraction` or `two_var`; if empty, the census."""
    detail: Callable[[Network], str] | None = None
    """More about one network, in words."""
    of_last_layer: bool = False
    """Whether layer 2 and MLP2 stand for the last layer in networks with another number of layers."""
    if_binding: bool = True
    """Whether the claim is about networks that bind: a network that does not cannot be tested on it."""
    readings: tuple[Reading, ...] = ()

    @classmethod
    def ours(
        cls,
        id: str,
        claim: str,
        measure: Measure | None = None,
        rule: Rule | None = None,
        comment: str = "",
        *,
        paper: str = NOT_REPORTED,
        **further: Any,
    ) -> Claim:
        """A claim that the paper does not make; `paper` is what it says about the matter, if anything."""
        return cls(id, OURS, claim, paper, measure, rule, comment, **further)


@dataclass(frozen=True)
class SeedResult:
    """The number and verdict of one model."""

    run: str
    """The name of its run folder or population: two runs may have the same seed."""
    seed: int
    value: float
    low: float
    high: float
    verdict: str

    @classmethod
    def of(cls, run: str, seed: int, measured: Measured, rule: Rule) -> SeedResult:
        return cls(run, seed, measured.value, measured.low, measured.high, rule.verdict(measured))


@dataclass(frozen=True)
class Line:
    """What was measured for one reading of a claim, and the verdict."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    unit: str
    seeds: int
    verdict: str
    rule: str
    by_seed: tuple[SeedResult, ...] = ()
    reason: str = ""
    """Why there is no verdict, where there is none; what else must be said."""

    @property
    def sample(self) -> str:
        """What the number was counted on, such as "2,000 sequences" or "1 network"; empty where it was not."""
        return f"{self.n:,} {self.unit.removesuffix('s') if self.n == 1 else self.unit}" if self.n else ""


@dataclass(frozen=True)
class ReadingRecord(Line):
    """A second line of a record."""

    id: str = ""
    says: str = ""


@dataclass(frozen=True)
class Record(Line):
    """A line of the ledger, with its further readings."""

    id: str = ""
    label: str = ""
    claim: str = ""
    paper: str = ""
    comment: str = ""
    command: str = ""
    population: str = ""
    """The population of seeds behind the number; empty for trained networks and for the theory."""
    checkpoints: str = ""
    """The checkpoints that were looked at, such as "39,101 to 40,000 (10)"."""
    readings: tuple[ReadingRecord, ...] = ()


def judge(claim: Claim, networks: Sequence[Network], command: str, populations: Populations = NO_POPULATIONS) -> Record:
    """The record of a claim: over these networks, or over the population that the claim is about.

    A claim whose measure raises an error has a record that says so.
    """
    asked = [network for network in networks if binds(network)] if claim.if_binding else list(networks)
    main = _line(claim, None, claim.rule, asked, populations)
    readings = tuple(
        ReadingRecord(**vars(_line(claim, r.measure, r.rule, asked, populations)), id=r.id, says=r.says)
        for r in claim.readings
    )
    of_population = claim.measure is None and main.value is not None
    measured = {(result.run, result.seed) for result in main.by_seed}
    first = next((network for network in asked if (network.name, network.seed) in measured), None)
    comments = [
        main.reason,
        claim.comment if main.value is not None or claim.rule is None else "",
        ANOTHER_TASK if of_population and not populations.as_in_the_paper else "",
        LAST_LAYER if claim.of_last_layer and first and first.config.model.n_layers != 2 else "",
        f"Seed {first.seed}: {claim.detail(first)}." if claim.detail and first else "",
    ]
    return Record(
        **vars(main), id=claim.id, label=claim.label, claim=claim.claim, paper=claim.paper,
        comment=" ".join(filter(None, comments)), command=command, readings=readings,
        population=populations.name(claim.sweep) if of_population else "",
        checkpoints=in_words(steps_of(claim.measure, first)) if claim.measure and first else "",
    )  # fmt: skip


def find(records: Sequence[Record], id: str) -> Record | None:
    """The record with this id; for `record:reading`, a record with the sentence and the numbers of that reading."""
    name, _, wanted = id.partition(":")
    record = next((r for r in records if r.id == name), None)
    if record is None or not wanted:
        return record
    reading = next((r for r in record.readings if r.id == wanted), None)
    if reading is None:
        return None
    numbers = {f.name: getattr(reading, f.name) for f in fields(Line)}
    return replace(record, **numbers, id=id, claim=reading.says, paper=NOT_REPORTED, readings=())


def in_words(steps: Sequence[int]) -> str:
    """Checkpoints by their steps, in words."""
    if len(steps) < 3:
        return " and ".join(f"{step:,}" for step in steps)
    return f"{steps[0]:,} to {steps[-1]:,} ({len(steps)})"


def _line(claim: Claim, measure: Any, rule: Rule | None, asked: Sequence[Network], populations: Populations) -> Line:
    """One line of a claim's record: what `measure` says, by default the claim's, judged by the rule."""
    try:
        if claim.seed_measure is not None:
            return _over_census(measure or claim.seed_measure, rule, populations)
        if claim.measured is not None:
            return _of_population(measure or claim.measured, rule, populations, claim.sweep)
        return _over_networks(measure or claim.measure, rule, asked, claim.if_binding)
    except Exception as error:
        return _without_number(rule, BROKEN, f"The measure failed with {type(error).__name__}: {error}")


def _over_networks(measure: Measure | None, rule: Rule | None, asked: Sequence[Network], if_binding: bool) -> Line:
    """The numbers of all networks that have one; the verdict counts the same networks."""
    if measure is None or rule is None:
        return _without_number(rule, UNMEASURED, "")
    numbers: list[Measured] = []
    results: list[SeedResult] = []
    undefined = ""
    for network in asked:
        try:
            measured = measure(network)
        except NotDefined as error:
            undefined = error.reason
            continue
        if measured is not None:
            numbers.append(measured)
            results.append(SeedResult.of(network.name, network.seed, measured, rule))
    if not numbers and undefined:
        return _without_number(rule, NOT_APPLICABLE, f"Not defined for this architecture: it {undefined}.")
    if not numbers:
        return _without_number(rule, UNTESTABLE, NONE_BINDS if if_binding and not asked else CANNOT)
    value, low, high, reason = _median(numbers)
    if undefined:
        reason += f" Some networks have an architecture for which it is not defined: it {undefined}."
    return Line(
        value, low, high, sum(m.n for m in numbers), numbers[0].unit, len(results), verdict_over(results),
        by_interval(rule), tuple(results), reason.strip(),
    )  # fmt: skip


def _over_census(measure: SeedMeasure, rule: Rule | None, populations: Populations) -> Line:
    """The share of seeds in which the claim holds, among those to which it applies.

    The interval covers the sample of seeds, and those that are undecided, which may hold or not.
    """
    assert rule is not None
    measured = [(seed, measure(seed)) for seed in populations.seeds]
    results = tuple(SeedResult.of(seed.population, seed.seed, m, rule) for seed, m in measured if m is not None)
    if not results:
        return _without_number(rule, UNTESTABLE, NO_SEED if populations.seeds else NO_POPULATION)
    n = len(results)
    verdicts = Counter(result.verdict for result in results)
    verdict = verdict_over(results)
    if verdict == HOLDS and n < SEEDS_FOR_ALL:
        verdict = UNTESTABLE
    low = wilson(verdicts[HOLDS], n).low
    high = wilson(verdicts[HOLDS] + verdicts[UNDECIDED], n).high
    return Line(verdicts[HOLDS] / n, low, high, n, "seeds", n, verdict, by_interval(rule), results)


def _of_population(measure: PopulationMeasure, rule: Rule | None, populations: Populations, sweep: str) -> Line:
    """A number of a whole population; for another task than the paper's it is shown and not judged."""
    assert rule is not None
    measured = measure(populations)
    if measured is None:
        return _without_number(rule, UNTESTABLE, NO_SEED if populations.there(sweep) else NO_POPULATION)
    verdict = rule.verdict(measured) if populations.as_in_the_paper else UNTESTABLE
    seeds = measured.n if measured.unit == "seeds" else 0
    return Line(
        measured.value, measured.low, measured.high, measured.n, measured.unit, seeds, verdict, by_interval(rule)
    )


def _without_number(rule: Rule | None, verdict: str, reason: str) -> Line:
    """A line that says why there is no number."""
    return Line(None, None, None, 0, "", 0, verdict, by_interval(rule) if rule else "", (), reason)


def verdict_over(results: Sequence[SeedResult]) -> str:
    """The common verdict of several models; otherwise in how many it holds, fails and is undecided, all of them."""
    counts = Counter(result.verdict for result in results)
    if len(counts) <= 1:
        return next(iter(counts), UNTESTABLE)
    words = ((HOLDS, "holds", "hold"), (FAILS, "fails", "fail"), (UNDECIDED, "undecided", "undecided"))
    return ", ".join(
        f"{counts[verdict]} {singular if counts[verdict] == 1 else plural}"
        for verdict, singular, plural in words
        if counts[verdict]
    )


def _median(numbers: Sequence[Measured]) -> tuple[float, float | None, float | None, str]:
    """One number as measured; the median of several, with its interval from six on, and below that their range."""
    if len(numbers) == 1:
        return numbers[0].value, numbers[0].low, numbers[0].high, ""
    values = [m.value for m in numbers]
    median, interval = median_interval(values)
    if interval is not None:
        return median, interval.low, interval.high, ""
    seeds = f"Median of {len(values)} seeds, from {min(values):.4g} to {max(values):.4g}; too few for an interval."
    return median, None, None, seeds


def by_interval(rule: Rule) -> str:
    """A rule in words, with what the interval does."""
    return f"{rule}; undecided if the 95 % interval reaches to both sides of the threshold"
