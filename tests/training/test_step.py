"""The training step: both ways to the gradient agree, sequences drawn ahead change nothing, diverged models stop."""

from dataclasses import replace

import pytest
import torch

from assignadd.config import PRESETS, Member, Numerics
from assignadd.model.stack import initial_stack
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.training.step import Group, ReferenceGradient, TableGradient

CONFIG = PRESETS["smoke"]


def group(models: int = 1) -> Group:
    seeds = list(range(models))
    seen = torch.stack([pair_split(CONFIG.task, s) for s in seeds])
    return Group(initial_stack(CONFIG, seeds), [Member(s).config(CONFIG) for s in seeds], seen)


def step_by_step(one: Group, steps: int) -> None:
    """Training on batches that are drawn one at a time."""
    for _ in range(steps):
        one.update(one.sampler.sample(int(one.step), one.batch_size))


def same(a: Group, b: Group) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state().values(), b.state().values(), strict=True))


def test_tables_and_autograd_give_the_same_loss_and_gradient():
    config = replace(CONFIG, numerics=Numerics(dtype="float64"))
    seeds = [0, 1, 2]
    stack = initial_stack(config, seeds)
    batch = Sampler([config.task] * 3, torch.stack([pair_split(config.task, s) for s in seeds]), seeds).sample(5, 64)
    table, reference = TableGradient(stack), ReferenceGradient(stack)
    torch.testing.assert_close(table(batch), reference(batch))
    torch.testing.assert_close(table.flat, reference.flat)


def test_drawing_ahead_changes_no_bit(monkeypatch):
    """Over several draws, and from a state that was loaded into a group with sequences of later steps."""
    monkeypatch.setattr("assignadd.training.step.SEQUENCES_AHEAD", 5 * CONFIG.optim.batch)
    ahead, plain = group(), group()
    ahead.advance(13)
    state = {name: t.clone() for name, t in ahead.state().items()}
    ahead.advance(20)
    step_by_step(plain, 33)
    assert same(ahead, plain)
    ahead.load_state(state)
    ahead.advance(20)
    assert same(ahead, plain)


@pytest.mark.parametrize("scale", [10, 1e5])
def test_extreme_weights_give_a_finite_loss_and_train_on(scale):
    """Scores that leave the range of exponentials, and answers less likely than any float32."""
    one = group()
    for factor in (1, scale, 1 / scale):
        one.stack.weights["unembed.W_U"].mul_(factor)
        one.advance(3)
        assert one.loss.isfinite().all()
    assert one.diverged_at.tolist() == [-1]


def test_models_that_diverge_one_after_the_other_stay_as_they_were():
    """The first is not updated again when the second diverges, and a finite loss brings neither back."""
    one = group(3)
    one.advance(2)
    one.stack.weights["unembed.W_U"][1].fill_(torch.inf)
    one.advance(3)
    one.stack.weights["unembed.W_U"][2].fill_(torch.inf)
    one.advance(1)
    one.stack.flat[1:].fill_(0.5)
    one.advance(2)
    assert (one.stack.flat[1:] == 0.5).all()
    assert one.loss.isfinite().all()
    assert one.diverged_at.tolist() == [-1, 2, 5]
    assert one.step == 8
