"""The passes of one model in fixed memory against autograd through the reference transformer, and the table forward."""

from dataclasses import replace

import pytest
import torch

from assignadd.config import PRESETS, Numerics
from assignadd.model.stack import Stack, initial_stack
from assignadd.model.table import TableForward
from assignadd.model.trace import Weights
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.training.step import ReferenceGradient, TableGradient

pytest.importorskip("numba")
from assignadd.model import single_model
from assignadd.model.kernels import blas, calls
from assignadd.model.single_model import SingleModelPasses

pytestmark = pytest.mark.skipif(not blas.available(), reason="torch's BLAS library is not found (numba)")
torch.set_num_threads(1)
CONFIGS = {name: PRESETS[name] for name in ("paper", "tiny", "smoke")} | {
    "odd": replace(PRESETS["tiny"], task=replace(PRESETS["tiny"].task, length=11)),
    "other sizes": replace(PRESETS["tiny"], model=replace(PRESETS["tiny"].model, d_head=24, d_mlp=(None, 40))),
}


@pytest.fixture(params=[1, 3], ids=["one part", "three parts"])
def parts(request, monkeypatch):
    """Batches in so many parts, whatever this machine would choose; not all parts are of the same size."""
    if request.param > 1 and not calls.has_threads():
        pytest.skip("torch's threads are not found (numba)")
    monkeypatch.setattr(single_model, "parts_of", lambda batch: request.param)
    return request.param


def batch_of(config, step):
    return Sampler([config.task], pair_split(config.task, 0)[None], [0]).sample(step, config.optim.batch)


@pytest.mark.parametrize("name", CONFIGS)
def test_loss_and_gradient_are_those_of_autograd_in_double_precision(name, parts):
    config = CONFIGS[name]
    stack = initial_stack(config, [0])
    stack.flat.mul_(1.5)  # attention is far from uniform
    exact = Stack(replace(config, numerics=Numerics(dtype="float64")), stack.flat.double())
    gradient, reference = TableGradient(stack), ReferenceGradient(exact)
    for step in range(2):  # the second time in memory that holds the first
        gradient.flat.fill_(torch.nan)
        batch = batch_of(config, step)
        torch.testing.assert_close(gradient(batch).double(), reference(batch), rtol=1e-5, atol=0)
        assert (gradient.flat.double() - reference.flat).norm() < 1e-5 * reference.flat.norm()
    assert gradient._single is not None


