"""A self-contained HTML page: it loads nothing from elsewhere and runs no script but its own."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from pathlib import Path

from assignadd.palette import css_variables

CSS = css_variables() + Path(__file__).with_name("page.css").read_text()
SCRIPT = Path(__file__).with_name("table.js").read_text()


@dataclass(frozen=True)
class Cell:
    """A cell of a plain table, with the colour of a verdict: "good", "bad", or "" for none."""

    text: str
    tone: str = ""


def number(value: float, digits: int = 4) -> str:
    """A number with `digits` significant digits; between a thousand and 1e9 whole, in groups of three digits."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.{digits}g}"


def marked(text: str) -> str:
    """A text as HTML: it is escaped, and words in `back quotes` are code."""
    html = ""
    for i, piece in enumerate(escape(text).split("`")):
        is_quoted = i % 2 == 1  # pieces at odd places stand between two back quotes
        html += f"<code>{piece}</code>" if is_quoted else piece
    return html


def verdict_label(text: str, tone: str) -> str:
    """A verdict as HTML, in the colour of its tone: good, bad, mixed, or none for ""."""
    return tag("span", escape(text), class_=f"verdict {tone}".strip())


def tag(name: str, content: str, /, **attributes: str | bool | None) -> str:
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
class Picture:
    """A figure of the page."""

    label: str
    """The name by which the page links to it."""
    title: str
    look_for: str
    """The caption: what a reader should look for."""
    svg: Path | None = None
    """The file of the picture; None where there were no data to draw."""
    files: Sequence[str] = ()
    """The addresses of its files, which the page links to."""

    def html(self) -> str:
        """A section: title, what to look for and, if there is a picture, links to its files; beside them the picture.

        The SVG is a data address, so that its markup cannot become part of the page.
        """
        links = " ".join(tag("a", escape(Path(name).name), href=name) for name in self.files)
        words = tag("h3", marked(self.title)) + tag("p", marked(self.look_for))
        if self.svg is None:
            return tag("section", words, id=self.label)
        data = b64encode(self.svg.read_bytes()).decode()
        alt = escape(f"{self.title}. {self.look_for}")
        image = f'<img alt="{alt}" src="data:image/svg+xml;base64,{data}">'
        # The keyboard can reach and scroll an element with a tabindex.
        shown = tag("figure", image, class_="scroll", tabindex="0", role="group", aria_label=f"Figure: {self.title}")
        text = tag("div", words + tag("p", links, class_="soft"))
        return tag("section", text + shown, id=self.label, class_="picture")


@dataclass
class Page:
    """A page to which each method adds a part at the end."""

    title: str
    script: str = ""
    """What the page runs, such as `SCRIPT`."""
    _parts: list[str] = field(default_factory=list)
    _headings: list[tuple[str, str]] = field(default_factory=list)  # the name in the address, and the text

    def add(self, html: str) -> None:
        """Adds HTML, in which every text is escaped (`tag`, `marked`)."""
        self._parts.append(html)

    def heading(self, text: str) -> None:
        """Adds the heading of a section, to which `#section-NAME` leads: NAME is the text in lower case and hyphens."""
        name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
        self._headings.append((name, text))
        self.add(tag("h2", escape(text), id=f"section-{name}"))

    def text(self, text: str, soft: bool = False) -> None:
        """Adds a paragraph, paler and smaller if `soft`."""
        self.add(tag("p", marked(text), class_="soft" if soft else None))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str | Cell]]) -> None:
        """Adds a plain table, which scrolls where it is wider than the page."""
        head = "".join(tag("th", escape(heading), scope="col") for heading in columns)
        body = ""
        for row in rows:
            cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
            body += tag("tr", "".join(tag("td", marked(cell.text), class_=cell.tone or None) for cell in cells))
        table = tag("table", tag("thead", tag("tr", head)) + tag("tbody", body))
        # The keyboard can reach and scroll an element with a tabindex.
        self.add(tag("div", table, class_="scroll", tabindex="0"))

    @contextmanager
    def folded(self, summary: str, in_pairs: bool = False) -> Iterator[None]:
        """A context: what is added in it is in a part that unfolds. With `in_pairs`, its figures are side by side."""
        opening = '<details class="pairs">' if in_pairs else "<details>"
        self.add(opening + tag("summary", marked(summary)))
        yield
        self.add("</details>")

    def html(self) -> str:
        """The whole page, with its style, its contents and, where a part needs it, its script."""
        title = escape(self.title)
        entries = "".join(tag("li", tag("a", escape(text), href=f"#section-{name}")) for name, text in self._headings)
        contents = tag("nav", tag("ul", entries), aria_label="Contents")
        body = "\n".join(self._parts)
        # What a browser may load: the page's style and script, and pictures inside it.
        policy = f"default-src 'none'; style-src {_hash(CSS)}; img-src data:; base-uri 'none'; form-action 'none'"
        script = ""
        if self.script:
            policy += f"; script-src {_hash(self.script)}"
            script = tag("script", self.script)
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}"><title>{title}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{CSS}</style></head>\n'
            f"<body>{contents}<main><h1>{title}</h1>\n{body}\n</main>{script}</body></html>\n"
        )


def _hash(text: str) -> str:
    """The hash of a style or script, in the words of a content security policy."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
