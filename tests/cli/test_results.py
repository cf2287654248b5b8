"""`assignadd runs tables`: every shipped table is listed, explained column by column, and written as it is."""

import io
import json
import re
from pathlib import Path

import polars
import pytest

import assignadd
from assignadd.sweeps.results import TABLES, columns_of, sweep_column
from tests.cli.asking import complaint, said

RESULTS = Path(__file__).parents[2] / "assignadd" / "results"


def test_every_file_is_a_table_or_belongs_to_one(capsys):
    assert {file.stem for file in RESULTS.glob("*.parquet")} == set(TABLES)
    listed = json.loads(said(capsys, "runs", "tables", "--json"))["tables"]
    assert [table["name"] for table in listed] == list(TABLES)
    shown = said(capsys, "runs", "tables")
    assert all(f"\n{table['name']} " in shown and f"{table['rows']:,}" in shown for table in listed)


@pytest.mark.parametrize("name", TABLES)
def test_every_column_is_explained(name, capsys):
    frame, explained = assignadd.table(name), json.loads(said(capsys, "runs", "tables", name, "--json"))["columns"]
    names = [re.escape(column["name"]) for column in explained]
    patterns = [re.sub(r"\\\{\w+\\\}", r"\\w+", pattern) for pattern in names]  # {variable} stands for any
    for column in frame.columns:
        assert sum(re.fullmatch(pattern, column) is not None for pattern in patterns) == 1, column
    for pattern in patterns:
        assert any(re.fullmatch(pattern, column) for column in frame.columns), pattern
    assert all(len(column["meaning"]) > 10 for column in explained)


@pytest.mark.parametrize("name", TABLES)
def test_what_is_said_of_a_sweep_is_so(name):
    """Seeds, values, steps and the distance between rows, counted in the table."""
    frame, about = assignadd.table(name), TABLES[name].about
    seeds, steps = frame["seed"].unique().sort(), frame["step"].unique().sort()
    assert f"{steps.max():,} steps, a row every {steps[1] - steps[0]:,}:" in about
    if name in ("fraction", "two-var"):
        setting = re.search(r"`(\w+)`", about)[1]
        assert f"{frame[setting].n_unique()} values of" in about and f"with {len(seeds)} seeds each" in about
    else:
        assert f"seeds {seeds.min()} to {seeds.max()} of" in about and len(seeds) == seeds.max() - seeds.min() + 1
    command, commit = TABLES[name].made_by
    assert command.startswith("assignadd sweep") and re.fullmatch("[0-9a-f]{40}", commit)


def test_sample_sizes_are_those_of_the_tests():
    by_name = {column.name: column for column in columns_of(TABLES["census"])}
    values = assignadd.table("census")["1-var train"] * 512
    assert (values - values.round()).abs().max() < 1e-3 and by_name["1-var train"].sample == "512 sequences"
    rates = assignadd.table("census")["attn_l2_equal_to_values (1-var)"] * 256
    assert (rates - rates.round()).abs().max() < 1e-3
    assert by_name["attn_l2_equal_to_values (1-var)"].sample == "256 sequences"
    last = assignadd.table("census")["attn_l2_equal_to_values (1-var) (final)"].drop_nulls() * 20_000
    assert len(last) == 128 and (last - last.round()).abs().max() < 1e-2
    assert by_name["attn_l2_equal_to_values (1-var) (final)"].sample.startswith("20,000 sequences; in the row of")
    end = assignadd.table("census").drop_nulls("1-var train (end)")
    counts = end["1-var train (end)"] * 2000
    assert end["step"].unique().sort().to_list() == [50_000 - 250 * back for back in range(9, -1, -1)]
    assert len(counts) == 10 * 128 and (counts - counts.round()).abs().max() < 1e-3
    assert by_name["1-var train (end)"].meaning == "accuracy: one variable, as trained, at this evaluation"
    assert by_name["1-var train (end)"].sample.startswith("2,000 fresh sequences; only at the last ten evaluations")
    for unknown in ("charm", "charm (end)"):
        with pytest.raises(ValueError, match="no measured column is called 'charm'"):
            sweep_column(unknown, 512, 20_000)


def test_csv(capsys):
    rows = polars.read_parquet(RESULTS / "tf32.parquet")
    text = said(capsys, "runs", "tables", "tf32", "--csv")
    written = polars.read_csv(io.StringIO(text), infer_schema_length=None)
    assert written.columns == rows.columns and written["step"].to_list() == rows["step"].to_list()


def test_complaints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert "table = 'sensus': expected one of census, authors" in complaint(capsys, "runs", "tables", "sensus")
    assert "exclude each other" in complaint(capsys, "runs", "tables", "census", "--csv", "--json")
    assert list(tmp_path.iterdir()) == []
