"""The README's Python runs as printed, its commands exist, and its numbers are those of the results."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

import assignadd
from assignadd.cli import COMMANDS
from assignadd.config import PRESETS
from assignadd.ledger.claim import Record, find
from assignadd.paper.ledger import paper_network
from assignadd.stats import FAILS, HOLDS, UNDECIDED
from assignadd.study import PAPER, StudyTable
from assignadd.study.files import read_study, studies_in

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_python_snippets_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    snippets = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(snippets) == 1
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), names)
    assert names["scores"].shape == (2, 4, 4)
    assert len(names["table"]) == 8
    assert names["record"].id == "qk2-identity"


def test_commands_exist():
    assert set(re.findall(r"^    assignadd (\w+)", README, re.MULTILINE)) <= set(COMMANDS)


def test_readme_is_short():
    assert len(README.splitlines()) <= 110


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


NUMBER = r"\d*\.\d+|\d+ of \d+|\b\d+\b"
# For each row of the table: the record of the paper's own network, the record of the seeds, and their readings.
CLAIMS = (
    (None, "every-seed-binds"),
    ("addition-first-train", "every-seed-addition-first-train"),
    ("over-98-0-var-add-restricted", "every-seed-0-var-add-restricted"),
    ("held-out-pairs-99.4:doubles", "every-seed-0-var-add-restricted:doubles"),
    ("new-positions-99.6", "every-seed-1-var-var-restricted"),
    ("over-98-all-types", "every-seed-over-98-at-once"),
    ("attention-every-sequence", "every-binding-seed-attention"),
    ("circuit-section-5:two-variables", None),
    ("circuit-section-5:literals", None),
    (None, "pair-threshold"),
    (None, "theory-memory-dominates"),
)
SIGNS = {HOLDS: "✓", FAILS: "✗", UNDECIDED: "?"}


def rows() -> list[list[str]]:
    lines = README[README.index("| claim |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def forms(value: float | None) -> set[str]:
    """A number as a README may write it: two to four digits, no zero before the point, or rounded from 10 on."""
    if value is None:
        return set()
    return {f"{value:.{digits}f}".removeprefix("0") for digits in (2, 3, 4)} | {f"{value:.0f}"}


@pytest.fixture(scope="module")
def ledger() -> list[Record]:
    return list(assignadd.claims())


@pytest.mark.parametrize("row", range(len(CLAIMS)), ids=[of_network or of_seeds for of_network, of_seeds in CLAIMS])
def test_signs_and_numbers_of_the_table_are_the_records(ledger, row):
    assert len(rows()) == len(CLAIMS)
    _, _, network, seeds = rows()[row]
    of_network, of_seeds = CLAIMS[row]
    for cell, records, id in ((network, paper_network().records, of_network), (seeds, ledger, of_seeds)):
        if id is None:
            assert cell == ""
            continue
        record = find(records, id)
        assert cell[0] == SIGNS.get(record.verdict, cell[0]), id  # a count of seeds has no sign
        counts = Counter(s.verdict for s in record.by_seed)
        known = forms(record.value) | {f"{counts[HOLDS]} of {record.n}"}
        assert set(re.findall(NUMBER, cell)) <= known, (cell, known)


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


def test_ratios_to_vmap_are_those_of_the_tables():
    measured = json.loads((ROOT / "benchmarks" / "architectures-gpu.json").read_text())
    benchmarks = (ROOT / "benchmarks" / "README.md").read_text()
    assert measured["commit"] in benchmarks
    for network in ("two heads of width 64", "layer norm", "three layers"):
        of_32, of_128 = (measured["us"][f"{network.split(' of ')[0]}, {models} models"] for models in (32, 128))
        in_readme, in_table = (
            next(line for line in page.splitlines() if line.startswith(f"| {network}")) for page in (README, benchmarks)
        )
        assert in_readme.split("|")[3].split()[0] == f"{of_32['ratio']:.1f}"
        cells = [f"{timed['ours']}, {timed['ratio']:.1f}" for timed in (of_32, of_128)]
        assert in_table == f"| {network} | {cells[0]} | {cells[1]} |"


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
