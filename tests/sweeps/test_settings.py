"""Which models a sweep asks for."""

import json
import os
from itertools import pairwise, product
from pathlib import Path

import polars
import pytest

from assignadd.config import PRESETS, ConfigError, Member
from assignadd.sweeps.plan import FRACTIONS, RATIOS, Sweep, grid, named_sweep, sweep_from_file

PAPER = PRESETS["paper"]
HEADS = {"model.n_heads": 2, "model.d_mlp": (4, 8)}


def test_a_grid_is_every_combination_once():
    cells = grid({"lr": (1e-3, 1e-2), "task.seen_fraction": (0.3, 0.5, 0.7)}, (4, 9))
    expected = {(lr, f, seed) for lr, f, seed in product((1e-3, 1e-2), (0.3, 0.5, 0.7), (4, 9))}
    assert {(*(v for _, v in c.settings), c.seed) for c in cells} == expected and len(cells) == 12


@pytest.mark.parametrize(("name", "values", "threshold"), [("fraction", FRACTIONS, 0.25), ("two-var", RATIOS, 0.2)])
def test_the_papers_sweeps_have_values_close_together_at_the_threshold(name, values, threshold):
    assert len(set(values)) == len(values) >= 16 and list(values) == sorted(values)
    assert len(named_sweep(name, PAPER, range(10)).cells) == 10 * len(values)
    near = [v for v in values if abs(v - threshold) <= 0.1 + 1e-9]
    assert len(near) >= 7 and max(b - a for a, b in pairwise(near)) <= 0.05 + 1e-9


def test_a_file_has_a_row_of_settings_a_line(tmp_path):
    path = tmp_path / "mine.csv"
    polars.DataFrame({"lr": [1e-3, 3e-3], "two_var_ratio": [0.5, None]}).write_csv(path)
    sweep = sweep_from_file(path, PAPER, (0, 1))
    assert sweep.cells == (
        Member(0, lr=1e-3, two_var_ratio=0.5), Member(1, lr=1e-3, two_var_ratio=0.5),
        Member(0, lr=3e-3), Member(1, lr=3e-3),
    )  # fmt: skip
    polars.DataFrame({"seed": [7, 8], "lr": [1, 2]}).write_csv(path)
    assert sweep_from_file(path, PAPER, (0, 1)).cells == (Member(7, lr=1.0), Member(8, lr=2.0))


