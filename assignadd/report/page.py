"""A self-contained HTML page: it loads nothing from elsewhere and runs no script but its own."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from pathlib import Path

from assignadd.palette import css_variables

CONTENTS = "<!-- contents -->"
CSS = css_variables() + Path(__file__).with_name("page.css").read_text()
SCRIPT = Path(__file__).with_name("table.js").read_text()


@dataclass(frozen=True)
class Cell:
    """A cell of a plain table, with a verdict's colour: good, bad or none."""

    text: str
    tone: str = ""


def number(value: float, digits: int = 4) -> str:
    """A number with so many digits, whole and in groups of three from a thousand on."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.{digits}g}"


def marked(text: str) -> str:
    """Escaped text in which `back-quoted` words are code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))


def tag(name: str, content: str, **attributes: str | bool | None) -> str:
    """An element around HTML. Attributes are escaped; None and False leave one out; `data_sort` becomes `data-sort`."""
    written = ""
    for key, value in attributes.items():
        if value not in (None, False):
            key = key.rstrip("_").replace("_", "-")
            written += f" {key}" if value is True else f' {key}="{escape(str(value))}"'
    return f"<{name}{written}>{content}</{name}>"


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str | Cell]]) -> str:
    head = "".join(tag("th", escape(c), scope="col") for c in columns)
    body = "".join(tag("tr", "".join(_plain(c) for c in row)) for row in rows)
    return tag("div", tag("table", tag("thead", tag("tr", head)) + tag("tbody", body)), class_="scroll", tabindex="0")


def _plain(cell: str | Cell) -> str:
    return tag("td", marked(cell)) if isinstance(cell, str) else tag("td", marked(cell.text), class_=cell.tone or None)


@dataclass(frozen=True)
class Card:
    question: str
    verdict: str
    tone: str
    text: str
    svg: Path | None  # the file of its picture
    figure: str  # its label
    claim: str  # the id of the one that decides


@dataclass
class Page:
    """A page to which each method adds a part at the end."""

    title: str
    _parts: list[str] = field(default_factory=list)
    _headings: list[tuple[str, str]] = field(default_factory=list)
    _scripted: bool = False

    def heading(self, text: str) -> None:
        name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
        self._headings.append((name, text))
        self._parts.append(tag("h2", escape(text), id=f"section-{name}"))

    def contents(self) -> None:
        """Adds links to the headings that follow."""
        self._parts.append(CONTENTS)
        self._headings.clear()

    def text(self, text: str, soft: bool = False, links: Sequence[tuple[str, str]] = ()) -> None:
        """Adds a paragraph; links, as words and address or `#` and the name of a place here, follow the text."""
        followed = "; ".join(tag("a", marked(words), href=to) for words, to in links)
        self._parts.append(
            tag("p", f"{marked(text)} {followed}".rstrip() + "." * bool(links), class_="soft" if soft else None)
        )

    def banner(self, text: str) -> None:
        """Adds a remark that a reader must not miss."""
        self._parts.append(tag("p", marked(text), class_="banner", role="note"))

    def cards(self, cards: Sequence[Card]) -> None:
        """Adds cards side by side: a question, the answer as a verdict, a picture, and the numbers behind it."""
        self._parts.append(tag("div", "".join(map(_card, cards)), class_="cards"))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str | Cell]]) -> None:
        self._parts.append(plain_table(columns, rows))

    def scripted(self, html: str) -> None:
        """Adds HTML that needs `SCRIPT`."""
        self._parts.append(html)
        self._scripted = True

    def folded(self, summary: str, text: str) -> None:
        """Adds long plain text in a part that unfolds."""
        self._parts.append(tag("details", tag("summary", marked(summary)) + tag("pre", escape(text), tabindex="0")))

    def picture(
        self, label: str, title: str, look_for: str, svg: Path, files: Sequence[str], caption: str, wide: bool = False
    ) -> None:
        """Adds a section `#label`: an SVG file inside the page, what to look for in it, and links to files beside it.

        A `wide` picture is shown larger than others, so that its words have the same size as theirs.
        The SVG is a data address, so that its markup cannot become part of the page.
        """
        image = _image(svg, f"{title}. {look_for}")
        links = " ".join(tag("a", escape(Path(name).name), href=name) for name in files)
        scrolled = tag("div", image, class_="scroll", tabindex="0", role="group", aria_label=f"Figure: {title}")
        about = tag("figcaption", f"{links} {marked(caption)}")
        shown = tag("figure", scrolled + about, class_="wide" if wide else None)
        self._parts.append(tag("section", tag("h3", marked(title)) + tag("p", marked(look_for)) + shown, id=label))

    def html(self) -> str:
        title = escape(self.title)
        entries = "".join(tag("li", tag("a", escape(text), href=f"#section-{name}")) for name, text in self._headings)
        contents = tag("nav", tag("h2", "Contents") + tag("ul", entries), aria_label="Contents", class_="contents")
        body = "\n".join(self._parts).replace(CONTENTS, contents, 1)
        script = tag("script", SCRIPT) if self._scripted else ""
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{self._policy()}<title>{title}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{CSS}</style></head>\n'
            f"<body><main><h1>{title}</h1>\n{body}\n</main>{script}</body></html>\n"
        )

    def _policy(self) -> str:
        """The page may load nothing but its own style and script, each by its hash, and pictures inside the page."""
        allowed = {"style-src": _hash(CSS), "img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}
        if self._scripted:
            allowed["script-src"] = _hash(SCRIPT)
        policy = "; ".join(f"{kind} {source}" for kind, source in ({"default-src": "'none'"} | allowed).items())
        return f'<meta http-equiv="Content-Security-Policy" content="{policy}">'


def _image(svg: Path, alt: str) -> str:
    data = b64encode(svg.read_bytes()).decode()
    return f'<img alt="{escape(alt)}" src="data:image/svg+xml;base64,{data}">'


def _card(card: Card) -> str:
    question = tag("h3", marked(card.question))
    verdict = tag("p", tag("span", escape(card.verdict), class_=f"verdict {card.tone}".strip()))
    picture = ""
    if card.svg is not None:
        image = _image(card.svg, f"Figure {card.figure}, in full below")
        picture = tag("a", image, href=f"#{card.figure}", class_="picture")
    link_to_claim = tag("p", tag("a", "how it was judged", href=f"#claim-{card.claim}"), class_="soft")
    return tag("article", question + verdict + picture + tag("p", marked(card.text)) + link_to_claim)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
