"""A claim about single networks, every seed of a census or a whole population; and the record of what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

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
"""A number of one trained network; None if it cannot be tested (its split has no held-out pairs, for example)."""
SeedMeasure = Callable[[SeedCurves], Measured | None]
"""A number of one seed of a census; None for a seed that the claim is not about."""
PopulationMeasure = Callable[[Populations], Measured | None]
"""A number of a census or a sweep as a whole; None without it."""
CheckpointsOf = Callable[[Network], Sequence[int]]
"""The steps of the checkpoints of a network that a measure looks at."""

# The label of claims that are not the paper's, and what stands for the paper's value.
OURS, NOT_REPORTED, IMPLIED = "ours", "not reported", "implied"
# A claim about all seeds is tested on at least this many: if none fails, fewer than 10 % of all seeds do (95 %).
SEEDS_FOR_ALL = 35
CANNOT = (
    "No network given here can be tested: the test needs checkpoints from its training (train with "
    "--record.checkpoint-every 100), or a task and split that have such sequences."
)
NONE_BINDS = "No network given here binds variables, which this claim is about."
NO_POPULATION = (
    "No such population of this task is available: `--census`, `--fraction` and `--two-var` take the folder of an "
    "`assignadd sweep`."
)
NO_SEED = "The population has no seed to which this applies, too few of them, or no rise with the setting."
ANOTHER_TASK = "This population has another task or architecture than the paper."


def uses(checkpoints_of: CheckpointsOf) -> Callable[[Measure], Measure]:
    """A decorator that says which checkpoints of any network a measure looks at; without it, the last one."""

    def mark(measure: Measure) -> Measure:
        measure.checkpoints_of = checkpoints_of  # type: ignore[attr-defined]
        return measure

    return mark


def steps_of(measure: Measure, network: Network) -> list[int]:
    """The steps of the checkpoints of a network that a measure looks at."""
    checkpoints_of: CheckpointsOf = getattr(measure, "checkpoints_of", lambda network: [network.step])
    return sorted(checkpoints_of(network))


@dataclass(frozen=True)
class Reading:
    """Another reading of a claim, mostly a stricter one: a second line of its record."""

    id: str
    """`over-98:strict` is the reading `strict` of `over-98`."""
    says: str
    rule: Rule
    measure: Any = None
    """A function like the claim's; if None, the claim's."""


@dataclass(frozen=True)
class Claim:
    """One sentence or number of the paper in our words, and the way to check it.

    `measure` is a number of one trained network. A claim about every initialisation has `seed_measure` instead, a
    number of one seed of a census: its value is the share of seeds in which the rule holds. One about a whole
    population has `population_measure`. The rule is decided by the 95 % interval.
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
    population_measure: PopulationMeasure | None = None
    sweep: str = ""
    """Which sweep `population_measure` reads, `fraction` or `two_var`; if empty, the census."""
    detail: Callable[[Network], str] | None = None
    """More about one network, in words."""
    if_binding: bool = True
    """Whether the claim is about networks that bind: a network that does not cannot be tested on it."""
    readings: tuple[Reading, ...] = ()

    @classmethod
    def ours(
        cls, id: str, claim: str, measure: Measure | None = None, rule: Rule | None = None, comment: str = "",
        *, paper: str = NOT_REPORTED, **further: Any,
    ) -> Claim:  # fmt: skip
        """A claim that the paper does not make; `paper` is what the paper says of it, `further` are other fields."""
        return cls(id, OURS, claim, paper, measure, rule, comment, **further)


def is_about_networks(claim: Claim) -> bool:
    """Whether a claim is about single networks: others are about the seeds of a census, or a population."""
    return claim.measure is not None


@dataclass(frozen=True)
class SeedResult:
    """The number and verdict of one network."""

    run: str
    """The name of its run folder or population."""
    seed: int
    value: float
    low: float
    high: float
    verdict: str


