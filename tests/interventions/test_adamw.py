"""The optimiser of the fits makes the same steps as torch's."""

import torch

from assignadd.interventions.adamw import AdamW


def test_the_steps_are_those_of_torch_also_for_gradients_in_another_memory_order():
    drawn = torch.randn(6, 3, 4, generator=torch.Generator().manual_seed(0))
    weights, theirs = [drawn[0].clone(), drawn[0].clone().flatten()], [drawn[0].clone(), drawn[0].clone().flatten()]
    own, optimizer = AdamW(weights, 0.3), torch.optim.AdamW(theirs, weight_decay=0.3, foreach=False)
    for step, grad in enumerate(drawn[1:], 1):
        transposed = grad.T.contiguous().T
        assert not transposed.is_contiguous()
        own.step([transposed, grad.flatten()], 0.1 / step)
        theirs[0].grad, theirs[1].grad, optimizer.param_groups[0]["lr"] = grad, grad.flatten(), 0.1 / step
        optimizer.step()
    assert all(torch.allclose(*both, atol=1e-6) for both in zip(weights, theirs, strict=True))
    assert torch.equal(weights[0].flatten(), weights[1]) and not torch.allclose(weights[0], drawn[0], atol=0.1)
