"""Points of cost: each changes one setting, is drawn, and says what made it."""

import json
from dataclasses import asdict
from pathlib import Path

from assignadd.config import PRESETS
from assignadd.figure import figure
from assignadd.training.speed import flops
from benchmarks.scaling import SETTINGS, VALUES, draw_costs, variants

RESULTS = Path(__file__).parents[2] / "benchmarks"


def test_every_measured_point_is_drawn():
    files = [json.loads((RESULTS / f"scaling-{name}.json").read_text()) for name in ("fp32", "tf32")]
    assert [file["tf32"] for file in files] == [False, True]
    with figure(7.5, 4.2) as made:
        draw_costs(made)
        assert {ax.get_title(loc="left") for ax in made.axes} == set(SETTINGS.values())
        for ax in made.axes:
            setting = next(s for s, label in SETTINGS.items() if label == ax.get_title(loc="left"))
            for line, file in zip(ax.get_lines(), files, strict=True):
                expected = [(p["value"], p["us"]) for p in file["points"] if p["setting"] == setting]
                assert list(zip(line.get_xdata(), line.get_ydata(), strict=True)) == expected and len(expected) > 2


def test_what_the_documentation_says_of_128_models():
    files = [json.loads((RESULTS / f"scaling-{name}.json").read_text()) for name in ("fp32", "tf32")]
    at_128 = [p["us"] for file in files for p in file["points"] if (p["setting"], p["value"]) == ("M", 128)]
    said = (RESULTS.parent / "docs" / "scale.md").read_text()
    assert len(at_128) == 2 and all(f"**{us:.1f}**" in said for us in at_128)


def test_the_measurements_say_what_made_them():
    for name in ("fp32", "tf32"):
        made_with = json.loads((RESULTS / f"scaling-{name}.json").read_text())["made_with"]
        assert len(made_with["commit"]) == 40 and made_with["dirty"] is False and "H200" in made_with["device"]


def test_each_variant_changes_one_setting_of_the_papers():
    paper = asdict(PRESETS["paper"])
    expected = {
        "N": {"modulus"},
        "V": {"n_vars"},
        "T": {"length"},
        "d": {"d_model", "d_head", "d_mlp"},
        "batch": {"batch"},
    }
    found: dict[str, list[int]] = {}
    for setting, value, config in variants(PRESETS["paper"]):
        found.setdefault(setting, []).append(value)
        changed = {k for section, values in asdict(config).items() for k, v in values.items() if v != paper[section][k]}
        assert changed in (set(), expected[setting])
    assert {name: tuple(values) for name, values in found.items()} == VALUES


def test_the_work_of_the_batch_doubles_with_the_batch():
    work = {value: flops(config) for setting, value, config in variants(PRESETS["paper"]) if setting == "batch"}
    assert work[2048] - work[1024] == 2 * (work[1024] - work[512]) == 4 * (work[512] - work[256])
