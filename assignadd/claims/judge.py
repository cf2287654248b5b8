"""From a claim and trained networks to its record: value, interval, verdict."""

from __future__ import annotations

from collections.abc import Sequence

from assignadd.claims.evidence import Evidence
from assignadd.claims.record import FAILS, HOLDS, UNMEASURED, UNTESTABLE, Claim, Measured, Record, SeedResult
from assignadd.stats import median_interval
from assignadd.sweeps.population import SeedCurves, population

# A claim about all seeds is tested on so many at least: none failing then bounds the share that fails below 10 % (95 %).
SEEDS_FOR_ALL = 35
CENSUS = "census"
CANNOT = (
    "No network here can be asked: it takes one that learned binding, with checkpoints along its training (train with "
    "--record.checkpoint-every 100), and a task and split that have such sequences."
)


def judge(claim: Claim, evidences: Sequence[Evidence], command: str) -> Record:
    """The claim's record: over these models, or over the population that the claim is about."""
    if claim.seed_measure is not None:
        return _of_seeds(claim, population(CENSUS).seeds)
    if claim.measured is not None:
        return _of_population(claim)
    found: list[tuple[Evidence, Measured]] = []
    if claim.measure is not None:
        found = [(e, m) for e in evidences if (m := claim.measure(e)) is not None]
    results = [SeedResult(e.run.name, e.seed, m.value, m.low, m.high, _holds(claim, m)) for e, m in found]
    shown = _over_seeds([m for e, m in found if e.learned_binding] or [m for _, m in found])
    verdict = UNMEASURED if claim.measure is None else _verdict(results)
    binding = [r.holds for (e, _), r in zip(found, results, strict=True) if e.learned_binding]
    said = [_on_binding(results, binding), claim.comment, _detail(claim, [e for e, _ in found])]
    comment = " ".join(filter(None, said)) if results or claim.measure is None else CANNOT
    return _record(claim, shown, results, verdict, comment, command)


def _of_seeds(claim: Claim, seeds: Sequence[SeedCurves]) -> Record:
    """The share of all seeds in which the claim holds, of those that it can be asked of."""
    assert claim.seed_measure is not None
    found = [(s.seed, m) for s in seeds if (m := claim.seed_measure(s)) is not None]
    results = [SeedResult(CENSUS, seed, m.value, m.low, m.high, _holds(claim, m)) for seed, m in found]
    held = sum(r.holds for r in results)
    verdict = _verdict(results) if len(results) >= SEEDS_FOR_ALL or held < len(results) else UNTESTABLE
    shown = Measured.share(held, len(results), "seeds") if results else None
    return _record(claim, shown, results, verdict, claim.comment, _command(claim))


def _of_population(claim: Claim) -> Record:
    assert claim.measured is not None
    found = claim.measured()
    verdict = UNTESTABLE if found is None else HOLDS if _holds(claim, found) else FAILS
    return _record(claim, found, [], verdict, claim.comment, _command(claim))


def _record(claim: Claim, shown: Measured | None, results: Sequence[SeedResult], verdict: str, comment: str, command: str) -> Record:
    value, low, high, n, unit = (shown.value, shown.low, shown.high, shown.n, shown.unit) if shown else (None, None, None, 0, "")
    seeds = len(results) or (n if unit == "seeds" else 0)
    return Record(
        claim.id, claim.label, claim.claim, claim.paper, value, low, high, n, unit, seeds, verdict, str(claim.rule or ""), comment,
        command, tuple(results),
    )  # fmt: skip


def _command(claim: Claim) -> str:
    """The populations come with the package: no run is needed."""
    return f"assignadd claims --only {claim.id}"


def _holds(claim: Claim, measured: Measured) -> bool:
    return claim.rule is not None and claim.rule.holds(measured)


def _verdict(results: Sequence[SeedResult]) -> str:
    """Over every model asked."""
    held = sum(r.holds for r in results)
    if not results:
        return UNTESTABLE
    if held in (0, len(results)):
        return HOLDS if held else FAILS
    return f"holds in {held} of {len(results)} seeds"


def _on_binding(results: Sequence[SeedResult], binding: Sequence[bool]) -> str:
    """Where only some seeds learned to bind variables, as the paper's network did: that the value is theirs, and how it stands there."""
    if not 0 < len(binding) < len(results):
        return ""
    return f"The value is that of the {len(binding)} seeds that learned binding; it holds in {sum(binding)} of them."


def _detail(claim: Claim, asked: Sequence[Evidence]) -> str:
    """More on the first network that binds."""
    first = next((e for e in asked if e.learned_binding), None)
    return f"Seed {first.seed}: {claim.detail(first)}." if claim.detail and first else ""


def _over_seeds(found: Sequence[Measured]) -> Measured | None:
    """One seed: as measured. Several: their median, with its own interval from six seeds on, before that the widest of theirs."""
    if len(found) <= 1:
        return found[0] if found else None
    value, interval = median_interval([m.value for m in found])
    low, high = (interval.low, interval.high) if interval else (min(m.low for m in found), max(m.high for m in found))
    return Measured(value, low, high, sum(m.n for m in found), found[0].unit)
