"""The boxes stand where the mechanism says, and the hand-made model, which is that mechanism, looks into every one of them."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from assignadd.config import PRESETS, Config
from assignadd.figures.attention import attention_data, draw_attention
from assignadd.figures.style import figure
from assignadd.model.handmade import handmade
from assignadd.model.stack import initial_stack
from assignadd.palette import ORANGE, RED, YELLOW


def edges(marked) -> set[tuple[int, int]]:
    return {(int(query), int(key)) for query, key in np.argwhere(marked)}


def test_the_papers_sequence_has_the_papers_edges():
    data = attention_data(handmade(Config()))
    assert " ".join(data.tokens) == "PAD PAD PAD b 7 PAD e 5 PAD d 2 PAD + b 9 ="
    assert edges(data.to_operands) == {(15, 13), (15, 14)}
    assert edges(data.to_previous) == {(4, 3), (7, 6), (10, 9)}
    assert edges(data.to_values) == {(15, 4), (15, 14)}


@pytest.mark.parametrize("preset", ["paper", "tiny", "smoke"])
def test_the_handmade_model_looks_into_every_box(preset):
    data = attention_data(handmade(PRESETS[preset]))
    first, second = data.patterns
    assert first[data.to_operands] == pytest.approx(0.5, abs=1e-3)
    assert first[data.to_previous] == pytest.approx(1, abs=1e-3)
    assert second[data.to_values] == pytest.approx(0.5, abs=1e-3)


def test_random_weights_look_everywhere():
    data = attention_data(initial_stack(Config(), [0]))
    assert data.patterns[0][data.to_previous].max() < 0.6
    assert np.nansum(data.patterns, -1) == pytest.approx(1, abs=1e-5)
    assert np.isnan(data.patterns[:, 0, 1:]).all()


def test_boxes_are_drawn_around_their_cells():
    data = attention_data(handmade(Config()))
    with figure() as made:
        draw_attention(data, made)
        boxes = [
            [(to_hex(p.get_edgecolor()), round(p.get_y() + 0.5), round(p.get_x() + 0.5)) for p in ax.patches]
            for ax in made.axes[:2]
        ]
    orange, red, yellow = (to_hex(color) for color in (ORANGE, RED, YELLOW))
    assert set(boxes[0]) == {(orange, *e) for e in edges(data.to_operands)} | {
        (red, *e) for e in edges(data.to_previous)
    }
    assert set(boxes[1]) == {(yellow, *e) for e in edges(data.to_values)}


def test_it_reads_the_first_model_alone():
    two = initial_stack(PRESETS["smoke"], [0, 1])
    first, second = (attention_data(two.models(i)).patterns for i in (0, 1))
    assert np.array_equal(attention_data(two).patterns, first, equal_nan=True)
    assert not np.allclose(first, second, equal_nan=True)
