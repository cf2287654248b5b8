"""Every curve has its level, its n and its onset: on curves drawn by hand, and with the sequences behind each."""

import re
from dataclasses import astuple

import numpy as np

from assignadd.config import PRESETS, Member
from assignadd.dynamics.phases import CurveOnset, Curves, curve_onsets
from assignadd.measures.columns import MEASURES, SEQUENCES, ProgressMeasures
from assignadd.measures.sequences import sequences
from assignadd.model.handmade import handmade
from assignadd.task.evalsets import RECORDED_SETS
from assignadd.task.positions import roles
from assignadd.task.splits import pair_split

STEPS = np.arange(0, 10_001, 100)
# Patterns that a network of two layers does not have.
OTHER_LAYERS = "_l([3-9]|1[0-6])_|_l2_(num_to_prev|equal_to_operands)|_l1_equal_to_values"


def came(at: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    return np.where(at <= STEPS, high, low)


def found(columns=None, accuracy=None) -> dict[str, CurveOnset]:
    made = curve_onsets(Curves(STEPS, accuracy or {}, 512), {"step": STEPS, **(columns or {})})
    assert len({o.curve for o in made}) == len(made)
    return {o.curve: o for o in made}


def test_sampled_curves_are_open_by_noise_and_the_others_by_a_checkpoint():
    unsure = np.where(STEPS >= 2000, 0.88, 0.0)
    unsure[STEPS >= 3000], unsure[STEPS >= 4000] = 0.91, 1.0
    names = ("attn_l1_equal_to_operands (2-var)", "probe_l1_var_from_num", "ov2_mlp2_accuracy")
    rate, probe, exact = (found({name: unsure})[name] for name in names)
    assert astuple(rate) == (names[0], 0.9, 1000, 3000, 1900, 4000, 512)
    assert astuple(probe) == (names[1], 0.9, 1000, 3000, 1900, 4000, 154)  # tested on the last 30 % of 512 sequences
    assert astuple(exact) == (names[2], 0.9, 1000, 3000, 2900, 3000, None)


def test_held_out_sums_have_the_level_of_addition_and_the_others_that_of_binding():
    onsets = found(accuracy={s.name: came(2000, high=0.93) for s in RECORDED_SETS})
    assert len(onsets) == 12
    reached = {name for name, o in onsets.items() if o.onset == 2000}
    assert reached == {s.name for s in RECORDED_SETS if "add-restricted" in s.name or "doubly" in s.name}
    assert all((o.onset, o.low, o.high) == (None, None, None) for name, o in onsets.items() if name not in reached)


def test_a_margin_is_reached_when_the_diagonal_wins_and_a_variable_when_half_is_right():
    onsets = found({"qk2_ov1_var_margin": came(3000, -4.0, 7.5), "accuracy b second": came(6000, 0.2, 0.8)})
    assert astuple(onsets["qk2_ov1_var_margin"])[1:] == (0.0, 1000, 3000, 2900, 3000, None)
    assert astuple(onsets["accuracy b second"])[1:] == (0.5, 1000, 6000, 5900, 6000, 64)


def test_what_has_no_level_or_no_sums_has_no_onset():
    nothing = (
        "norm embed.W_E",
        "qk1 = to a",
        "fourier_frequencies",
        "fourier_excluded_accuracy",
    )
    assert found(dict.fromkeys(nothing, came(1000))) == {}
    assert found({"accuracy a first": np.full(len(STEPS), np.nan)}) == {}
    one = curve_onsets(
        Curves(STEPS, {"1-var train": came(100)}, 512), {"step": STEPS[-1:], "ov2_mlp2_accuracy": np.ones(1)}
    )
    assert [o.curve for o in one] == ["1-var train"]


def test_every_curve_is_there_with_the_sequences_that_are_really_behind_it():
    config = Member(0).config(PRESETS["paper"])
    progress = ProgressMeasures([config], pair_split(config.task, 0)[None])
    columns = {name: np.full(len(STEPS), float(values)) for name, values in progress(handmade(config)).items()}
    onsets = found(columns)
    short = "probe_l1_var_from_num (four steps)"  # does not get far in four steps
    assert all(
        o.onset == o.high == 0 for o in onsets.values() if o.curve != short
    )  # it solves the task from the first step on
    assert sum(o.curve.endswith((" first", " second")) for o in onsets.values()) == 24
    assert {o.n for o in onsets.values() if o.curve.startswith("accuracy ")} == {progress.exam.n}
    assert {o.n for o in onsets.values() if "_l1_" in o.curve or "_l2_" in o.curve} == {
        SEQUENCES,
        154,
    }
    kinds = ("ov2", "qk1_", "qk2_", "attn", "mass", "probe", "fourier_restricted")
    shares = [
        name for name in columns if name.startswith(kinds) and "training law" not in name
    ]  # variants have no onset of their own
    assert set(onsets) == {*shares, *(name for name in columns if name.endswith((" first", " second")))}
    assert {name.split(" (")[0] for name in shares} == {
        m.name.split(" (")[0] for m in MEASURES if m.threshold is not None and re.search(OTHER_LAYERS, m.name) is None
    } - {"accuracy {variable} {slot}"}


def test_assigned_numbers_scatter_no_more_than_their_sequences_would():
    """Over fresh sequences, the share of numbers at odd positions, say: n sequences are on the safe side."""
    config = Member(0).config(PRESETS["paper"])
    seen, shares = pair_split(config.task, 0)[None], []
    for draw in range(200):
        assigned = roles(config.task, sequences([config], seen, 1, 64, draw).tokens[0]).assigned  # (64, T)
        shares.append(float(assigned[:, 1::2].sum() / assigned.sum()))
    p = np.mean(shares)
    assert np.var(shares) < p * (1 - p) / 64
