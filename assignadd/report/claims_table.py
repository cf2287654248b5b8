"""The ledger on the page: every claim with its verdict, which hold for all, most or few seeds, and five findings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from assignadd.ledger.claim import NOT_REPORTED, OURS, ReadingRecord, Record, SeedResult, find, verdict_over
from assignadd.paper.ledger import paper_network
from assignadd.report.page import Card, Page, marked, number, tag
from assignadd.stats import BROKEN, FAILS, HOLDS, NOT_APPLICABLE, SOME_SEEDS, UNDECIDED, UNMEASURED, UNTESTABLE

TONES = {HOLDS: "good", FAILS: "bad", SOME_SEEDS: "mixed"}
ORDER = (HOLDS, SOME_SEEDS, UNDECIDED, FAILS, BROKEN, UNTESTABLE, NOT_APPLICABLE, UNMEASURED)
AS_STATED, NOT_AS_STATED, NEW = "as the paper says", "not as the paper says", "not in the paper"
OTHER_NETWORK = "another verdict than the paper's own network"
CHANGES = {HOLDS: AS_STATED, FAILS: NOT_AS_STATED, SOME_SEEDS: NOT_AS_STATED}
# Whether a column sorts by numbers, and the class of its cells: the text of wide ones may wrap.
COLUMNS = {
    "claim": (None, "wide"), "verdict": ("number", "wide"), "paper": (None, "wide"), "measured": ("number", None),
    "n": ("number", "wide"), "seeds": ("number", None), "where": (None, None),
}  # fmt: skip


def claims_table(page: Page, records: Sequence[Record], figures: Collection[str] = ()) -> None:
    """Adds the table: headers that sort it, and above it a search field and buttons that filter it (`table.js`).

    `figures` are the labels of the figures on the page, to which it links.
    """
    head = "".join(
        tag("th", tag("button", name, type="button"), scope="col", data_kind=kind)
        for name, (kind, _) in COLUMNS.items()
    )
    body = "".join(_row(record, record.label in figures) for record in records)
    table = tag("table", tag("thead", tag("tr", head)) + tag("tbody", body), data_sortable=True)
    search = tag("label", 'Search <input type="search" placeholder="words or an id">')
    count = tag("p", f"{len(records)} of {len(records)} shown", class_="soft", role="status")
    filters = _filters("Verdict", [[group(record.verdict)] for record in records])
    filters += _filters("Changed since the paper", [_since_the_paper(record) for record in records])
    tools = tag("div", search + filters + count, class_="tools", hidden=True)
    page.scripted(tag("div", tools + tag("div", table, class_="scroll"), data_table=True))


def _row(record: Record, has_figure: bool) -> str:
    """The row of a claim."""
    verdict, place = group(record.verdict), marked(record.label)
    pill = tag("span", escape(record.verdict), class_=f"verdict {TONES.get(verdict, '')}".strip())
    # What each cell shows, and what it is sorted by: None comes last.
    cells: list[tuple[str, str | float | None]] = [
        (marked(record.claim) + _details(record), record.claim),
        (pill, _rank(record.verdict)),
        (marked(record.paper), record.paper),
        (_measured(record), record.value),
        (escape(record.sample), record.n or None),
        (str(record.seeds) if record.seeds else "", record.seeds or None),
        (tag("a", place, href=f"#{record.label}") if has_figure else place, record.label),
    ]
    written = "".join(
        tag("td", html, data_label=name, data_sort="" if key is None else str(key), data_kind=kind, class_=wide)
        for (html, key), (name, (kind, wide)) in zip(cells, COLUMNS.items(), strict=True)
    )
    return tag("tr", written, id=f"claim-{record.id}", data_groups=f"{verdict}|{'; '.join(_since_the_paper(record))}")


def _filters(kind: str, groups: Sequence[Sequence[str]]) -> str:
    """A button for every group of one kind, with the number of its rows."""
    counts = Counter(group for of_row in groups for group in of_row)
    buttons = [("", "all", len(groups)), *((group, group, n) for group, n in counts.items())]
    made = (
        tag("button", marked(f"{name} ({n})"), type="button", data_show=show, aria_pressed="false" if show else "true")
        for show, name, n in buttons
    )
    return tag("div", tag("span", kind) + "".join(made), class_="filters", role="group", aria_label=kind)


def _since_the_paper(record: Record) -> list[str]:
    """What has changed since the paper: against its statement, and against its own network."""
    verdict, stored = group(record.verdict), find(paper_network().records, record.id)
    if record.label == OURS or record.paper == NOT_REPORTED:
        changes = [NEW]
    else:
        changes = [CHANGES[verdict]] if verdict in CHANGES else []
    if stored is not None and stored.verdict in TONES and verdict in TONES and stored.verdict != verdict:
        changes.append(OTHER_NETWORK)
    return changes


def group(verdict: str) -> str:
    """The verdict without its count of seeds."""
    return verdict if verdict in ORDER else SOME_SEEDS


def _rank(verdict: str) -> float:
    """The order of verdicts, from what holds, by share of seeds, to what was not measured."""
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (holds?|fails?|undecided)", verdict)}
    held = counts.get("hold", 0) + counts.get("holds", 0)
    return ORDER.index(group(verdict)) + (1 - held / sum(counts.values()) if counts else 0.0)


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
        *(_reading(r) for r in record.readings),
        record.comment,
        f"Rule: {record.rule}." if record.rule else "",
        f"Population: {record.population}." if record.population else "",
        f"Checkpoints: {record.checkpoints}." if record.checkpoints else "",
        f"By seed: {by_seed}." if len(record.by_seed) > 1 else "",
    ]
    text = "".join(tag("p", marked(line)) for line in lines if line) + tag("p", tag("code", escape(record.command)))
    return tag("details", tag("summary", "how it was judged") + text)


def _reading(reading: ReadingRecord) -> str:
    """A second line of a record: what it says, its number and its verdict."""
    if reading.value is None:
        return f"{reading.says} {reading.verdict.capitalize()}."
    ends = "" if reading.low == reading.high or reading.low is None or reading.high is None else (
        f" ({number(reading.low)} to {number(reading.high)})"
    )  # fmt: skip
    return f"{reading.says} {reading.verdict.capitalize()}: {number(reading.value)}{ends}."


def _mark(seed: SeedResult) -> str:
    return "" if seed.verdict == HOLDS else f" ({seed.verdict})"


# Claims about all initialisations, by the share of seeds in which they hold.
GROUPS = (("for all", 1.0, 2.0), ("for most", 0.5, 1.0), ("for few", 0.0, 0.5))


def across_seeds(page: Page, records: Sequence[Record]) -> None:
    """Adds the claims about all initialisations, by the share of seeds in which they hold."""
    asked = [r for r in records if r.unit == "seeds" and r.by_seed and r.value is not None]
    if not asked:
        return
    page.text(
        f"The claims about all initialisations, asked of every seed of one population, {asked[0].population} (or of "
        "those that bind, where the claim says so). A seed is undecided if its interval reaches to both sides of the "
        "threshold."
    )
    rows = []
    for name, low, high in GROUPS:
        rows += [(f"{name}: {r.claim}", _count(r.by_seed)) for r in asked if low <= (r.value or 0.0) < high]
    page.table(("what holds", "seeds"), rows)


def _count(asked: Sequence[SeedResult]) -> str:
    """How many of these seeds hold, fail and are undecided."""
    verdict = verdict_over(asked)
    return f"all {len(asked)}: {verdict}" if verdict in (HOLDS, FAILS, UNDECIDED) else verdict


# The claims of one section in words, and the five findings that the page begins with.

LISTED = 8


def verdicts_in_words(page: Page, records: Sequence[Record]) -> None:
    """Adds how many claims of a section have each verdict, with links to the paper's that do not hold in every seed."""
    if not records:
        return
    counts = Counter(group(record.verdict) for record in records)
    words = ", ".join(f"{verdict}: {counts[verdict]}" for verdict in ORDER if counts[verdict])
    claims = f"{len(records)} claims and readings" if len(records) > 1 else "one claim"
    page.text(f"The {claims} of this section by {'their verdicts' if len(records) > 1 else 'its verdict'}: {words}.")
    refuted = [r for r in records if r.label != OURS and group(r.verdict) in (FAILS, SOME_SEEDS)]
    if refuted:
        links = [(record.claim.rstrip("."), f"#claim-{record.id}") for record in refuted[:LISTED]]
        more = f" (the first {LISTED} of {len(refuted)})" if len(refuted) > LISTED else ""
        page.text(f"The paper's statements that do not hold, or not in every seed{more}:", links=links)


