"""From a claim and trained networks to its record: value, interval, verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assignadd.claims.evidence import Evidence
from assignadd.claims.record import Claim, Measured, Record, SeedResult, verdict_over
from assignadd.stats import median_interval
from assignadd.sweeps.population import NO_POPULATIONS, Populations
from assignadd.verdicts import HOLDS, UNMEASURED, UNTESTABLE

# A claim about all seeds is tested on so many at least: none failing then bounds the share that fails below 10 % (95 %).
SEEDS_FOR_ALL = 35
CANNOT = (
    "No network here can be asked: it takes one that learned binding, with checkpoints along its training (train with "
    "--record.checkpoint-every 100), and a task and split that have such sequences."
)
NO_POPULATION = "No such population of this task is at hand: --census, --fraction and --two-var take the folder of an `assignadd sweep`."

NO_SEED = "The population at hand has no such seed, too few of them, or no rise with the setting."
ANOTHER_TASK = "This population is of another task or network than the paper's."


class _Shown(NamedTuple):
    """What a record shows of the numbers it is about; without an interval where there are too few seeds for one."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    unit: str = ""


def judge(
    claim: Claim, evidences: Sequence[Evidence], command: str, populations: Populations = NO_POPULATIONS
) -> Record:
    """The claim's record: over these models, or over the population that the claim is about."""
    if claim.seed_measure is not None:
        return _of_seeds(claim, populations, command)
    if claim.measured is not None:
        return _of_population(claim, populations, command)
    if claim.measure is None or claim.rule is None:
        return _record(claim, _Shown(), [], UNMEASURED, claim.comment, command)
    found = [(e, m) for e in evidences if (m := claim.measure(e)) is not None]
    results = [SeedResult.of(e.name, e.seed, m, claim.rule) for e, m in found]
    if not results:
        return _record(claim, _Shown(), [], UNTESTABLE, CANNOT, command)
    binding = [(m, r) for (e, m), r in zip(found, results, strict=True) if e.learned_binding]
    shown = [m for m, _ in binding] or [m for _, m in found]
    said = [
        _on_binding([r for _, r in binding], len(results)),
        _range(shown),
        claim.comment,
        _detail(claim, [e for e, _ in found]),
    ]
    return _record(claim, _over_seeds(shown), results, verdict_over(results), " ".join(filter(None, said)), command)


def _of_seeds(claim: Claim, populations: Populations, command: str) -> Record:
    """The share of all seeds in which the claim holds, of those that it can be asked of."""
    assert claim.seed_measure is not None and claim.rule is not None
    found = [(s, m) for s in populations.seeds if (m := claim.seed_measure(s)) is not None]
    results = [SeedResult.of(s.population, s.seed, m, claim.rule) for s, m in found]
    if not results:
        return _record(claim, _Shown(), [], UNTESTABLE, NO_SEED if populations.seeds else NO_POPULATION, command)
    verdict = verdict_over(results)
    if verdict == HOLDS and len(results) < SEEDS_FOR_ALL:
        verdict = UNTESTABLE
    share = Measured.share(sum(r.holds for r in results), len(results), "seeds")
    comment = claim.comment if populations.as_in_the_paper else f"{claim.comment} {ANOTHER_TASK}".strip()
    return _record(claim, _over_seeds([share]), results, verdict, comment, command, populations.census_name)


def _of_population(claim: Claim, populations: Populations, command: str) -> Record:
    """A number of a whole population; the paper's numbers are about its own task, so another task's is shown and not judged."""
    assert claim.measured is not None and claim.rule is not None
    found = claim.measured(populations)
    if found is None:
        return _record(
            claim, _Shown(), [], UNTESTABLE, NO_SEED if populations.there(claim.sweep) else NO_POPULATION, command
        )
    verdict, comment = claim.rule.verdict(found), claim.comment
    if not populations.as_in_the_paper:
        verdict, comment = UNTESTABLE, f"{comment} {ANOTHER_TASK} The paper's number is about its own.".strip()
    return _record(claim, _over_seeds([found]), [], verdict, comment, command, populations.name(claim.sweep))


def _record(
    claim: Claim,
    shown: _Shown,
    results: Sequence[SeedResult],
    verdict: str,
    comment: str,
    command: str,
    population: str = "",
) -> Record:
    rule = f"{claim.rule}; undecided while the 95 % interval reaches to both sides" if claim.rule else ""
    seeds = len(results) or (shown.n if shown.unit == "seeds" else 0)
    return Record(
        claim.id,
        claim.label,
        claim.claim,
        claim.paper,
        *shown,
        seeds,
        verdict,
        rule,
        comment,
        command,
        tuple(results),
        population,
    )


def _on_binding(binding: Sequence[SeedResult], n_models: int) -> str:
    """Where only some seeds learned to bind variables, as the paper's network did: that the value is theirs, and how it stands there."""
    if not 0 < len(binding) < n_models:
        return ""
    return f"The value is that of the {len(binding)} seeds that learned binding; it holds in {sum(r.holds for r in binding)} of them."


def _range(found: Sequence[Measured]) -> str:
    """What a median of few seeds leaves out."""
    values = [m.value for m in found]
    if len(values) < 2 or median_interval(values)[1] is not None:
        return ""
    return f"Median of {len(values)} seeds, from {min(values):.4g} to {max(values):.4g}; too few for an interval."


def _detail(claim: Claim, asked: Sequence[Evidence]) -> str:
    """More on the first network that binds."""
    first = next((e for e in asked if e.learned_binding), None)
    return f"Seed {first.seed}: {claim.detail(first)}." if claim.detail and first else ""


def _over_seeds(found: Sequence[Measured]) -> _Shown:
    """One seed: as measured. Several: their median, with its own interval from six seeds on."""
    first = found[0]
    if len(found) == 1:
        return _Shown(first.value, first.low, first.high, first.n, first.unit)
    value, interval = median_interval([m.value for m in found])
    low, high = (interval.low, interval.high) if interval else (None, None)
    return _Shown(value, low, high, sum(m.n for m in found), first.unit)
