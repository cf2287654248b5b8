"""Figures of training dynamics: known scores, formulas by brute force, the paper's own run, and runs without data."""

import dataclasses
import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.text import Text

from assignadd.config import PRESETS, Config
from assignadd.dynamics.curves import Onset, Spike
from assignadd.dynamics.phases import Curves, LateVariable, Phases
from assignadd.dynamics.trajectory import (
    curves_of,
    late_variable_of,
    onsets_of,
    phases_of,
    trajectory_of,
)
from assignadd.figure.record import Absent, Sources
from assignadd.figure.style import SMALLEST, figure, spread
from assignadd.measures.columns import MEASURES
from assignadd.measures.scores import path_sequences, qk1_equals_parts, qk1_equals_to_variables, qk2_path_terms
from assignadd.model.circuits import OV, QK
from assignadd.model.handmade import SCORE, handmade
from assignadd.model.stack import initial_stack
from assignadd.model.transformer import Transformer
from assignadd.network import Network, networks_of, store_result
from assignadd.paper.dynamics.figures import (
    draw_early,
    draw_late,
    draw_progress_measures,
    early_data,
    late_caption,
    late_data,
    progress_measures_data,
    window,
)
from assignadd.paper.dynamics.spikes import late_variable_curve
from assignadd.report.reproduction import DYNAMICS
from assignadd.task.splits import pair_split
from assignadd.task.text import render_tokens
from assignadd.task.vocabulary import Vocabulary

NONE = Phases(Onset(1000, 1000, 1000), None, None, None, None, False, None)
ALL = Phases(
    Onset(1000, 900, 1100),
    Onset(2000, 2000, 2000),
    Onset(6000, 6000, 6000),
    Spike(1900, 2000, 0.5, 0.9, 1800, 2100),
    Spike(5900, 6000, 0.6, 1.0, 5900, 6000),
    True,
    Onset(2100, 2100, 2100),
)
STEPS = np.arange(0, 10_001, 100)


def columns(task, late=()) -> dict[str, np.ndarray]:
    """A trajectory drawn by hand: everything comes at step 2,000, but the (variable, slot) in `late` at 6,000."""
    came = (STEPS >= 2000).astype(float)
    names = [m.name for m in MEASURES if m.panel and "{" not in m.name]
    found = {"step": STEPS} | dict.fromkeys(names, came)
    for i, n_vars in enumerate((0, 1, 2)):
        for name in ("attn_l1_equal_to_operands", "attn_l1_num_to_prev", "attn_l2_equal_to_values"):
            found[f"{name} ({n_vars}-var)"] = came * (1 - 0.3 * i)
    for slot in ("first", "second"):
        for v in task.variables:
            found[f"accuracy {v} {slot}"] = (STEPS >= 6000).astype(float) if (v, slot) in late else came
    return found


def model(stack, phases, late=None, letters=()):
    """Network whose checkpoints are all the same model."""
    task = stack.config.task
    accuracy = {"2-var var-restricted (2)": (STEPS >= 6000).astype(float)}
    checkpoints = dict.fromkeys(STEPS.tolist(), stack)
    found = Network(stack, stack.config, pair_split(task, 0), step=10_000, seed=1, other_checkpoints=checkpoints)
    store_result(found, phases_of, phases)
    store_result(found, late_variable_of, late)
    store_result(found, trajectory_of, columns(task, letters))
    store_result(found, curves_of, Curves(STEPS, accuracy, 512))
    return as_drawn(found) if late else found


def as_drawn(found):
    """The same with the late variable's accuracy as its column has it: every checkpoint is the same model."""
    since, late = phases_of(found).first_spike.after, late_variable_of(found)
    accuracy = trajectory_of(found)[f"accuracy {late.variable} {late.slot}"]
    store_result(found, late_variable_curve, (STEPS[since <= STEPS], accuracy[since <= STEPS]))
    return found


LATE = LateVariable("b", "second", True, 6000, Spike(5900, 6000, 0.0, 1.0, 5900, 6000))


def words(made) -> str:
    return "\n".join(text.get_text() for axes in made.axes for text in [*axes.texts, axes.title, axes._left_title])


