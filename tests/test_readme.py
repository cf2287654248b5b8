"""The README's Python runs as printed, its commands exist, and its numbers are those of the results."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

import assignadd
from assignadd.cli import COMMANDS
from assignadd.config import PRESETS
from assignadd.ledger.claim import Record, find, judge
from assignadd.network import networks_of
from assignadd.paper.ledger import chosen, paper_network
from assignadd.runs.folder import open_run
from assignadd.stats import FAILS, HOLDS, UNDECIDED
from assignadd.study import PAPER, StudyTable
from assignadd.study.files import read_study, studies_in

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_python_snippets_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    snippets = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(snippets) >= 2
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), names)
    assert names["attention_from_equals"].shape == (8,)
    assert names["scores"].shape == (2, 4, 4)
    assert not names["without_layer_2"].equal(names["logits"])
    assert len(names["table"]) == 8


def test_commands_exist():
    assert set(re.findall(r"^    assignadd (\w+)", README, re.MULTILINE)) <= set(COMMANDS)


def test_readme_is_short():
    assert len(README.splitlines()) <= 155


def test_the_files_to_read_are_as_it_says():
    """Line counts are within 10 %, so that small changes need no edit here; other names are beside or in the file."""
    section = README[README.index("## Read the code in this order") :].split("\n## ")[0]
    listed = re.findall(r"^\d+\. \[([^\]]+)\]\(([^)]+)\) \((\d+) lines\): (.*)", section, re.MULTILINE)
    assert 8 <= len(listed) == len(re.findall(r"^\d+\.", section, re.MULTILINE))
    for name, target, lines, text in listed:
        file = ROOT / target
        assert target.endswith(name)
        assert int(lines) == pytest.approx(len(file.read_text().splitlines()), rel=0.1), name
        for code in re.findall(r"`([^`]+)`", text):
            assert (file.parent / code).is_file() if code.endswith(".py") else code in file.read_text(), code


NUMBER = r"\d*\.\d+|\d+ of \d+|\d+ (?:hold|fail|undecided)|\b\d+\b(?! %)"


def findings() -> list[list[str]]:
    rows = README[README.index("| finding |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def forms(*values: float | None) -> set[str]:
    """A number as a README may write it: two to four digits, no zero before the point, or rounded from 10 on."""
    shown = {f"{v:.{digits}f}" for v in values if v is not None for digits in (2, 3, 4)}
    return {text.removeprefix("0") for text in shown} | {f"{v:.0f}" for v in values if v is not None and v >= 10}


@pytest.fixture(scope="module")
def of_shipped() -> set[str]:
    """The numbers of the shipped networks that bind for the claim on section 7's block."""
    models = [e for name in ("census-six", "census-two") for e in networks_of(open_run(name))[0]]
    return forms(*(s.value for s in judge(*chosen("circuit-section-7-equals"), models, "").by_seed))


@pytest.fixture(scope="module")
def ledger() -> dict[str, Record]:
    return {record.id: record for record in assignadd.claims()}


def test_the_findings_are_few_and_each_names_its_records(ledger):
    assert len(findings()) <= 10
    assert all(re.fullmatch(r"(`[^`]+`(, )?)+", row[-1]) for row in findings())
    named = {id for row in findings() for id in re.findall(r"`([^`]+)`", row[-1])}
    known = [*paper_network().records, *ledger.values()]
    assert all(find(known, id) for id in named)


def plain(texts: set[str]) -> set[str]:
    """The numbers of texts such as "5,400 steps"."""
    return {text.removesuffix(" steps").replace(",", "") for text in texts}


def test_every_number_of_the_findings_is_a_records(ledger, of_shipped):
    """The third column is the paper's own network, the fourth the seeds; the theory has no network."""
    for _, _, network, seeds, ids in findings():
        named = re.findall(r"`([^`]+)`", ids)
        stored = [r for id in named if (r := find(paper_network().records, id)) is not None]
        records = [r for id in named if (r := find([*ledger.values()], id)) is not None]
        of_network = forms(*(v for r in stored for v in (r.value, r.low, r.high)))
        of_network |= {f"{r.value:,.0f} steps" for r in stored if r.value is not None}
        of_seeds = forms(*(v for r in records for v in (r.value, r.low, r.high)))
        for r in records:
            counts = Counter(s.verdict for s in r.by_seed)
            of_seeds |= {f"{counts[HOLDS]} of {r.n}", f"{counts[FAILS]} fail", f"{counts[UNDECIDED]} undecided"}
        of_seeds |= of_shipped if "circuit-section-7-equals" in named else set()
        assert set(re.findall(NUMBER, network.replace(",", ""))) <= {*of_network, *plain(of_network)}, (network, named)
        assert set(re.findall(NUMBER, seeds.replace("1,000 steps", ""))) <= of_seeds, (seeds, named)


