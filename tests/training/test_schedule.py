"""Warm-up, a changed rate, frozen parts, literals withheld at first: against torch's AdamW with them written out."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from assignadd.config import PRESETS, ConfigError, Member, Model, Numerics, with_settings
from assignadd.model.architecture import NotDefined
from assignadd.model.kernels.tensor import TensorKernels, stacked_adamw
from assignadd.model.stack import initial_stack
from assignadd.model.transformer import Transformer
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.task.vocabulary import Vocabulary
from assignadd.training.schedule import training_sampler
from assignadd.training.trainer import Group, Trainer

CONFIG = replace(PRESETS["smoke"], numerics=Numerics(dtype="float64"))
# A model's settings, and its learning rates in the first six steps, by hand.
SCHEDULES = [
    ({}, [1e-3] * 6),
    ({"optim.warmup": 4}, [2.5e-4, 5e-4, 7.5e-4, 1e-3, 1e-3, 1e-3]),
    ({"optim.lr": 2e-3, "optim.later_lr": 8e-3, "optim.later_from": 3}, [2e-3] * 3 + [8e-3] * 3),
    ({"optim.later_lr": 0.0, "optim.later_from": 5, "optim.warmup": 2}, [5e-4, 1e-3, 1e-3, 1e-3, 1e-3, 0.0]),
    ({"optim.frozen": "QK2", "optim.frozen_until": 4}, [1e-3] * 6),
    ({"optim.frozen": "W_E", "optim.frozen_until": 2, "optim.warmup": 2}, [5e-4] + [1e-3] * 5),
    ({"optim.frozen": "OV1", "optim.frozen_from": 2, "optim.frozen_until": 5}, [1e-3] * 6),
    ({"optim.literals_from": 3}, [1e-3] * 6),
    ({"optim.slot_score": 5.0, "optim.slot_score_from": 2, "optim.slot_score_until": 4}, [1e-3] * 6),
    ({"optim.slot_score": -2.0, "optim.slot_score_until": 6}, [1e-3] * 6),
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


def with_slot_score(tokens: torch.Tensor, added: float, scores: torch.Tensor, hook: object) -> torch.Tensor:
    """Scores (B, H, query, key) with a number added where `=` reads an operand that is a variable."""
    scores = scores.clone()
    for place in (-3, -2):
        is_variable = [CONFIG.task.modulus + 3 <= int(token) for token in tokens[:, place]]
        scores[is_variable, :, -1, place] += added
    return scores


def by_hand(member: Member, rates: list[float]) -> torch.Tensor:
    """The weights after these steps, by autograd and torch's AdamW."""
    config, seen = member.config(CONFIG), SEEN[member.seed : member.seed + 1]
    start = initial_stack(config, [member.seed])
    model = Transformer.from_stack(start, 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=config.optim.weight_decay)
    late, early = (Sampler([config.task], seen, [member.seed], literals=[some]) for some in (True, False))
    optim, held = config.optim, PARTS.get(config.optim.frozen, [])
    for step, rate in enumerate(rates):
        batch = (early if step < optim.literals_from else late).sample(step, optim.batch)
        before = {name: model.get_parameter(name).detach().clone() for name in held}
        optimizer.zero_grad()
        active = optim.slot_score_from <= step < optim.slot_score_until
        added = partial(with_slot_score, batch.tokens[0], optim.slot_score * active)
        with model.hooks([("blocks.0.attn.hook_attn_scores", added)]):
            torch.nn.functional.cross_entropy(model.answer_logits(batch.tokens[0]), batch.labels[0]).backward()
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        if optim.frozen_from <= step < optim.frozen_until:
            with torch.no_grad():
                for name, weight in before.items():
                    model.get_parameter(name).copy_(weight)
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


def test_literals_are_withheld_from_those_models_alone_that_ask_for_it():
    """Whatever is drawn ahead, and also with models that have nothing but literals."""
    bare = {"task.one_var_ratio": 0.0, "task.two_var_ratio": 0.0}
    members = [Member(0), Member(1, {"optim.literals_from": 5}), Member(2, bare), Member(3, {"optim.literals_from": 9})]
    configs, first_variable = [m.config(CONFIG) for m in members], Vocabulary(CONFIG.task).first_variable
    sampler = training_sampler(configs, SEEN[:4], torch.device("cpu"))
    drawn = sampler.sample(torch.arange(12).view(-1, 1, 1), 50)
    usual = Sampler([c.task for c in configs], SEEN[:4], range(4)).sample(torch.arange(12).view(-1, 1, 1), 50)
    literal = (drawn.tokens[..., -3:-1] < first_variable).all(-1)  # both operands are numbers
    with_literals = [[bool(x) for x in of_step] for of_step in literal.any(-1)]
    assert with_literals == [[True, step >= 5, True, step >= 9] for step in range(12)] and literal[:, 2].all()
    for model, first in enumerate((0, 5, 0, 9)):
        assert torch.equal(drawn.tokens[first:, model], usual.tokens[first:, model])
        assert torch.equal(drawn.labels[first:, model], usual.labels[first:, model])
    one = sampler.sample(torch.tensor(7), 50)
    assert torch.equal(one.tokens, drawn.tokens[7]) and torch.equal(one.labels, drawn.labels[7])


def test_a_schedule_that_cannot_be_is_refused():
    with pytest.raises(ConfigError, match=r"optim.frozen_from = 5: expected a step before optim.frozen_until = 5"):
        Member(0, {"optim.frozen": "W_E", "optim.frozen_from": 5, "optim.frozen_until": 5}).config(CONFIG)
    bare = {"task.one_var_ratio": 0.0, "task.two_var_ratio": 0.0, "optim.literals_from": 2}
    with pytest.raises(ConfigError, match=r"optim.literals_from = 2: expected 0: training has no sequences with var"):
        Member(0, bare).config(CONFIG)


def test_a_part_that_is_not_there_is_refused():
    one = replace(CONFIG, model=Model(n_layers=1, d_model=16, d_head=16, d_mlp=(32,)))
    with pytest.raises(ConfigError, match=r"optim.frozen = 'QK2': expected none or a part of layer 1"):
        Member(0, {"optim.frozen": "QK2"}).config(one)
    bare = replace(CONFIG, model=Model(d_model=16, d_head=16, d_mlp=(None, None)))
    with pytest.raises(ConfigError, match=r"optim.frozen = 'MLP2': expected another part"):
        Member(0, {"optim.frozen": "MLP2"}).config(bare)
    with pytest.raises(ConfigError, match=r"optim.frozen = 'head': expected one of none, W_E, QK1"):
        Member(0, {"optim.frozen": "head"}).config(CONFIG)


def test_a_slot_score_is_added_in_single_precision_too():
    """There, other kernels compute the attention."""
    single = replace(CONFIG, numerics=Numerics())
    member, rates = MEMBERS[-1], SCHEDULES[-1][1]
    trainer = Trainer(single, [member], SEEN[-1:])
    trainer.advance(6)
    torch.testing.assert_close(trainer.stack().flat[0].double(), by_hand(member, rates), rtol=0, atol=2e-5)


def test_a_slot_score_needs_the_architecture_of_the_tables():
    with pytest.raises(NotDefined, match="one head"):
        Trainer(with_settings(CONFIG, {"model.n_heads": 2}), MEMBERS[-1:], SEEN[-1:])
