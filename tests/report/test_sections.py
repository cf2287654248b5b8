"""Every figure of the registry draws a trained run of any size, legibly, and comes out the same each time."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from assignadd.figure.record import Sources
from assignadd.figure.style import SMALLEST, figure, save
from assignadd.palette import ON_LIGHT
from assignadd.paper.generalisation.figures import ACCURACIES_FIGURE
from assignadd.report.reproduction import POPULATIONS, SECTIONS
from assignadd.sweeps.population import shipped_populations

FIGURES = (ACCURACIES_FIGURE, *(record for section in SECTIONS for record in section.figures))
PAPER_LABELS = {
    "token-seqs", "accuracies", "attention", "cosine_sim_combined", "preacts", "qk0", "qk0pos_and_qk1",
    "generalization_combined", "progress_measures", "early", "late",
}  # fmt: skip
HEAT_MAPS = {"attention": 2, "preacts": 2, "qk0": 1, "qk0pos_and_qk1": 2}


@pytest.fixture(scope="module")
def sources(report) -> Sources:
    return Sources(report.networks, shipped_populations())


def test_the_paper_is_covered_and_labels_are_file_names():
    labels = [record.label for record in FIGURES]
    assert set(labels) >= PAPER_LABELS and len(set(labels)) == len(labels)
    assert all(Path(label).name == label for label in labels)


@pytest.mark.parametrize("record", FIGURES, ids=lambda record: record.label)
def test_it_draws_legibly_and_the_same_twice_with_data_that_needs_no_pickle(record, sources, report, tmp_path):
    data = record.data(sources)
    with figure(record.width, record.height) as made:
        record.draw(data, made)
        save(made, tmp_path / "a", png=False)  # the SVG file has all that is drawn
        check_texts(made)
        check_heat_maps(made, HEAT_MAPS.get(record.label))
    np.savez(tmp_path / "a.npz", **data.arrays())
    check_dark((tmp_path / "a.svg").read_text())
    again = report.folder / "figures" / record.label  # most of them are in the report of the same networks
    if record in POPULATIONS or not again.with_suffix(".svg").exists():
        again = tmp_path / "b"
        with figure(record.width, record.height) as made:
            record.draw(record.data(sources), made)
            save(made, again, png=False)
    else:
        assert again.with_suffix(".png").stat().st_size > 0
        assert again.with_suffix(".npz").read_bytes() == (tmp_path / "a.npz").read_bytes()
    drawn = (tmp_path / "a.svg").read_bytes()
    assert drawn == again.with_suffix(".svg").read_bytes() and len(drawn) > 0
    assert re.fullmatch(r"\S.*\w.*[.?]", record.caption(data), re.DOTALL)  # at least a sentence
    with np.load(tmp_path / "a.npz", allow_pickle=False) as loaded:
        assert all(loaded[name].shape is not None for name in loaded)


def check_texts(made) -> None:
    """No text is too small or outside the picture, and no name of a tick covers the next one."""
    FigureCanvasAgg(made)  # measures text sooner than the canvas of the SVG file, which was drawn last
    shown = [t for axes in made.axes for t in _texts(axes)]
    assert shown and all(t.get_fontsize() >= SMALLEST for t in shown)
    for text in shown:
        extent = text.get_window_extent()
        assert min(extent.p0) > -1 and extent.x1 < made.bbox.x1 + 1 and extent.y1 < made.bbox.y1 + 1, text
    for axes in made.axes:
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            extents = [label.get_window_extent() for label in labels if label in shown]
            assert not any(one.overlaps(other) for one, other in pairwise(extents)), [axes.get_title(), *labels]
    for axes in made.axes:  # no title runs into a colour bar or another panel
        extent = axes._left_title.get_window_extent()
        others = [other for other in made.axes if other is not axes and axes._left_title.get_text()]
        assert not any(extent.overlaps(other.bbox) for other in others), axes._left_title


def check_dark(svg: str) -> None:
    """Nothing that is drawn in black or dark grey keeps its colour on a dark screen, but on the cells of heat maps."""
    rules, drawing = svg.split("@media (prefers-color-scheme: dark)", 1)[1].split("</style>", 1)
    used = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", drawing))
    dark = {colour for colour in used if (rgb := bytes.fromhex(colour[1:])) and max(rgb) < 0x40 and len({*rgb}) == 1}
    assert dark and all(f': {colour}"]' in rules for colour in dark - {ON_LIGHT.lower()}), dark


def check_heat_maps(made, count: int | None) -> None:
    """Every heat map has named axes and a colour bar."""
    if count is not None:
        maps = [axes for axes in made.axes if axes.images]
        bars = [axes for axes in made.axes if axes.get_label() == "<colorbar>"]
        assert len(maps) == count and bars
        assert all(axes.get_xlabel() for axes in maps) and maps[0].get_ylabel()
        assert all(bar.get_ylabel() or bar.get_xlabel() for bar in bars)


def _texts(axes) -> list:
    """The visible words of an axes: ticks, labels, titles, notes."""
    ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    titles = [axes.title, axes._left_title, axes._right_title]
    found = [*ticks, axes.xaxis.label, axes.yaxis.label, *titles, *axes.texts]
    return [t for t in found if t.get_visible() and t.get_text() and _in_view(axes, t, ticks)]


def _in_view(axes, text, ticks) -> bool:
    """Whether a tick is within the limits; matplotlib keeps labels for ticks beyond them."""
    if text not in ticks:
        return True
    x, y = text.get_position()
    horizontal = text in axes.get_xticklabels()
    low, high = sorted(axes.get_xlim() if horizontal else axes.get_ylim())
    return low <= (x if horizontal else y) <= high