def test_measures_with_types_are_averaged_and_their_range_kept():
    data = progress_measures_data(columns(Config().task), ALL)
    assert len(data.names) == 9 and sum("(" not in name for name in data.names) == 7
    row = data.names.index("attn_l1_equal_to_operands")
    assert [values[row, -1] for values in (data.low, data.measures, data.high)] == pytest.approx([0.4, 0.7, 1.0])
    assert (
        data.low[data.names.index("qk2_ov1_var_identity")] == data.high[data.names.index("qk2_ov1_var_identity")]
    ).all()
    assert data.phases == ["addition", "binding", "refinement"] and data.ends.tolist() == [1900, 2100, 6000]


def test_labels_that_would_touch_are_pushed_apart():
    assert spread([0.2, 0.21, 0.9], 0.05) == pytest.approx([0.18, 0.23, 0.9])
    assert spread([0.9, 0.1], 0.05) == [0.9, 0.1]
    assert np.diff(spread([0.5, 0.5, 0.5], 0.05)) == pytest.approx([0.05, 0.05])
    assert spread([], 0.05) == []


def test_the_phases_are_named_and_a_missing_one_is_said():
    for phases, said in ((ALL, "(c) refinement, 6,000"), (NONE, "no second phase: binding was not learned")):
        with figure() as made:
            draw_progress_measures(progress_measures_data(columns(Config().task), phases), made)
            assert said in words(made)


@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_early_shows_a_variable_that_is_never_banned(preset):
    config = replace(Config(), task=PRESETS[preset].task)
    assert "c" not in config.task.banned_first + config.task.banned_second
    data = early_data(model(handmade(config), ALL))
    assert data.tokens == ["PAD", "PAD", "PAD", "c", "7", "PAD", "e", "5", "PAD", "d", "2", "PAD", "+", "c", "9", "="]
    assert data.steps.tolist() == [1900, 2000]
    assert data.attention.shape == (2, 16, 16) and data.attention[:, 15, [13, 14]] == pytest.approx(0.5, abs=1e-3)
    assert data.variables[0] == pytest.approx(2 * SCORE * np.eye(12), abs=1e-3)


@pytest.mark.parametrize("preset", ["paper", "tiny"])
def test_the_handmade_model_finds_every_variable_from_either_slot(preset):
    """Half of the attention of `=` is on the variable, all of that of the number: G = 2G / 2."""
    stack = handmade(PRESETS[preset])
    assert qk2_path_terms(stack).numpy() == pytest.approx(np.full((1, 2, stack.config.task.n_vars), SCORE), rel=1e-4)
    assert (qk1_equals_parts(stack) == 0).all()


def test_path_sequences_are_the_papers():
    task = Config().task
    tokens = path_sequences(task).tolist()
    assert render_tokens(tokens[1], task) == ". . . b 7 . e 5 . d 2 . + b 9 ="
    assert render_tokens(tokens[3], task) == ". . . d 7 . e 5 . b 2 . + d 9 ="
    assert render_tokens(tokens[12 + 1], task) == ". . . b 7 . e 5 . d 2 . + 9 b ="


def test_scores_are_the_formulas_on_random_weights():
    stack = initial_stack(Config(), [3, 4])
    task, vocabulary = stack.config.task, Vocabulary(stack.config.task)
    asks = torch.stack([stack.W_E[1, vocabulary.equals], stack.W_pos[1, 15]]) @ QK(stack, 1)[1]
    by_hand = [[float(asks[i] @ stack.W_E[1, v]) for v in vocabulary.variables] for i in (0, 1)]
    assert qk1_equals_parts(stack)[1].numpy() == pytest.approx(np.array(by_hand), abs=1e-6)
    assert qk1_equals_to_variables(stack)[1].numpy() == pytest.approx(np.sum(by_hand, axis=0), abs=1e-6)
    terms, tokens = qk2_path_terms(stack).detach(), path_sequences(task)
    for slot, v in ((0, 1), (1, 7)):
        own, e_v = tokens[slot * 12 + v], vocabulary.first_variable + v
        pattern = Transformer.from_stack(stack, 1).run_with_cache(own[None])[1]["blocks.0.attn.hook_pattern"][0, 0]
        E, P, expected = stack.W_E[1], stack.W_pos[1], 0.0
        for p in (13, 14):
            query = (E[own[p]] + P[p]) @ OV(stack, 1)[1]
            expected += float(pattern[15, p] * pattern[4, 3] * (query @ QK(stack, 2)[1] @ (E[e_v] @ OV(stack, 1)[1])))
        assert float(terms[1, slot, v]) == pytest.approx(expected, rel=1e-4)


