"""Accuracies by evaluation set and by single pairs: known counts, in pictures and captions."""

import numpy as np
import pytest
import torch

from assignadd.figure.style import figure, save
from assignadd.paper.generalisation.figures import (
    accuracies_data,
    draw_accuracies,
    draw_pairs,
    pairs_caption,
    pairs_data,
)
from assignadd.task.evalsets import EVAL_SETS

STEPS = (0, 100, 200)
ROWS = [
    {
        "step": step,
        "seed": 0,
        "diverged_at": None,
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


def test_a_diverged_model_is_marked():
    rows = [*ROWS[:-1], ROWS[-1] | {"diverged_at": 150}]
    with figure() as made:
        axes = made.add_subplot()
        draw_accuracies(accuracies_data(rows), axes)
        assert any("diverged" in text.get_text() for text in axes.texts)


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


N = 23


@pytest.fixture
def split() -> torch.Tensor:
    """All pairs seen but 3+3, 2+5, and 1+4 in both orders."""
    seen = torch.ones(N, N, dtype=torch.bool)
    seen[[3, 2, 1, 4], [3, 5, 4, 1]] = False
    return seen


def test_errors_are_counted_by_class_and_listed_by_name(split):
    literals, one_variable = torch.ones(2, N, N)
    literals[3, 3], literals[2, 5], literals[1, 4], literals[7, 8], literals[6, 6] = 0.0, 0.25, 0.75, 0.125, 0.5
    one_variable[9, 10] = 0.75
    data = pairs_data({0: literals, 1: one_variable}, split)
    assert data.kinds == ["seen", "mirror_seen", "neither_order", "doubles"] and data.pairs.tolist() == [
        N * N - 4,
        1,
        2,
        1,
    ]
    assert data.below_half.tolist() == [[1, 0], [1, 0], [0, 0], [1, 0]]  # one half itself is not below it
    caption = pairs_caption(data)
    assert "Literals alone: 3 of 529 pairs are below one half (doubles 1; held out 2, seen 1)." in caption
    assert (
        "All: 3+3 (0.00), 7+8 (0.12), 2+5 (0.25). One variable: no pair is below one half; the lowest is 9+10 (0.75)."
        in caption
    )


def test_no_more_than_a_dozen_errors_are_listed(split):
    accuracy = torch.ones(N, N)
    accuracy[0] = torch.arange(N) / 100
    caption = pairs_caption(pairs_data({0: accuracy}, split))
    assert "23 of 529" in caption and "The lowest: 0+0 (0.00), 0+1 (0.01)," in caption
    assert caption.endswith("0+11 (0.11).")


def test_held_out_pairs_are_outlined_where_they_are(split):
    accuracy = torch.rand(3, N, N, generator=torch.Generator().manual_seed(0))
    with figure(height=5.3) as made:
        draw_pairs(pairs_data(dict(enumerate(accuracy)), split), made)
        maps = [axes for axes in made.axes if axes.images and axes.get_title("left")]
        assert [axes.get_title("left") for axes in maps] == ["literals alone", "one variable", "two variables"]
        for axes, expected in zip(maps, accuracy, strict=True):
            assert np.array_equal(axes.images[0].get_array(), expected.numpy())
            squares = (
                axes.patches[0].get_path().vertices.reshape(-1, 5, 2)[:, :4].mean(1)
            )  # (m, n): columns are second numbers
            assert sorted(map(tuple, np.rint(squares).tolist())) == [(1, 4), (3, 3), (4, 1), (5, 2)]
        words = [text.get_text() for axes in made.axes for text in axes.texts]
        assert words[:5] == ["accuracy below one half", "0 var.", "1 var.", "2 var.", "of"] and words[5] == "seen pairs"
