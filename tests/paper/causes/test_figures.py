"""The figures on causes draw the numbers they are given."""

import numpy as np
import pytest

from assignadd.dynamics.phases import Phases
from assignadd.figure.style import figure, save
from assignadd.model.stack import initial_stack
from assignadd.paper.causes.circuit import SECTION_5, WHOLE, CircuitAlone
from assignadd.paper.causes.figures import circuit_data, circuit_only_data, draw_circuit, draw_circuit_only
from assignadd.paper.causes.interchange import ALIGNMENTS, PAPER_MEASURES, QUERY_AND_TAG, VARIANTS, Interchange
from assignadd.paper.causes.interchange_figures import (
    causes_over_time_data,
    draw_causes_over_time,
    draw_interchange,
    interchange_data,
)
from assignadd.paper.causes.paths import EMBEDDING, LAYER_1, LAYER_2, LOGITS, MLP2, VALUE, Path
from assignadd.report.reproduction import CAUSES
from assignadd.task.evalsets import EVAL_SETS
from tests.interventions.small import CONFIG, HANDMADE, SEEN


def written(axes):
    return [text.get_text() for text in axes.texts]


def test_interchange(tmp_path):
    interchange = Interchange(CONFIG, SEEN, 270)
    exchanged = (*ALIGNMENTS, QUERY_AND_TAG)
    trained = interchange(HANDMADE, VARIANTS, exchanged)
    untrained = interchange(initial_stack(CONFIG, [0]), alignments=exchanged)
    data = interchange_data(trained, untrained)
    assert data.alignments == [
        "binding tag", "operand query, 1 variable", "operand query, 2 variables", "query in QK2, 1 variable",
        "query in QK2, 2 variables", "first value", "second value", "values", "sum", "query and tag, 1 variable",
    ]  # fmt: skip
    assert data.accuracy.shape == (10, 5) and (data.accuracy[:, 0] == 1).all() and (data.high[:, 0] == 1).all()
    assert data.accuracy[0, 4] == pytest.approx(untrained["binding tag"].accuracy())
    assert (
        data.n[1] + data.n[2] == trained["operand query"].n
        and data.n[1] == (trained["operand query"].base_vars == 1).sum()
    )
    with figure(6.4, 4.8) as made:
        draw_interchange(data, made)
        left, *types = made.axes
        assert [t.get_text().split("\n")[0] for t in left.get_yticklabels()] == data.alignments
        assert written(types[2]) == ["1.000"] * 9
        save(made, tmp_path / "x")


def test_circuit_only():
    rows = [
        ("together", WHOLE),
        ("together", SECTION_5),
        ("kept alone", "OV1: variables"),
        ("removed alone", "OV1: variables"),
    ]
    shares = np.array([1.0, 0.8, 0.5, 0.2])
    correct = np.broadcast_to(np.arange(100) < 100 * shares[:, None, None], (4, 9, 100))
    data = circuit_only_data(CircuitAlone(rows, [s.name for s in EVAL_SETS], correct))
    assert data.relative == pytest.approx(shares) and data.groups == [g for g, _ in rows] and data.n == 100
    with figure(6.4, 5) as made:
        axes = made.add_subplot()
        draw_circuit_only(data, axes)
        numbers = [text for text in written(axes) if text[:1].isdigit()]
        assert numbers == [f"{v:.2f}" for v in shares for _ in range(10)]
        assert {"parts together (+: added to section 5's)", "one circuit reduced to", "one part removed"} <= set(
            written(axes)
        )


def test_circuit():
    paths = {Path(EMBEDDING, "first", VALUE): 0.5, Path(EMBEDDING, "PAD", VALUE): 0.001, Path(MLP2, "=", LOGITS): 0.97}
    direct = dict(zip((EMBEDDING, LAYER_1, LAYER_2, MLP2), (0.0, 0.0, 1.0, 9.0), strict=True))
    data = circuit_data({0: paths, 1: paths}, {0: direct, 1: direct})
    assert data.effect.shape == (3, 2) and len(data.senders) == 3
    with figure(7, 4.4) as made:
        axes = made.add_subplot()
        draw_circuit(data, axes)
        said = written(axes)
        assert {"0.50", "0.97"} <= set(said) and "0.00" not in said  # what is worth nothing is not drawn
        assert any("90.0%" in text for text in said)


def test_causes_over_time():
    steps = np.arange(0, 6000, 1000)
    causes = (
        {"step": steps}
        | {name: (steps >= 1000 * i) * 1.0 for i, name in enumerate(ALIGNMENTS[:-1])}
        | {"sum": steps * 0.0}
    )
    measured = {"step": np.arange(0, 6000, 500)} | {column: np.ones(12) for column in PAPER_MEASURES.values()}
    data = causes_over_time_data(causes, measured, Phases(None, None, None, None, None, False, None))
    assert data.onsets.tolist() == [0, 1000, 2000, 3000, 4000, 5000, -1] and data.measure_onsets.tolist() == [0] * len(
        PAPER_MEASURES
    )
    assert data.measures.shape == (len(PAPER_MEASURES), 6)
    with figure(6.4, 4.4) as made:
        draw_causes_over_time(data, made)
        labels = [text.get_text() for text in made.axes[0].get_legend().get_texts()]
        assert labels[1] == "operand query: 1,000" and labels[-1] == "sum: never"


def test_every_figure_has_a_name_of_its_own():
    assert [record.label for record in CAUSES] == ["circuit", "interchange", "circuit_only", "causes_over_time"]
