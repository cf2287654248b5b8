"""The measures that a sweep takes of a whole stack, compared with those taken model by model."""

import pytest
import torch

from assignadd.config import PRESETS, Config, Member
from assignadd.measures.columns import ProgressMeasures, StackProgress, measure_of
from assignadd.model.handmade import handmade
from assignadd.model.stack import initial_stack
from assignadd.task.splits import pair_split
from tests.architectures import ARCHITECTURES

torch.set_num_threads(1)
TASK = PRESETS["tiny"].task


@pytest.mark.parametrize(("config", "n_rates"), [(PRESETS["tiny"], 12), (ARCHITECTURES["two heads"], 36)])
def test_rates_of_a_stack_equal_those_of_single_models(config, n_rates):
    stack = initial_stack(config, [0, 1, 2])
    stack["pos_embed.W_pos"].mul_(6)  # so that attention is on some position and rates are neither 0 nor 1
    configs, seen = [Member(i).config(config) for i in range(3)], torch.stack([pair_split(TASK, i) for i in range(3)])
    found = StackProgress(configs, seen, 200)(stack)
    alone = [StackProgress(configs[i : i + 1], seen[i : i + 1], 200)(stack.models(i)) for i in range(3)]
    every_measure = ProgressMeasures(configs, seen, 200).routing(stack)
    rates = [name for name in found if name.startswith("attn_")]
    # Three patterns, one and two variables, all sequences and those training could show; the best and both heads.
    assert len(rates) == n_rates
    for name in rates:
        torch.testing.assert_close(found[name], torch.cat([columns[name] for columns in alone]))
        torch.testing.assert_close(found[name], every_measure[name])
    assert 0 < found["attn_l1_num_to_prev (2-var)"].mean() < 1
    assert not torch.equal(found["attn_l1_num_to_prev (2-var)"], found["attn_l1_num_to_prev (2-var, training law)"])


def test_rates_are_one_for_the_handmade_model_and_small_for_random_weights():
    made = handmade(Config(task=TASK))
    configs, seen = [Member(0).config(made.config)], pair_split(TASK, 0)[None]
    found = StackProgress(configs, seen)(made)
    rates = [name for name in found if measure_of(name).unit.startswith("of ")]  # of pairs, of sequences and so on
    some = {"ov2_mlp2_accuracy", "qk2_ov1_var_identity", "attn_l2_equal_to_values (1-var)", "accuracy a first"}
    assert some <= {*rates}
    assert {name: float(found[name]) for name in rates} == pytest.approx(dict.fromkeys(rates, 1.0))
    random = StackProgress(configs, seen)(initial_stack(PRESETS["tiny"], [0]))
    assert all(float(random[name]) < 0.6 for name in rates)
