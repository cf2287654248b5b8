"""Settings of the site (`make docs`). The pages are Markdown that GitHub shows as well; index.md gives their order.

The sources are those of the whole repository, so that links to README, CONTRIBUTING, findings and code lead somewhere.
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
ROOT = Path(__file__).parents[1]
FINDINGS = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("findings/*/README.md"))
OTHERS = ["CONTRIBUTING.md", "README.md", "assignadd/results/README.md", "benchmarks/README.md"]
include_patterns = [*OTHERS, "docs/*.md", "findings/*.md", *FINDINGS]
exclude_patterns = [".*", "runs", "site", "**/node_modules"]
myst_heading_anchors = 4
# Pages that only the site has, under the heading of index.md where they belong (docs/generate.py).
OF_SITE = {"Results": ["findings"], "Look it up": ["commands", "data"]}


def with_contents(app: object, page: str, source: list[str]) -> None:
    """Appends the table of contents to index.md: the pages that it links to under each heading, and then any others."""
    if page != root_doc:
        return
    listed: list[str] = []
    for section in re.split(r"^## ", source[0], flags=re.MULTILINE)[1:]:
        caption, _, text = section.partition("\n")
        linked = [*OF_SITE.get(caption, ()), *re.findall(r"\]\((\w+)\.md\)", text)]
        pages = [name for name in linked if name not in listed]
        listed += pages
        source[0] += contents(caption, pages)
    source[0] += contents(
        "The findings", [elsewhere(path) for path in ["findings/README.md", "findings/METHODS.md", *FINDINGS]]
    )
    more = [path.stem for path in sorted(Path(__file__).parent.glob("*.md")) if path.stem not in (*listed, "index")]
    source[0] += contents("More", [*more, *map(elsewhere, OTHERS)])


def elsewhere(path: str) -> str:
    """A page outside docs/, as a table of contents names it."""
    return f"../{path.removesuffix('.md')}"


def contents(caption: str, pages: list[str]) -> str:
    """A hidden table of contents for the menu of the site."""
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""]) if pages else ""


def setup(app: object) -> None:
    app.connect("source-read", with_contents)  # type: ignore[attr-defined]
