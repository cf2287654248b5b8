"""The ledger on the page: every claim with its verdict, and how many claims of a section have each verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import NamedTuple

from assignadd.ledger.claim import Line, Record
from assignadd.report.page import SCRIPT, Page, marked, number, tag, verdict_label
from assignadd.stats import BROKEN, FAILS, HOLDS, NOT_APPLICABLE, SOME_SEEDS, UNDECIDED, UNMEASURED, UNTESTABLE

# The colour of a verdict, by its name in page.css; verdicts that are not here have none.
TONES = {HOLDS: "good", FAILS: "bad", SOME_SEEDS: "mixed"}
# The order in which verdicts are sorted and counted; SOME_SEEDS stands for all that count seeds.
ORDER = (HOLDS, SOME_SEEDS, UNDECIDED, FAILS, BROKEN, UNTESTABLE, NOT_APPLICABLE, UNMEASURED)


class Column(NamedTuple):
    """A column of the table."""

    name: str
    kind: str | None = None
    """`number` where rows are sorted by a number; None where they are sorted by a text."""
    width_class: str | None = None
    """`wide` where the text of a cell may wrap."""


COLUMNS = (
    Column("claim", None, "wide"), Column("verdict", "number", "wide"), Column("paper", None, "wide"),
    Column("measured", "number"), Column("n", "number", "wide"), Column("seeds", "number"), Column("where"),
)  # fmt: skip


def claims_table(page: Page, records: Sequence[Record], figures: Collection[str] = ()) -> None:
    """Adds the table of all claims to the page, with links to its figures, whose labels are `figures`.

    Its headings sort it; above it are a search field and a button for each verdict, which need the script `table.js`.
    """
    head = ""
    for column in COLUMNS:
        head += tag("th", tag("button", column.name, type="button"), scope="col", data_kind=column.kind)
    body = "".join(_row(record, has_figure=record.label in figures) for record in records)
    table = tag("table", tag("thead", tag("tr", head)) + tag("tbody", body), data_sortable=True)
    search = tag("label", 'Search <input type="search" placeholder="words or an id">')
    count = tag("p", f"{len(records)} of {len(records)} shown", class_="soft", role="status")
    buttons = _verdict_buttons(verdict_group(record.verdict) for record in records)
    tools = tag("div", search + buttons + count, class_="tools", hidden=True)  # the script shows them
    page.add(tag("div", tools + tag("div", table, class_="scroll"), data_table=True))
    page.script = SCRIPT


def _row(record: Record, has_figure: bool) -> str:
    """The row of a claim; `has_figure` says whether the figure of its label is on the page, for a link."""
    verdict = verdict_group(record.verdict)
    label = marked(record.label).replace("_", "_<wbr>")  # where a long one may break
    measured = ""
    if record.value is not None:
        interval = _interval(record)
        measured = number(record.value) + (tag("div", interval, class_="soft") if interval else "")
    # For each of COLUMNS what the cell shows, as HTML, and what the row is sorted by: None comes last.
    cells: list[tuple[str, str | float | None]] = [
        (_claim(record), record.claim),
        (verdict_label(record.verdict, TONES.get(verdict, "")), ORDER.index(verdict)),
        (marked(record.paper), record.paper),
        (measured, record.value),
        (escape(record.sample), record.n or None),
        (str(record.seeds) if record.seeds else "", record.seeds or None),
        (tag("a", label, href=f"#{record.label}") if has_figure else label, record.label),
    ]
    row = ""
    for column, (html, sorted_by) in zip(COLUMNS, cells, strict=True):
        sort_key = "" if sorted_by is None else str(sorted_by)
        row += tag(
            "td", html, data_label=column.name, data_sort=sort_key, data_kind=column.kind, class_=column.width_class
        )
    return tag("tr", row, id=f"claim-{record.id}", data_verdict=verdict)


def _verdict_buttons(verdicts: Iterable[str]) -> str:
    """A button that shows all rows, and one for each verdict that shows its rows; `verdicts` has that of each row."""
    counts = Counter(verdicts)
    buttons = tag("button", f"all ({counts.total()})", type="button", data_show="", aria_pressed="true")
    for verdict, n in counts.items():
        buttons += tag("button", f"{verdict} ({n})", type="button", data_show=verdict, aria_pressed="false")
    return tag("div", tag("span", "Verdict") + buttons, class_="filters", role="group", aria_label="Verdict")


def verdict_group(verdict: str) -> str:
    """The verdict under which a claim is counted: itself, or SOME_SEEDS for a count of seeds ("2 hold, 1 fails")."""
    return verdict if verdict in ORDER else SOME_SEEDS


def _interval(line: Line) -> str:
    """The 95 % interval in words; "" where there is none, or where the number is exact."""
    if line.low is None or line.high is None or line.low == line.high:
        return ""
    return f"{number(line.low)} to {number(line.high)}"


def _claim(record: Record) -> str:
    """A claim as HTML, which unfolds to its further readings, its rule, the values of all seeds, and the command."""
    lines = []
    for reading in record.readings:
        interval = f" ({_interval(reading)})" if _interval(reading) else ""
        measured = "" if reading.value is None else f": {number(reading.value)}{interval}"
        lines.append(f"{reading.says} {reading.verdict.capitalize()}{measured}.")
    lines.append(record.comment)
    seed_values = []
    for seed in record.by_seed:
        verdict = "" if seed.verdict == HOLDS else f" ({seed.verdict})"
        seed_values.append(f"{seed.seed}: {number(seed.value)}{verdict}")
    about = {
        "Rule": record.rule,
        "Population": record.population,
        "Checkpoints": record.checkpoints,
        "By seed": ", ".join(seed_values) if len(seed_values) > 1 else "",
    }
    lines += [f"{name}: {text}." for name, text in about.items() if text]
    paragraphs = "".join(tag("p", marked(line)) for line in lines if line)
    command = tag("p", tag("code", escape(record.command)))
    # A browser leaves only one element of this name open.
    return tag("details", tag("summary", marked(record.claim)) + paragraphs + command, name="claim")


def counted_verdicts(records: Sequence[Record]) -> str:
    """How many claims have each verdict, as HTML."""
    counts = Counter(verdict_group(record.verdict) for record in records)
    claims = "1 claim" if len(records) == 1 else f"{len(records)} claims"
    labels = [verdict_label(f"{name}: {counts[name]}", TONES.get(name, "")) for name in ORDER if counts[name]]
    return tag("p", f"{claims}: {' '.join(labels)}", class_="labels")
