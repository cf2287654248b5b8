"""Builds the article: collects its numbers by id, draws its figures, and sets the text (`make article`).

    python article/build.py             # figures and the PDF, from the numbers in numbers.json
    python article/build.py --collect   # collects the numbers anew before, in about two minutes

`article.typ` names each number by an id, in quotation marks, and fails to compile where an id has no number. An id is

- that of a claim, or CLAIM:READING for another reading of it: of the paper's own network (the ledger in
  `assignadd/results/paper-network.json`) or of many seeds (`assignadd claims`);
- `five/CLAIM`, the same for the five networks of the package that bind;
- that of a statement of a finding's study (`assignadd study PATH --show`) or of a finding's claim;
- `STUDY | CELL | COLUMN`, and `| OUTCOME` for the networks with this outcome alone: a share or a mean of the table;
- `operand-attention | PREDICTION`, the loss of the seed that is nearest to the wrong side;
- `counted | NAME`, what `counted.py` counts in these tables, where nothing above has it.

The PDF names the version and the commit of the package that it was built with.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ARTICLE = ROOT / "article"
TEXT, REFERENCES, NUMBERS = ARTICLE / "article.typ", ARTICLE / "references.bib", ARTICLE / "numbers.json"
DRAWN = ARTICLE / "drawn"  # figures that the package draws; git ignores them
PDF = ARTICLE / "assign-and-add-replicated.pdf"

QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
FIVE = "five/"
SEPARATOR = " | "
# What is asked of `assignadd claims`: many seeds, from the tables of the package.
OF_SEEDS = ("every-seed", "every-binding", "pair-threshold", "two-var-threshold", "composition")
STUCK = "findings/stuck/claims.py"
FIELDS = ("value", "low", "high", "n", "unit", "verdict", "rule", "comment", "paper")
VERDICTS = ("holds", "does not hold", "undecided")
Records = dict[str, dict[str, Any]]


def quoted(text: str) -> set[str]:
    """Every string of the article's source that stands in quotation marks; ids are among them."""
    return set(QUOTED.findall(text))


def command(*words: str) -> Any:
    """What an assignadd command prints as JSON."""
    from assignadd.__main__ import main

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = main([*words, "--json"])
    if code:
        raise SystemExit(f"assignadd {' '.join(words)}: exit code {code}")
    return json.loads(printed.getvalue())


def entry(record: dict[str, Any]) -> dict[str, Any]:
    """What the article may say of a record: the number, its verdict, and those of single networks, counted."""
    kept = {field: record.get(field) for field in (*FIELDS, "networks", "lowest", "highest")}
    networks = record.get("by_seed") or []
    if len(networks) > 1:
        values = [network["value"] for network in networks if network["value"] is not None]
        counted = Counter(network["verdict"] for network in networks)
        kept["networks"] = {verdict: counted[verdict] for verdict in VERDICTS}
        kept["lowest"], kept["highest"] = min(values, default=None), max(values, default=None)
    return {name: _rounded(value) for name, value in kept.items() if value is not None}


def _rounded(value: Any) -> Any:
    """Six digits: more differ between machines where a number was computed, and nobody reads them."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def with_readings(records: Iterable[dict[str, Any]], prefix: str = "") -> Records:
    """Entries by id, those of readings by CLAIM:READING."""
    entries = {}
    for record in records:
        entries[prefix + record["id"]] = entry(record)
        for reading in record.get("readings", []):
            entries[f"{prefix}{record['id']}:{reading['id']}"] = entry(reading)
    return entries


def from_tables(ids: set[str]) -> Records:
    """The numbers that committed files have: the ledger, the package's populations, the tables of the findings."""
    ledger = json.loads((ROOT / "assignadd/results/paper-network.json").read_text())
    found = with_readings(ledger["records"])
    for start in OF_SEEDS:
        further = ["census-six", "--with", str(ROOT / STUCK)] if start == "composition" else []
        found |= with_readings(command("claims", *further, "--only", start))
    for folder in studied():
        for study in command("study", str(folder), "--show"):
            found |= with_readings(study["statements"])
    from article.counted import counts

    return found | of_cells(ids) | operand_attention() | {id: entry(count) for id, count in counts().items()}


def measured() -> Records:
    """The numbers that are measured on networks of the package."""
    five = command("claims", "census-six", "census-two", "--only", "circuit-section")
    stuck = command("claims", "census-six", "--with", str(ROOT / STUCK), "--only", "stuck")
    return with_readings(five, FIVE) | with_readings(stuck)


def is_measured(id: str) -> bool:
    """Whether `measured` has this id, rather than `from_tables`."""
    return id.startswith((FIVE, "stuck-")) and not id.startswith("stuck-parts")