def test_the_window_holds_the_spike_and_stays_small():
    dense = np.arange(0, 30_001, 10)
    found = window(dense, Spike(17_600, 17_610, 0, 1, 17_500, 17_700), (17_430, 18_880))
    assert {17_600, 17_610, 17_430, 18_880} <= set(found.tolist()) and len(found) <= 36
    assert (found[0], found[-1]) == (14_600, 20_610)
    coarse = np.array([1, 5301, 5401, 10001, 14501, 16001, 20001, 40000])
    spike = Spike(14501, 16001, 0, 1, 14501, 16001)
    assert window(coarse, spike, (14501, 16001)).tolist() == [10001, 14501, 16001, 20001]
    assert window(coarse, spike, (5401, 40000)).tolist() == [5401, 10001, 14501, 16001, 20001, 40000]
    assert window(np.array([0, 500, 1000]), Spike(0, 500, 0, 1, 0, 500), (0, 500)).tolist() == [0, 500, 1000]


def test_late_reads_its_variable_and_window():
    data = late_data(model(handmade(PRESETS["smoke"]), ALL, LATE, [("b", "second")]))
    assert (
        (data.variable, data.slot) == ("b", "second")
        and data.spike.tolist() == [5900, 6000]
        and data.ends.tolist() == [5900, 6000]  # nothing of the rise has come, and all of it
    )
    assert (data.steps[0], data.steps[-1]) == (2900, 9000)
    assert data.accuracy.tolist() == (data.steps >= 6000).tolist()
    assert data.twice_banned.tolist() == (data.twice_banned_steps >= 6000).tolist()
    V = len(data.letters)
    assert data.path.shape == (len(data.steps), 2, V) and data.parts.shape == (2, 2, min(5, V))
    assert data.compared == data.letters[:5]  # b and four others


def test_the_late_window_begins_behind_the_first_spike():
    soon = dataclasses.replace(LATE, onset=2500, spike=Spike(2300, 2400, 0.0, 1.0, 2200, 2500))
    found = model(handmade(PRESETS["smoke"]), ALL, soon)
    trajectory_of(found)["accuracy b second"] = np.interp(STEPS, [2100, 2600], [0, 1])  # a twentieth is 25 steps
    data = late_data(as_drawn(found))
    assert data.steps[0] == 2000 and data.ends.tolist() == [2100, 2600]


def test_a_run_without_spikes_says_so():
    stack = handmade(PRESETS["smoke"])
    never, once = model(stack, NONE), model(stack, ALL)
    flat = model(stack, ALL, dataclasses.replace(LATE, spike=None))
    early, late = (next(record for record in DYNAMICS if record.label == label) for label in ("early", "late"))
    for record, run, said in (
        (early, never, "seed 1: no first spike"),
        (late, never, "binding was not learned"),
        (late, once, "refinement at 6,000"),
        (late, flat, "b comes last, and its sums never jump"),
    ):
        data = record.data(Sources([run]))
        assert isinstance(data, Absent) and data.arrays()["words"].dtype.kind == "U"
        caption = record.caption(data)
        assert caption.startswith(record.look_for) and "There is none here: seed 1: no" in caption
        assert caption.endswith(".")
        with figure() as made:
            record.draw(data, made)
            assert said in words(made)


def test_captions_say_what_this_run_shows():
    """The same functions on runs that differ in what the sentences are about."""
    task, stack = PRESETS["authors"].task, handmade(PRESETS["authors"])
    record = next(record for record in DYNAMICS if record.label == "progress_measures")
    said = record.caption(progress_measures_data(columns(task), NONE))
    assert said.endswith("In this run: addition at step 1,000; no second phase: binding was not learned.")

    moved = late_data(model(stack, ALL, LATE, [("b", "second")]))
    asked, path = np.zeros_like(moved.asked), np.ones_like(moved.path)
    asked[moved.steps < 6000, 1], path[moved.steps < 6000, 1, 1] = -1.5, -0.25
    said = late_caption(dataclasses.replace(moved, asked=asked, path=path))
    assert said == (
        "Here it is b in the second slot. From step 5,900 to 6,000 its score goes from \u22121.50 to 0.00, its term "
        "from \u22120.25 to 1.00 and its accuracy from 0.00 to 1.00."
    )