def test_the_caption_of_the_census_is_the_ledgers(ledger):
    bound = ledger["every-seed-binds"]
    caption = " ".join(README[README.index("*160 seeds") :].split("\n\n")[0].split())
    assert (
        f"*{bound.n} seeds, not one: all learn to add, {sum(s.verdict == HOLDS for s in bound.by_seed)} learn to bind"
        in caption
    )
    order = ledger["every-seed-addition-first-train"]
    assert order.verdict == HOLDS and "in none of them binding comes before addition" in caption
    assert ledger["every-seed-adds"].value == 1.0


def test_times_on_a_gpu_are_those_of_the_tables():
    measured = json.loads((ROOT / "benchmarks" / "peers-gpu.json").read_text())
    assert "took {} and {} s with TF32".format(*measured["census"]["wall_seconds"]) in README
    versions = [(ROOT / page).read_text() for page in ("benchmarks/README.md", "docs/scale.md")]
    assert all(measured["commit"] in text and measured["census"]["commit"] in text for text in versions)
    scale = " ".join((ROOT / "docs" / "scale.md").read_text().split())
    fp32, tf32, of_32, alone, alone_tf32 = (b["us_per_model_step"].popitem()[1] for b in measured["bench"])
    assert f"{fp32:.1f} us per model and step in fp32, {tf32:.2f} with TF32" in README
    ours = (
        f"**{fp32:.1f} us** with 128 models and {of_32:.1f} with 32",
        f"{alone:.0f} us a step, {alone_tf32:.0f} with TF32",
    )
    assert all(words in scale for words in ours)
    ratios = [min(b["peers_us"].values()) / us for b, us in zip(measured["bench"], (fp32, tf32), strict=False)]
    words = "{:.1f} and {:.1f} times as".format(*ratios)
    assert words in README and words in scale


def test_no_paragraph_names_a_commit():
    """Versions are in tables and in JSON files."""
    for page in ("README.md", "docs/scale.md", "docs/tutorial.md", "CONTRIBUTING.md"):
        prose = [line for line in (ROOT / page).read_text().splitlines() if not line.startswith("|")]
        named = re.findall(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{7}\b", "\n".join(prose))
        assert named == [], page


def study_of(finding: str, name: str) -> StudyTable:
    folder = ROOT / "findings" / finding
    return read_study(studies_in(folder)[name], folder)


def cell_with(table: StudyTable, settings: dict[str, object]) -> str:
    (label,) = (cell.label for cell in table.study.cells if dict(cell.settings) == settings)
    return label


def test_the_cure_of_the_documents_is_the_one_that_was_tested_and_no_preset_has_it():
    flags = "--optim.lr 0.002 --optim.later-lr 0.001 --optim.later-from 10000"
    table = study_of("every_seed", "cure")
    cure = cell_with(table, {"optim.lr": 0.002, "optim.later_lr": 0.001, "optim.later_from": 10_000})
    bound = [int(table.cells[cell]["binds"].sum()) for cell in (cure, PAPER)]
    for page in ("README.md", "docs/tutorial.md"):
        assert flags in (ROOT / page).read_text() and f"{bound[0]} of 128" in (ROOT / page).read_text()
    assert f"{bound[0]} of 128 fresh seeds bind, against {bound[1]} with" in README
    assert all(preset.optim.later_lr is None for preset in PRESETS.values())
    again = study_of("what_makes_it_bind", "again")
    larger = cell_with(again, {"model.init_scale": 1.2})
    bound = [int(again.cells[cell]["binds"].sum()) for cell in (larger, PAPER)]
    assert f"with `--model.init-scale 1.2` all {bound[0]} fresh seeds do, against {bound[1]}" in README
