"""Saturated sequences, and the numbers around spikes and bursts of hand-made curves."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import pytest
import torch

from assignadd.config import PRESETS, Member
from assignadd.model import Stack, answer_logits, handmade, initial_stack
from assignadd.runs.folder import find_runs
from assignadd.study.files import run_study
from assignadd.task import EVAL_SETS, pair_split
from assignadd.user_file import user_module

FOLDER = Path(__file__).parents[2] / "findings" / "spikes"
study = user_module(FOLDER)
m = user_module(FOLDER / "measures.py")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_sequence_is_saturated_where_the_wrong_answers_have_less_than_half_a_unit_in_the_last_place(dtype):
    config = Member(0).config(replace(PRESETS["tiny"], numerics=replace(PRESETS["tiny"].numerics, dtype=dtype)))
    seen, plain = pair_split(config.task, 0)[None], handmade(config)
    measure, shares = m.Saturation([config], seen, 100), []
    for scale in (0.01, 0.1, 0.4, 1.0, 3.0):
        stack = Stack(plain.config, plain.flat.clone())
        stack.W_U.mul_(scale)
        logits = answer_logits(stack, measure.batch.tokens)[0].double()
        others = (logits - logits.gather(1, measure.batch.labels[0][:, None])).exp().sum(1) - 1  # p = 1 / (1 + others)
        columns = measure(stack)
        low, high = ((others < factor * 2**-24).double().mean() for factor in (0.5, 2))
        assert low <= columns[m.SATURATED] <= high
        assert columns[m.LOSS].item() == pytest.approx(float(torch.log1p(others).mean()), rel=1e-4)
        shares.append(float(columns[m.SATURATED]))
    assert shares[0] == 0 and shares[-1] == 1
    assert columns[m.QK2_IDENTITY] == 1
    assert measure(initial_stack(config, [0]))[m.SATURATED] == 0  # random weights are sure of nothing


def test_every_precision_is_trained_and_has_its_numbers(tmp_path):
    base, every = PRESETS["smoke"], {"eval_every": 20, "measure_every": 20, "eval_sequences": 32, "final_sequences": 50}
    record = replace(study.PRECISION.base.record, **every)
    small = replace(study.PRECISION, base=replace(base, record=record), seeds=1, steps=40)
    frame = run_study(small, small.sweep(), tmp_path, path=FOLDER).frame
    losses = frame["loss"].to_list()
    assert frame[m.SPIKES].to_list() == [0.0] * 3 and frame[m.SHARP].dtype == polars.Boolean
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-3)
    numerics = [run.config.numerics for run in find_runs(tmp_path)[0]]
    kinds = {("float32", False), ("float32", True), ("float64", False)}
    assert {(n.dtype, n.loss_in_float64) for n in numerics} == kinds


def curves(steps, **columns):
    """Rows of a network that answers everything, without bursts or a change of QK2 unless given."""
    names = [s.name for s in EVAL_SETS]
    rows = {"step": steps} | dict.fromkeys(names, [1.0] * len(steps))
    rows |= dict.fromkeys((m.SATURATED, m.QK2_IDENTITY), [0.0] * len(steps)) | {m.LOSS: [0.1] * len(steps)}
    return polars.DataFrame(rows | columns)


def test_numbers_around_the_first_spike_are_those_of_the_curves():
    steps = list(range(0, 8001, 25))
    late = [step >= 4000 for step in steps]
    sets = {s.name: [0.3 + 0.7 * x for x in late] for s in EVAL_SETS if s.n_vars}
    own = {m.SATURATED: [0.1 + 0.4 * (3800 <= s < 4000) for s in steps]}
    own |= {m.QK2_IDENTITY: [0.25 + 0.5 * x for x in late]}
    found = m.spike_columns(curves(steps, **sets, **own), 256)
    assert (found[m.SPIKES], found[m.BURSTS], found[m.SHARP]) == (1, 0, True)
    assert found[m.FIRST_AT] == 4000 and found[m.QK2_RISE] == pytest.approx(0.5)
    assert found[m.SATURATED_BEFORE] == pytest.approx(0.5, abs=0.05)
    assert found[m.SATURATED_RISE] == pytest.approx(0.4, abs=0.06)


def test_a_slow_rise_is_no_spike():
    steps = list(range(0, 8001, 25))
    slow = [min(1.0, 0.3 + 0.7 * step / 6000) for step in steps]
    found = m.spike_columns(curves(steps, **{s.name: slow for s in EVAL_SETS if s.n_vars}), 256)
    assert (found[m.SPIKES], found[m.SHARP]) == (0, False)


def test_only_bursts_after_step_8000_are_late():
    steps = list(range(0, 12_001, 25))
    losses = [1.0 if s in (7000, 9000, 11_000) else 0.1 for s in steps]
    found = m.spike_columns(curves(steps, **{m.LOSS: losses}), 256)
    assert (found[m.BURSTS], found[m.LATE]) == (3, 2)


def test_parts_keep_their_weights_from_a_step_to_the_end():
    free, *frozen, never = (cell.settings for cell in study.SUDDEN.cells)
    assert not free and {cell["optim.frozen"] for cell in frozen} == {"QK2", "W_E"}
    assert {(cell["optim.frozen_from"], cell["optim.frozen_until"]) for cell in frozen} == {(2000, study.SUDDEN.steps)}
    assert never == {"optim.frozen": "QK2", "optim.frozen_until": study.SUDDEN.steps}


def test_fast_rises_and_bursts_are_those_that_were_planted():
    steps = np.arange(0, 10_000, 25)
    noise = np.random.default_rng(0).normal(0, 0.01, len(steps))
    accuracy = 0.3 + 0.2 * steps / 10_000 + 0.25 * (steps >= 4000) + 0.2 * np.clip((steps - 7000) / 60, 0, 1) + noise
    assert m.fast_rises(steps, accuracy) == [3900, 6950]
    assert m.fast_rises(steps, accuracy, since=5000) == [6950] and m.fast_rises(steps, accuracy, least=0.3) == []
    loss = 0.1 + 0.4 * np.exp(-steps / 2000) + noise / 10
    loss[steps == 5000] *= 3
    loss[(steps >= 8000) & (steps < 8300)] += 1  # one burst, however long it lasts
    assert m.bursts(steps, loss) == [5000, 8000] and m.bursts(steps, loss, since=6000) == [8000]
    assert m.bursts(steps, loss / 60) == []  # less than .02 above the usual loss
