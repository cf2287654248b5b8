"""A sealed table is read as it was written, or not at all; a path is never a pattern."""

import random

import polars
import pytest

from assignadd.config.errors import RunError
from assignadd.runs.encoding import decode_sealed, encode_table
from assignadd.sweeps.results import read_results, write_results

TABLE = polars.DataFrame({"step": [0, 10], "x": [0.25, None], "name": ["a", "b"]})


def test_a_table_comes_back_with_what_was_said_about_it():
    data = encode_table(TABLE, {"checkpoints": "abc"})
    table, about = decode_sealed(data, "t")
    assert table.equals(TABLE) and about["checkpoints"] == "abc"
    assert polars.read_parquet(data).equals(TABLE)  # any reader opens it
    assert encode_table(TABLE, {"checkpoints": "abc"}) == data


def test_a_table_that_shall_have_so_many_rows_of_numbers_has_them_or_is_refused():
    numbers = TABLE.drop("name")
    assert decode_sealed(encode_table(numbers, {}), "t", n_rows=2)[0].equals(numbers)
    for table, n_rows in ((numbers, 3), (TABLE, 2), (numbers.with_columns(lists=[[1], [2]]), 2)):
        with pytest.raises(RunError, match=f"t is not a table of {n_rows} rows of numbers"):
            decode_sealed(encode_table(table, {}), "t", n_rows=n_rows)


def test_every_flipped_bit_is_noticed():
    data, rng = encode_table(TABLE, {}), random.Random(3)
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        with pytest.raises(RunError, match=r"^t "):
            decode_sealed(damaged, "t")
    for size in range(0, len(data), 50):
        with pytest.raises(RunError, match=r"^t "):
            decode_sealed(data[:size], "t")


def test_tables_of_sweeps_are_sealed_with_their_provenance(tmp_path):
    about = {"sweep": "s", "cells": 2}
    write_results(TABLE.lazy(), about, tmp_path / "a" / "table.parquet")
    write_results(TABLE.reverse().lazy(), about, tmp_path / "b" / "table.parquet")
    table, found = read_results(tmp_path / "a" / "table.parquet")
    assert table.equals(TABLE) and found["cells"] == 2
    (tmp_path / "a" / "table.parquet").write_bytes((tmp_path / "b" / "table.parquet").read_bytes())
    with pytest.raises(RunError, match="of another table"):
        read_results(tmp_path / "a" / "table.parquet")
