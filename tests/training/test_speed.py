"""The floor of the benchmark has the operations that run."""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from assignadd.config import PRESETS
from assignadd.model.answer import logits_of_answers, transformer_of
from assignadd.model.forward import answer_logits, table_forward, unstacked
from assignadd.model.stack import initial_stack
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.task.vocabulary import sizes_of
from assignadd.training import speed
from assignadd.training.speed import flops, forward_flops
from tests.architectures import ARCHITECTURES


class ProductCounter(TorchDispatchMode):
    """Counts 2 m k n for every matrix product that reaches the kernels, in place or not."""

    flops = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        operation = func.name().removeprefix("aten::").split(".")[0]
        if operation in ("mm", "addmm", "addmm_"):
            a, b = [x for x in args if isinstance(x, torch.Tensor)][-2:]
            self.flops += 2 * a.shape[0] * a.shape[1] * b.shape[1]
        assert operation != "baddbmm"  # a bmm is of the patterns of a sequence, which are not counted
        return func(*args, **(kwargs or {}))


# Logits are from the residual, and on a CPU with 512 sequences from the neurons by W_out W_U.
@pytest.mark.parametrize(("heads", "batch", "device"), [(1, 64, "cpu"), (1, 512, "cpu"), (2, 64, "cuda")])
def test_flops_are_those_of_the_products_that_run(heads, batch, device):
    config, model = PRESETS["paper"], replace(PRESETS["paper"].model, n_heads=heads, d_head=128 // heads)
    config = replace(config, optim=replace(config.optim, batch=batch), model=model)
    tokens = Sampler([config.task], pair_split(config.task, 0)[None], [0]).sample(0, config.optim.batch).tokens
    stack = initial_stack(config, [0])
    weights, grads = unstacked(stack), unstacked(stack.clone())
    table = table_forward(config)
    with ProductCounter() as counter:
        trace = table.forward(weights, tokens[0])
        logits = table.logits(trace)
        assert 3 * counter.flops == flops(config, device)
        table.backward(weights, trace, torch.ones_like(logits), grads)
    assert counter.flops == flops(config, device)


@pytest.mark.parametrize(("heads", "B"), [(2, 64), (4, 64), (2, 512)])
def test_flops_of_several_heads_on_a_cpu_are_those_of_reading_values_of_layer_1(heads, B):
    """By torch's own counter, with the formulas of the compiled step; what patterns alone multiply is not counted."""
    config = PRESETS["paper"]
    config = replace(config, model=replace(config.model, n_heads=heads, d_head=128 // heads))
    tokens = Sampler([config.task], pair_split(config.task, 0)[None], [0]).sample(0, B).tokens[0]
    stack = initial_stack(config, [0])
    stack.flat.mul_(1.5)  # attention is far from uniform
    w = unstacked(stack)
    activations = table_forward(config).forward(w, tokens)
    attention_1, attention_2 = activations.attention_1, activations.attention_2  # (B, H, T, T), (B, H, T)
    X, O1, O2 = torch.cat([w.E, w.pos]), w.O1.flatten(0, 1), w.O2.flatten(0, 1)
    constant = (w.E[tokens[0, -1]] + w.pos[-1])[None]

    def of_positions(table):
        return table[:, tokens] + table[:, len(w.E) :, :].unsqueeze(1)  # (H, B, T, dh)

    with FlopCounterMode(display=False) as counter:
        (X @ w.Q1) @ (X @ w.K1).mT
        values_1, keys_2, values_2 = (of_positions(X @ weights) for weights in (w.V1, w.K2, w.V2))
        copied_keys, copied_values = O1 @ w.K2, O1 @ w.V2  # (H, H dh, dh)
        read_1 = torch.einsum("bhk,hbki->bhi", attention_1[:, :, -1], values_1).flatten(1)
        resid_pre = torch.cat([read_1, torch.ones(B, 1)], 1) @ torch.cat([O1, constant])
        queries_2 = resid_pre @ w.Q2 * config.model.d_head**-0.5  # (H, B, dh)
        queries_of_copies = (queries_2 @ copied_keys.mT).unflatten(2, (heads, -1))
        scores = torch.einsum("gbi,gbki->bgk", queries_2, keys_2)
        copied_scores = torch.einsum("gbhi,hbki->bghk", queries_of_copies, values_1)
        scores += (attention_1[:, None] * copied_scores[:, :, :, None]).sum((2, 4))
        passed_on = (attention_1[:, None] * attention_2[:, :, None, :, None]).sum(3)
        read_copies = torch.einsum("bghk,hbki->gbhi", passed_on, values_1).flatten(2)
        read_2 = torch.einsum("bgk,gbki->gbi", attention_2, values_2) + read_copies @ copied_values
        resid_mid = resid_pre + read_2.transpose(0, 1).flatten(1) @ O2
        neurons = (resid_mid @ w.W_in).relu()
        # With many sequences W_out W_U takes fewer operations.
        logits = resid_mid @ w.U + neurons @ (w.W_out @ w.U) if B > 64 else (resid_mid + neurons @ w.W_out) @ w.U
    torch.testing.assert_close(scores.softmax(-1), attention_2)
    torch.testing.assert_close(logits, answer_logits(stack, tokens[None])[0], rtol=1e-4, atol=1e-4)
    assert counter.get_total_flops() == forward_flops(config, B)


@pytest.mark.parametrize("name", ["three layers", "layer norm", "MLP in layer 1"])
@pytest.mark.parametrize("heads", [1, 2])
def test_flops_of_other_architectures_are_those_of_the_products_that_run(name, heads):
    """By torch's own counter, where every token is at every position."""
    config = ARCHITECTURES[name]
    config = replace(config, model=replace(config.model, n_heads=heads, d_head=64 // heads))
    (K, T, *_), B = sizes_of(config.task), 64
    tokens = (torch.arange(B)[:, None] + torch.arange(T)) % K
    model = transformer_of(initial_stack(config, [0]))
    with FlopCounterMode(display=False) as counter:
        logits_of_answers(model, tokens)
    of_weights = (heads == 1) * (config.model.n_layers - 1) * 4 * 64**3  # W_Q W_K^T and W_V W_O, which count as none
    assert counter.get_total_flops() == forward_flops(config, B) + of_weights


def test_steps_and_peers_are_timed_in_turns_and_numbers_are_medians_of_rounds(monkeypatch):
    """By a clock on which rounds differ, drawing takes 50 ms, and a peer takes longer with oneDNN."""
    config, calls = PRESETS["smoke"], list[str]()
    ahead, slow, peer_slow = speed.one_model(config).steps_ahead, (1, 2, 3), (3, 1, 2)

    def peer():
        calls.append("warms up")

    def seconds_of(do):
        onednn = torch.backends.mkldnn.enabled
        if do is peer:
            calls.append("with oneDNN" if onednn else "without")
            return peer_slow[(calls.count("steps") - 1) // 8] * (0.4 if onednn else 0.2)
        assert not onednn
        before = calls.count("steps")
        calls.append("steps")
        return slow[before // 8] * (0.001 * do.args[0] + 0.05 * (before % 8 == 0))

    def product_gflops(_):
        calls.append("products")
        return 8.0 / slow[(calls.count("steps") - 1) // 8]

    monkeypatch.setattr(speed, "seconds_of", seconds_of)
    monkeypatch.setattr(speed, "product_gflops", product_gflops)
    found = speed.on_threads(config, 1, 0.0, lambda config, batch: {"plain": peer})
    turns = [["steps", "products", "warms up", timed] for timed in ("with oneDNN", "without")]
    assert calls == [*turns[0], *turns[1]] * 4 * 3
    step_ms, floor_ms = 1 + 50 / ahead, flops(config) / 8e6  # where slow is 1
    assert found == pytest.approx(
        {
            "sgemm_gflops": 4,
            "step_ms": 2 * step_ms,
            "floor_ms": 2 * floor_ms,
            "plain_ms": 400,
            "step_over_floor": step_ms / floor_ms,
            "plain_over_step": 200 / step_ms * (2 / 3),  # the median of 3, 1/2 and 2/3
        }
    )
