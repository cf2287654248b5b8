"""The page is one file without outside requests, and nothing that is put into it becomes markup."""

from html.parser import HTMLParser
from pathlib import Path

from assignadd.report.page import Cell, Page

HOSTILE = "<script>alert(1)</script>\"' & `<img src=x onerror=alert(2)>`"


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag, attributes) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data) -> None:
        self.words.append(data)


def page(tmp_path: Path) -> Reader:
    svg = tmp_path / "x.svg"
    svg.write_text('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(3)</script></svg>')
    made = Page(HOSTILE)
    made.heading(HOSTILE)
    made.text(HOSTILE)
    made.table((HOSTILE,), [[HOSTILE], [Cell(HOSTILE, "good")]])
    made.figure(svg, HOSTILE, HOSTILE)
    reader = Reader()
    reader.feed(made.html())
    return reader


def test_hostile_text_stays_text(tmp_path):
    reader = page(tmp_path)
    names = [tag for tag, _ in reader.tags]
    assert "script" not in names and names.count("img") == 1
    assert not any(name.startswith("on") for _, attributes in reader.tags for name in attributes)
    assert "".join(reader.words).count("alert(1)") == 8  # title, h1, h2, p, th, two cells, figcaption


def test_nothing_is_fetched(tmp_path):
    for tag, attributes in page(tmp_path).tags:
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
