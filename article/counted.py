"""What the article counts in committed tables and no claim or statement has: `counted | NAME`, in `counts`.

Nothing here had a rule before the tables were known; the text calls it a count, or exploratory.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import polars

from assignadd.paper.binding.claims import PATTERNS
from assignadd.paper.generalisation.seeds import SIX_SETS, achieved, in_final_exam
from assignadd.paper.theory.theorem import Setting, check
from assignadd.stats import AtLeast, lowest, wilson
from assignadd.sweeps import SeedCurves, shipped_population

ROOT = Path(__file__).resolve().parents[1]
HIGH, DOUBLES = 0.98, "0-var doubles"
Entry = dict[str, Any]


def counts() -> dict[str, Entry]:
    """Every number of this module, by `counted | NAME`."""
    census = [seed for name in ("census", "authors") for seed in shipped_population(name).seeds]
    found = of_census(census) | of_levels(census) | of_two_variables() | of_the_end() | of_cure()
    found |= of_fate() | of_slots() | of_doubles() | of_theory()
    return {f"counted | {name}": entry for name, entry in found.items()}


def share(among: Iterable[bool], unit: str = "networks") -> Entry:
    """The share of outcomes that are true, with Wilson's interval."""
    outcomes = list(among)
    interval = wilson(sum(outcomes), len(outcomes))
    return {"value": sum(outcomes) / len(outcomes), "low": interval.low, "high": interval.high, "n": len(outcomes),
            "unit": unit}  # fmt: skip


def verdicts(counted: Sequence[str]) -> Entry:
    """How many networks have each verdict, in the words of the ledger."""
    n = Counter(counted)
    kept = {"holds": n["holds"], "does not hold": n["does not hold"], "undecided": n["undecided"]}
    return {"value": n["holds"] / len(counted), "n": len(counted), "unit": "networks", "networks": kept}


def plain(value: float, n: int, unit: str = "networks", **further: Any) -> Entry:
    """A number without an interval."""
    return {"value": value, "n": n, "unit": unit, **further}


def of_census(census: Sequence[SeedCurves]) -> dict[str, Entry]:
    """The six test sets by medians, held-out doubles in both kinds of networks, patterns as trained."""
    binds = [seed for seed in census if seed.binds]
    stuck = [seed for seed in census if not seed.binds]
    six = [min(achieved(seed, name).value for name in SIX_SETS) for seed in binds]
    rates = [f"{pattern} ({n}-var, training law)" for pattern in PATTERNS for n in (0, 1, 2)]
    in_law = [lowest(in_final_exam(seed, name) for name in rates) for seed in binds]
    doubles_of_stuck = [achieved(seed, DOUBLES).value for seed in stuck]
    doubles = [achieved(seed, DOUBLES).value for seed in binds]
    return {
        "six sets, by medians": share(accuracy > HIGH for accuracy in six),
        "patterns, as in training": verdicts([AtLeast(0.99).verdict(rate) for rate in in_law if rate]),
        "doubles, stuck": share(value >= 0.95 for value in doubles_of_stuck),
        "doubles, stuck, median": plain(median(doubles_of_stuck), len(stuck)),
        "doubles, bind": share(value < 0.95 for value in doubles),
        "doubles, bind, median": plain(median(doubles), len(binds)),
    }


def of_levels(census: Sequence[SeedCurves]) -> dict[str, Entry]:
    """How near stuck networks are to the rule without names, on two-variable sums, where it fits less well."""
    from findings.stuck.rule import rule_accuracy

    stuck = [seed for seed in census if not seed.binds]
    found = {}
    for words, name in (("trained", "2-var train"), ("held out", "2-var add-restricted")):
        level = rule_accuracy(stuck[0].task, name)
        found[f"stuck level, two variables, {words}"] = share(abs(seed.final(name) - level) <= 0.02 for seed in stuck)
    return found


def of_two_variables() -> dict[str, Entry]:
    """The sweep over two-variable sequences at the paper's own mixture."""
    sweep = shipped_population("two-var")
    ratios, accuracy = sweep.finals("two_var_ratio", "2-var test")
    at = int(abs(ratios - 10 / 12).argmin())
    binds = sweep.binds("two_var_ratio")[at]
    return {
        "the paper's r, binds": share(binds.tolist()),
        "the paper's r, median of those": plain(float(median(accuracy[at][binds].tolist())), int(binds.sum())),
    }


def of_the_end() -> dict[str, Entry]:
    """The falling rate against the constant one, seed by seed, in seeds that bind with both."""
    column = "all test sets at the last step"
    constant, falls = cells("findings/end_of_training/end-of-training.parquet")
    both = zip(constant["binds"], falls["binds"], constant[column], falls[column], strict=True)
    pairs = [(before, after) for first, second, before, after in both if first and second]
    return paired("end of training", pairs)


