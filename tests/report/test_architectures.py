"""Figures of a network of another architecture: drawn where they have a meaning, absent with the reason elsewhere."""

from dataclasses import replace

import pytest
import torch

from assignadd.config import PRESETS, Member
from assignadd.figure.record import Absent, Sources
from assignadd.figure.style import figure
from assignadd.model.transformer import Transformer
from assignadd.network import Network
from assignadd.report.reproduction import CAUSES, DYNAMICS, MECHANISM
from assignadd.task.examples import ATTENTION, fitted
from assignadd.task.splits import pair_split
from tests.architectures import random_stack

torch.set_num_threads(1)
SMOKE = PRESETS["smoke"]
OTHER = {"n_layers": 3, "n_heads": 2, "d_mlp": (8, None, 24), "norm": "rms", "biases": True, "activation": "gelu"}
CONFIG = Member(0).config(replace(SMOKE, model=replace(SMOKE.model, **OTHER)))
STACK = random_stack(CONFIG)
RECORDS = {record.label: record for record in (*MECHANISM, *CAUSES, *DYNAMICS)}
NOT_DEFINED = {"cosine_sim_combined", "fourier_shares", "qk0", "qk0pos_and_qk1", "circuit_only"}
OF_THE_RUN = {"early", "late", "cues"}  # no spike in random weights, and no binding


@pytest.fixture(scope="module")
def sources():
    other = random_stack(CONFIG)
    other.flat.mul_(0.9)
    network = Network(STACK, CONFIG, pair_split(CONFIG.task, 0), 40, step=20, other_checkpoints={10: other})
    return Sources([network])


@pytest.mark.parametrize("label", sorted(NOT_DEFINED))
def test_figures_without_meaning_give_the_reason(sources, label):
    data = RECORDS[label].data_of(sources)
    assert isinstance(data, Absent) and "not defined for this network: it needs" in data.words


@pytest.mark.parametrize("label", sorted(RECORDS.keys() - NOT_DEFINED - OF_THE_RUN))
def test_the_other_figures_are_drawn(sources, label):
    record = RECORDS[label]
    data = record.data_of(sources)
    assert not isinstance(data, Absent)
    with figure(record.width, record.height) as made:
        record.draw(data, made)
        made.canvas.draw()
        assert record.caption(data)


def test_attention_is_that_of_the_head_that_attends_most_to_the_expected_edges(sources):
    data = RECORDS["attention"].data_of(sources)
    with torch.no_grad():
        tokens = torch.tensor([fitted(ATTENTION, CONFIG.task)])
        _, cache = Transformer.from_stack(STACK, 0).run_with_cache(tokens)
    patterns = cache["blocks.2.attn.hook_pattern"][0].numpy()
    mass = [float(pattern[data.to_values].sum()) for pattern in patterns]
    best = mass.index(max(mass))
    assert data.titles[1] == f"layer 3, head {best}"
    assert data.patterns[1][-1] == pytest.approx(patterns[best][-1])


def test_progress_measures_of_one_layer_with_a_norm():
    """No measure of adding and copying is defined there: the panel says so."""
    model = replace(SMOKE.model, n_layers=1, d_mlp=(8,), norm="layer")
    config = Member(0).config(replace(SMOKE, model=model))
    network = Network(
        random_stack(config),
        config,
        pair_split(config.task, 0),
        40,
        step=20,
        other_checkpoints={10: random_stack(config)},
    )
    record = RECORDS["progress_measures"]
    data = record.data_of(Sources([network]))
    assert data.names == ["attn_l1_equal_to_values"]
    with figure(record.width, record.height) as made:
        record.draw(data, made)
        made.canvas.draw()
        assert "none of these is defined" in made.axes[0].get_legend().get_texts()[0].get_text()
