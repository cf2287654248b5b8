"""The settings that `bench --scaling` goes through: one thing changes at a time, and the work with it as it should."""

from dataclasses import asdict

from assignadd.benchmark.scaling import VALUES, variants
from assignadd.benchmark.speed import flops
from assignadd.config import PRESETS


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