def test_a_json_file_has_a_list_of_rows_or_a_grid(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text('[{"seed": 7, "lr": 1}, {"seed": 8, "lr": 0.5, "two_var_ratio": 0.25}]')
    assert sweep_from_file(path, PAPER, (0, 1)).cells == (Member(7, lr=1.0), Member(8, lr=0.5, two_var_ratio=0.25))
    path.write_text('{"lr": [0.001, 0.003], "seen_fraction": [0.5, 1]}')
    assert set(sweep_from_file(path, PAPER, (4, 9)).cells) == set(
        grid({"lr": (0.001, 0.003), "seen_fraction": (0.5, 1.0)}, (4, 9))
    )
    path.write_text('{"model.n_heads": [1, 2], "model.d_mlp": [[null, 8], [4, 8]], "task.banned_first": ["a", ""]}')
    cells = sweep_from_file(path, PAPER, (0, 1)).cells
    assert len(cells) == 16 and Member(1, {**HEADS, "task.banned_first": ""}) in cells
    for text in ('{"lr": 0.001}', '["lr"]', '{"lr": ["fast"]}', "lr = 3", '[{"seed": 0.5}]', '{"depth": [1]}',
                 '[{"seed": 1}, {"lr": 1}]', '{"optim.lr": [[1, 2]]}', '{"model.d_mlp": ["[1,"]}',
                 '{"model.n_heads": [{}]}', '{"record.eval_every": [1]}', '{"optim.rate": [1]}'):  # fmt: skip
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            sweep_from_file(path, PAPER, (0,))
        assert "expected" in str(caught.value) and "\n" not in str(caught.value)


def test_a_csv_file_has_lists_as_json(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text('seed,model.n_heads,model.d_mlp,optim.lr\n7,2,"[4, 8]",1\n8,,,\n')
    assert sweep_from_file(path, PAPER, (0, 1)).cells == (Member(7, {**HEADS, "optim.lr": 1.0}), Member(8))


def test_an_operation_may_be_a_file_of_answers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "largest.txt").write_text("0 1 2\n1 1 2\n2 2 2\n")
    (tmp_path / "mine.json").write_text('{"task.operation": ["largest.txt", "add"]}')
    table, add = (
        c.config(PRESETS["smoke"]).task for c in sweep_from_file(Path("mine.json"), PRESETS["smoke"], (0,)).cells
    )
    assert (table.operation, table.modulus, table.table) == ("table", 3, (0, 1, 2, 1, 1, 2, 2, 2, 2))
    assert (add.operation, add.modulus) == ("add", PRESETS["smoke"].task.modulus)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"depth": [1]}, "mine.csv: column = 'depth': expected seed, or a setting such as"),
        ({"lr": ["fast"]}, "optim.lr = 'fast': expected a number from 0.0 to 10.0"),
        ({"seed": [0.5]}, "mine.csv: seed = 0.5: expected whole numbers"),
        ({"seed": [1, None]}, "a seed in every row"),
        ({"seed": [3, 3]}, "every combination of settings and seed once"),
        ({"seen_fraction": [1.5]}, "task.seen_fraction = 1.5"),
    ],
)
def test_a_bad_file_is_refused_in_a_line(tmp_path, columns, says):
    path = tmp_path / "mine.csv"
    polars.DataFrame(columns).write_csv(path)
    with pytest.raises(ConfigError) as caught:
        sweep_from_file(path, PAPER, (0,))
    assert says in str(caught.value) and "\n" not in str(caught.value)
    (tmp_path / "text.parquet").write_text("no table")
    with pytest.raises(ConfigError, match="a CSV or JSON file"):
        sweep_from_file(tmp_path / "text.parquet", PAPER, (0,))


def bomb(tmp_path, name, content):
    if callable(content):
        content(tmp_path / name)
    else:
        (tmp_path / name).write_text(content)
    return tmp_path / name


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("grid.json", json.dumps({"lr": [0.1] * 3000, "weight_decay": [0.1] * 3000}), "9000000 rows"),
        ("twice.json", '[{"lr": 1, "lr": 2}]', "is there twice"),
        ("huge.json", '[{"lr": 1' + "0" * 400 + "}]", "expected a number from 0.0 to 10.0"),
        ("inf.json", '[{"lr": 1e999}]', "optim.lr = inf"),
        ("deep.json", "[" * 100_000, "maximum recursion"),
        ("bytes.json", lambda path: path.write_bytes(b'[{"lr": "\xff"}]'), "utf-8"),
        ("pipe.json", os.mkfifo, "not a regular file"),
        ("pipe.csv", os.mkfifo, "not a regular file"),
        ("zero.csv", lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        ("folder.csv", os.mkdir, "not a regular file"),
        ("rows.csv", "lr\n" + "0.1\n" * 3_000_000, "at most 1000000"),
        ("rows.json", json.dumps([{"lr": 0.001 + i * 1e-9} for i in range(5_000)] * 2), "once"),
    ],
)
def test_hostile_files_are_refused_in_a_line_and_at_once(tmp_path, name, content, says):
    with pytest.raises(ConfigError) as caught:
        sweep_from_file(bomb(tmp_path, name, content), PAPER, (0,))
    assert says in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_a_name_is_not_a_pattern(tmp_path):
    for name, lr in (("g1", 0.1), ("g[1]", 0.2), ("*", 0.3)):
        (tmp_path / f"{name}.csv").write_text(f"lr\n{lr}\n")
    for name, lr in (("g1", 0.1), ("g[1]", 0.2), ("*", 0.3)):
        assert sweep_from_file(tmp_path / f"{name}.csv", PAPER, (0,)).cells == (Member(0, lr=lr),)
    with pytest.raises(ConfigError, match="No such file"):
        sweep_from_file(tmp_path / "g[2].csv", PAPER, (0,))


def test_a_cell_may_not_come_twice():
    with pytest.raises(ConfigError, match="once"):
        Sweep("twice", PAPER, (Member(0), Member(0)))
