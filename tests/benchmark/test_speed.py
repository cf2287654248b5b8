"""The floor of the benchmark has the operations that run; `scaling` changes one setting at a time."""

from dataclasses import asdict, replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from assignadd.benchmark import speed
from assignadd.benchmark.speed import VALUES, flops, forward_flops, variants
from assignadd.config import PRESETS
from assignadd.model.forward import unstacked
from assignadd.model.stack import initial_stack
from assignadd.model.table import TableForward
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split


class ProductCounter(TorchDispatchMode):
    """Counts 2 m k n for every matrix product that reaches the kernels, in place or not."""

    flops = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        operation = func.name().removeprefix("aten::").split(".")[0]
        if operation in ("mm", "addmm", "addmm_"):
            a, b = [x for x in args if isinstance(x, torch.Tensor)][-2:]
            self.flops += 2 * a.shape[0] * a.shape[1] * b.shape[1]
        assert operation != "bmm"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("batch", [64, 512])  # logits from the residual, and from the neurons by W_out W_U
def test_flops_are_those_of_the_products_that_run(batch):
    config = replace(PRESETS["paper"], optim=replace(PRESETS["paper"].optim, batch=batch))
    tokens = Sampler([config.task], pair_split(config.task, 0)[None], [0]).sample(0, config.optim.batch).tokens
    stack = initial_stack(config, [0])
    weights, grads = unstacked(stack), unstacked(stack.clone())
    table = TableForward(config)
    with ProductCounter() as counter:
        trace = table.forward(weights, tokens[0])
        logits = table.logits(trace)
        assert counter.flops == forward_flops(config, batch) == forward_flops(PRESETS["paper"], batch)
        table.backward(weights, trace, torch.ones_like(logits), grads)
    assert counter.flops == flops(config)


def test_the_calls_of_a_step_have_the_products_of_the_table_forward_but_for_rows_of_tokens(monkeypatch):
    pytest.importorskip("numba")
    from assignadd.model import part_of_batch, single_model
    from assignadd.model.kernels import blas
    from tests.benchmark.products import flops_of_calls

    config, multiplications = PRESETS["paper"], []

    def counted(a, b, out, *_):
        multiplications.append(len(a) * len(b) * b.shape[1])
        return blas.series()

    monkeypatch.setattr(blas, "product", counted)
    for module in (single_model, part_of_batch):
        monkeypatch.setattr(module, "product", counted)
    stack = initial_stack(config, [0])
    single_model.SingleModelPasses(unstacked(stack), unstacked(stack.clone()), config.optim.batch, 0, 1.0)
    assert 2 * sum(multiplications) == flops_of_calls(config) < 0.8 * flops(config)


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
    monkeypatch.setattr(speed, "plain_step", lambda *_: peer)
    monkeypatch.setattr(speed, "_product_gflops", product_gflops)
    found = speed.on_threads(config, 1, seconds=0.01, lens=False)
    turns = [["steps", "products", "warms up", timed] for timed in ("with oneDNN", "without")]
    assert calls == [*turns[0], *turns[1]] * 4 * 3
    step_ms, floor_ms = 1 + 50 / ahead, flops(config) / 8e6  # where slow is 1
    assert found == pytest.approx(
        {
            "sgemm_gflops": 4,
            "step_ms": 2 * step_ms,
            "floor_ms": 2 * floor_ms,
            "plain_ms": 400,
            "lens_ms": None,
            "step_over_floor": step_ms / floor_ms,
            "plain_over_step": 200 / step_ms * (2 / 3),  # the median of 3, 1/2 and 2/3
            "lens_over_step": None,
        }
    )


def test_each_variant_changes_one_setting_of_the_papers():
    paper = asdict(PRESETS["paper"])
    expected = {
        "N": {"modulus"},
        "V": {"n_vars"},
        "T": {"length"},
        "d": {"d_model", "d_head", "d_mlp"},
        "batch": {"batch"},
    }
    found: dict[str, list[int]] = {}
    for setting, value, config in variants(PRESETS["paper"]):
        found.setdefault(setting, []).append(value)
        changed = {k for section, values in asdict(config).items() for k, v in values.items() if v != paper[section][k]}
        assert changed in (set(), expected[setting])
    assert {name: tuple(values) for name, values in found.items()} == VALUES


def test_the_work_of_the_batch_doubles_with_the_batch():
    work = {value: flops(config) for setting, value, config in variants(PRESETS["paper"]) if setting == "batch"}
    assert work[2048] - work[1024] == 2 * (work[1024] - work[512]) == 4 * (work[512] - work[256])
