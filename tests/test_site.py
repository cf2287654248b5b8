"""The site: what describes a page, what the site alone shows, dead links; slow ones build its pages with Sphinx."""

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from docs import conf, head
from tests.axe import AXE, axe_problems

ROOT = Path(__file__).parents[1]


def tags(html):
    return dict(re.findall(r'<meta (?:name|property)="([^"]+)" content="([^"]*)">', html))


def test_a_page_is_described(monkeypatch):
    monkeypatch.delenv("SITE_URL", raising=False)
    found = tags(head.described('A "question"', "word " * 100, "findings/doubles/README.html"))
    assert found["og:title"] == "A &quot;question&quot;" and found["og:image"] == "../../share.png"
    assert found["description"] == found["og:description"] and 150 < len(found["description"]) <= 200
    monkeypatch.setenv("SITE_URL", "https://example.org/x/")
    assert tags(head.described("A", "B", "docs/a.html"))["og:image"] == "https://example.org/x/share.png"


def test_the_picture_has_the_size_that_is_shown():
    data = (ROOT / "docs" / "share.png").read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1200, 630) and len(data) < 100_000


@pytest.fixture
def site(tmp_path):
    for page in (*head.OTHERS, "docs/index.html"):
        (tmp_path / page).parent.mkdir()
        (tmp_path / page).write_text("<title>x</title><pre>code</pre>")
    (tmp_path / "docs" / "index.html").write_text(f"{head.described('x', 'y', 'docs/index.html')}<pre>code</pre>")
    with (tmp_path / "docs" / "index.html").open("a") as page:
        page.write('<img alt="b" src="a.svg">')
    (tmp_path / "docs" / "a.svg").touch()
    (tmp_path / "share.png").touch()
    head.finish(tmp_path)
    return tmp_path


def test_every_page_of_a_finished_site_is_described_and_the_first_leads_to_the_documentation(site):
    assert head.faults(site) == []
    assert '<pre tabindex="0">code</pre>' in (site / "docs" / "index.html").read_text()
    assert '<a href="a.svg"><img alt="b" src="a.svg"></a>' in (site / "docs" / "index.html").read_text()
    assert "<pre>" in (site / "report" / "index.html").read_text()  # the report's own
    first = (site / "index.html").read_text()
    assert 'content="0; url=docs/index.html"' in first and tags(first)["og:image"] == "share.png"
    assert tags((site / "report" / "index.html").read_text())["og:title"].startswith("Assign &amp; Add: the report")


def test_faults_are_named(site):
    (site / "docs" / "a.html").write_text('<p><a class="x" href="b.html#c">b</a> <img src="data:,"> <a href="#a">a</a>')
    assert head.faults(site) == ["docs/a.html has no description", "docs/a.html leads to b.html, which does not exist"]


def test_the_site_shows_its_comments_and_no_badges():
    source = ["# A\n\n[![b](../../c.svg)](../../c)\n\nText.\n\n<!-- site\n<p>Open</p>\n-->\n<!-- other -->\n"]
    conf.for_the_site(None, "docs/a", source)
    assert source == ["# A\n\nText.\n\n<p>Open</p>\n\n<!-- other -->\n"]


def test_the_contents_list_every_page_once():
    source = [(ROOT / "docs" / "index.md").read_text()]
    conf.for_the_site(None, conf.root_doc, source)
    listed = re.findall(r"^(?:\.\./)?[\w/]+$", source[0].partition("```{toctree}")[2], re.MULTILINE)
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert len(listed) == len(set(listed)) and pages <= set(listed) and "../README" in listed


def test_linked_words_are_those_of_the_glossary():
    explained = conf.glossary()
    assert explained.keys() == conf.GLOSSED.keys()
    assert explained["bind"][0] == "skills-and-training" and "at least 95 % of the one-variable" in explained["bind"][1]
    text = "It binds held-out doubles; being stuck, exams and trajectories. Upheld, a household, unbinding, stackable."
    found = [match[0] for match in conf.WORD.finditer(text)]
    assert found == ["binds", "held-out", "doubles", "stuck", "exams", "trajectories"]


def test_notebooks_open_in_colab_where_the_repository_is_known(monkeypatch):
    source = [(ROOT / "docs" / "teach.md").read_text()]
    monkeypatch.setenv("GITHUB_REPOSITORY", "somebody/assignadd")
    conf.for_the_site(None, "docs/teach", source)
    links = re.findall(
        r'href="https://colab.research.google.com/github/somebody/assignadd/blob/main/([^"]+)"', source[0]
    )
    assert len(links) == 3 and all((ROOT / link).is_file() for link in links)
    monkeypatch.delenv("GITHUB_REPOSITORY")
    source = ["<!-- site\nCOLAB\n-->\n\n<!-- site\nB\n-->\n"]
    conf.for_the_site(None, "docs/teach", source)
    assert source == ["<!-- site\nCOLAB\n-->\n\nB\n\n"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site without the pages that docs/generate.py writes, and with empty pages for report and interactive page."""
    pytest.importorskip("sphinx", reason="Sphinx is not installed")
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "sphinx", "-Q", "-c", ROOT / "docs", ROOT, folder], check=True)
    for page in head.OTHERS:
        (folder / page).parent.mkdir()
        (folder / page).write_text("<title>x</title>")
    head.finish(folder)
    return folder


@pytest.mark.slow
@pytest.mark.skipif(
    not AXE.is_file(), reason="no Node packages for the page's sources; `make explorer-web` installs them"
)
@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 390)])
def test_axe_finds_nothing_in_the_site(built, browser, theme, width):
    context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": 900})
    page = context.new_page()
    for name in (
        "docs/index",
        "docs/names",
        "docs/extend",
        "docs/scale",
        "findings/doubles/README",
        "README",
        "search",
    ):
        page.goto((built / f"{name}.html").as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert axe_problems(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    context.close()


@pytest.mark.slow
def test_a_built_site_has_no_faults_and_links_a_word_where_it_is_first_used(built):
    assert head.faults(built) == []
    page = (built / "findings" / "doubles" / "README.html").read_text()
    assert page.count(">held-out</a>") == 1 < page.count("held-out doubles")
