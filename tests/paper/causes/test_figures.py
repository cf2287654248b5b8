"""The figures on causes draw the numbers they are given."""

import numpy as np
import pytest

from assignadd.figure.style import figure, save
from assignadd.model.stack import initial_stack
from assignadd.paper.causes.circuit import QK2_IDENTITY, SECTION_5, WHOLE, CircuitAlone
from assignadd.paper.causes.figures import (
    circuit_only_data,
    draw_circuit_only,
    draw_interchange,
    interchange_data,
)
from assignadd.paper.causes.interchange import ELSEWHERE, Interchange
from assignadd.report.reproduction import CAUSES
from assignadd.task.evalsets import EVAL_SETS
from tests.interventions.small import CONFIG, HANDMADE, SEEN


def written(axes):
    return [text.get_text() for text in axes.texts]


def test_interchange(tmp_path):
    interchange = Interchange(CONFIG, SEEN, 270)
    whole, untrained = interchange(HANDMADE), interchange(initial_stack(CONFIG, [0]))
    data = interchange_data(whole, interchange(HANDMADE, ELSEWHERE), untrained)
    assert data.alignments == [
        "binding tag", "operand query, 1 variable", "operand query, 2 variables", "query in QK2, 1 variable",
        "query in QK2, 2 variables", "first value", "second value", "values", "sum",
    ]  # fmt: skip
    assert data.accuracy.shape == (9, 3) and (data.accuracy[:, 0] == 1).all() and (data.high[:, 0] == 1).all()
    assert data.accuracy[0, 2] == pytest.approx(untrained["binding tag"].accuracy)
    query = whole["operand query"]
    assert data.n[1] + data.n[2] == query.n and data.n[1] == (query.base_vars == 1).sum()
    with figure(6.4, 4.8) as made:
        axes = made.add_subplot()
        draw_interchange(data, axes)
        assert [t.get_text().split("\n")[0] for t in axes.get_yticklabels()] == data.alignments
        save(made, tmp_path / "x")


def test_circuit_only():
    names = [WHOLE, SECTION_5, QK2_IDENTITY]
    shares = np.array([1.0, 0.8, 0.2])
    correct = np.broadcast_to(np.arange(100) < 100 * shares[:, None, None], (3, 9, 100))
    data = circuit_only_data(CircuitAlone(names, [s.name for s in EVAL_SETS], correct))
    assert data.relative == pytest.approx(shares) and data.names == names and data.n == 100
    with figure(6.4, 5) as made:
        axes = made.add_subplot()
        draw_circuit_only(data, axes)
        numbers = [text for text in written(axes) if text[:1].isdigit()]
        assert numbers == [f"{v:.2f}" for v in shares for _ in range(10)]
        assert {"parts together (+: added to section 5's)", "one part removed"} <= set(written(axes))


def test_every_figure_has_a_name_of_its_own():
    assert [record.label for record in CAUSES] == ["interchange", "circuit_only"]
