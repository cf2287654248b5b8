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
    """A number with `digits` significant digits; from a thousand on as a whole number in groups of three digits."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.{digits}g}"


def marked(text: str) -> str:
    """A text as HTML: it is escaped, and words in `back quotes` are code."""
    parts = escape(text).split("`")  # those at odd places stand between two back quotes
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def tag(name: str, content: str, **attributes: str | bool | None) -> str:
    """An HTML element with this content, which is HTML itself.

    The values of attributes are escaped; one that is None or False is left out, and one that is True has no value.
    `class_` becomes `class`, and `data_sort` becomes `data-sort`.
    """
    written = ""
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        hyphenated = key.rstrip("_").replace("_", "-")
        written += f" {hyphenated}" if value is True else f' {hyphenated}="{escape(value)}"'
    return f"<{name}{written}>{content}</{name}>"


@dataclass(frozen=True)
class Card:
    """A question with its answer, as the page shows it at the top."""

    question: str
    verdict: str
    tone: str
    """The colour of the verdict: good, bad, mixed or none."""
    text: str
    svg: Path | None
    """The file of the picture."""
    figure: str
    """The label of the picture, by which the page links to it."""
    claim: str
    """The id of the claim that decides the verdict."""


@dataclass
class Page:
    """A page to which each method adds a part at the end."""

    title: str
    _parts: list[str] = field(default_factory=list)
    _headings: list[tuple[str, str]] = field(default_factory=list)
    _scripted: bool = False

    def heading(self, text: str) -> None:
        """Adds the heading of a section, to which `#section-NAME` leads: NAME is the text in lower case and hyphens."""
        name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
        self._headings.append((name, text))
        self._parts.append(tag("h2", escape(text), id=f"section-{name}"))

    def contents(self) -> None:
        """Adds links to the headings that follow, and not to those before."""
        self._parts.append(CONTENTS)  # replaced when all headings are there
        self._headings.clear()

    def text(self, text: str, soft: bool = False, links: Sequence[tuple[str, str]] = ()) -> None:
        """Adds a paragraph, paler and smaller if `soft`, that ends with links if there are any.

        A link is its words and its address; the address of a place on this page is `#` and its name.
        """
        paragraph = marked(text)
        if links:
            paragraph += " " + "; ".join(tag("a", marked(words), href=address) for words, address in links) + "."
        self._parts.append(tag("p", paragraph, class_="soft" if soft else None))

    def banner(self, text: str) -> None:
        """Adds a remark that a reader must not miss."""
        self._parts.append(tag("p", marked(text), class_="banner", role="note"))

    def cards(self, cards: Sequence[Card]) -> None:
        """Adds cards side by side: a question, the answer as a verdict, a picture, and the numbers behind it."""
        articles = ""
        for card in cards:
            verdict = tag("span", escape(card.verdict), class_=f"verdict {card.tone}".strip())
            picture = ""
            if card.svg is not None:
                image = _image(card.svg, f"Figure {card.figure}, in full below")
                picture = tag("a", image, href=f"#{card.figure}", class_="picture")
            link_to_claim = tag("a", "how it was judged", href=f"#claim-{card.claim}")
            articles += tag(
                "article",
                tag("h3", marked(card.question)) + tag("p", verdict) + picture + tag("p", marked(card.text))
                + tag("p", link_to_claim, class_="soft"),
            )  # fmt: skip
        self._parts.append(tag("div", articles, class_="cards"))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str | Cell]]) -> None:
        """Adds a plain table, which scrolls where it is wider than the page."""
        head = "".join(tag("th", escape(heading), scope="col") for heading in columns)
        body = ""
        for row in rows:
            cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
            body += tag("tr", "".join(tag("td", marked(cell.text), class_=cell.tone or None) for cell in cells))
        table = tag("table", tag("thead", tag("tr", head)) + tag("tbody", body))
        # The keyboard can scroll what it can reach.
        self._parts.append(tag("div", table, class_="scroll", tabindex="0"))

    def scripted(self, html: str) -> None:
        """Adds HTML that needs `SCRIPT`; the page then has that script."""
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
        """The whole page, with its style, its contents and, where a part needs it, its script."""
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
        """The element that tells a browser what the page may load: its own style and script, and pictures inside it."""
        policy = f"default-src 'none'; style-src {_hash(CSS)}; img-src data:; base-uri 'none'; form-action 'none'"
        if self._scripted:
            policy += f"; script-src {_hash(SCRIPT)}"
        return f'<meta http-equiv="Content-Security-Policy" content="{policy}">'


def _image(svg: Path, alt: str) -> str:
    """An SVG file as an image inside the page; `alt` is what is read aloud for it."""
    data = b64encode(svg.read_bytes()).decode()
    return f'<img alt="{escape(alt)}" src="data:image/svg+xml;base64,{data}">'


def _hash(text: str) -> str:
    """The hash of a style or script, in the words of a content security policy."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
