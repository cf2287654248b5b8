"""The loss and its gradient against torch, and the two ways of getting them against each other."""

from dataclasses import replace

import pytest
import torch

from assignadd.config import PRESETS, Numerics
from assignadd.model.stack import initial_stack
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.training.objective import ReferenceGradient, TableGradient, cross_entropy


def test_cross_entropy_equals_torch_even_for_huge_logits():
    generator = torch.Generator().manual_seed(1)
    logits = (
        torch.randn(2, 30, 7, generator=generator, dtype=torch.float64)
        * torch.tensor([1.0, 400.0]).view(2, 1, 1).double()
    )
    labels = torch.randint(0, 7, (2, 30), generator=generator)
    leaf = logits.clone().requires_grad_()
    expected = torch.stack([torch.nn.functional.cross_entropy(x, y) for x, y in zip(leaf, labels, strict=True)])
    expected.sum().backward()
    loss, grad = cross_entropy(logits.clone(), labels)
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(grad, leaf.grad)


@pytest.mark.parametrize("gap", [1, 84, 95, 103, 400])
def test_cross_entropy_of_an_answer_that_is_hardly_a_number(gap):
    """exp(-84) is a float32, exp(-95) one with few digits, exp(-400) none."""
    logits = torch.tensor([[0.0, -gap, -gap], [0.0, -1.0, -2.0]])
    labels, before = torch.tensor([1, 1]), logits.clone()
    expected = torch.nn.functional.cross_entropy(logits.double(), labels)
    loss, _ = cross_entropy(logits, labels)
    torch.testing.assert_close(loss, expected.float())
    assert torch.equal(logits, before)


def test_tables_and_autograd_give_the_same_loss_and_gradient():
    config = replace(PRESETS["smoke"], numerics=Numerics(dtype="float64"))
    seeds = [0, 1, 2]
    stack = initial_stack(config, seeds)
    batch = Sampler([config.task] * 3, torch.stack([pair_split(config.task, s) for s in seeds]), seeds).sample(5, 64)
    table, reference = TableGradient(stack), ReferenceGradient(stack)
    torch.testing.assert_close(table(batch), reference(batch))
    torch.testing.assert_close(table.flat, reference.flat)
