"""The passes of one model in fixed memory against autograd through the reference transformer, and the table forward."""

from dataclasses import replace

import pytest
import torch

from assignadd.config import PRESETS, Numerics
from assignadd.model.forward import answer_logits, unstacked
from assignadd.model.kernels.tensor import cross_entropy
from assignadd.model.stack import Stack, initial_stack
from assignadd.model.table import TableForward, Weights
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.training.step import ReferenceGradient, TableGradient

pytest.importorskip("numba")
from assignadd.model import part_of_batch, single_model
from assignadd.model.kernels import blas, calls, numba_rows
from assignadd.model.single_model import SingleModelPasses

pytestmark = pytest.mark.skipif(not blas.available(), reason="torch's BLAS library is not found (numba)")
torch.set_num_threads(1)
CONFIGS = {name: PRESETS[name] for name in ("paper", "tiny", "smoke")} | {
    "odd": replace(PRESETS["tiny"], task=replace(PRESETS["tiny"].task, length=11)),
    "other sizes": replace(PRESETS["tiny"], model=replace(PRESETS["tiny"].model, d_head=24, d_mlp=(None, 40))),
}


@pytest.fixture(params=[(1, 512), (1, 10), (3, 512), (3, 10)], ids="{0[0]} parts in chunks of {0[1]}".format)
def parts(request, monkeypatch):
    """Batches in so many parts and chunks of such a size, whatever this machine would choose; the last are smaller.

    Several parts are on two threads.
    """
    parts, chunk = request.param
    if parts > 1 and not calls.has_threads():
        pytest.skip("torch's threads are not found (numba)")
    monkeypatch.setattr(single_model, "parts_of", lambda batch: parts)
    monkeypatch.setattr(part_of_batch, "chunk_size", lambda sequences: min(sequences, chunk))
    torch.set_num_threads(min(parts, 2))
    yield
    torch.set_num_threads(1)


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


def passes_and_table(config, stack, batch, in_double=False):
    """Loss and gradients, by name, of the compiled passes and of the table forward."""
    table, w = TableForward(config), unstacked(stack)
    found, expected = ({name: torch.full_like(x[0], torch.nan) for name, x in stack.weights.items()} for _ in range(2))
    tokens, labels, loss = batch.tokens[0], batch.labels[0], torch.empty(1)
    with torch.inference_mode():
        trace = table.forward(w, tokens)
        logits = table.logits(trace)
        want, grad = cross_entropy(logits.double() if in_double else logits, labels)
        table.backward(w, trace, grad.float(), Weights.of(expected))
    passes = SingleModelPasses(w, Weights.of(found), len(tokens), table.equals, table.scale, in_double)
    passes(tokens, labels, loss)
    return (loss[0], found), (want.float(), expected)


@pytest.mark.parametrize("in_double", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_passes_are_those_of_the_table_forward_to_the_last_digits(name, in_double, parts):
    stack = initial_stack(CONFIGS[name], [0])
    (loss, found), (want, expected) = passes_and_table(CONFIGS[name], stack, batch_of(CONFIGS[name], 0), in_double)
    torch.testing.assert_close(loss, want, rtol=1e-6, atol=0)
    for weight, grad in expected.items():
        torch.testing.assert_close(found[weight], grad, rtol=1e-5, atol=1e-5 * float(grad.abs().max()))


def test_a_loss_in_double_precision_keeps_what_single_precision_rounds_to_zero(parts):
    """An answer of probability 1 - exp(-20), which is 1 in single precision: its logit has no gradient there."""
    config = PRESETS["smoke"]
    stack, batch = initial_stack(config, [0]), batch_of(config, 0)
    tokens = batch.tokens[:, :1].expand_as(batch.tokens)
    first, second = answer_logits(stack, tokens)[0, 0].topk(2).values
    stack.weights["unembed.W_U"].mul_(20 / (first - second))
    sure = type(batch)(tokens, answer_logits(stack, tokens).argmax(-1))
    exact = ReferenceGradient(Stack(replace(config, numerics=Numerics(dtype="float64")), stack.flat.double()))
    exact(sure)
    errors = []
    for loss_in_float64 in (False, True):
        gradient = TableGradient(Stack(replace(config, numerics=Numerics(loss_in_float64=loss_in_float64)), stack.flat))
        gradient(sure)
        assert gradient._single is not None
        errors.append((gradient.flat.double() - exact.flat).norm() / exact.flat.norm())
    assert errors[0] > 0.1 and errors[1] < 1e-4


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
    with pytest.raises(ValueError, match=rf"\(1, 32, {config.task.length + length}\): expected \(32, "):
        gradient(type(batch)(tokens, batch.labels))


def test_a_batch_has_a_part_for_each_thread_but_no_small_ones(monkeypatch):
    needed = "has_threads", "keeps_to_one_thread"
    for name in needed:
        monkeypatch.setattr(single_model, name, lambda: True)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert [single_model.parts_of(batch) for batch in (20, 64, 128, 512)] == [1, 1, 2, 4]
    for missing in needed:
        with monkeypatch.context() as without:
            without.setattr(single_model, missing, lambda: False)
            assert single_model.parts_of(512) == 1


def test_chunks_are_small_where_products_are_mkls(monkeypatch):
    for mkl, sizes in ((True, [20, 128, 128]), (False, [20, 128, 512])):
        monkeypatch.setattr(torch.backends.mkl, "is_available", lambda mkl=mkl: mkl)
        assert [part_of_batch.chunk_size(sequences) for sequences in (20, 128, 512)] == sizes


@pytest.mark.parametrize("mkl", [True, False])
def test_a_transposed_matrix_is_that_also_after_it_has_changed(mkl, monkeypatch):
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: mkl)
    matrix = torch.zeros(35, 20)
    found, write = part_of_batch.transposed(matrix)
    matrix.copy_(torch.arange(700.0).view(35, 20))
    calls.series(*write)()
    assert torch.equal(found, matrix.mT) and found.is_contiguous() == mkl


