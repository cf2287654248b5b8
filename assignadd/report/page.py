"""A self-contained HTML page: it loads nothing from elsewhere and runs no script but its own."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from pathlib import Path

from assignadd.palette import css_variables
from assignadd.report.html import SCRIPT, Cell, Column, Row, marked, plain_table, sortable_table, tag

CSS = css_variables() + Path(__file__).with_name("page.css").read_text()


@dataclass
class Page:
    """A page to which each method adds a part at the end."""

    title: str
    _parts: list[str] = field(default_factory=list)
    _scripted: bool = False

    def heading(self, text: str) -> None:
        self._parts.append(tag("h2", escape(text)))

    def text(self, text: str, soft: bool = False) -> None:
        self._parts.append(tag("p", marked(text), class_="soft" if soft else None))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str | Cell]]) -> None:
        self._parts.append(plain_table(columns, rows))

    def sortable(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        self._parts.append(sortable_table(columns, rows))
        self._scripted = True

    def folded(self, summary: str, text: str) -> None:
        """Adds long plain text in a part that unfolds."""
        self._parts.append(tag("details", tag("summary", marked(summary)) + tag("pre", escape(text))))

    def picture(self, label: str, title: str, look_for: str, svg: Path, files: Sequence[str], caption: str) -> None:
        """Adds a section `#label`: an SVG file inside the page, what to look for in it, and links to files beside it.

        The SVG is a data address, so that its markup cannot become part of the page.
        """
        data = b64encode(svg.read_bytes()).decode()
        image = f'<img alt="{escape(title)}. {escape(look_for)}" src="data:image/svg+xml;base64,{data}">'
        links = " ".join(tag("a", escape(Path(name).name), href=name) for name in files)
        shown = tag("figure", image + tag("figcaption", f"{links} {marked(caption)}"))
        self._parts.append(tag("section", tag("h3", marked(title)) + tag("p", marked(look_for)) + shown, id=label))

    def html(self) -> str:
        title = escape(self.title)
        script = tag("script", SCRIPT) if self._scripted else ""
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{self._policy()}<title>{title}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{CSS}</style></head>\n'
            f"<body><main><h1>{title}</h1>\n" + "\n".join(self._parts) + f"\n</main>{script}</body></html>\n"
        )

    def _policy(self) -> str:
        """The page may load nothing but its own style and script, each by its hash, and pictures inside the page."""
        allowed = {"style-src": _hash(CSS), "img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}
        if self._scripted:
            allowed["script-src"] = _hash(SCRIPT)
        policy = "; ".join(f"{kind} {source}" for kind, source in ({"default-src": "'none'"} | allowed).items())
        return f'<meta http-equiv="Content-Security-Policy" content="{policy}">'


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
