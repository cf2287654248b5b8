"""The map of the study `data` counts each setting, and its statements compare the same seeds at other settings."""

from itertools import product
from pathlib import Path

import numpy as np
import polars
import pytest

from assignadd.figure import figure
from assignadd.study import StudyTable
from assignadd.study.files import read_study
from assignadd.user_file import user_module

FOLDER = Path(__file__).parents[2] / "findings" / "data"
study = user_module(FOLDER)


def test_the_map_counts_each_setting():
    table = read_study(study.STUDY, FOLDER)
    expected = (
        table.frame.group_by("cell", maintain_order=True)  # cells go through f, and for each f through r
        .agg(polars.col("adds").sum(), polars.col("binds").sum(), (polars.col("refines") & polars.col("binds")).sum())
        .select("adds", "binds", "refines").to_numpy().T.reshape(3, 7, 7)
    )  # fmt: skip
    having, networks = study.counts(table)
    assert (having == expected).all() and (networks[:2] == 16).all() and (networks[2] == expected[1]).all()
    with figure(*study.SIZE) as made:
        study.draw({"data": table}, made)
        words = [[text.get_text() for text in axes.texts] for axes in made.axes[:3]]
        assert made.axes[1].get_title(loc="left") == "bind variables, of 16"
    assert words[1] == [f"{n}" for n in expected[1].ravel()]
    assert words[2] == [f"{n}/{of}" if of else "" for n, of in zip(expected[2].flat, expected[1].flat, strict=True)]


def test_gains_are_means_over_seeds_which_are_the_same_at_every_setting():
    """Seed 0 binds with f of at least .5, seed 1 at f = .7 alone, seed 2 everywhere and seed 3 nowhere."""
    lowest = [0.5, 0.7, 0.0, 1.0]
    rows = [
        {"cell": study.label(f, r), "seed": seed, "binds": f >= lowest[seed]}
        for f, r in product(study.FRACTIONS, study.RATIOS) for seed in (3, 1, 0, 2)
    ]  # fmt: skip
    table = StudyTable(study.STUDY, polars.DataFrame(rows), {})
    found = study.gain("binds", study.MANY_PAIRS, study.FEW_PAIRS, table)
    half = 3.182446 * np.std([1, 0.5, 0, 0], ddof=1) / 2  # Student's t with three degrees of freedom
    assert (found.value, found.n, found.unit) == (pytest.approx(0.375), 4, "seeds")
    assert (found.low, found.high) == pytest.approx((0.375 - half, 0.375 + half))
    assert np.array_equal(study.by_seed(table, "binds", study.MANY_PAIRS), [1, 0.5, 1, 0])
