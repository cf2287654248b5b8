"""The report says what was found, shows every figure with its data, and is the same bytes each time."""

import csv
import json
import os
import re
import shutil
import time
from dataclasses import replace
from multiprocessing import active_children

import numpy as np
import pytest

from assignadd.config.errors import UserError
from assignadd.dynamics.trajectory import binds
from assignadd.figure.record import FigureRecord
from assignadd.measures.accuracies import Accuracy, end_accuracies_of
from assignadd.network import Network, store_result
from assignadd.paper.generalisation.figures import CENSUS_FIGURE, GENERALIZATION_FIGURE
from assignadd.report import reproduction
from assignadd.report.reproduction import DYNAMICS, SECTIONS, drawing_pictures, write_page
from assignadd.runs.folder import Run
from assignadd.sweeps import population
from assignadd.sweeps.population import NO_POPULATIONS
from tests.report.reader import Reader
from tests.report.records import RECORDS
from tests.report.writing import EVERY_SECTION, write_report

LABELS = ["accuracies", "accuracies2", *(figure.label for section in EVERY_SECTION for figure in section.figures)]


def test_every_figure_is_there_with_its_data(report):
    reader = Reader(report.index.read_text())
    in_page = ["accuracies", "accuracies2", *(figure.label for section in EVERY_SECTION for figure in section.figures)]
    assert sorted(a["id"] for a in reader.named("section")) == sorted(in_page)
    linked = {a["href"] for a in reader.named("a") if a["href"].startswith("figures/")}
    drawn = [label for label in LABELS if (report.folder / "figures" / f"{label}.npz").is_file()]
    assert all(np.load(report.folder / "figures" / f"{label}.npz", allow_pickle=False).files for label in drawn)
    assert {"census", "generalization_combined"} <= {*LABELS} - {*drawn}
    assert len(reader.named("img")) == len(drawn)
    assert linked == {f"figures/{label}{suffix}" for label in drawn for suffix in (".npz", ".svg", ".png")}
    assert all((report.folder / name).stat().st_size > 0 for name in linked)


def test_beside_the_page_are_its_claims_and_what_to_cite(report):
    links = [a["href"] for a in Reader(report.index.read_text()).named("a")]
    assert {"claims.json", "claims.csv", "cite.bib"} <= set(links)
    claims = json.loads((report.folder / "claims.json").read_bytes())
    assert [(claim["id"], claim["value"], claim["by_seed"][1]["seed"]) for claim in claims] == [
        (record.id, record.value, 1) for record in RECORDS
    ]
    with (report.folder / "claims.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["id"], row["claim"], row["verdict"]) for row in rows] == [
        (record.id, record.claim, record.verdict) for record in RECORDS
    ]
    assert [float(row["value"]) for row in rows if row["value"]] == [r.value for r in RECORDS if r.value is not None]
    entries = re.findall(r"^@(\w+)\{(\w+),", (report.folder / "cite.bib").read_text(), re.MULTILINE)
    assert entries == [("article", "exoo2026assign"), ("software", "assignadd")]


def test_all_but_the_first_figure_of_a_section_is_folded(report):
    html = report.index.read_text()
    mechanism = html[html.index('id="section-the-mechanism"') : html.index('id="section-causes"')]
    first, folded = mechanism.split("<details><summary>", 1)
    assert first.count("<section") == 1 and folded.count("<section") == len(EVERY_SECTION[0].figures) - 1 > 0


def test_contents_come_first_and_every_claim_last(report):
    reader = Reader(report.index.read_text())
    words = "".join(reader.words)
    headings = ["Accuracy at the end", *(section.heading for section in SECTIONS)]
    headings += ["Provenance and commands", "Every claim"]
    places = [words.rindex(t) for t in ("In short", *headings[:-2], '"modulus": 7', "Every claim", "claim nine")]
    assert places == sorted(places)
    ids = {a["id"] for _, a in reader.tags if "id" in a}
    inner = [a["href"][1:] for a in reader.named("a") if a["href"].startswith("#section-")]
    assert len(inner) >= len(headings) and set(inner) <= ids
    assert report.networks[0].run.provenance["torch"] in words
    assert "0 of 2 networks bind variables." in words and "That is a result, not an error" in words


