"""The figure of docs/scale.md from the committed measurements."""

import json
from pathlib import Path

from assignadd.figures.scaling import LABELS, draw_scaling, scaling_data
from assignadd.figures.style import figure

RESULTS = Path(__file__).parents[2] / "assignadd" / "results"


def test_every_measured_point_is_drawn():
    files = [json.loads((RESULTS / f"scaling-{name}.json").read_text()) for name in ("fp32", "tf32")]
    assert [file["tf32"] for file in files] == [False, True]
    with figure(7.5, 4.2) as made:
        draw_scaling(scaling_data(), made)
        assert {ax.get_title(loc="left") for ax in made.axes} == set(LABELS.values())
        for ax in made.axes:
            setting = next(s for s, label in LABELS.items() if label == ax.get_title(loc="left"))
            for line, file in zip(ax.get_lines(), files, strict=True):
                expected = [(p["value"], p["us"]) for p in file["points"] if p["setting"] == setting]
                assert list(zip(line.get_xdata(), line.get_ydata(), strict=True)) == expected and len(expected) > 2


def test_what_the_documentation_says_of_128_models():
    at_128 = [p["us"] for name in ("fp32", "tf32") for p in json.loads((RESULTS / f"scaling-{name}.json").read_text())["points"]
              if (p["setting"], p["value"]) == ("M", 128)]  # fmt: skip
    said = (RESULTS.parents[1] / "docs" / "scale.md").read_text()
    assert len(at_128) == 2 and all(f"**{us:.1f}**" in said for us in at_128)


def test_the_measurements_say_what_made_them():
    for name in ("fp32", "tf32"):
        made_with = json.loads((RESULTS / f"scaling-{name}.json").read_text())["made_with"]
        assert len(made_with["commit"]) == 40 and made_with["dirty"] is False and "H200" in made_with["device"]
