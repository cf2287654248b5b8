"""Settings of the site (`make site`). The pages are Markdown that GitHub shows as well; index.md gives their order.

The sources are those of the whole repository, so that links to README, CONTRIBUTING, findings and code lead somewhere.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from docs.head import ABOUT, PICTURE, described  # noqa: E402

project = "assignadd"
author = project_copyright = "The assignadd authors"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "assignadd"
html_show_sphinx = False
html_baseurl = os.environ.get("SITE_URL", "")
html_copy_source = False
html_extra_path = [PICTURE]
html_use_index = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]
root_doc = "docs/index"
# In the order of their index.
FINDINGS = re.findall(r"\]\((\w+/README)\.md\)", (ROOT / "findings" / "README.md").read_text())
OTHERS = [
    "CONTRIBUTING.md", "README.md", "assignadd/results/README.md", "benchmarks/README.md", "examples/results/README.md",
]  # fmt: skip
include_patterns = [*OTHERS, "docs/*.md", "findings/*.md", "findings/*/README.md"]
exclude_patterns = [".*", "runs", "site", "**/node_modules"]
myst_heading_anchors = 4
# Pages that only the site has, under the heading of index.md where they belong (docs/generate.py).
OF_SITE = {
    "Results": ["../findings/README", "../findings/METHODS"],
    "Look it up": ["commands", "data", "studies"],
}


def for_the_site(app: object, page: str, source: list[str]) -> None:
    """Shows what a comment `<!-- site ... -->` holds for the site alone, and leaves the badges of GitHub out.

    The workflow that publishes the site knows the repository, so that notebooks can be opened from there.
    """
    if repository := os.environ.get("GITHUB_REPOSITORY"):
        source[0] = source[0].replace("COLAB", in_colab(repository))
    source[0] = re.sub(r"<!-- site\n((?:(?!COLAB).)*?)-->", r"\1", source[0], flags=re.DOTALL)
    source[0] = re.sub(r"^\[!\[.*\n\n", "", source[0], flags=re.MULTILINE)
    if page == root_doc:
        add_contents(source)
    if page == "findings/README":
        source[0] += contents("Findings", FINDINGS)


def in_colab(repository: str) -> str:
    """Links that open each notebook of a repository, OWNER/NAME, in Colab."""
    start = f"https://colab.research.google.com/github/{repository}/blob/main/notebooks"
    names = [path.name for path in sorted(ROOT.glob("notebooks/*.ipynb"))]
    return ", ".join(f'<a href="{start}/{name}">notebook {name[0]}</a>' for name in names)


# Words of the glossary that pages link where they first use them: how each begins, and how its row begins.
GLOSSED = {
    "literal": "literal", "held": "seen, held out", "doubles": "held-out doubles", "banned slot": "banned",
    "bind": "bind", "stuck": "stuck", "spike": "spike", "onset": "onset", "progress measure": "progress measure",
    "circuit": "circuit", "isolated adder": "isolated adder", "verdict": "verdict", "ledger": "ledger",
    "census": "census", "exam": "exam", "preset": "preset", "trajector": "trajectory", "stack": "stack",
    "fresh seed": "exploratory, fresh",
}  # fmt: skip
WORD = re.compile(rf"\b(held[ -]out|(?!held)(?:{'|'.join(GLOSSED)})(?:s|ing|y|ies)?)\b")


def glossary() -> dict[str, tuple[str, str]]:
    """Where each linked word is explained: the heading as an address, and the meaning without markup."""
    explained: dict[str, tuple[str, str]] = {}
    for section in re.split(r"^## ", (ROOT / "docs" / "names.md").read_text(), flags=re.MULTILINE)[1:]:
        anchor = section.partition("\n")[0].lower().replace(" ", "-")
        for row, meaning in re.findall(r"^\| (.+?) \| (.+) \|$", section, re.MULTILINE):
            plain = re.sub(r"\[(.*?)\]\(.*?\)|[`*]", r"\1", meaning)
            explained |= {word: (anchor, plain) for word, begins in GLOSSED.items() if row.startswith(begins)}
    return explained


def link_words(app: Any, document: Any, page: str) -> None:
    """Links each word of the glossary where a paragraph of the page first uses it; its meaning is the link's title."""
    from docutils import nodes

    explained = {} if page == "docs/names" else glossary()
    for text in list(document.findall(nodes.Text)):
        if not isinstance(text.parent, nodes.paragraph) and not isinstance(text.parent.parent, nodes.paragraph):
            continue
        if isinstance(text.parent, nodes.reference | nodes.literal):
            continue
        parts: list[Any] = []
        end = 0
        for found in WORD.finditer(text):
            anchor, meaning = explained.pop(next(word for word in GLOSSED if found[0].startswith(word)), ("", ""))
            if anchor:
                address = f"{app.builder.get_relative_uri(page, 'docs/names')}#{anchor}"
                link = nodes.reference("", found[0], refuri=address, reftitle=meaning, internal=True, classes=["term"])
                parts += [nodes.Text(text[end : found.start()]), link]
                end = found.end()
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(text[end:])])


def add_contents(source: list[str]) -> None:
    """Appends the table of contents to index.md: the pages that it links to under each heading, and then any others."""
    listed: list[str] = []
    for section in re.split(r"^## ", source[0], flags=re.MULTILINE)[1:]:
        caption, _, text = section.partition("\n")
        linked = [*OF_SITE.get(caption, ()), *re.findall(r"\]\((\w+)\.md\)", text)]
        pages = [name for name in linked if name not in listed]
        listed += pages
        source[0] += contents(caption, pages)
    more = [path.stem for path in sorted(Path(__file__).parent.glob("*.md")) if path.stem not in (*listed, "index")]
    source[0] += contents("More", [*more, *(f"../{path.removesuffix('.md')}" for path in OTHERS)])


def contents(caption: str, pages: list[str]) -> str:
    """A hidden table of contents for the menu of the site."""
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""]) if pages else ""


def describe(app: object, page: str, template: str, context: dict[str, Any], document: Any) -> None:
    """Adds title, description (the first paragraph) and picture to the head of a page."""
    first = next(document.findall(lambda node: node.tagname == "paragraph"), None) if document else None
    title = re.sub(r"<[^>]*>", "", context.get("title", project))
    described_page = described(title, first.astext() if first else ABOUT, f"{page}.html")
    context["metatags"] = context.get("metatags", "") + described_page


def setup(app: object) -> None:
    app.connect("source-read", for_the_site)  # type: ignore[attr-defined]
    app.connect("html-page-context", describe)  # type: ignore[attr-defined]
    app.connect("doctree-resolved", link_words)  # type: ignore[attr-defined]