SHOWN = 5
OPEN = (BROKEN, UNTESTABLE, NOT_APPLICABLE, UNMEASURED)


@dataclass(frozen=True)
class Finding:
    question: str
    claim: str  # the id of the one that answers it
    figures: tuple[str, ...]  # labels; where a network has no such figure, the next one is shown


# The first five that could be tested are shown.
FINDINGS = (
    Finding("Does it answer sums that it never saw?", "held-out-pairs-99.4", ("accuracies", "census")),
    Finding("Does = find the two numbers?", "attn-l2-equal-to-values", ("circuit", "attention")),
    Finding("Does adding come before looking up?", "addition-first-train", ("progress_measures", "accuracies")),
    Finding("Does every seed learn to look up?", "every-seed-binds", ("census",)),
    Finding("Does it answer held-out doubles n + n?", "held-out-pairs-99.4:doubles", ("accuracies",)),
    Finding("Does a variable work in a slot new to it?", "new-positions-99.6", ("late", "accuracies")),
    Finding("Is the sum computed by the MLP?", "probe-after-mlp", ("probes",)),
    Finding("Is one neuron nearly one wave?", "fourier-best-neuron", ("preacts",)),
    Finding("Is the theorem's memory its largest term?", "theory-memory-dominates", ("theory_beta",)),
)