def studied() -> list[Path]:
    """The folders of findings that have a study and its table."""
    return [path.parent for path in sorted(ROOT.glob("findings/*/study.py")) if list(path.parent.glob("*.parquet"))]


def of_cells(ids: set[str]) -> Records:
    """Shares and means of a cell of a study: STUDY | CELL | COLUMN, and | OUTCOME."""
    import polars

    from assignadd.study import mean, share

    wanted: dict[str, list[str]] = {}
    for id in ids:
        wanted.setdefault(id.split(SEPARATOR)[0], []).append(id)
    entries = {}
    for folder, study in studies():
        ids_of_study = [id for id in wanted.get(study.name, []) if SEPARATOR in id]
        if not ids_of_study:
            continue
        table = table_of(folder, study)
        for id in ids_of_study:
            cell, column, *among = id.split(SEPARATOR)[1:]
            ask = share if table.frame[column].dtype == polars.Boolean else mean
            number = table.measured(ask(column, *among), cell)
            assert number is not None, f"{id}: fewer than two networks"
            entries[id] = entry({**{f: getattr(number, f) for f in ("value", "low", "high", "n", "unit")}})
    return entries


def table_of(folder: Path, study: Any) -> Any:
    """The committed table of a study."""
    import polars

    from assignadd.study import StudyTable

    frame = polars.read_parquet(folder / f"{study.name}.parquet")
    return StudyTable(study, frame, json.loads((folder / f"{study.name}.json").read_text()))


def studies() -> Iterator[tuple[Path, Any]]:
    """Every study that has its table, with the folder of its finding."""
    from assignadd.study import Study

    for folder in studied():
        module = importlib.import_module(f"findings.{folder.name}.study")
        for stated in vars(module).values():
            for study in stated if isinstance(stated, (tuple, list)) else (stated,):
                if isinstance(study, Study):
                    yield folder, study


def operand_attention() -> Records:
    """For each prediction of this finding the loss of the seed that is nearest to the wrong side, over its seeds."""
    finding = importlib.import_module("findings.operand_attention.table")
    models = finding.table()["models"]
    entries = {}
    for prediction in finding.PREDICTIONS:
        losses = [prediction.worst(prediction.losses(model)) for model in models]
        worst = prediction.worst(losses)
        holds = sum(prediction.holds(model) for model in models)
        entries[f"operand-attention{SEPARATOR}{prediction.id}"] = entry(
            {"value": worst.value, "low": min(loss.low for loss in losses), "high": max(loss.high for loss in losses),
             "n": len(models), "unit": "seeds", "verdict": "holds" if holds == len(models) else "does not hold"}
        )  # fmt: skip
    return entries


def collect() -> None:
    """Writes the numbers that the article uses."""
    ids = quoted(TEXT.read_text())
    found = from_tables(ids) | measured()
    used = {id: found[id] for id in sorted(ids & found.keys())}
    NUMBERS.write_text(json.dumps(used, indent=1, ensure_ascii=False) + "\n")


def draw() -> None:
    """Draws the figures of the paper that the article shows: of seed 0 of `census-six`, and of the populations.

    They are the package's, with the changes of `ADAPTED` for print.
    """
    import assignadd
    from assignadd.figure import Sources, figure, save
    from assignadd.ledger import networks_of
    from assignadd.paper.binding.figures import ATTENTION_FIGURE
    from assignadd.paper.causes.figures import CIRCUIT_ONLY_FIGURE
    from assignadd.paper.generalisation.figures import CENSUS_FIGURE, GENERALIZATION_FIGURE
    from assignadd.paper.theory.figures import THEORY_BETA_FIGURE
    from assignadd.sweeps import Populations, shipped_population

    networks, _ = networks_of(assignadd.open_run("census-six"))
    census = shipped_population("census"), shipped_population("authors")
    populations = Populations(census, shipped_population("fraction"), shipped_population("two-var"))
    sources = Sources(networks, populations)
    DRAWN.mkdir(exist_ok=True)
    records = ATTENTION_FIGURE, CIRCUIT_ONLY_FIGURE, CENSUS_FIGURE, GENERALIZATION_FIGURE, THEORY_BETA_FIGURE
    for record in records:
        data = record.data_of(sources)
        if record is CENSUS_FIGURE:
            data = replace(data, **late_in_one_alphabet(populations))
        with figure(*PRINT_SIZES.get(record.label, (record.width, record.height))) as fig:
            record.draw(data, fig)
            ADAPTED.get(record.label, lambda _: None)(fig)
            save(fig, DRAWN / record.label)
    for name, size in FINDING_SIZES.items():
        folder = ROOT / "findings" / name
        tables = {study.name: table_of(folder, study) for of, study in studies() if of == folder}
        with figure(*size) as fig:
            importlib.import_module(f"findings.{name}.study").draw(tables, fig)
            save(fig, DRAWN / name)


