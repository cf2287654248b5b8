"""The ledger as a table: what the paper says, what was measured, and the verdict."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from html import escape

from assignadd.claims.ledger import paper_network
from assignadd.claims.record import OURS, Record, SeedResult
from assignadd.report.html import SEVERAL, Column, Row, SortedCell, marked, number, tag
from assignadd.report.page import Page
from assignadd.verdicts import FAILS, HOLDS, NOT_APPLICABLE, SOME_SEEDS, UNDECIDED, UNMEASURED, UNTESTABLE

TONES = {HOLDS: "good", FAILS: "bad", SOME_SEEDS: "mixed"}
ORDER = (HOLDS, SOME_SEEDS, UNDECIDED, FAILS, UNTESTABLE, NOT_APPLICABLE, UNMEASURED)
KINDS = ("Verdict", "Changed since the paper")
AS_STATED, NOT_AS_STATED, NEW = "as the paper says", "not as the paper says", "not in the paper"
OTHER_NETWORK = "another verdict than the paper's own network"
CHANGES = {HOLDS: AS_STATED, FAILS: NOT_AS_STATED, SOME_SEEDS: NOT_AS_STATED}
COLUMNS = (
    Column("claim", wide=True),
    Column("verdict", numeric=True, wide=True),
    Column("paper", wide=True),
    Column("measured", numeric=True),
    Column("n", numeric=True, wide=True),
    Column("seeds", numeric=True),
    Column("where"),
)


def claims_table(page: Page, records: Sequence[Record], figures: Collection[str] = ()) -> None:
    """Adds the table; `figures` are the labels of the figures on the page, to which it links."""
    page.sortable(COLUMNS, [_row(record, record.label in figures) for record in records], KINDS)


def _row(record: Record, has_figure: bool) -> Row:
    verdict = group(record.verdict)
    pill = tag("span", escape(record.verdict), class_=f"verdict {TONES.get(verdict, '')}".strip())
    place = marked(record.label)
    cells = (
        SortedCell(marked(record.claim) + _details(record), record.claim),
        SortedCell(pill, _rank(record.verdict)),
        SortedCell(marked(record.paper), record.paper),
        SortedCell(_measured(record), record.value),
        SortedCell(escape(record.sample), record.n or None),
        SortedCell(str(record.seeds) if record.seeds else "", record.seeds or None),
        SortedCell(tag("a", place, href=f"#{record.label}") if has_figure else place, record.label),
    )
    return Row(cells, (verdict, SEVERAL.join(_since_the_paper(record))), f"claim-{record.id}")


def _since_the_paper(record: Record) -> list[str]:
    """What has changed since the paper: against its statement, and against its own network."""
    found = [CHANGES[verdict] for verdict in [group(record.verdict)] if verdict in CHANGES and record.label != OURS]
    found += [NEW] * (record.label == OURS)
    own = paper_network().get(record.id)
    decided = own is not None and {own.verdict, group(record.verdict)} <= {*TONES}
    return found + [OTHER_NETWORK] * (decided and own is not None and own.verdict != group(record.verdict))


def group(verdict: str) -> str:
    """The verdict without its count of seeds."""
    return verdict if verdict in ORDER else SOME_SEEDS


def _rank(verdict: str) -> float:
    """The order of verdicts, from what holds, by share of seeds, to what was not measured."""
    share = re.match(r"holds in (\d+) of (\d+) seeds", verdict)
    within = 1 - int(share[1]) / int(share[2]) if share else 0.0
    return ORDER.index(group(verdict)) + within


def _measured(record: Record) -> str:
    """The measured number with its 95 % interval, unless it is exact."""
    if record.value is None:
        return ""
    if record.low is None or record.high is None or record.low == record.high:
        return number(record.value)
    return number(record.value) + tag("div", f"{number(record.low)} to {number(record.high)}", class_="soft")


def _details(record: Record) -> str:
    """The rule and the command behind a verdict, and the values of all seeds, in a part that unfolds."""
    by_seed = ", ".join(f"{s.seed}: {number(s.value)}{_mark(s)}" for s in record.by_seed)
    lines = [
        record.comment,
        f"Rule: {record.rule}." if record.rule else "",
        f"Population: {record.population}." if record.population else "",
        f"By seed: {by_seed}." if len(record.by_seed) > 1 else "",
    ]
    text = "".join(tag("p", marked(line)) for line in lines if line) + tag("p", tag("code", escape(record.command)))
    return tag("details", tag("summary", "how it was judged") + text)


def _mark(seed: SeedResult) -> str:
    return {HOLDS: "", FAILS: f" ({FAILS})"}.get(seed.verdict, f" ({seed.verdict})")
