"""The figure of docs/scale.md from the committed measurements."""

from pathlib import Path

from assignadd.figures.scaling import LABELS, draw_scaling, scaling_data
from assignadd.figures.style import figure

RESULTS = Path(__file__).parents[2] / "assignadd" / "results"


def test_every_measured_point_is_drawn():
    data = scaling_data([RESULTS / "scaling-fp32.json", RESULTS / "scaling-tf32.json"])
    with figure(7.5, 4.2) as made:
        axes = made.subplot_mosaic([["M", "batch", "d"], ["N", "V", "T"]])
        draw_scaling(data, axes)
        for setting, ax in axes.items():
            assert ax.get_title(loc="left") == LABELS[setting]
            for line, (values, times) in zip(ax.get_lines(), data[setting].values(), strict=True):
                assert list(line.get_xdata()) == values and list(line.get_ydata()) == times
    assert data["M"]["fp32"][0] == [1, 4, 16, 32, 64, 128, 256, 512]
    assert data["M"]["fp32"][1][5] < 40 and data["M"]["TF32"][1][5] < 25  # what docs/scale.md says of 128 models