def of_cure() -> dict[str, Entry]:
    """The higher rate against the paper's, seed by seed; and the six test sets in networks that bind."""
    papers, high = cells("findings/every_seed/cure.parquet", "the paper's", "high rate first")
    found = paired("cure", list(zip(papers["binds"], high["binds"], strict=True)))
    six = [f"{name} (final)" for name in SIX_SETS]
    for name, cell in (("the paper's", papers), ("high rate first", high)):
        lowest_set = cell.filter("binds").select(polars.min_horizontal(six)).to_series()
        found[f"cure, {name}, six sets"] = share((lowest_set > HIGH).to_list())
    return found


def cells(path: str, *names: str) -> list[polars.DataFrame]:
    """The cells of a study's table, sorted by seed; all of them in the order of the table unless named."""
    table = polars.read_parquet(ROOT / path)
    return [table.filter(cell=name).sort("seed") for name in names or table["cell"].unique(maintain_order=True)]


def paired(name: str, pairs: Sequence[tuple[bool, bool]]) -> dict[str, Entry]:
    """How many seeds only the second of two cells has, only the first, their difference, and McNemar's exact p."""
    n = len(pairs)
    gained = sum(after and not before for before, after in pairs)
    lost = sum(before and not after for before, after in pairs)
    difference = (gained - lost) / n
    half = 1.959964 * math.sqrt(gained + lost - (gained - lost) ** 2 / n) / n
    changed = gained + lost
    p = min(1.0, 2 * sum(math.comb(changed, k) for k in range(min(gained, lost) + 1)) / 2**changed)
    return {
        f"{name}, gained": plain(gained / n, n),
        f"{name}, lost": plain(lost / n, n),
        f"{name}, paired": plain(difference, n, low=difference - half, high=difference + half),
        f"{name}, McNemar": plain(p, n),
    }


def of_fate() -> dict[str, Entry]:
    """How many networks of each initialisation, order of the data and split bind, with the p of a chi-squared test."""
    from scipy.stats import chi2_contingency

    table = polars.read_parquet(ROOT / "findings/fate/fate.parquet").filter(cell="8 x 8 x 8")
    found = {}
    for source in ("init", "data", "split"):
        level = table.group_by(f"seed.{source}").agg(polars.col("binds").sum(), n=polars.len())
        binds, n = level["binds"].to_list(), level["n"].to_list()
        p = float(chi2_contingency([binds, [all - some for all, some in zip(n, binds, strict=True)]])[1])
        found[f"fate by {source}"] = plain(p, n[0], lowest=min(binds), highest=max(binds))
    return found


def of_slots() -> dict[str, Entry]:
    """What ten seeds that have all three patterns lose in banned slots without the attention to the literal."""
    models = json.loads((ROOT / "findings/operand_attention/operand-attention.json").read_text())["models"]
    change = "literal slot's weight to ="
    lost = [m["sets"]["1-var var-restricted"]["lost"][change][0] for m in models if m["run"] == "ordinary"]
    large = [loss for loss in lost if loss >= 0.05]
    return {"banned slots without the literal": plain(len(large) / len(lost), len(lost), lowest=min(large),
                                                      highest=max(large))}  # fmt: skip


def of_doubles() -> dict[str, Entry]:
    """Held-out doubles in networks that do not bind, with their votes, and how little the logit depends on n - m."""
    (line,) = cells("findings/doubles_or_a_line/doubles-or-a-line.parquet", "doubles, 512 neurons")
    (papers,) = cells("findings/doubles/doubles.parquet", "as in the paper")
    bind, others = papers.filter("binds"), papers.filter(~polars.col("binds"))
    vote, doubles = "vote of n for n + n, held out (final)", "held-out doubles (final)"
    return {
        "a class of doubles, not bound": mean(line.filter(~polars.col("binds"))["pairs of the class (final)"]),
        "votes, bound": mean(bind[vote]),
        "votes, not bound": mean(others[vote]),
        "doubles beside these votes, not bound": mean(others[doubles]),
        "distance irrelevance": mean(bind["distance irrelevance (final)"]),
    }


def mean(values: polars.Series) -> Entry:
    """The mean of a column, over networks."""
    return plain(sum(values) / len(values), len(values))


def of_theory() -> dict[str, Entry]:
    """The largest constant of the bound at the sizes of the experiment, over the beta that meet the conditions."""
    settings = [Setting(beta=k / 20) for k in range(1, 400)]
    constants = [check(s).constant for s in settings if s.meets_conditions]
    return {"theory, constant": plain(max(constants), len(constants), "values of beta")}