@dataclass(frozen=True)
class Line:
    """The number measured for one reading of a claim, and the verdict; without a number, `reason` says why."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    unit: str = ""
    seeds: int = 0
    """How many networks, or seeds of a population, the number is of."""
    verdict: str = ""
    rule: str = ""
    by_seed: tuple[SeedResult, ...] = ()
    reason: str = ""

    @property
    def sample(self) -> str:
        """What the number was counted on, such as "2,000 sequences" or "1 network"; empty where it was not."""
        if self.n == 0:
            return ""
        unit = self.unit.removesuffix("s") if self.n == 1 else self.unit
        return f"{self.n:,} {unit}"


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
    """The population of seeds that was measured; empty for trained networks and for the theory."""
    checkpoints: str = ""
    """The checkpoints that were looked at, such as "39,101 to 40,000 (10)"."""
    readings: tuple[ReadingRecord, ...] = ()


def judge(claim: Claim, networks: Sequence[Network], command: str, populations: Populations = NO_POPULATIONS) -> Record:
    """The record of a claim, over these networks or over the population that the claim is about.

    A claim whose measure raises an error has a record that says so.
    """
    eligible = [network for network in networks if not claim.if_binding or binds(network)]
    main = _line(claim, None, claim.rule, eligible, populations)
    readings = []
    for reading in claim.readings:
        line = _line(claim, reading.measure, reading.rule, eligible, populations)
        readings.append(ReadingRecord(**vars(line), id=reading.id, says=reading.says))
    measured = {(result.run, result.seed) for result in main.by_seed}
    first_measured = next((network for network in eligible if (network.name, network.seed) in measured), None)
    is_of_population = claim.measure is None and main.value is not None
    is_another_task = is_of_population and not populations.as_in_the_paper
    checkpoints = ""
    if claim.measure is not None and first_measured is not None:
        checkpoints = in_words(steps_of(claim.measure, first_measured))
    return Record(
        **vars(main), id=claim.id, label=claim.label, claim=claim.claim, paper=claim.paper,
        comment=_comment(claim, main, first_measured, is_another_task),
        command=command, population=populations.name(claim.sweep) if is_of_population else "",
        checkpoints=checkpoints, readings=tuple(readings),
    )  # fmt: skip


def _comment(claim: Claim, main: Line, first_measured: Network | None, is_another_task: bool) -> str:
    """What a record says beside its number; `first_measured` is the first network that has a number, or None."""
    sentences = [main.reason]
    if main.value is not None or claim.rule is None:
        sentences.append(claim.comment)
    if is_another_task:
        sentences.append(ANOTHER_TASK)
    if first_measured is not None and claim.detail is not None:
        sentences.append(f"Seed {first_measured.seed}: {claim.detail(first_measured)}.")
    return " ".join(filter(None, sentences))


def find(records: Sequence[Record], id: str) -> Record | None:
    """The record with this id; for an id `record:reading`, the record with that reading's sentence and numbers.

    None if there is no such record or reading.
    """
    for record in records:
        if record.id == id:
            return record
        for reading in record.readings:
            if f"{record.id}:{reading.id}" == id:
                numbers = {field.name: getattr(reading, field.name) for field in fields(Line)}
                return replace(record, **numbers, id=id, claim=reading.says, paper=NOT_REPORTED, readings=())
    return None


def in_words(steps: Sequence[int]) -> str:
    """Checkpoints by their steps, in words: "100 and 200", or "39,101 to 40,000 (10)" for more than two."""
    if len(steps) < 3:
        return " and ".join(f"{step:,}" for step in steps)
    return f"{steps[0]:,} to {steps[-1]:,} ({len(steps)})"


def _line(claim: Claim, measure: Any, rule: Rule | None, networks: Sequence[Network], populations: Populations) -> Line:
    """One line of a claim's record: the number of `measure`, or of the claim's measure for None, judged by the rule.

    Without a measure or a rule the line says so, and for a measure that raises an error it has the error.
    """
    measure = measure or claim.measure or claim.seed_measure or claim.population_measure
    if measure is None or rule is None:
        return Line(verdict=UNMEASURED, rule=rule_in_words(rule) if rule else "")
    try:
        if claim.seed_measure is not None:
            line = _over_census(measure, rule, populations)
        elif claim.population_measure is not None:
            line = _of_population(measure, rule, populations, claim.sweep)
        else:
            line = _over_networks(measure, rule, networks, claim.if_binding)
    except Exception as error:
        line = Line(verdict=BROKEN, reason=f"The measure failed with {type(error).__name__}: {error}")
    return replace(line, rule=rule_in_words(rule))


def _over_networks(measure: Measure, rule: Rule, networks: Sequence[Network], if_binding: bool) -> Line:
    """The median over all networks that have a number, and the verdict over the same networks.

    `if_binding` says that networks which do not bind have been left out.
    """
    numbers: list[Measured] = []
    results: list[SeedResult] = []
    undefined = ""  # the reason why the measure is not defined for some network
    for network in networks:
        try:
            number = measure(network)
        except NotDefined as error:
            undefined = error.reason
            continue
        if number is not None:
            numbers.append(number)
            results.append(_result(network.name, network.seed, number, rule))
    if not numbers and undefined:
        return Line(verdict=NOT_APPLICABLE, reason=f"Not defined for this architecture: it {undefined}.")
    if not numbers:
        return Line(verdict=UNTESTABLE, reason=NONE_BINDS if if_binding and not networks else CANNOT)
    value, low, high, remark = median_of(numbers)
    return Line(
        value, low, high, n=sum(number.n for number in numbers), unit=numbers[0].unit, seeds=len(results),
        verdict=verdict_over(results), by_seed=tuple(results), reason=remark,
    )  # fmt: skip


def _over_census(measure: SeedMeasure, rule: Rule, populations: Populations) -> Line:
    """The share of seeds in which the claim holds, among those to which it applies.

    The low end of the interval counts undecided seeds as seeds in which it fails, the high end as seeds in which it
    holds.
    """
    seeds_and_numbers = [(seed, measure(seed)) for seed in populations.seeds]
    results = [
        _result(seed.population, seed.seed, number, rule) for seed, number in seeds_and_numbers if number is not None
    ]
    if not results:
        return Line(verdict=UNTESTABLE, reason=NO_SEED if populations.seeds else NO_POPULATION)
    n = len(results)
    verdicts = Counter(result.verdict for result in results)
    verdict = verdict_over(results)
    if verdict == HOLDS and n < SEEDS_FOR_ALL:
        verdict = UNTESTABLE  # too few seeds to say so of all
    low = wilson(verdicts[HOLDS], n).low
    high = wilson(verdicts[HOLDS] + verdicts[UNDECIDED], n).high
    share = verdicts[HOLDS] / n
    return Line(share, low, high, n=n, unit="seeds", seeds=n, verdict=verdict, by_seed=tuple(results))


def _of_population(measure: PopulationMeasure, rule: Rule, populations: Populations, sweep: str) -> Line:
    """The number of a whole population; on a population of another task the paper's claim cannot be tested."""
    number = measure(populations)
    if number is None:
        return Line(verdict=UNTESTABLE, reason=NO_SEED if populations.of(sweep) else NO_POPULATION)
    verdict = rule.verdict(number) if populations.as_in_the_paper else UNTESTABLE
    return Line(**vars(number), seeds=number.n if number.unit == "seeds" else 0, verdict=verdict)


