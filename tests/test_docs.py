"""The docs hold: links lead somewhere, commands parse, Python runs or compiles and uses public names alone."""

import ast
import importlib
import re
import shlex
from pathlib import Path

import pytest

from assignadd import cli
from assignadd.cli import COMMANDS, actions, arguments
from assignadd.config.errors import ConfigError, UsageError

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Written for the site (docs/generate.py) and not committed; tests/test_reference.py makes them.
OF_SITE = [DOCS / name for name in ("commands.md", "data.md", "studies.md")]
ELSEWHERE = [
    *ROOT.glob("findings/**/*.md"),
    *map(ROOT.joinpath, ("benchmarks/README.md", "assignadd/results/README.md")),
]
PAGES = sorted({*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ELSEWHERE} - set(OF_SITE))
EXECUTED = ("extend.md", "population.md", "state_a_study.md", "train_your_own.md", "tutorial.md")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Paragraphs indented by four columns, after an empty line; list items are indented less here.
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n|\n(?= {4}))+")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", page.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for link in links(page):
        target, _, anchor = link.partition("#")
        if re.match(r"\w+:", link):
            continue
        if workflow := re.match(r"\.\./\.\./actions/workflows/(\w+\.yml)", link):  # on GitHub
            assert (ROOT / ".github" / "workflows" / workflow[1]).is_file()
            continue
        if link == "../../deployments/github-pages":
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists() and file.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(file), link


def test_every_page_is_reached_by_links():
    found, new = set(), {ROOT / "README.md", DOCS / "index.md"}
    while new:
        found |= new
        ends = {(page.parent / link.partition("#")[0]).resolve() for page in new for link in links(page)}
        new = {end for end in ends if end.suffix == ".md" and end.is_file()} - found
    here = [page for page in PAGES if page.parent == DOCS or ROOT / "findings" in page.parents]
    assert [name_of(page) for page in here if page not in found] == []


def shell_lines(text: str) -> list[str]:
    """The lines of indented and shell blocks, continued lines joined, comments and redirections removed."""
    blocks = [body for language, body in FENCED.findall(text) if language in ("bash", "sh", "shell", "console")]
    blocks += INDENTED.findall(FENCED.sub("", text))
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [re.sub(r"(\s#.*|\s[&>].*)$", "", line.strip().removeprefix("$ ")) for line in lines]


def commands_in(text: str) -> list[list[str]]:
    """The `assignadd` commands in the shell blocks of a text.

    In a synopsis `a | b` are two alternatives (of which the second may be an argument), `[...]` is optional, and
    `RUN...` stands for some runs.
    """
    found = []
    for line in shell_lines(text):
        if "pip install" not in line and (match := re.search(r"(?:^|\s)assignadd (?!-)(.*)", line)):
            first, *others = [words_of(alternative) for alternative in match[1].split(" | ")]
            action = [word for word in first[:1] if actions(word)]  # `runs list | show RUN`
            found += [first, *(words for words in others if words[0] in COMMANDS)]
            found += [[*action, *words] for words in others if " ".join([*action, words[0]]) in COMMANDS and action]
    return found


def words_of(command: str) -> list[str]:
    return shlex.split(re.sub(r"\s\[[-A-Z][^\]]*\]", "", f" {command}").replace("...", ""))


class Parsed(Exception):
    """The command line was accepted."""


@pytest.fixture
def parse(monkeypatch):
    """A function that has a command line read by the command's own parser, and runs nothing."""
    read = arguments.read

    def reading(*given, **named):
        read(*given, **named)
        raise Parsed

    def parsed(words):
        try:
            cli._dispatch(words)
        except Parsed:
            return
        except ConfigError as error:
            if "No such file" not in str(error):  # a file that the reader is to make
                raise
            return
        raise AssertionError(f"{words}: no options were read")

    monkeypatch.setattr(arguments, "read", reading)
    return parsed


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_parse(page, parse):
    for words in commands_in(page.read_text()):
        if page.name == "README.md" and len(words) == 1:
            assert words[0] in COMMANDS  # its synopsis lists further commands by their names alone
        else:
            parse(words)


