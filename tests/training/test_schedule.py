"""Warm-up, a changed learning rate and frozen parts: against steps of torch's AdamW with the rates written out."""

from dataclasses import replace

import pytest
import torch

from assignadd.config import PRESETS, ConfigError, Member, Model, Numerics
from assignadd.model.kernels.tensor import TensorKernels, stacked_adamw
from assignadd.model.stack import initial_stack
from assignadd.model.transformer import Transformer
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.training.step import Group
from assignadd.training.trainer import Trainer

CONFIG = replace(PRESETS["smoke"], numerics=Numerics(dtype="float64"))
# A model's settings, and its learning rates in the first six steps, by hand.
SCHEDULES = [
    ({}, [1e-3] * 6),
    ({"optim.warmup": 4}, [2.5e-4, 5e-4, 7.5e-4, 1e-3, 1e-3, 1e-3]),
    ({"optim.lr": 2e-3, "optim.later_lr": 8e-3, "optim.later_from": 3}, [2e-3] * 3 + [8e-3] * 3),
    ({"optim.later_lr": 0.0, "optim.later_from": 5, "optim.warmup": 2}, [5e-4, 1e-3, 1e-3, 1e-3, 1e-3, 0.0]),
    ({"optim.frozen": "QK2", "optim.frozen_until": 4}, [1e-3] * 6),
    ({"optim.frozen": "W_E", "optim.frozen_until": 2, "optim.warmup": 2}, [5e-4] + [1e-3] * 5),
]
PARTS = {
    "W_E": ["embed.W_E"],
    "QK1": ["blocks.0.attn.W_Q", "blocks.0.attn.W_K"],
    "OV1": ["blocks.0.attn.W_V", "blocks.0.attn.W_O"],
    "QK2": ["blocks.1.attn.W_Q", "blocks.1.attn.W_K"],
    "OV2": ["blocks.1.attn.W_V", "blocks.1.attn.W_O"],
    "MLP2": ["blocks.1.mlp.W_in", "blocks.1.mlp.W_out"],
}
MEMBERS = [Member(seed, own) for seed, (own, _) in enumerate(SCHEDULES)]
SEEN = torch.stack([pair_split(CONFIG.task, member.seed) for member in MEMBERS])


def by_hand(member: Member, rates: list[float]) -> torch.Tensor:
    """The weights after these steps, by autograd and torch's AdamW."""
    config, seen = member.config(CONFIG), SEEN[member.seed : member.seed + 1]
    start = initial_stack(config, [member.seed])
    model = Transformer.from_stack(start, 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=config.optim.weight_decay)
    sampler, held = Sampler([config.task], seen, [member.seed]), PARTS.get(config.optim.frozen, [])
    for step, rate in enumerate(rates):
        batch = sampler.sample(step, config.optim.batch)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model.answer_logits(batch.tokens[0]), batch.labels[0]).backward()
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        if step < config.optim.frozen_until:
            with torch.no_grad():
                for name in held:
                    model.get_parameter(name).copy_(start[name][0])
    named = dict(model.named_parameters())
    return torch.cat([named[name].detach().flatten() for name in start.weights])


def test_each_model_of_a_run_has_the_schedule_written_out():
    trainer = Trainer(CONFIG, MEMBERS, SEEN)
    trainer.advance(6)
    for member, (_, rates), found in zip(MEMBERS, SCHEDULES, trainer.stack().flat, strict=True):
        torch.testing.assert_close(found, by_hand(member, rates))


def test_a_stack_that_trains_together_has_the_schedules_of_its_models(monkeypatch):
    """As on a GPU: one group for all models, in the formula that has no branches."""
    monkeypatch.setattr(TensorKernels, "adamw", lambda self, *inputs: stacked_adamw(*inputs))
    configs = [member.config(CONFIG) for member in MEMBERS]
    group = Group(initial_stack(CONFIG, [member.seed for member in MEMBERS]), configs, SEEN)
    group.advance(6)
    for member, (_, rates), found in zip(MEMBERS, SCHEDULES, group.stack.flat, strict=True):
        torch.testing.assert_close(found, by_hand(member, rates))


def test_in_single_precision_a_schedule_is_near_and_resumes_bit_for_bit():
    config = replace(CONFIG, numerics=Numerics())
    whole, first, second = (Trainer(config, MEMBERS, SEEN) for _ in range(3))
    whole.advance(6)
    first.advance(3)
    second.load_state(first.state())
    second.advance(3)
    assert torch.equal(whole.stack().flat, second.stack().flat)
    for member, (_, rates), found in zip(MEMBERS, SCHEDULES, whole.stack().flat, strict=True):
        torch.testing.assert_close(found.double(), by_hand(member, rates), atol=2e-4, rtol=1e-3)


def test_schedules_of_other_models_change_no_bit_of_one_without():
    config = replace(CONFIG, numerics=Numerics())
    together, alone = Trainer(config, MEMBERS[:2], SEEN[:2]), Trainer(config, MEMBERS[:1], SEEN[:1])
    together.advance(6)
    alone.advance(6)
    assert torch.equal(together.stack().flat[0], alone.stack().flat[0])


@pytest.mark.parametrize("part", PARTS)
def test_a_frozen_part_keeps_its_initial_weights_and_no_other_does(part):
    own = Member(0, {"optim.frozen": part, "optim.frozen_until": 3})
    trainer, start = Trainer(CONFIG, [own], SEEN[:1]), initial_stack(CONFIG, [0])
    trainer.advance(3)
    kept = [name for name, weight in trainer.stack().weights.items() if torch.equal(weight, start[name])]
    assert kept == PARTS[part]
    trainer.advance(1)
    assert not any(torch.equal(trainer.stack()[name], start[name]) for name in kept)


def test_a_part_that_is_not_there_is_refused():
    one = replace(CONFIG, model=Model(n_layers=1, d_model=16, d_head=16, d_mlp=(32,)))
    with pytest.raises(ConfigError, match=r"optim.frozen = 'QK2': expected none or a part of layer 1"):
        Member(0, {"optim.frozen": "QK2"}).config(one)
    bare = replace(CONFIG, model=Model(d_model=16, d_head=16, d_mlp=(None, None)))
    with pytest.raises(ConfigError, match=r"optim.frozen = 'MLP2': expected another part"):
        Member(0, {"optim.frozen": "MLP2"}).config(bare)
    with pytest.raises(ConfigError, match=r"optim.frozen = 'head': expected one of none, W_E, QK1"):
        Member(0, {"optim.frozen": "head"}).config(CONFIG)
