"""Text and tables as HTML: plain tables, and tables that sort by their headers and filter by a group (`table.js`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

SEVERAL = "; "  # between the groups of one kind, where a row belongs to several
SCRIPT = Path(__file__).with_name("table.js").read_text()


@dataclass(frozen=True)
class Cell:
    """A cell of a plain table, with a verdict's colour: good, bad or none."""

    text: str
    tone: str = ""


@dataclass(frozen=True)
class Column:
    name: str
    numeric: bool = False
    wide: bool = False
    """Whether its text may wrap."""


@dataclass(frozen=True)
class SortedCell:
    """HTML, and what it is sorted by: None sorts last."""

    html: str
    key: str | float | None


@dataclass(frozen=True)
class Row:
    cells: Sequence[SortedCell]
    groups: Sequence[str]
    """For each kind of groups by which the table filters the groups of this row, joined by `SEVERAL`."""
    id: str


def number(value: float, digits: int = 4) -> str:
    """A number with so many digits, whole and in groups of three from a thousand on."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.{digits}g}"


def marked(text: str) -> str:
    """Escaped text in which `back-quoted` words are code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))


def tag(name: str, content: str, **attributes: str | bool | None) -> str:
    """An element around HTML. Attributes are escaped; None and False leave one out; `data_sort` becomes `data-sort`."""
    given = {
        key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value not in (None, False)
    }
    written = "".join(f" {key}" if value is True else f' {key}="{escape(str(value))}"' for key, value in given.items())
    return f"<{name}{written}>{content}</{name}>"


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str | Cell]]) -> str:
    head = "".join(tag("th", escape(c), scope="col") for c in columns)
    body = "".join(tag("tr", "".join(_plain(c) for c in row)) for row in rows)
    return tag("div", tag("table", tag("thead", tag("tr", head)) + tag("tbody", body)), class_="scroll", tabindex="0")


def _plain(cell: str | Cell) -> str:
    return tag("td", marked(cell)) if isinstance(cell, str) else tag("td", marked(cell.text), class_=cell.tone or None)


def sortable_table(columns: Sequence[Column], rows: Sequence[Row], kinds: Sequence[str]) -> str:
    """A table with buttons as headers, and above it a search field and, for each kind of groups, a button per group.

    All of them need `SCRIPT` in the page, which shows them.
    """
    head = "".join(
        tag("th", tag("button", escape(c.name), type="button"), scope="col", data_kind="number" if c.numeric else None)
        for c in columns
    )
    body = "".join(
        tag("tr", "".join(map(_sorted, row.cells, columns)), id=row.id, data_groups="|".join(row.groups))
        for row in rows
    )
    table = tag("table", tag("thead", tag("tr", head)) + tag("tbody", body), data_sortable=True)
    search = tag("label", "Search " + '<input type="search" placeholder="words or an id">')
    count = tag("p", f"{len(rows)} of {len(rows)} shown", class_="soft", role="status")
    filters = "".join(_filters(kind, [row.groups[i] for row in rows]) for i, kind in enumerate(kinds))
    tools = tag("div", search + filters + count, class_="tools", hidden=True)
    return tag("div", tools + tag("div", table, class_="scroll"), data_table=True)


def _sorted(cell: SortedCell, column: Column) -> str:
    return tag(
        "td",
        cell.html,
        data_label=column.name,
        data_sort="" if cell.key is None else str(cell.key),
        data_kind="number" if column.numeric else None,
        class_="wide" if column.wide else None,
    )


def _filters(kind: str, groups: Sequence[str]) -> str:
    """A button for every group of one kind, with the number of its rows."""
    counts = Counter(one for group in groups for one in group.split(SEVERAL) if one)
    buttons = [("", "all", len(groups)), *((group, group, n) for group, n in counts.items())]
    made = (
        tag("button", marked(f"{name} ({n})"), type="button", data_show=show, aria_pressed="false" if show else "true")
        for show, name, n in buttons
    )
    return tag("div", tag("span", escape(kind)) + "".join(made), class_="filters", role="group", aria_label=kind)
