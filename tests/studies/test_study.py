"""Studies: every model has its row, shares and statements are those counted by hand, tables can be read again."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import pytest
import torch

from assignadd.claims.statements import measured, study_records
from assignadd.cli import main
from assignadd.config import Member, UserError
from assignadd.figures.studies import draw_study, study_caption, study_data
from assignadd.figures.style import figure
from assignadd.report import studies_page
from assignadd.runs.folder import Run
from assignadd.stats import wilson
from assignadd.studies import registry
from assignadd.studies.registry import STUDIES, run_study
from assignadd.studies.study import Hypothesis
from assignadd.studies.table import StudyTable, read_study
from assignadd.sweeps.engine import plan
from assignadd.verdicts import AtLeast, Between
from tests.studies.small import SMALL

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    return out, run_study(SMALL, SMALL.sweep(), out, "assignadd study small", lambda job, step: None)


def test_every_model_has_a_row_with_its_last_numbers(made):
    out, table = made
    assert table.frame.select("cell", "seed", "steps").rows() == [
        (cell.label, seed, 40) for cell in SMALL.cells for seed in (0, 1)
    ]
    assert table.frame["diverged"].to_list() == [False] * 14 + [True] * 2
    assert table.frame.filter(polars.col("diverged"))["binds"].to_list() == [False] * 2
    assert table.frame["frequencies"].is_null().to_list() == [False] * 2 + [True] * 2 + [False] * 12
    assert table.frame["follows 1 link"].is_not_null().to_list() == [cell == "1 hop" for cell in table.frame["cell"]]
    assert table.frame.filter(polars.col("cell") == "3 operands")["3-var train (final)"].null_count() == 0
    assert table.frame.filter(polars.col("cell") == "1 operand")["2-var train (final)"].null_count() == 2
    doubles = table.frame.filter(polars.col("cell") == "as it is")
    expected = doubles["0-var doubles (final)"] - doubles["0-var neither order (final)"]
    assert doubles["doubles minus others"].to_list() == pytest.approx(expected.to_list())
    runs = [Run.open(job.path) for job in plan(SMALL.sweep(), out, "cpu").jobs]
    exams = {
        member.config(run.config): row["measures"]["tests"]["1-var train (final)"]
        for run in runs for member, row in zip(run.members, run.metrics()[-len(run.members) :], strict=True)
    }  # fmt: skip
    rows = table.frame.select("cell", "seed", "1-var train (final)").rows()
    settings = {cell.label: cell.settings for cell in SMALL.cells}
    own = {Member(seed, settings[cell]).config(SMALL.base): accuracy for cell, seed, accuracy in rows}
    assert len(exams) == 16 and own == pytest.approx(exams)


def test_a_table_is_read_again_and_an_absent_one_says_what_to_type(made, tmp_path):
    out, table = made
    again = read_study(SMALL, out)
    assert again.frame.equals(table.frame) and again.provenance == json.loads(json.dumps(table.provenance))
    assert again.provenance["cells"]["2 heads"] == {"model.n_heads": 2, "model.d_head": 8}
    assert again.provenance["made_with"][0]["torch"] == torch.__version__
    with pytest.raises(UserError, match="`assignadd study small` makes it"):
        read_study(SMALL, tmp_path)


def counted(**columns: list) -> StudyTable:
    """Eight models in two cells: six of the first and two of the second."""
    cells = ["as it is"] * 6 + ["2 heads"] * 2
    frame = polars.DataFrame({"cell": cells, "diverged": [False] * 8, **columns})
    return StudyTable(SMALL, frame, {"steps": 40})


def test_shares_and_statements_are_those_counted_by_hand():
    binds = [True, True, True, False, False, None, True, True]
    table = counted(binds=binds, frequencies=[3, 5, 4, 9, 9, 9, 1, 2], adds=[True] * 8, refines=[False] * 8)
    share = table.share("as it is", "binds")
    assert (share.value, share.n) == (0.6, 5) and (share.low, share.high) == pytest.approx(
        (wilson(3, 5).low, wilson(3, 5).high)
    )
    among = Hypothesis("x", "", "frequencies", "as it is", AtLeast(1), among="binds")
    found = measured(table, among)
    assert (found.value, found.n) == (4.0, 3) and found.high - 4 == pytest.approx(
        4.303 / np.sqrt(3), rel=1e-3
    )  # t, df = 2
    versus = Hypothesis("x", "", "binds", "2 heads", Between(-0.5, 0.5), versus="as it is")
    assert measured(table, versus).value == pytest.approx(0.4)
    assert measured(table, Hypothesis("x", "", "binds", "N = 5", AtLeast(0))) is None  # a cell without models
    assert table.median("2 heads", "frequencies").value == 1.5


def test_a_statement_that_cannot_be_measured_says_so(made):
    records = {record.id: record for record in study_records(made[1])}
    assert records["small-of-none"].verdict == "cannot be tested" and records["small-of-none"].value is None
    assert records["small-binds"].value == 0 and records["small-binds"].verdict != "holds"
    assert all(r.label == "ours" and r.population == "study small" for r in records.values())


def test_the_figure_has_every_cell_and_the_caption_names_the_extremes():
    binds = [True] * 6 + [False] * 2
    frame = counted(binds=binds, adds=[True] * 8, refines=[False] * 8).frame
    at = {f"{name} at": [100 * i for i in range(8)] for name in ("addition", "binding", "refinement")}
    frame = frame.with_columns(**{name: polars.Series(steps) for name, steps in at.items()})
    data = study_data(StudyTable(SMALL, frame, {"steps": 900}))
    with figure(height=2) as made:
        draw_study(data, made)
        assert [t.get_text() for t in made.axes[0].get_yticklabels()] == [cell.label for cell in SMALL.cells]
    assert "most models bind with as it is (1.00" in study_caption(data)
    assert "fewest with 2 heads (0.00" in study_caption(data)
    assert "half or more have it in the last third of training with 2 heads:" in study_caption(data)
    assert "last third" not in study_caption(replace(data, steps=1200))
    late = replace(data, steps=300)  # in the first cell, models learned to bind at steps 0 to 500, 250 at the median
    assert "last third of training with as it is; 2 heads: more steps may raise the share" in study_caption(late)


def test_a_studys_own_numbers_are_drawn_for_the_models_that_bind_alone():
    binds = [True, False] + [True] * 4 + [False] * 2
    table = counted(binds=binds, adds=[True] * 8, refines=[False] * 8)
    numbers = [0.1 * i for i in range(8)]
    frame = table.frame.with_columns(own=polars.Series(numbers))
    frame = frame.with_columns(**{f"{name} at": polars.lit(None) for name in ("addition", "binding", "refinement")})
    data = study_data(StudyTable(replace(SMALL, shown=("own",), shown_on="what it is"), frame, {"steps": 900}))
    expected = [x for x, bound in zip(numbers, binds, strict=True) if bound]
    assert sorted(data.values[np.isfinite(data.values)]) == pytest.approx(expected)
    with figure(height=2) as made:
        draw_study(data, made)
        assert len(made.axes) == 3 and made.axes[2].get_xlabel().startswith("what it is")
        drawn = np.concatenate([line.get_xdata() for line in made.axes[2].lines if line.get_marker() == "o"])
        assert sorted(drawn[np.isfinite(drawn)]) == pytest.approx(expected)
    assert "Mean over the models that bind of 'own': from" in study_caption(data)


def test_the_command_lists_plans_trains_and_shows(tmp_path, capsys, monkeypatch):
    few = replace(SMALL, cells=SMALL.cells[:3])
    monkeypatch.setitem(registry.STUDIES, "small", few)
    out = ["--out", str(tmp_path / "here")]
    assert main(["study", "--json"]) == 0
    assert [s["study"] for s in json.loads(capsys.readouterr().out)] == list(registry.STUDIES)
    assert main(["study", "small", "--dry-run", "--json", "--device", "cpu", "--seeds", "3", *out]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert (planned["cells"], planned["model_steps"], planned["steps"]) == (9, 360, 40)
    assert not (tmp_path / "here").exists()
    flags = ["--device", "cpu", "--threads", "1", "--seeds", "1", "--steps", "20", *out]
    assert main(["study", "small", *flags, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert [c["cell"] for c in first["cells"]] == [c.label for c in few.cells]
    assert first["cells"][0]["binds"]["n"] == 1 and (tmp_path / "here" / "study-small.svg").exists()
    for again in (["--show"], flags[:-2]):  # the table that is there is the study's own
        assert main(["study", "small", *again, "--json", *out]) == 0
        assert json.loads(capsys.readouterr().out) == first
    polars.DataFrame({"mine": [1]}).write_parquet(tmp_path / "here" / "study-small.parquet")
    assert main(["study", "small", *flags]) == 2
    assert "was not written by this command" in capsys.readouterr().err
    assert main(["study", "nothing"]) == 2
    assert "study = 'nothing': expected one of architecture, size" in capsys.readouterr().err


def test_the_page_is_written_from_the_tables(capsys, made):
    assert main(["study", "--markdown"]) == 0
    page = capsys.readouterr().out
    assert page == (Path(__file__).parents[2] / "docs" / "studies.md").read_text(), "assignadd study --markdown"
    assert all(h.claim in page for study in STUDIES.values() for h in study.hypotheses)
    section = studies_page._section(SMALL, made[1])
    assert "| too fast | 2 | 2 | 0 [0, 0.658] |" in section and "| Half of the models bind. | 0 [" in section
    assert "Made by `assignadd study small` on cpu" in section


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_studies_are_well_formed(study):
    sweep = study.sweep()
    assert study.seeds >= 16 and len(sweep.cells) == study.n_models
    assert len({m.config(sweep.config) for m in sweep.cells}) == study.n_models  # no two models are the same
    ids = [h.id for h in study.hypotheses]
    assert len(set(ids)) == len(ids) and all(id.startswith(f"study-{study.name}-") for id in ids)
    assert next(cell for cell in study.cells if not cell.settings).label == study.reference
