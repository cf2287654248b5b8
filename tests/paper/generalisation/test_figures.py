"""Accuracies by evaluation set along training: every curve, and files that are the same each time."""

import numpy as np
import pytest

from assignadd.figure.style import figure, save
from assignadd.paper.generalisation.figures import (
    accuracies_data,
    draw_accuracies,
)
from assignadd.task.evalsets import EVAL_SETS

STEPS = (0, 100, 200)
ROWS = [
    {
        "step": step,
        "seed": 0,
        "accuracy": {s.name: (i + step / 100) / 12 for i, s in enumerate(EVAL_SETS)},
    }
    for step in STEPS
]


def test_every_set_is_a_curve_with_its_own_look():
    data = accuracies_data(ROWS)
    with figure() as made:
        axes = made.add_subplot()
        draw_accuracies(data, axes)
        lines = axes.get_lines()
        assert [line.get_label() for line in lines] == [s.label for s in EVAL_SETS]
        for i, line in enumerate(lines):
            assert list(line.get_xdata()) == list(STEPS)
            assert line.get_ydata() == pytest.approx([i / 12, (i + 1) / 12, (i + 2) / 12])
        assert len(
            {(line.get_color(), str(line.get_linestyle()), line._unscaled_dash_pattern) for line in lines}
        ) == len(EVAL_SETS)


def test_drawn_again_it_is_the_same_file(tmp_path):
    for stem in ("a", "b"):
        with figure() as made:
            draw_accuracies(accuracies_data(ROWS), made.add_subplot())
            save(made, tmp_path / stem)
    for suffix in (".svg", ".png"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_data_can_be_saved_without_pickles(tmp_path):
    np.savez(tmp_path / "x.npz", **accuracies_data(ROWS).arrays())
    loaded = np.load(tmp_path / "x.npz", allow_pickle=False)
    assert list(loaded["steps"]) == list(STEPS) and loaded["accuracy"].shape == (3, len(EVAL_SETS))