@pytest.mark.parametrize("page", [*PAGES, *sorted(ROOT.glob("notebooks/*.py"))], ids=name_of)
def test_commands_in_sentences_parse(page, parse):
    """`assignadd COMMAND` in a sentence may leave arguments and values out, but has no option that does not exist."""
    text = re.sub(r"\n(?:# )?", " ", FENCED.sub("", page.read_text()))
    for command in re.findall(r"`assignadd ([a-z][^`]*)`", text):
        try:
            parse([word for word in words_of(command) if word != "--help"])
        except UsageError as error:
            assert re.search(r"arguments are required|expected (one|at least one) argument", str(error)), command


# Pages in which one looks something up.
REFERENCES = {"names.md", "reference.md", "reliability.md", "speed.md", "theory.md"}


@pytest.mark.parametrize("page", sorted({*DOCS.glob("*.md")} - set(OF_SITE)), ids=name_of)
def test_pages_that_are_no_reference_are_short(page):
    words = re.findall(r"\S*\w\S*", INDENTED.sub("", FENCED.sub("", page.read_text())))
    assert len(words) <= 900 or page.name in REFERENCES


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_column_of_a_table_has_a_heading(page):
    """A program that reads the page aloud names each number by it."""
    headings = re.findall(r"^\|(.*)\|\n\|[-:| ]+\|$", page.read_text(), re.MULTILINE)
    assert [row for row in headings if not all(cell.strip() for cell in row.split("|"))] == []


def test_make_targets_exist():
    rules = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        assert set(re.findall(r"(?:^ {4}|`)make ([\w-]+)", page.read_text(), re.MULTILINE)) <= rules, page


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_compiles(page):
    for language, body in FENCED.findall(page.read_text()):
        if language == "python":
            compile(body, name_of(page), "exec")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_imports_public_names_alone(page):
    for language, body in FENCED.findall(page.read_text()):
        for node in ast.walk(ast.parse(body)) if language == "python" else ():
            if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "assignadd":
                package = importlib.import_module(str(node.module))
                assert {alias.name for alias in node.names} <= set(package.__all__), f"{page}: {node.module}"


@pytest.mark.parametrize("name", EXECUTED)
def test_python_runs(name, tmp_path, monkeypatch, capsys):
    """The blocks of a page, one after the other as a reader would run them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, body in FENCED.findall((DOCS / name).read_text()):
        if language == "python":
            exec(compile(body, name, "exec"), names)
    assert capsys.readouterr().out, "a page that computes something says what"


def test_the_finders_find():
    """Blocks, commands and links in a text made for it, so that a test above cannot pass because nothing is found."""
    text = (
        "A\n\n    assignadd explore RUN... | ask | sweep F --seeds 3 # all\n"
        "    assignadd runs list | show RUN\n    assignadd train \\\n      --seeds 0..3 &\n"
    )
    assert commands_in(text) == [
        ["explore", "RUN"],
        ["ask"],
        ["sweep", "F", "--seeds", "3"],
        ["runs", "list"],
        ["runs", "show", "RUN"],
        ["train", "--seeds", "0..3"],
    ]
    assert commands_in("```sh\nuvx assignadd measure [RUN] [--n 5] x\npip install assignadd y\n```\n") == [
        ["measure", "x"]
    ]
    assert commands_in("```bash\n$ assignadd ask show 'a=1, a+0=?' > out\n```\n") == [["ask", "show", "a=1, a+0=?"]]
    assert links(DOCS / "population.md").count("../CONTRIBUTING.md") == 1 and "which-seeds-bind" in anchors(
        DOCS / "population.md"
    )
    assert sum(len(commands_in(page.read_text())) for page in PAGES) > 25


def test_the_class_is_as_planned():
    """The number of exercises in the table of docs/teach.md is that of each notebook."""
    for name, stated in re.findall(r"notebooks/(\w+)\.ipynb\)[^|]*\|[^|]*\| (\d+) \|", (DOCS / "teach.md").read_text()):
        assert (ROOT / "notebooks" / f"{name}.py").read_text().count("# your code here") == int(stated), name