# In inches, about as large as in print, so that letters are legible there: of the paper's figures, and of findings.
PRINT_SIZES = {
    "census": (6.4, 3.8), "circuit_only": (5.4, 3.4), "generalization_combined": (5.4, 2.5),
    "theory_beta": (5.4, 2.6),
}  # fmt: skip
FINDING_SIZES = {"stuck_parts": (4.2, 1.9), "every_seed": (6.2, 3.3), "doubles_or_a_line": (5.2, 1.9)}
# The banned letters of the authors' code by those of the paper's text, which are in the same slots.
LETTERS = {"k": "a", "l": "b", "a": "g", "b": "h", "g": "k", "h": "l"}


def late_in_one_alphabet(populations: Any) -> dict[str, list[str]]:
    """The last variables of the census, those with the bans of the authors' code renamed to those of the paper's."""
    late, banned = [], set()
    for population in populations.census:
        renames = {} if "a" in population.config.task.banned_first else LETTERS
        for seed in population.seeds:
            last = seed.late_variable if seed.binds else None
            if last is not None:
                name = f"{renames.get(last.variable, last.variable)} {last.slot}"
                late.append(name)
                banned |= {name} if last.banned else set()
    return {"late": late, "banned": sorted(banned)}


def adapt_census(fig: Any) -> None:
    """A legend that leaves the curves free, and shorter words."""
    learned, _, final, last = fig.axes
    learned.legend(loc="lower right", fontsize=6, handlelength=0.8, borderpad=0.1, labelspacing=0.2, handletextpad=0.4)
    learned.set_title("(a) seeds with a skill")
    final.set_xlabel("accuracy at the end")
    last.set_title("(d) last variable")
    last.set_xlabel("seeds")


def adapt_generalization(fig: Any) -> None:
    """A key for the median of the right panel, too."""
    left, right = fig.axes
    fig.legends[0].remove()
    handles, labels = left.get_legend_handles_labels()
    median = right.lines[1]
    labels[1] = "median of all, two variables"
    handles.insert(2, median)
    labels.insert(2, "median of all, literals")
    fig.legend(handles, labels, loc="outside lower center", ncols=3)


def adapt_circuit(fig: Any) -> None:
    """Names that say what the first row and the last column are, in larger letters."""
    axes = fig.axes[0]
    rows = [label.get_text() for label in axes.get_yticklabels()]
    rows[0] = "the whole network"
    axes.set_yticks(axes.get_yticks(), rows, fontsize=7)
    columns = [fill(label.get_text().replace("\n", " "), 20) for label in axes.get_xticklabels()]
    columns[-1] = "mean, over that of\nthe whole network"
    axes.set_xticks(axes.get_xticks(), columns, rotation=90, fontsize=7)


ADAPTED = {"census": adapt_census, "generalization_combined": adapt_generalization, "circuit_only": adapt_circuit}


def fingerprint() -> str:
    """SHA-256 over version, text, references, numbers and the findings' figures; the PDF has it as a keyword."""
    import assignadd

    text = TEXT.read_text()
    figures = sorted(ROOT / path.lstrip("/") for path in quoted(text) if path.endswith("figure.svg"))
    digest = hashlib.sha256(assignadd.__version__.encode())
    for path in (TEXT, REFERENCES, NUMBERS, *figures):
        digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()


def typeset(output: Path, ppi: float | None = None) -> None:
    """Compiles the article, as a PDF or, with so many points an inch, as a PNG for each page.

    Without dates and fonts of this machine: the same input gives the same bytes.
    """
    import typst

    import assignadd
    from assignadd.runs.manifest import source_commit

    commit, dirty = source_commit(ROOT / "assignadd")
    source = "of no known commit" if commit is None else f"commit {commit[:12]}{', changed' if dirty else ''}"
    inputs = {"fingerprint": fingerprint(), "version": assignadd.__version__, "commit": source}
    typst.compile(
        str(TEXT), output=str(output), root=str(ROOT), ignore_system_fonts=True, timestamp=0,
        format="pdf" if ppi is None else "png", ppi=ppi, sys_inputs=inputs,
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Builds the article.")
    parser.add_argument("--collect", action="store_true", help="collect the numbers anew")
    parser.add_argument("--pages", type=Path, help="also write every page as PNG into this folder")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if options.collect:
        collect()
    draw()
    typeset(PDF)
    if options.pages:
        options.pages.mkdir(parents=True, exist_ok=True)
        typeset(options.pages / "page-{p}.png", ppi=150)