def test_the_same_bytes_again(short_report, few_figures, tmp_path):
    """What is drawn is tested figure by figure; here the page and its files."""
    write_report(tmp_path, short_report.networks, RECORDS, "assignadd report x")
    one, two = (
        {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        for folder in (short_report.folder, tmp_path)
    )
    assert {".png", ".svg", ".npz", ".html"} <= {path.suffix for path in one} and one == two


def test_tables_of_populations_are_read_before_processes_are_forked(report, tmp_path, monkeypatch):
    """Polars waits forever in a forked process once it was used in its parent."""
    parent, read = os.getpid(), population.by_network

    def read_here(*given):
        assert os.getpid() == parent
        return read(*given)

    monkeypatch.setattr(
        reproduction, "SECTIONS", [replace(SECTIONS[0], figures=(CENSUS_FIGURE, GENERALIZATION_FIGURE))]
    )
    monkeypatch.setattr(population, "by_network", read_here)
    monkeypatch.setattr(FigureRecord, "save", lambda record, data, stem: stem.with_suffix(".svg").write_text(""))
    shipped = population.shipped_populations()
    census, fraction, two_var = map(replace, (shipped.census[1], shipped.fraction, shipped.two_var))  # not read yet
    populations = population.Populations((census,), fraction, two_var)
    with drawing_pictures(tmp_path, report.networks, populations, processes=2) as n:
        assert n == 4  # two are of training
    assert len(list((tmp_path / "figures").glob("*.svg"))) == n


def test_pictures_are_drawn_while_the_body_runs(report, few_figures, tmp_path):
    with drawing_pictures(tmp_path, report.networks, NO_POPULATIONS, processes=2) as n:
        drawn = tmp_path / "figures" / "accuracies.svg"
        assert any(drawn.is_file() or time.sleep(0.1) for _ in range(600))
    assert len(list((tmp_path / "figures").glob("*.npz"))) == n == 2 + len(few_figures)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_failure_of_the_body_or_of_a_picture_is_told_and_leaves_no_process(
    report, few_figures, tmp_path, monkeypatch, processes
):
    def fail(*_):
        raise ValueError("no such picture")

    with pytest.raises(UserError, match="bad"), drawing_pictures(tmp_path, report.networks, NO_POPULATIONS, processes):
        raise UserError("bad")
    assert not active_children()
    monkeypatch.setattr(FigureRecord, "save", fail)
    with (
        pytest.raises((ValueError, RuntimeError), match="no such picture"),
        drawing_pictures(tmp_path, report.networks, NO_POPULATIONS, processes),
    ):
        pass
    assert not active_children()


@pytest.fixture
def page_of(short_report, few_figures, tmp_path):
    """Writes the page of some networks with figures that are drawn already."""

    def write(networks) -> str:
        folder = shutil.copytree(short_report.folder, tmp_path / "out")
        return write_page(folder, networks, RECORDS, "assignadd report x").read_text()

    return write


def test_the_mechanism_is_drawn_for_the_first_that_learned_binding(report, page_of, monkeypatch):
    learned = report.networks[1]
    monkeypatch.setattr(learned, "results", dict(learned.results))
    store_result(learned, binds, True)
    words = "".join(Reader(page_of(report.networks)).words)
    assert f"Figures of one network show seed {learned.seed} of" in words
    assert f"1 of 2 networks binds variables: seed {learned.seed} of" in words and "the others: seed 0 of" in words


def test_the_configuration_of_a_run_stays_text(report, page_of, monkeypatch):
    monkeypatch.setattr(Run, "document", property(lambda run: {"name": "<script>alert(7)</script>"}))
    assert "<script>alert(7)</script>" in "".join(Reader(page_of(report.networks[:1])).words)


def test_imported_weights_have_no_curves_and_the_page_says_so(report, few_figures, page_of, monkeypatch):
    for network in report.networks:
        monkeypatch.setitem(network.__dict__, "rows", [])
    reader = Reader(page_of(report.networks))
    assert [a["id"] for a in reader.named("section")] == few_figures
    names = f"seeds 0, 1 of {report.networks[0].name}"
    assert f"as they were imported, or evaluated only once in training: {names}." in "".join(reader.words)


def test_one_evaluation_has_no_curves_and_no_figure_along_training(report, tmp_path, monkeypatch):
    """An empty figure would say that everything was learned at the only step."""
    last = report.networks[0].steps[-1]
    once = Network.of_run(report.networks[0].run, 0, last, report.networks[0].stack, 50)
    monkeypatch.setitem(once.__dict__, "rows", once.rows[-1:])
    monkeypatch.setitem(once.__dict__, "steps", [last])
    dynamics = [replace(section, figures=DYNAMICS) for section in SECTIONS if section.figures == DYNAMICS]
    monkeypatch.setattr(reproduction, "SECTIONS", dynamics)
    write_report(tmp_path, [once], RECORDS, "assignadd report x")
    reader = Reader((tmp_path / "index.html").read_text())
    words = "".join(reader.words)
    assert "accuracies" not in [a["id"] for a in reader.named("section")]
    assert "evaluated only once in training: seed 0 of" in words
    assert words.count("training was not followed") == len([f for f in DYNAMICS if f.along_training]) == 3


def test_a_set_that_a_split_does_not_have_reads_so(report, page_of, monkeypatch):
    one = report.networks[0]
    monkeypatch.setattr(one, "results", dict(one.results))
    store_result(one, end_accuracies_of, {"0-var train": Accuracy((0.5,), 50)})
    assert "none exists" in page_of(report.networks)


def test_classes_of_held_out_pairs_are_named_in_words_with_their_number_of_pairs(report, page_of, monkeypatch):
    one = report.networks[0]
    monkeypatch.setattr(one, "results", dict(one.results))
    store_result(one, end_accuracies_of, {"1-var doubles": Accuracy((0.5,), 50, 4)})
    words = Reader(page_of(report.networks[:1])).words
    assert "one variable, held-out doubles n + n" in words and "0.500 [0.150, 0.850]\n4 pairs" in words
