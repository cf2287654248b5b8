"""One self-contained HTML page: text, tables and figures in, bytes out; no script, no outside request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

CSS = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d8dee4; --back: #ffffff; --card: #f6f8fa; --good: #1a7f37; --bad: #b35900; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9aa4af; --line: #30363d; --back: #0d1117; --card: #161b22; --good: #4ac26b; --bad: #f0a050; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1rem 4rem; max-width: 60rem; font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--back); }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
p { margin: .5rem 0; } .soft { color: var(--soft); font-size: .9rem; }
figure { margin: 1rem 0; padding: .5rem; border: 1px solid var(--line); border-radius: 8px; background: #fff; }
figure img { display: block; width: 100%; height: auto; }
figcaption { color: #444; font-size: .85rem; padding: .4rem .25rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } thead th { color: var(--soft); font-weight: 600; }
code { background: var(--card); padding: .1em .35em; border-radius: 4px; font-size: .88em; overflow-wrap: anywhere; }
figcaption code { background: #eef1f4; color: #333; } /* a figure stays light in the dark */
.good { color: var(--good); } .bad { color: var(--bad); }
"""  # noqa: E501


@dataclass(frozen=True)
class Cell:
    """A table cell with a verdict's colour: good, bad or none."""

    text: str
    tone: str = ""


@dataclass
class Page:
    """A page under construction: each method adds a part at the end."""

    title: str
    _parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str, soft: bool = False) -> None:
        self._parts.append(f'<p class="soft">{_marked(text)}</p>' if soft else f"<p>{_marked(text)}</p>")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str | Cell]]) -> None:
        head = "".join(f'<th scope="col">{escape(c)}</th>' for c in columns)
        body = "".join("<tr>" + "".join(_cell(c) for c in row) + "</tr>" for row in rows)
        self._parts.append(f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>')

    def figure(self, svg: Path, alt: str, caption: str) -> None:
        """An SVG file as a picture inside the page; its own markup stays shut in a data address."""
        from base64 import b64encode

        data = b64encode(svg.read_bytes()).decode()
        image = f'<img alt="{escape(alt)}" src="data:image/svg+xml;base64,{data}">'
        self._parts.append(f"<figure>{image}<figcaption>{_marked(caption)}</figcaption></figure>")

    def html(self) -> str:
        title = escape(self.title)
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{CSS}</style></head>\n'
            f"<body><main><h1>{title}</h1>\n" + "\n".join(self._parts) + "\n</main></body></html>\n"
        )


def _cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return f"<td>{escape(cell)}</td>"
    return f'<td class="{escape(cell.tone)}">{escape(cell.text)}</td>'


def _marked(text: str) -> str:
    """Escaped text in which `back-quoted` words are code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))
