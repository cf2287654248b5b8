"""Settings of the site (`make docs`). The pages are Markdown that GitHub shows as well; index.md gives their order.

The sources are those of the whole repository, so that links to README, CONTRIBUTING, notebooks and code lead somewhere.
"""

from __future__ import annotations

import re
from pathlib import Path

project = "assignadd"
author = project_copyright = "The assignadd authors"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "assignadd"
html_show_sphinx = False
html_static_path: list[str] = []
root_doc = "docs/index"
include_patterns = ["README.md", "CONTRIBUTING.md", "docs/*.md", "assignadd/results/README.md"]
exclude_patterns = [".*", "runs", "site", "**/node_modules"]
myst_heading_anchors = 4


def with_contents(app: object, page: str, source: list[str]) -> None:
    """Appends the table of contents to index.md: the pages that it links to under each heading, and then any others."""
    if page != root_doc:
        return
    listed: list[str] = []
    for section in re.split(r"^## ", source[0], flags=re.MULTILINE)[1:]:
        caption, _, text = section.partition("\n")
        pages = [name for name in re.findall(r"\]\((\w+)\.md\)", text) if name not in listed]
        listed += pages
        source[0] += contents(caption, pages)
    found = (file.stem for file in sorted(Path(__file__).parent.glob("*.md")))
    more = [name for name in found if name not in (*listed, "index")]
    source[0] += contents("More", [*more, "../CONTRIBUTING", "../README", "../assignadd/results/README"])


def contents(caption: str, pages: list[str]) -> str:
    """A hidden table of contents for the menu of the site."""
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""]) if pages else ""


def setup(app: object) -> None:
    app.connect("source-read", with_contents)  # type: ignore[attr-defined]
