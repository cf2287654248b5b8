"""Both ways of updating against torch's own AdamW, model by model."""

import pytest
import torch

from assignadd.config import Optim
from assignadd.training.adamw import AdamW

OPTIMS = [Optim(lr=1e-3), Optim(lr=3e-2, weight_decay=0.5), Optim(lr=1e-2, weight_decay=0.0)]


def gradient(step: int) -> torch.Tensor:
    return torch.randn(3, 500, generator=torch.Generator().manual_seed(step), dtype=torch.float64) * 10.0 ** (
        step % 4 - 4
    )


@pytest.mark.parametrize("way", ["_update_fused", "_update_stack"])
def test_equals_torch_with_a_rate_and_decay_per_model(way):
    start = torch.randn(3, 500, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
    ours = AdamW(start.clone(), OPTIMS)
    alive = torch.ones(3, dtype=torch.bool)
    theirs = [torch.nn.Parameter(row.clone()) for row in start]
    optimizers = [
        torch.optim.AdamW([p], lr=o.lr, weight_decay=o.weight_decay) for p, o in zip(theirs, OPTIMS, strict=True)
    ]
    for step in range(40):
        grad = gradient(step)
        getattr(ours, way)(grad, alive, torch.tensor(step + 1))
        for parameter, optimizer, g in zip(theirs, optimizers, grad, strict=True):
            parameter.grad = g.clone()
            optimizer.step()
    torch.testing.assert_close(ours.flat, torch.stack([p.detach() for p in theirs]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("way", ["_update_fused", "_update_stack"])
def test_a_dead_model_keeps_its_weights_and_disturbs_nobody(way):
    start = torch.randn(3, 500, generator=torch.Generator().manual_seed(99))
    alive = torch.tensor([True, False, True])
    ours, undisturbed = AdamW(start.clone(), OPTIMS), AdamW(start.clone(), OPTIMS)
    for step in range(5):
        good = gradient(step).float()
        broken = good.clone()
        broken[1] = torch.nan
        for optimizer, grad, mask in ((ours, broken, alive), (undisturbed, good, torch.ones_like(alive))):
            getattr(optimizer, way)(grad, mask, torch.tensor(step + 1))
    assert torch.equal(ours.flat[1], start[1])
    assert torch.equal(ours.flat[[0, 2]], undisturbed.flat[[0, 2]])
