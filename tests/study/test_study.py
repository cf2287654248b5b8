"""Studies: every network has its row, shares and statements are those counted by hand, tables can be read again."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import polars
import pytest
import torch

from assignadd.config import ConfigError, Member, UserError
from assignadd.figure import COLORS, figure
from assignadd.runs.folder import Run
from assignadd.stats import AtLeast, Measured, wilson
from assignadd.study import (
    PAPER,
    Cell,
    Computed,
    Study,
    StudyTable,
    mean,
    share,
)
from assignadd.study.files import draw_study, read_study, run_study
from assignadd.study.table import statements, study_records
from assignadd.sweeps.plan import Machines, plan
from tests.study.small import BASE, SMALL

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    return out, run_study(SMALL, SMALL.sweep(), out)


def test_every_network_has_a_row_with_its_last_numbers(made):
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
    doubles = table.frame.filter(polars.col("cell") == "plain")
    expected = doubles["0-var doubles (final)"] - doubles["0-var neither order (final)"]
    assert doubles["doubles minus others"].to_list() == pytest.approx(expected.to_list())
    runs = [Run.open(job.path) for job in plan(SMALL.sweep(), out, Machines()).jobs]
    exams = {
        member.config(run.config): row["measures"]["tests"]["1-var train (final)"]
        for run in runs for member, row in zip(run.members, run.metrics()[-len(run.members) :], strict=True)
    }  # fmt: skip
    rows = table.frame.select("cell", "seed", "1-var train (final)").rows()
    settings = {cell.label: cell.settings for cell in SMALL.cells}
    own = {Member(seed, settings[cell]).config(SMALL.config): accuracy for cell, seed, accuracy in rows}
    assert len(exams) == 16 and own == pytest.approx(exams)


def test_a_table_is_read_again_and_an_absent_one_is_said(made, tmp_path):
    out, table = made
    again = read_study(SMALL, out)
    assert again.frame.equals(table.frame) and again.provenance == json.loads(json.dumps(table.provenance))
    assert again.provenance["cells"]["2 heads"] == {"model.n_heads": 2, "model.d_head": 8}
    assert again.provenance["made_with"][0]["torch"] == torch.__version__
    with pytest.raises(UserError, match="no table of the study small in"):
        read_study(SMALL, tmp_path)


def counted(**columns: list) -> StudyTable:
    """Eight networks in two cells: six of the first and two of the second."""
    cells = ["plain"] * 6 + ["2 heads"] * 2
    frame = polars.DataFrame({"cell": cells, "diverged": [False] * 8, **columns})
    return StudyTable(SMALL, frame, {"steps": 40})


def test_shares_and_differences_are_those_counted_by_hand():
    binds = [True, True, True, False, False, None, True, True]
    table = counted(binds=binds, frequencies=[3, 5, 4, 9, 9, 9, 1, 2], adds=[True] * 8, refines=[False] * 8)
    found = table.share("plain", "binds")
    assert (found.value, found.n) == (0.6, 5)
    assert (found.low, found.high) == pytest.approx((wilson(3, 5).low, wilson(3, 5).high))
    found = table.measured(mean("frequencies", among="binds"), "plain")
    assert (found.value, found.n) == (4.0, 3) and found.high - 4 == pytest.approx(4.303 / np.sqrt(3), rel=1e-3)  # t
    assert table.difference(share("binds"), "2 heads", "plain").value == pytest.approx(0.4)
    assert table.measured(share("binds"), "N = 5") is None  # a cell without networks
    assert table.median("2 heads", "frequencies")[0] == 1.5


def test_networks_that_are_trained_several_times_are_the_units():
    """Three networks, the first trained four times and the others twice: their shares are 3/4, 1/2 and 0."""
    binds = [True, True, True, False, True, False, False, False]
    frame = polars.DataFrame({"cell": "plain", "seed.split": [1, 1, 1, 1, 2, 2, 15, 15], "binds": binds})
    again = StudyTable(replace(SMALL, unit="seed.split"), frame, {"steps": 40})
    assert again.unit_means("plain", "binds", "seed.split").tolist() == [0.75, 0.5, 0.0]
    found, ends = again.measured(share("binds"), "plain"), wilson(1.25, 3)
    assert (found.value, found.low, found.high, found.n) == (pytest.approx(1.25 / 3), ends.low, ends.high, 3)
    assert StudyTable(SMALL, frame, {"steps": 40}).measured(share("binds"), "plain").n == 8


def test_a_question_is_a_sentence_an_identifier_and_a_rule_for_each_cell():
    study = Study(
        "widths", "Does a narrow MLP learn?", (Cell("16", {"model.d_mlp": (None, 16)}), Cell("512")), seeds=2,
        ask=(
            mean("0-var train (final)", among="adds").versus("512", at_most=-0.1),
            share("binds").at_least(0.5),
            share("refines", among="binds").of("16").versus("512", at_least=-0.1),
            mean("frequencies").of("16").between(3, 5),
            Computed("both", "Both bind.", lambda table: None, AtLeast(1)),
        ),
    )  # fmt: skip
    found = [(s.id, s.says) for s in statements(study)]
    assert found == [
        ("widths-0-var-train-16-than-512", "16: accuracy (literals alone, as trained), among those that answer "
         'held-out tuples of literals, on average is at least 0.1 lower than in the cell "512".'),
        ("widths-binds-16", "16: the share of networks that bind variables is at least 0.5."),
        ("widths-binds-512", "512: the share of networks that bind variables is at least 0.5."),
        ("widths-refines-16-than-512", "16: the share of networks that use banned slots, among those that bind "
         'variables, is at most 0.1 lower than in the cell "512".'),
        ("widths-frequencies-16", "16: the number of the network's frequencies on average is from 3 to 5."),
        ("widths-both", "Both bind."),
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="labels of the cells of widths"):
        replace(study, ask=(share("binds").of("17").at_least(0.5),))


def test_a_question_about_a_column_that_no_table_has_is_refused_before_training():
    with pytest.raises(ConfigError, match=r"bind.*a column of the table.*did you mean binds"):
        Study("typing-error", "?", (Cell("a"),), 2, ask=(share("bind").at_least(0.5),))
    with pytest.raises(ConfigError, match=r"norm.*NAME \(final\)"):
        Study("short-name", "?", (Cell("a"),), 2, ask=(mean("norm", among="binds").at_least(1),))
    Study("exam", "?", (Cell("a"),), 2, ask=(mean("norm (final)", among="binds").at_least(1),))


def test_a_statement_that_cannot_be_measured_says_so(made):
    binds, compared, none = study_records(made[1])
    assert none.verdict == "cannot be tested" and none.value is None
    assert binds.value == 0 and binds.verdict != "holds" and compared.value == 0
    assert all(r.label == "ours" and r.population == "study small" for r in (binds, compared, none))


SOURCES = ("seed.init", "seed.split")
CROSSED = replace(
    SMALL,
    base=replace(BASE, record=replace(BASE.record, measure_every=20)),
    cells=(
        Cell("crossed", models=tuple(dict(zip(SOURCES, levels, strict=True)) for levels in product((4, 5), (4,)))),
        Cell("faster", {"optim.warmup": 10}, models=({"seed.init": 4, "optim.lr": 2e-3},)),
        Cell(PAPER, {"optim.lr": 5e-3}),
    ),
    seeds=1,
    first_seed=7,
    early_steps=(20,),
    early=("1-var train", "qk1_num_to_prev_var"),
    of_curves=lambda rows, n: {"evaluations": rows.height},
    ask=(
        Computed("x", "A number.", lambda table: Measured(0.7, 0.6, 0.8, table.frame.height, "networks"), AtLeast(0.5)),
        Computed("y", "No number.", lambda table: None, AtLeast(0.5)),
    ),
)


def test_networks_have_their_own_settings_and_columns(tmp_path):
    sweep = CROSSED.sweep()
    assert len(sweep.cells) == CROSSED.n_models == 4
    table = run_study(CROSSED, sweep, tmp_path)
    assert table.frame.select("cell", "seed", "seed.init", "seed.split", "lr").rows() == [
        *(("crossed", 7 + i, *levels, 1e-3) for i, levels in enumerate(product((4, 5), (4,)))),
        ("faster", 7, 4, 7, 2e-3), (PAPER, 7, 7, 7, 5e-3),
    ]  # fmt: skip
    curves = polars.read_parquet(tmp_path / "table.parquet").filter(polars.col("step") == 20)
    first = curves.filter((polars.col("seed.init") == 4) & (polars.col("seed.split") == 4)).row(0, named=True)
    own = table.frame.row(0, named=True)
    assert [own[f"{name} at 20"] for name in CROSSED.early] == [first[name] for name in CROSSED.early]
    assert own["evaluations"] == 3  # at steps 0, 20 and 40
    one, none = study_records(table)
    assert (one.value, one.low, one.high, one.n, one.verdict) == (0.7, 0.6, 0.8, 4, "holds")
    assert none.verdict == "cannot be tested"


def test_fewer_seeds_are_the_first_networks_of_each_cell():
    cells = [(m.seed, dict(m.settings).get("seed.split")) for m in CROSSED.sweep(1).cells]
    assert cells == [(7, 4), (7, None), (7, None)]


def test_the_figure_has_every_cell():
    binds = [True] * 6 + [False] * 2
    frame = counted(binds=binds, adds=[True] * 8, refines=[False] * 8).frame
    at = {f"{name} at": [100 * i for i in range(8)] for name in ("addition", "binding", "refinement")}
    frame = frame.with_columns(**{name: polars.Series(steps) for name, steps in at.items()})
    with figure(height=2) as made:
        draw_study(StudyTable(SMALL, frame, {"steps": 900}), made)
        shares, onsets = made.axes
        assert [t.get_text() for t in shares.get_yticklabels()] == [cell.label for cell in SMALL.cells]
        assert sorted(step for line in onsets.lines for step in line.get_xdata()) == sorted([*range(0, 800, 100)] * 3)
    two_outcomes = replace(SMALL, outcomes=("binds", "adds"))
    with figure(height=2) as made:
        draw_study(StudyTable(two_outcomes, frame, {"steps": 900}), made)
        # the marks of steps have only colours that the legend explains
        assert {line.get_color() for line in made.axes[1].lines} == {COLORS.blue, COLORS.vermilion}
