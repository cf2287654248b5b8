"""Every folder of findings/: its README has its parts, its studies fit their tables, draws do not overlap."""

import ast
import re
from itertools import combinations
from pathlib import Path

import pytest

from assignadd.study.files import read_study, studies_in
from assignadd.study.table import statements, study_records
from assignadd.sweeps.results import column_of
from assignadd.task.randomness import EvalSteps

ROOT = Path(__file__).parents[2] / "findings"
FOLDERS = sorted(path.parent for path in ROOT.glob("*/README.md"))
STATED = [
    (folder, study) for folder in FOLDERS if (folder / "study.py").exists() for study in studies_in(folder).values()
]
# Folders whose rules are committed and of which no study is trained. All others need all their tables.
PLANNED = sorted({folder for folder, _ in STATED if not list(folder.glob("*.parquet"))})
ANSWERED = [folder for folder in FOLDERS if folder not in PLANNED]
STUDIES = [(folder, study) for folder, study in STATED if folder in ANSWERED]
COMMIT = re.compile(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{7,40}\b")
TAGS = ("rule stated first", "confirmed on fresh seeds", "rule set afterwards", "exploratory")
INDEX = (ROOT / "README.md").read_text()
FOLDED = re.compile(r"<details>\n.*?</details>", re.DOTALL)
INTERVAL = re.compile(r"\[-?\d*\.?\d+, -?\d*\.?\d+\]")


@pytest.mark.parametrize("folder", ANSWERED, ids=lambda folder: folder.name)
def test_the_readme_asks_answers_and_says_what_limits_the_answer(folder):
    text = (folder / "README.md").read_text()
    lines = text.splitlines()
    assert re.fullmatch(r"# .+\?", lines[0])
    answer = re.search(r"^\*\*([^*]+)\*\*", text, re.MULTILINE)
    assert answer and not answer[1].startswith("Not known yet")
    assert re.search(rf"^Tag: ({'|'.join(TAGS)})", text, re.MULTILINE)
    assert re.search(r"^Decisive numbers?: ", text, re.MULTILINE)
    assert re.search(r"^## Limits", text, re.MULTILINE) and "(figure.svg)" in text and (folder / "figure.svg").exists()
    assert f"findings/{folder.name}" in text or f"findings.{folder.name}" in text  # how to run it
    assert not COMMIT.search(text), "commits belong into the JSON"


def sentences(page: str) -> list[str]:
    """The sentences of a page, without its tables."""
    text = " ".join(re.sub(r"^\|.*$", "", page, flags=re.MULTILINE).split())
    return re.split(r"(?<=[.:?)*])\s+(?=[A-Z*`(\[-])", text)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_page_is_short_and_its_appendix_folded(folder):
    text = (folder / "README.md").read_text()
    shown = FOLDED.sub("", text)
    assert "details>" not in shown and text.count("<details>") <= 1
    assert len(shown.split()) <= 600
    assert [s for s in sentences(shown) if len(INTERVAL.findall(s)) > 1] == [], "at most one interval a sentence"


def test_the_finders_of_appendices_and_intervals_find():
    assert FOLDED.sub("", "a\n\n<details>\n<summary>b</summary>\n\nc\n\n</details>\n") == "a\n\n\n"
    assert list(map(len, map(INTERVAL.findall, sentences("It is .5 [.4, .6]. Not -1 [-2, .0] or 2 [1.5, 3].")))) == [
        1,
        2,
    ]


def test_the_index_has_a_card_for_every_folder():
    cards = re.findall(
        r"^\*\*\[([^\]]+)\]\((\w+)/README\.md\)\*\*\s(.+?)\s\*([a-z\s]+)\*\n(.*?)(?=^\*\*\[|^## |\Z)",
        INDEX,
        re.MULTILINE | re.DOTALL,
    )
    assert sorted(folder for _, folder, *_ in cards) == [folder.name for folder in FOLDERS]
    assert INDEX.count("/README.md)") == len(FOLDERS), "every folder once"
    for question, folder, answer, tag, rest in cards:
        page = (ROOT / folder / "README.md").read_text()
        assert f"# {' '.join(question.split())}" == page.splitlines()[0]
        assert len(answer.split()) <= 30
        assert re.search(rf"^Tag: {' '.join(tag.split())}", page, re.MULTILINE), (folder, tag)
        assert re.search(rf"^    assignadd .*findings/{folder}\b", rest, re.MULTILINE), "a command"
        assert (f"]({folder}/figure.svg)" in rest) == (ROOT / folder / "figure.svg").exists()
    assert "](../docs/theory.md)" in INDEX and "](METHODS.md)" in INDEX


@pytest.mark.parametrize("folder", ANSWERED, ids=lambda folder: folder.name)
def test_statements_that_a_page_names_exist(folder):
    names = re.findall(r"`([a-z0-9][\w.+-]*-[\w.+-]*[\w])`", (folder / "README.md").read_text())
    own = [study for other, study in STUDIES if other == folder]
    named = {name for name in names if any(name.startswith(f"{study.name}-") for study in own)}
    assert named <= {s.id for study in own for s in statements(study)} | {study.name for study in own}


@pytest.mark.parametrize("folder", PLANNED, ids=lambda folder: folder.name)
def test_the_readme_of_a_planned_study_has_rules_and_no_answer(folder):
    text = (folder / "README.md").read_text()
    assert re.match(r"# .+\?\n\n\*\*Not known yet\b", text) and text.count("\n**") == 1
    assert re.search(r"^Tag: rule stated first", text, re.MULTILINE) and re.search(r"^## Rules", text, re.MULTILINE)
    assert re.search(r"^## Limits", text, re.MULTILINE) and f"findings/{folder.name}" in text
    assert "figure.svg" not in text and "## What was found" not in text
    assert not re.search(r"\d \[-?\.?\d", text), "an interval is a result"
    assert {path.suffix for path in folder.iterdir() if path.is_file()} == {".md", ".py"}


def test_cards_of_planned_studies_say_so():
    for folder in PLANNED:
        assert "not trained" in INDEX.partition(f"]({folder.name}/README.md)")[2].partition("\n\n")[0]


@pytest.mark.parametrize(("folder", "study"), STUDIES, ids=lambda x: getattr(x, "name", ""))
def test_the_table_has_the_networks_of_the_study(folder, study):
    table = read_study(study, folder)
    sweep = study.sweep()
    assert len({m.config(sweep.config) for m in sweep.cells}) == study.n_models  # no two are the same
    assert len(sweep.cells) == table.frame.height == study.n_models
    own = [column_of(name) for name in study.settings_within_cells]
    rows = table.frame.select("cell", "seed", *own).rows()
    settings = {cell.label: cell for cell in study.cells}
    assert len({row[0] for row in rows}) == len(settings)
    stated = {(study.label_of(m), m.seed) for m in sweep.cells}
    assert {row[:2] for row in rows} == stated
    assert {label: dict(cell.settings) for label, cell in settings.items()} == {
        label: {name: _as_json(value, settings[label].settings.get(name)) for name, value in own.items()}
        for label, own in table.provenance["cells"].items()
    }
    assert table.provenance["made_with"] and table.provenance["command"]


def _as_json(value, stated):
    return tuple(value) if isinstance(stated, tuple) else value


@pytest.mark.parametrize(("folder", "study"), STUDIES, ids=lambda x: getattr(x, "name", ""))
def test_every_statement_can_be_read_from_the_table(folder, study):
    records = study_records(read_study(study, folder))
    assert bool(records) == bool(study.ask)  # a search asks nothing
    assert len({r.id for r in records}) == len(records)
    assert {r.verdict for r in records} <= {"holds", "does not hold", "undecided", "cannot be tested"}
    assert [s.id for s in statements(study)] == [r.id for r in records]
    shown = {*study.outcomes, *study.numbers}
    assert shown <= set(read_study(study, folder).frame.columns)
    assert all(name in study.column_meanings for name in shown), "every shown column says what it means"


def test_statements_of_all_findings_have_different_names():
    ids = [s.id for _, study in STATED for s in statements(study)]
    assert len(ids) == len(set(ids)) > 200


def test_declared_draws_overlap_with_nothing():
    ranges = {name: value for name, value in vars(EvalSteps).items() if isinstance(value, range)}
    for path in ROOT.glob("*/*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DRAWS":
                ranges[str(path)] = range(*(ast.literal_eval(a) for a in node.value.args))
    assert len(ranges) > len(vars(EvalSteps)) - 4  # with those of findings
    for (one, a), (other, b) in combinations(ranges.items(), 2):
        assert a.stop <= b.start or b.stop <= a.start, f"{one} and {other} draw the same sequences"


def test_findings_stay_small():
    assert sum(len(p.read_text().splitlines()) for p in ROOT.glob("*/*.py")) <= 3500
