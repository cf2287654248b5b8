"""The measures taken while training against the ones of the report, which go model by model."""

import pytest
import torch

from assignadd.config import PRESETS, Config, Member
from assignadd.measures.cheap import CheapProgress, routing_rates
from assignadd.measures.routing import routing
from assignadd.measures.samples import sequences
from assignadd.model.handmade import handmade
from assignadd.model.stack import initial_stack
from assignadd.task.splits import pair_split

torch.set_num_threads(1)
TASK = PRESETS["tiny"].task


def test_rates_of_a_stack_are_those_of_each_model():
    config = PRESETS["tiny"]
    stack = initial_stack(config, [0, 1, 2])
    stack["pos_embed.W_pos"].mul_(6)  # so that attention is on some position and rates are neither 0 nor 1
    configs = [Member(i).config(config) for i in range(3)]
    tokens = sequences(configs, torch.stack([pair_split(TASK, i) for i in range(3)]), 2, 200).tokens
    expected = vars(routing(stack, tokens))
    for name, values in routing_rates(stack, tokens).items():
        torch.testing.assert_close(values, expected[name])
    assert 0 < routing_rates(stack, tokens)["attn_l1_num_to_prev"].mean() < 1


def test_the_handmade_model_has_all_of_it_and_random_weights_little():
    made = handmade(Config(task=TASK))
    configs, seen = [Member(0).config(made.config)], pair_split(TASK, 0)[None]
    found = CheapProgress(configs, seen)(made)
    assert {"ov2_mlp2_accuracy", "qk2_ov1_var_identity", "attn_l2_equal_to_values (1-var)", "accuracy a first"} <= found.keys()
    rates = [name for name in found if "margin" not in name]
    assert {name: float(found[name]) for name in rates} == pytest.approx(dict.fromkeys(rates, 1.0))
    random = CheapProgress(configs, seen)(initial_stack(PRESETS["tiny"], [0]))
    assert all(float(random[name]) < 0.6 for name in rates)
