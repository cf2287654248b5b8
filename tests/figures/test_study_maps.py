"""The maps of the studies `data` and `fate` show the numbers counted in their tables."""

import numpy as np
import polars
import pytest
from matplotlib.colors import to_hex, to_rgb

from assignadd.figures.studies import (
    NAMED,
    data_map,
    draw_data_map,
    draw_fate_map,
    draw_study,
    drawing_of,
    fate_map,
    study_caption,
    study_data,
)  # fmt: skip
from assignadd.figures.style import DARK_FROM, draw_heat, figure, write_cells
from assignadd.palette import BLUE, DARK_FIGURES, VERMILION
from assignadd.studies.data import DATA
from assignadd.studies.doubles import LONGER
from assignadd.studies.fate import FATE
from assignadd.studies.rate import RATE
from assignadd.studies.table import read_study


def written(axes):
    return [text.get_text() for text in axes.texts]


def test_the_map_of_data_counts_each_setting():
    table = read_study(DATA)
    counts = (
        table.frame.group_by("cell", maintain_order=True)  # cells go through f, and for each f through r
        .agg(polars.col("adds").sum(), polars.col("binds").sum(), (polars.col("refines") & polars.col("binds")).sum())
        .select("adds", "binds", "refines").to_numpy().T.reshape(3, 7, 7)
    )  # fmt: skip
    data = data_map(table)
    assert (data.counts == counts).all()
    assert (data.networks[:2] == 16).all() and (data.networks[2] == counts[1]).all()
    with figure(7, 3) as made:
        draw_data_map(data, made)
        words = [written(axes) for axes in made.axes[:3]]
        assert made.axes[1].get_title(loc="left") == "bind variables, of 16"
    assert words[1] == [f"{n}" for n in counts[1].ravel()]
    assert words[2] == [f"{n}/{of}" if of else "" for n, of in zip(counts[2].ravel(), counts[1].ravel(), strict=True)]


def test_the_map_of_fate_counts_rows_columns_and_repeats():
    table = read_study(FATE)
    data = fate_map(table)
    frame = table.cells["8 x 8 x 8"]
    of = frame.filter((polars.col("seed.init") == 1) & (polars.col("seed.split") == 4))["binds"].sum()
    again = table.cells["repeated"].filter(polars.col("seed.init") == 5)["binds"].sum()
    once = frame.filter(polars.all_horizontal(polars.col("seed.init", "seed.data", "seed.split") == 5))["binds"].item()
    with figure(7, 3) as made:
        draw_fate_map(data, made)
        by_data, by_split, repeated, right = made.axes
        assert written(by_split)[8 * 1 + 4] == str(of) and written(repeated)[5] == f"{again + once}/9"
        assert sum(map(int, written(by_data))) == sum(map(int, written(by_split))) == frame["binds"].sum()
        assert right.lines[0].get_ydata() == pytest.approx(data.auc[:, 0])
    assert (data.auc[:, 1] < data.auc[:, 0]).all() and (data.auc[:, 0] < data.auc[:, 2]).all()


def test_words_in_dark_cells_are_white():
    shares = np.array([[0.1, 0.9]])
    with figure() as made:
        axes = made.add_subplot()
        draw_heat(axes, shares, "Blues", (0, 1))
        write_cells(axes, ["low", "high"], shares >= DARK_FROM)
        light, dark = axes.texts
    assert light.get_position() == (0, 0) and dark.get_position() == (1, 0)
    assert sum(to_rgb(light.get_color())) < 1 and sum(to_rgb(dark.get_color())) > 2.9
    # Colours that a dark screen would exchange, as it does not exchange those of the cells.
    assert not {to_hex(text.get_color()).upper() for text in (light, dark)} & {c.upper() for c in DARK_FIGURES}


def test_a_study_without_its_grid_has_a_row_per_cell():
    assert drawing_of(FATE, FATE.n_models).draw is draw_fate_map
    assert drawing_of(FATE, FATE.n_models - 1).draw is draw_study
    assert drawing_of(RATE, RATE.n_models).draw is draw_study and drawing_of(DATA, 49).draw is draw_data_map


def test_a_caption_names_a_few_cells_and_counts_the_others():
    table = read_study(DATA)
    shares = table.frame.group_by("cell", maintain_order=True).agg(polars.col("binds").mean())
    least = shares.filter(polars.col("binds") == shares["binds"].min())["cell"].to_list()
    assert len(least) > NAMED + 1
    fewest = study_caption(study_data(table)).partition("fewest with ")[2].partition(". Of")[0]
    assert all(cell + " (" in fewest for cell in least[:NAMED]) and least[NAMED] + " (" not in fewest
    assert fewest.endswith(f"; {len(least) - NAMED} other cells")


def test_marks_have_only_colours_that_the_legend_explains():
    data = study_data(read_study(LONGER))  # which does not show who uses banned slots
    with figure(6, 3) as made:
        draw_study(data, made)
        _, right, _ = made.axes
        assert {line.get_color() for line in right.lines} == {BLUE, VERMILION}