@pytest.mark.parametrize("spoiled", ["W_in", "W_out", "U", "E"])
def test_a_weight_that_is_not_a_number_is_passed_on_as_by_the_table_forward(spoiled, parts):
    stack = initial_stack(CONFIGS["tiny"], [0])
    getattr(unstacked(stack), spoiled)[3, 5] = torch.nan
    (loss, found), (want, expected) = passes_and_table(CONFIGS["tiny"], stack, batch_of(CONFIGS["tiny"], 0))
    assert loss.isnan() and want.isnan() and any(x.isnan().any() for x in expected.values())
    assert all(torch.equal(found[name].isnan(), x.isnan()) for name, x in expected.items())


@pytest.mark.parametrize("name", CONFIGS)
def test_spare_columns_of_scores_stay_zero(name, parts):
    gradient = TableGradient(initial_stack(CONFIGS[name], [0]))
    gradient(batch_of(CONFIGS[name], 0))
    both, rooms = 2 * gradient._table.C, [part._chunks[0][0] for part in gradient._single._parts]
    for scores in (gradient._single._shared.scores_2_T, *(room.scores_2 for room in rooms)):
        assert scores.shape[1] % numba_rows.SOME == 0 and not scores[:, both:].any() and scores[:, :both].any()


def test_batches_of_several_steps_have_labels_each():
    config = PRESETS["smoke"]
    batch, gradient = batch_of(config, 0), TableGradient(initial_stack(config, [0]))
    loss, tokens, never = gradient(batch), batch.tokens.expand(3, -1, -1), torch.tensor(-1)
    with pytest.raises(ValueError, match="tokens of 3 batches, labels of 2"):
        gradient._single.train(tokens, batch.labels.expand(2, -1), loss, calls.series(), never)
    with pytest.raises(ValueError, match=r"shape \(20, .*expected \(32,"):
        gradient._single.train(tokens[:, :20], batch.labels.expand(3, -1), loss, calls.series(), never)


@pytest.mark.parametrize("n", [20, 64])
def test_a_batch_of_another_size_is_refused(n):
    config = PRESETS["smoke"]
    batch, gradient = batch_of(config, 0), TableGradient(initial_stack(config, [0]))
    loss = gradient(batch)
    tokens, labels = batch.tokens[0].repeat(2, 1)[:n], batch.labels[0].repeat(2)[:n]
    for wrong in ((tokens, labels), (tokens, batch.labels), (batch.tokens, labels)):
        with pytest.raises(ValueError, match=rf"shape \({n},.*expected \(32,"):
            gradient._single(*wrong, loss)


def test_tokens_in_another_order_or_kind_are_read_too():
    config = PRESETS["smoke"]
    batch, gradient = batch_of(config, 0), TableGradient(initial_stack(config, [0]))
    loss, flat = gradient(batch), gradient.flat.clone()
    other = type(batch)(batch.tokens.mT.contiguous().mT.to(torch.int32), batch.labels.to(torch.int16))
    assert torch.equal(gradient(other), loss) and torch.equal(gradient.flat, flat)


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