def findings(records: Sequence[Record], picture: Callable[[str], Path | None]) -> list[Card]:
    """The cards of the first five questions whose claims were decided, then of others, if these are fewer.

    `picture` returns the SVG file of a figure; None where it was not drawn or there were no data for it.
    """
    asked = [(finding, line) for finding in FINDINGS if (line := find(records, finding.claim)) is not None]
    decided = [pair for pair in asked if pair[1].verdict not in OPEN]
    chosen = (decided + [pair for pair in asked if pair not in decided])[:SHOWN]
    return [_card(finding, line, picture) for finding, line in asked if (finding, line) in chosen]


def _card(finding: Finding, record: Record, picture: Callable[[str], Path | None]) -> Card:
    figure = next((label for label in finding.figures if picture(label)), finding.figures[0])
    tone = TONES.get(group(record.verdict), "")
    text = f"{record.claim} {_numbers(record)}".strip()
    return Card(finding.question, record.verdict, tone, text, picture(figure), figure, record.id)


def _numbers(record: Record) -> str:
    """The measured number with its interval and what it is over, and the paper's."""
    paper = "" if record.paper == NOT_REPORTED else f" The paper says: {record.paper}."
    if record.value is None:
        return paper.strip()
    interval = ""
    if record.low is not None and record.high is not None and record.low != record.high:
        interval = f" [{number(record.low, 3)}, {number(record.high, 3)}]"
    seeds = f", {record.seeds} networks" if record.seeds > 1 and record.unit != "seeds" else ""
    over = f" ({record.sample}{seeds})" if record.n else ""
    return f"Measured: {number(record.value, 3)}{interval}{over}.{paper}"
