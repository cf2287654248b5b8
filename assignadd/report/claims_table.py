"""The ledger on the page: every claim with its verdict, and how many claims of a section have each verdict."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from html import escape

from assignadd.ledger.claim import NOT_REPORTED, OURS, Line, Record, find
from assignadd.paper.ledger import paper_network
from assignadd.report.page import Page, marked, number, tag
from assignadd.stats import BROKEN, FAILS, HOLDS, NOT_APPLICABLE, SOME_SEEDS, UNDECIDED, UNMEASURED, UNTESTABLE

# The colour of a verdict, by its name in page.css; verdicts that are not here have none.
TONES = {HOLDS: "good", FAILS: "bad", SOME_SEEDS: "mixed"}
# The order in which verdicts are sorted and counted.
ORDER = (HOLDS, SOME_SEEDS, UNDECIDED, FAILS, BROKEN, UNTESTABLE, NOT_APPLICABLE, UNMEASURED)
# How a verdict differs from the paper; the table can be filtered by this.
AS_STATED, NOT_AS_STATED, NEW = "as the paper says", "not as the paper says", "not in the paper"
OTHER_NETWORK = "another verdict than the paper's own network"
CHANGES = {HOLDS: AS_STATED, FAILS: NOT_AS_STATED, SOME_SEEDS: NOT_AS_STATED}
# For each column whether it sorts by numbers, and the class of its cells: the text of wide ones may wrap.
COLUMNS = {
    "claim": (None, "wide"), "verdict": ("number", "wide"), "paper": (None, "wide"), "measured": ("number", None),
    "n": ("number", "wide"), "seeds": ("number", None), "where": (None, None),
}  # fmt: skip


def claims_table(page: Page, records: Sequence[Record], figures: Collection[str] = ()) -> None:
    """Adds the table of all claims to the page.

    Its headings sort it; above it are a search field and buttons that filter it, which need the script `table.js`.
    `figures` are the labels of the figures on the page, to which it links.
    """
    head = "".join(
        tag("th", tag("button", name, type="button"), scope="col", data_kind=kind)
        for name, (kind, _) in COLUMNS.items()
    )
    body = "".join(_row(record, has_figure=record.label in figures) for record in records)
    table = tag("table", tag("thead", tag("tr", head)) + tag("tbody", body), data_sortable=True)
    search = tag("label", 'Search <input type="search" placeholder="words or an id">')
    count = tag("p", f"{len(records)} of {len(records)} shown", class_="soft", role="status")
    filters = _filters("Verdict", [[group(record.verdict)] for record in records])
    filters += _filters("Changed since the paper", [_since_the_paper(record) for record in records])
    tools = tag("div", search + filters + count, class_="tools", hidden=True)  # the script shows them
    page.scripted(tag("div", tools + tag("div", table, class_="scroll"), data_table=True))


def _row(record: Record, has_figure: bool) -> str:
    """The row of a claim; `has_figure` says whether the figure of its label is on the page, for a link."""
    verdict = group(record.verdict)
    label = marked(record.label).replace("_", "_<wbr>")  # where a long one may break
    measured = ""
    if record.value is not None:
        interval = _interval(record)
        measured = number(record.value) + (tag("div", interval, class_="soft") if interval else "")
    # For each column what the cell shows, and what the row is sorted by: None comes last.
    cells: list[tuple[str, str | float | None]] = [
        (_claim(record), record.claim),
        (tag("span", escape(record.verdict), class_=f"verdict {TONES.get(verdict, '')}".strip()), _rank(record)),
        (marked(record.paper), record.paper),
        (measured, record.value),
        (escape(record.sample), record.n or None),
        (str(record.seeds) if record.seeds else "", record.seeds or None),
        (tag("a", label, href=f"#{record.label}") if has_figure else label, record.label),
    ]
    row = ""
    for (html, sorted_by), (name, (kind, width_class)) in zip(cells, COLUMNS.items(), strict=True):
        sort_key = "" if sorted_by is None else str(sorted_by)
        row += tag("td", html, data_label=name, data_sort=sort_key, data_kind=kind, class_=width_class)
    # The groups that the buttons filter by: a list for each of the two kinds, in the order of `claims_table`.
    groups = f"{verdict}|{'; '.join(_since_the_paper(record))}"
    return tag("tr", row, id=f"claim-{record.id}", data_groups=groups)


def _filters(kind: str, groups_of_rows: Sequence[Sequence[str]]) -> str:
    """Buttons that show all rows or those of one group, each with the number of its rows.

    `kind` is what the rows are grouped by; each row may be in several groups.
    """
    counts = Counter(name for groups in groups_of_rows for name in groups)
    buttons = tag("button", f"all ({len(groups_of_rows)})", type="button", data_show="", aria_pressed="true")
    for name, n in counts.items():
        buttons += tag("button", marked(f"{name} ({n})"), type="button", data_show=name, aria_pressed="false")
    return tag("div", tag("span", kind) + buttons, class_="filters", role="group", aria_label=kind)


def _since_the_paper(record: Record) -> list[str]:
    """How a verdict differs from the paper: from its statement, and from the verdict on its own network."""
    verdict = group(record.verdict)
    changes = []
    if record.label == OURS or record.paper == NOT_REPORTED:
        changes.append(NEW)
    elif verdict in CHANGES:
        changes.append(CHANGES[verdict])
    papers_record = find(paper_network().records, record.id)  # of the same claim about the paper's own network
    if papers_record is not None:
        both_decided = verdict in TONES and papers_record.verdict in TONES
        if both_decided and papers_record.verdict != verdict:
            changes.append(OTHER_NETWORK)
    return changes


def group(verdict: str) -> str:
    """The verdict itself, or SOME_SEEDS for one that counts seeds, such as "2 hold, 1 fails"."""
    return verdict if verdict in ORDER else SOME_SEEDS


def _rank(record: Record) -> float:
    """The number by which verdicts are sorted: their place in ORDER.

    Of verdicts that count seeds, those with a larger share of seeds in which the claim holds come first.
    """
    place = float(ORDER.index(group(record.verdict)))
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (holds?|fails?|undecided)", record.verdict)}
    if not counts:
        return place
    n_holding = counts.get("hold", 0) + counts.get("holds", 0)
    return place + 1 - n_holding / sum(counts.values())


def _interval(line: Line, digits: int = 4) -> str:
    """The 95 % interval in words; empty where there is none, or where the number is exact."""
    if line.low is None or line.high is None or line.low == line.high:
        return ""
    return f"{number(line.low, digits)} to {number(line.high, digits)}"


def _claim(record: Record) -> str:
    """A claim, which unfolds: further readings, the rule behind the verdict, the values of all seeds."""
    lines = []
    for reading in record.readings:
        interval = f" ({_interval(reading)})" if _interval(reading) else ""
        measured = "" if reading.value is None else f": {number(reading.value)}{interval}"
        lines.append(f"{reading.says} {reading.verdict.capitalize()}{measured}.")
    seed_values = []
    for seed in record.by_seed:
        verdict = "" if seed.verdict == HOLDS else f" ({seed.verdict})"
        seed_values.append(f"{seed.seed}: {number(seed.value)}{verdict}")
    lines.append(record.comment)
    about = {
        "Rule": record.rule,
        "Population": record.population,
        "Checkpoints": record.checkpoints,
        "By seed": ", ".join(seed_values) if len(seed_values) > 1 else "",
    }
    lines += [f"{name}: {text}." for name, text in about.items() if text]
    paragraphs = "".join(tag("p", marked(line)) for line in lines if line)
    command = tag("p", tag("code", escape(record.command)))
    # Those of one name: where one is opened, the one before closes.
    return tag("details", tag("summary", marked(record.claim)) + paragraphs + command, name="claim")


def count_verdicts(page: Page, records: Sequence[Record]) -> None:
    """Adds to the page how many claims have each verdict."""
    counts = Counter(group(record.verdict) for record in records)
    claims = "1 claim" if len(records) == 1 else f"{len(records)} claims"
    labels = [(f"{verdict}: {counts[verdict]}", TONES.get(verdict, "")) for verdict in ORDER if counts[verdict]]
    page.labels(f"{claims}:", labels)


def list_refuted(page: Page, records: Sequence[Record]) -> None:
    """Adds the paper's claims that do not hold, or not in every seed, as links into the table of claims."""
    failing = re.compile(rf"{FAILS}|\d fails?\b")
    refuted = [record for record in records if record.label != OURS and failing.search(record.verdict)]
    if refuted:
        with page.folded(f"The paper's statements that do not hold, or not in every seed ({len(refuted)})"):
            page.links([(record.claim.rstrip("."), f"#claim-{record.id}") for record in refuted])