def test_drawings_are_the_same_bytes_and_no_text_is_small():
    run = model(handmade(PRESETS["smoke"]), ALL, LATE, [("b", "second")])
    for draw, data in (
        (draw_progress_measures, progress_measures_data(trajectory_of(run), phases_of(run))),
        (draw_early, early_data(run)),
        (draw_late, late_data(run)),
    ):
        assert all(array.dtype != object for array in data.arrays().values())
        assert drawn(draw, data) == drawn(draw, data)


def drawn(draw, data) -> bytes:
    with figure(height=4.4) as made:
        draw(data, made)
        file = io.BytesIO()
        made.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        texts = [text for text in made.findobj(Text) if text.get_text()]
        assert min(text.get_fontsize() for text in texts) >= SMALLEST
        return file.getvalue()


@pytest.fixture(scope="module")
def authors(paper_run):
    torch.set_num_threads(1)
    found = networks_of(paper_run)[0][0]
    store_result(
        found, curves_of, curves_of(networks_of(paper_run, n=500)[0][0])
    )  # fewer sequences than usual: what is read here has wide margins
    return found


def test_the_papers_first_spike(authors):
    data = early_data(authors)
    assert data.steps.tolist() == [5301, 5401]
    to_variable, to_number = data.attention[:, 15, 13], data.attention[:, 15, 14]
    assert (
        to_number[0] > 0.9 and to_variable[0] < 0.1 and to_variable[1] > 0.3
    )  # "still attends only to constant operands"
    before, after = (np.diagonal(scores).mean() for scores in data.variables)
    assert after > 3 * before


# Between which checkpoints each curve crosses its level in the paper's run.
CROSSINGS = {
    "1-var train": (5301, 5401), "1-var add-restricted": (5301, 5401), "1-var var-restricted": (14501, 16001),
    "2-var train": (5401, 10001), "2-var add-restricted": (5401, 10001), "2-var var-restricted (1)": (14501, 16001),
    "2-var var-restricted (2)": (14501, 16001), "ov2_mlp2_accuracy": (1, 1001), "qk2_ov1_var_identity": (5401, 10001),
    "qk2_ov1_var_margin (least)": (10001, 14501),
}  # fmt: skip


def test_the_papers_curves_cross_where_its_table_says(authors):
    found = {o.curve: o for o in onsets_of(authors)}
    assert {name: (found[name].low, found[name].high) for name in CROSSINGS} == CROSSINGS
    addition = found[
        "0-var add-restricted"
    ]  # .825 at 1,001, .913 at 3,001, which may be either side of .9, .968 at 5,301
    assert (addition.low, addition.high) == (1001, 5301)
    last = max((o for o in found.values() if o.curve.startswith("accuracy ")), key=lambda o: o.onset)
    assert (last.curve, last.onset, last.high, last.n) == ("accuracy b second", 16001, 16001, 64)


def test_the_papers_late_variable(authors):
    data = late_data(authors)
    # At 16,001 it answers .94 of the sums with b, less than nineteen twentieths of the way to 1.
    assert (data.variable, data.slot) == ("b", "second") and data.ends.tolist() == [14501, 20001]
    before, after = (data.steps.tolist().index(step) for step in data.ends)
    b = data.letters.index("b")
    others = np.delete(data.asked, b, 1)
    assert data.asked[before, b] < others[before].min() - 0.5 and data.asked[after, b] > others[after].min() - 0.3
    assert data.path[before, 1, b] < 0 < 1 < data.path[after, 1, b]
    assert data.path[:, 0, b].min() > 1  # in the first slot b was never a problem
    assert data.accuracy[before] < 0.1 and data.accuracy[after] > 0.85
    assert data.twice_banned[[before, after]] == pytest.approx([0.507, 0.995], abs=0.07)