@pytest.mark.parametrize("name", CONFIGS)
def test_passes_are_those_of_the_table_forward_to_the_last_digits(name, parts):
    config, table = CONFIGS[name], TableForward(CONFIGS[name])
    stack, tokens = initial_stack(config, [0]), batch_of(config, 0).tokens[0]
    w = Weights.of({name: weight[0] for name, weight in stack.weights.items()})
    found, expected = ({name: torch.full_like(x[0], torch.nan) for name, x in stack.weights.items()} for _ in range(2))
    with torch.inference_mode():
        trace = table.forward(w, tokens)
        passes = SingleModelPasses(w, Weights.of(found), len(tokens), table.equals, table.scale)
        logits = passes.forward(tokens)
        grad = torch.randn(logits.shape, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(logits, table.logits(trace), rtol=1e-6, atol=1e-6)
        table.backward(w, trace, grad, Weights.of(expected))
        passes.backward(grad)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_batch_of_another_size_has_its_own_memory(parts):
    config = PRESETS["smoke"]
    stack = initial_stack(config, [0])
    gradient, batch = TableGradient(stack), batch_of(config, 0)
    fewer = type(batch)(batch.tokens[:, :20], batch.labels[:, :20])
    first, loss = gradient(batch).item(), gradient(fewer).item()
    assert loss == TableGradient(stack)(fewer).item() != first
    assert gradient(batch).item() == first


@pytest.mark.parametrize("length", [-1, 1])
def test_sequences_of_another_length_are_refused(length):
    config = PRESETS["smoke"]
    batch, gradient = batch_of(config, 0), TableGradient(initial_stack(config, [0]))
    tokens = torch.cat([batch.tokens, batch.tokens], -1)[..., : config.task.length + length]
    with pytest.raises(ValueError, match=rf"\(32, {config.task.length + length}\): expected up to 32 sequences of"):
        gradient(type(batch)(tokens, batch.labels))


def test_a_batch_has_a_part_for_each_thread_but_no_small_ones(monkeypatch):
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(single_model, "has_threads", lambda: True)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert [single_model.parts_of(batch) for batch in (20, 64, 128, 512)] == [1, 1, 2, 4]
    for missing in ((single_model, "has_threads"), (torch.backends.mkl, "is_available")):
        with monkeypatch.context() as without:
            without.setattr(*missing, lambda: False)
            assert single_model.parts_of(512) == 1


@pytest.mark.parametrize("spoiled", ["W_in", "W_out", "U", "E"])
def test_a_weight_that_is_not_a_number_is_passed_on_as_by_the_table_forward(spoiled, parts):
    config, table = CONFIGS["tiny"], TableForward(CONFIGS["tiny"])
    stack, tokens = initial_stack(config, [0]), batch_of(config, 0).tokens[0]
    w = Weights.of({name: weight[0] for name, weight in stack.weights.items()})
    getattr(w, spoiled)[3, 5] = torch.nan
    found, expected = ({name: torch.zeros_like(x[0]) for name, x in stack.weights.items()} for _ in range(2))
    with torch.inference_mode():
        trace = table.forward(w, tokens)
        passes = SingleModelPasses(w, Weights.of(found), len(tokens), table.equals, table.scale)
        assert torch.equal(passes.forward(tokens).isnan(), table.logits(trace).isnan())
        grad = torch.ones(len(tokens), config.task.modulus)
        table.backward(w, trace, grad, Weights.of(expected))
        passes.backward(grad)
    assert any(x.isnan().any() for x in expected.values())
    assert all(torch.equal(found[name].isnan(), x.isnan()) for name, x in expected.items())


def test_more_sequences_than_there_is_memory_for_are_refused():
    config = PRESETS["smoke"]
    batch, gradient = batch_of(config, 0), TableGradient(initial_stack(config, [0]))
    gradient(batch)
    tokens = torch.cat([batch.tokens[0], batch.tokens[0]])
    with pytest.raises(ValueError, match="expected up to 32 sequences"):
        gradient._single.logits(tokens)
    for n in (20, 64):
        with pytest.raises(ValueError, match=f"{n} sequences: expected 32"):
            gradient._single.forward(tokens[:n])


def test_a_gradient_of_another_shape_is_refused():
    config = PRESETS["smoke"]
    gradient, batch = TableGradient(initial_stack(config, [0])), batch_of(config, 0)
    gradient(batch)
    with pytest.raises(ValueError, match="grad has shape"):
        gradient._single.backward(torch.ones(config.task.modulus))


def test_passes_are_made_anew_for_another_number_of_parts(monkeypatch):
    config = PRESETS["smoke"]
    gradient, batch = TableGradient(initial_stack(config, [0])), batch_of(config, 0)
    monkeypatch.setattr(single_model, "parts_of", lambda batch: 1)
    gradient(batch)
    first = gradient._single
    gradient(batch)
    assert gradient._single is first
    if calls.has_threads():
        monkeypatch.setattr(single_model, "parts_of", lambda batch: 2)
        gradient(batch)
        assert gradient._single is not first


def test_a_repeated_step_in_parts_is_the_same_bit_for_bit(parts):
    config = PRESETS["tiny"]
    batch, found = batch_of(config, 0), []
    for _ in range(3):
        gradient = TableGradient(initial_stack(config, [0]))
        found.append((gradient(batch).item(), gradient.flat.clone()))
    assert all(loss == found[0][0] and torch.equal(flat, found[0][1]) for loss, flat in found)