def _result(run: str, seed: int, number: Measured, rule: Rule) -> SeedResult:
    """The number of one network, judged by the rule."""
    return SeedResult(run, seed, number.value, number.low, number.high, rule.verdict(number))


def verdict_over(results: Sequence[SeedResult]) -> str:
    """The verdict that all results share, or how many have which, such as "3 hold, 1 fails"; untestable for none."""
    counts = Counter(result.verdict for result in results)
    if len(counts) <= 1:
        return next(iter(counts), UNTESTABLE)
    counted = []
    words = ((HOLDS, "holds", "hold"), (FAILS, "fails", "fail"), (UNDECIDED, "undecided", "undecided"))
    for verdict, singular, plural in words:
        if n := counts[verdict]:
            counted.append(f"{n} {singular if n == 1 else plural}")
    return ", ".join(counted)


def median_of(numbers: Sequence[Measured]) -> tuple[float, float | None, float | None, str]:
    """The median of these numbers, the low and high end of its interval, and a remark where it has no interval.

    A single number has the interval with which it was measured, two to five have none.
    """
    if len(numbers) == 1:
        return numbers[0].value, numbers[0].low, numbers[0].high, ""
    values = [number.value for number in numbers]
    median, interval = median_interval(values)
    if interval is not None:
        return median, interval.low, interval.high, ""
    remark = f"Median of {len(values)} seeds, from {min(values):.4g} to {max(values):.4g}; too few for an interval."
    return median, None, None, remark


def rule_in_words(rule: Rule) -> str:
    """A rule in words, and when it is undecided."""
    return f"{rule}; undecided if the 95 % interval reaches to both sides of the threshold"
