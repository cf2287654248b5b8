"""The section on many seeds: which claims hold for all, for most or for few seeds, or only for the paper's network."""

from __future__ import annotations

from collections.abc import Sequence

from assignadd.claims.evidence import Evidence
from assignadd.claims.ledger import paper_network
from assignadd.claims.record import Record, SeedResult
from assignadd.config import PRESETS, Config
from assignadd.report.page import Page
from assignadd.verdicts import HOLDS, UNDECIDED

GROUPS = (("for all", 1.0, 2.0), ("for most", 0.5, 1.0), ("for few", 0.0, 0.5))


def across_seeds(page: Page, records: Sequence[Record], evidences: Sequence[Evidence]) -> None:
    _census(page, records)
    _papers_own(page, records, [e for e in evidences if comparable(e)])


def _census(page: Page, records: Sequence[Record]) -> None:
    """Adds the claims about all initialisations, by the share of seeds in which they hold."""
    asked = [r for r in records if r.unit == "seeds" and r.by_seed and r.value is not None]
    if not asked:
        return
    page.text(
        f"The claims about all initialisations, asked of every seed of one population, {asked[0].population} (or of "
        "those that bind, where the claim says so). Seeds are counted by their value; where the interval leaves the "
        "verdict of some open, their number follows."
    )
    grouped = [(name, r) for name, low, high in GROUPS for r in asked if low <= (r.value or 0.0) < high]
    page.table(("what holds", "seeds"), [(f"{name}: {r.claim}", _count(r.by_seed)) for name, r in grouped])


def comparable(e: Evidence) -> bool:
    """Whether a network was trained here, on the paper's task and model, and binds as the paper's network does."""
    return is_the_papers(e.config) and not e.imported and e.learned_binding


def is_the_papers(config: Config) -> bool:
    """Whether these are the paper's task, in either reading of its banned slots, and its network."""
    return any(config.task == p.task and config.model == p.model for p in (PRESETS["paper"], PRESETS["authors"]))


def _papers_own(page: Page, records: Sequence[Record], ours: Sequence[Evidence]) -> None:
    """Adds the claims about one network that hold in the paper's, by whether they hold in ours."""
    names = {(e.name, e.seed) for e in ours}
    both = [(r, [s for s in r.by_seed if (s.run, s.seed) in names]) for r in records if r.id in paper_network()]
    held = [(r, asked) for r, asked in both if asked and paper_network()[r.id].verdict == HOLDS]
    if not held:
        return
    in_none = [(r, asked) for r, asked in held if not any(s.holds for s in asked)]
    in_some = [(r, asked) for r, asked in held if 0 < sum(s.holds for s in asked) < len(asked)]
    page.text(
        f"The claims about one network, asked of the {len(ours)} of this page that bind: {len(held)} hold in the "
        f"paper's own, imported from its checkpoints. Of these {len(held) - len(in_none) - len(in_some)} hold in all "
        f"of ours that could be asked, {len(in_some)} in some, and {len(in_none)} in none, so far only for the "
        "paper's run. Rules and intervals are in the table of claims."
    )
    grouped = [("only for the paper's run", *one) for one in in_none] + [("for some", *one) for one in in_some]
    rows = [
        (f"{name}: {r.claim}", f"{paper_network()[r.id].value:.4g}", _values(asked), _count(asked))
        for name, r, asked in grouped
    ]
    page.table(("what holds in the paper's network", "its value", "ours", "seeds"), rows)


def _values(asked: Sequence[SeedResult]) -> str:
    return ", ".join(f"{s.value:.4g}" for s in asked)


def _count(asked: Sequence[SeedResult]) -> str:
    undecided = sum(s.verdict == UNDECIDED for s in asked)
    return f"{sum(s.holds for s in asked)} of {len(asked)}" + (f" ({undecided} undecided)" if undecided else "")
