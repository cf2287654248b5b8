"""The gradient of QK2, compared with finite differences, and cosines of known directions."""

from dataclasses import replace

import pytest
import torch

from assignadd.config import PRESETS, Config, Member, Model, Numerics, UserError
from assignadd.measures.sequences import sequences
from assignadd.model.circuits import OV, QK
from assignadd.model.handmade import handmade
from assignadd.model.stack import Stack, initial_stack
from assignadd.model.transformer import reference_logits
from assignadd.network import Network
from assignadd.paper.theory import real_gradient as tg
from assignadd.task.splits import pair_split

CONFIG = replace(PRESETS["smoke"], numerics=Numerics(dtype="float64"))


def batch_of(config: Config, n: int):
    return sequences([Member(0).config(config)], pair_split(config.task, 0)[None], 1, n)


def reference_loss(stack: Stack, batch) -> float:
    logits = reference_logits(stack, batch.tokens.expand(len(stack), -1, -1))
    return float(torch.nn.functional.cross_entropy(logits[0], batch.labels[0]))


def test_the_gradient_of_qk2_equals_finite_differences():
    stack, batch = initial_stack(CONFIG, [3, 4]), batch_of(CONFIG, 40)
    descent = tg.qk2_descent(stack, batch)
    for i in range(2):
        E = torch.randn(16, 16, generator=torch.Generator().manual_seed(i), dtype=torch.float64)
        losses = []
        for h in (1e-6, -1e-6):
            moved = stack.models(i).clone()  # QK2 + h E, by W_Q alone
            W_K = moved["blocks.1.attn.W_K"][0, 0]
            moved["blocks.1.attn.W_Q"][0, 0] += h * 4 * E @ torch.linalg.inv(W_K.T)  # 4 = sqrt(d_head)
            assert torch.allclose(QK(moved, 2)[0], QK(stack, 2)[i] + h * E)
            losses.append(reference_loss(moved, batch))
        assert -float((descent[i] * E).sum()) == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-5)


@pytest.mark.parametrize("d_head", [5, 16, 20])
def test_merged_weights_give_the_same_logits(d_head):
    config = replace(CONFIG, model=replace(CONFIG.model, d_head=d_head))
    stack, tokens = initial_stack(config, [0, 1]), batch_of(config, 9).tokens.expand(2, -1, -1)
    merged = tg.merged(stack)
    assert torch.allclose(reference_logits(merged, tokens), reference_logits(stack, tokens))
    assert torch.allclose(QK(merged, 2), QK(stack, 2)) and torch.allclose(OV(merged, 1), OV(stack, 1))


def test_the_batch_of_a_network_has_one_variable_in_each_sequence(monkeypatch):
    drawn = []
    monkeypatch.setattr(tg, "theory_gradient", lambda trajectory, steps, batch: drawn.append(batch))
    config, first, last = Member(0).config(CONFIG), initial_stack(CONFIG, [0]), initial_stack(CONFIG, [1])
    network = Network(last, config, pair_split(CONFIG.task, 0), 60, step=10, other_checkpoints={0: first})
    tg.theory_gradient_of(network)
    operands = drawn[0].tokens[0][:, -3:-1]
    assert ((operands >= CONFIG.task.modulus + 3).sum(1) == 1).all()  # numbers, then three other tokens, then variables


def test_other_architectures_are_errors():
    config = replace(CONFIG, model=Model(d_model=16, d_head=16, d_mlp=(None, 32), norm="layer"))
    with pytest.raises(UserError, match="not defined for this network: it needs no norm"):
        tg.qk2_descent(initial_stack(config, [0]), batch_of(config, 4))


def predicted(stack: Stack, orders=None) -> torch.Tensor:
    """sum_v (c_v + p_T)^T c_o(v), written out."""
    first = stack.config.task.modulus + 3
    c, p = stack.W_E[0, first:] @ OV(stack, 1)[0], stack.W_pos[0, -1]
    return sum(torch.outer(c[v] + p, c[v if orders is None else orders[v]]) for v in range(len(c)))[None]


def test_cosines_of_known_directions():
    stack = initial_stack(CONFIG, [5])
    D = predicted(stack)
    found = tg.alignment(stack, D * 7)
    assert float(found.memory) == pytest.approx(1) and float(tg.alignment(stack, -D).memory) == pytest.approx(-1)
    assert found.permuted.max() < 0.99
    orders = [1, 0, 3, 2]
    swapped = tg.alignment(stack, predicted(stack, orders))
    # with 4 variables this order is among the 200
    assert float(swapped.permuted.max()) == pytest.approx(1) and float(swapped.memory) < 0.99


def test_controls():
    """The hand-made QK2 binds variables; without that block, or with random weights, it is no better than permuted."""
    stack = handmade(CONFIG)
    QK2 = QK(stack, 2)
    found = tg.alignment(stack, QK2)
    assert found.memory > found.permuted.max() + 0.1
    c = (stack.W_E[0, CONFIG.task.modulus + 3 :] @ OV(stack, 1)[0]).sum(0) > 0
    ablated = QK2.clone()
    ablated[0, c.nonzero(), c.nonzero().T] = 0
    broken = tg.alignment(stack, ablated)
    assert broken.memory <= broken.permuted.max() + 1e-9
    noise = torch.randn(1, 16, 16, generator=torch.Generator().manual_seed(0)).double()
    assert tg.alignment(initial_stack(CONFIG, [1]), noise).memory < 0.3


def test_permuted_variables_are_never_matched_with_themselves():
    orders = tg.derangements(5, 300)
    assert (orders != torch.arange(5)).all() and (orders.sort(1).values == torch.arange(5)).all()
    assert len(orders.unique(dim=0)) == 44


def test_a_trajectory():
    stack, batch = initial_stack(CONFIG, [0, 1, 2]), batch_of(CONFIG, 50)
    found = tg.theory_gradient(stack, [0, 10, 20], batch)
    change = QK(stack, 2)[1:] - QK(stack, 2)[:-1]
    assert torch.equal(found.change.memory, tg.alignment(stack.models([0, 1]), change).memory)
    assert found.spike_at is None
    assert torch.equal(found.descent.memory, tg.alignment(stack, tg.qk2_descent(stack, batch)).memory)
    right = (reference_logits(stack, batch.tokens.expand(3, -1, -1)).argmax(-1) == batch.labels).double().mean(1)
    assert torch.equal(found.accuracy, right)


def test_informative_steps():
    rows = [{"step": s, "accuracy": {"1-var train": 0.2 if s < 3000 else 0.99}} for s in range(0, 30_001, 100)]
    steps = list(range(0, 30_001, 100))
    chosen = tg.informative_steps(steps, rows, 40)
    assert len(chosen) <= 40 and chosen[0] == 0 and chosen[-1] == 30_000
    assert set(range(2200, 3801, 100)) <= set(chosen) <= set(steps)
    assert tg.informative_steps(steps[:7], [], 40) == steps[:7]
    assert 20 < len(tg.informative_steps(steps, [], 40)) <= 40
