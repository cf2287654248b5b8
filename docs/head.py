"""What each page of the site says about itself to those who share its address: title, description and a picture.

conf.py adds it to the pages that Sphinx makes; `python docs/head.py SITE` adds it to the report and the interactive
page, writes the first page of the site, which leads to the documentation, and follows every link from page to page.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from html import escape
from pathlib import Path
from urllib.parse import unquote

ABOUT = (
    "How does a small transformer learn to compose two skills, to look a variable up and to add? "
    "The paper, reproduced and questioned."
)
PICTURE = "share.png"
LONGEST = 200  # characters of a description
# The pages that Sphinx does not make, with what they are.
OTHERS = {
    "explorer/index.html": (
        "Assign & Add: the interactive page",
        "Type a sum, watch a small transformer look the variable up and add, play its training, cut parts of it.",
    ),
    "report/index.html": (
        "Assign & Add: the report on six networks",
        "Every claim of the paper with its verdict, and every figure, for six networks that come with the package.",
    ),
}


def described(title: str, description: str, page: str) -> str:
    """The tags that describe a page; `page` is its path in the site.

    A picture needs a full address, which SITE_URL gives where the site is published; elsewhere it is relative.
    """
    root = os.environ.get("SITE_URL") or "../" * page.count("/")
    short = textwrap.shorten(description, LONGEST, placeholder=" ...")
    tags = {
        "description": short, "og:type": "website", "og:title": title, "og:description": short,
        "og:image": f"{root}{PICTURE}", "og:image:alt": "The circuit that looks a variable up and adds",
        "twitter:card": "summary_large_image",
    }  # fmt: skip
    return "\n".join(
        f'<meta {"property" if name.startswith("og:") else "name"}="{name}" content="{escape(content)}">'
        for name, content in tags.items()
    )


# What the pages of Sphinx and furo lack for readers who use the keyboard or a screen reader.
ACCESSIBLE = {
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    'role="heading">': 'role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    '<div id="search-results">': '<h1>Search</h1><div id="search-results">',
}


def finish(site: Path) -> None:
    """Makes the pages of Sphinx accessible, describes the other ones, and writes the first page."""
    for path in site.rglob("*.html"):
        if str(path.relative_to(site)) not in OTHERS:
            text = path.read_text()
            for found, better in ACCESSIBLE.items():
                text = text.replace(found, better)
            # A figure opens alone, where a small screen can zoom in.
            path.write_text(re.sub(r'<img [^>]*src="([^"]+)"[^>]*>', r'<a href="\1">\g<0></a>', text))
    for page, (title, description) in OTHERS.items():
        text = (site / page).read_text()
        (site / page).write_text(text.replace("</title>", f"</title>\n{described(title, description, page)}", 1))
    first = "docs/index.html"
    (site / "index.html").write_text(
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>assignadd</title>\n'
        f"{described('assignadd', ABOUT, 'index.html')}\n"
        f'<meta http-equiv="refresh" content="0; url={first}">\n<p><a href="{first}">assignadd</a></p>\n</html>\n'
    )


def faults(site: Path) -> list[str]:
    """Pages of the site without a description, and links and pictures that lead nowhere."""
    found = []
    for page in sorted(site.rglob("*.html")):
        text = page.read_text()
        name = page.relative_to(site)
        if not all(f'"{tag}" content="' in text for tag in ("description", "og:title", "og:description", "og:image")):
            found.append(f"{name} has no description")
        for address in re.findall(r'<[^>]* (?:href|src)="([^"#?]+)[^"]*"', text):
            if not re.match(r"\w+:", address) and not (page.parent / unquote(address)).exists():
                found.append(f"{name} leads to {address}, which does not exist")
    return found


if __name__ == "__main__":
    finish(Path(sys.argv[1]))
    sys.exit("\n".join(faults(Path(sys.argv[1]))) or None)
