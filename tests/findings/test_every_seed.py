"""The numbers of `findings/every_seed`, counted in the tables."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import pytest

from assignadd.stats import wilson
from assignadd.study.files import read_study, save_figure
from assignadd.study.table import study_records
from assignadd.user_file import user_module

FOLDER = Path(__file__).parents[2] / "findings" / "every_seed"
study = user_module(FOLDER)


def test_the_share_of_the_census_is_the_one_that_the_readme_gives():
    found, ends = study.census_binds(study.census()), wilson(131, 160)
    assert (found.value, found.low, found.high, found.n) == (131 / 160, ends.low, ends.high, 160)
    words = f".{1000 * found.value:.0f} [.{1000 * found.low:.0f}, .{1000 * found.high:.0f}]"
    assert words in " ".join((FOLDER / "README.md").read_text().split())


def test_differences_of_the_schedule_are_those_counted_by_hand():
    frame = polars.read_parquet(FOLDER / "cure.parquet")
    paper, high = (frame.filter(frame["cell"] == cell) for cell in ("the paper's", "high rate first"))
    records = {record.id: record for record in study_records(read_study(study.STUDY, FOLDER))}
    assert records["cure-binds-high-rate-first"].value == high["binds"].sum() / 128 == 127 / 128
    more = records["cure-binds-high-rate-first-than-the-papers"]
    assert more.value == pytest.approx(high["binds"].mean() - paper["binds"].mean())
    column = "2-var var-restricted (1) (final)"
    means = [np.mean(cell.filter(cell["binds"])[column].to_numpy().astype(float)) for cell in (high, paper)]
    quality = records["cure-2-var-var-restricted-1-high-rate-first-than-the-papers"]
    assert quality.value == pytest.approx(means[0] - means[1]) and quality.low < quality.value < quality.high


def test_the_figure_of_a_finding_needs_all_its_networks(tmp_path):
    """A trial with fewer seeds has the figure of any study: a row per cell."""
    table = read_study(study.STUDY, FOLDER)
    trial = save_figure(study, {"cure": replace(table, frame=table.frame[::8])}, tmp_path).read_text()
    whole = save_figure(study, {"cure": table}, tmp_path).read_text()
    width = f'width="{72 * study.SIZE[0]:.0f}pt"'
    assert width in whole and width not in trial
