"""Every backend of the kernels against tensor operations in double precision, torch's loss and torch's AdamW."""

from dataclasses import replace
from functools import partial

import pytest
import torch

pytest.importorskip("numba")

from assignadd.config import PRESETS, Config, Numerics, Optim
from assignadd.model.cpu_arrays import HeadChunk, HeadTables, Update, lengths_of, matrices
from assignadd.model.kernels import kernels_for, numba_functions, numba_heads_functions, numba_step
from assignadd.model.kernels.numba_functions import CompiledKernels
from assignadd.model.kernels.numba_vectors import LANES, NUMBERS
from assignadd.model.kernels.tensor import Moments, TensorKernels, collect, fused_adamw, spread, stacked_adamw
from assignadd.model.stack import initial_stack
from assignadd.model.table import Weights
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.task.vocabulary import Vocabulary

torch.set_num_threads(1)
CPU = torch.device("cpu")
OPTIMS = [Optim(lr=1e-3), Optim(lr=3e-2, weight_decay=0.5), Optim(lr=1e-2, weight_decay=0.0)]


def sequences(config: Config, batch: int) -> torch.Tensor:
    seen = torch.stack([pair_split(config.task, s) for s in (3, 8)])
    return Sampler([config.task] * 2, seen, [3, 8]).sample(0, batch).tokens


def attention_part(
    kernels: TensorKernels, tokens: torch.Tensor, scale: float, dtype: torch.dtype
) -> list[torch.Tensor]:
    """What every attention operation returns or writes, on the same random scores and gradients."""
    generator = torch.Generator().manual_seed(5)
    C, H, lead = kernels.C, kernels.H, tokens.shape[:-2]

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).mul(scale).to(dtype)

    usage = kernels.matrix(tokens, kernels.n_used, torch.empty(0, dtype=dtype)).fill_(torch.nan)
    attention_1 = kernels.layer_1(random(*lead, H, C, C), tokens, usage)
    n_scores = H * (1 + H) * C
    attention_2, copied = kernels.layer_2(random(*lead, tokens.shape[-2], n_scores), tokens, attention_1, usage)
    g_usage = random(*usage.shape)
    given = (g_usage, tokens, attention_1, attention_2)
    g_both, g_scores, g_passed_on = kernels.layer_2_backward(*given)
    g_table = kernels.layer_1_backward(*given, copied, g_scores, g_passed_on)
    kernels.join()
    after = kernels.after_layer_1(random(*lead, C, 6), random(*lead, H, C, 6), tokens, attention_1)
    return [usage, attention_1, attention_2, copied, g_both, g_scores, g_passed_on, g_table, after]


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize(("preset", "batch", "scale"), [("paper", 77, 1.0), ("tiny", 1, 3.0), ("smoke", 40, 60.0)])
def test_compiled_kernels_equal_tensor_operations(preset, batch, scale, stacked):
    """At a scale of 60 sums of exponentials leave float32, and scores are taken one by one."""
    config = PRESETS[preset]
    tokens = sequences(config, batch) if stacked else sequences(config, batch)[1]
    sizes = Vocabulary(config.task).size, config.task.length, CPU
    expected = attention_part(TensorKernels(*sizes), tokens, scale, torch.float64)
    tensor = attention_part(TensorKernels(*sizes), tokens, scale, torch.float32)
    compiled = attention_part(CompiledKernels(*sizes), tokens, scale, torch.float32)
    for want, near, got in zip(expected, tensor, compiled, strict=True):
        error = (got.double() - want).norm()
        assert error <= 3 * (near.double() - want).norm() + 1e-6 * want.norm()


def test_attention_of_queries_whose_factors_all_vanish():
    """The best key of the table is in no sequence: products of exponentials are zero, the softmax is not."""
    kernels = CompiledKernels(7, 4, CPU)
    scores = torch.zeros(11, 11)
    scores[:, 6] = 300.0
    tokens = torch.tensor([[0, 1, 2, 3], [6, 0, 6, 1]])
    attention = kernels.layer_1(scores.unsqueeze(0), tokens, torch.empty(2, 34))[:, 0]
    uniform = torch.ones(4, 4).tril()
    torch.testing.assert_close(attention[0], uniform / uniform.sum(-1, keepdim=True))
    torch.testing.assert_close(attention[1, 3], torch.tensor([0.5, 0.0, 0.5, 0.0]))


def test_numbers_that_are_not_finite_reach_the_end():
    """A model that diverges must be noticed."""
    for bad in (torch.nan, torch.inf):
        kernels = CompiledKernels(7, 4, CPU)
        scores = torch.zeros(11, 11)
        scores[2, 0] = bad
        usage = torch.empty(1, 34)
        kernels.layer_1(scores.unsqueeze(0), torch.tensor([[0, 1, 3, 2]]), usage)
        assert not usage[:, :11].isfinite().all()


def test_collect_is_the_transpose_of_spread():
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(0, 5, (3, 4), generator=generator)
    amounts, rows = torch.randn(3, 4, generator=generator), torch.randn(3, 9, generator=generator)
    assert torch.isclose((spread(amounts, tokens, 9) * rows).sum(), (amounts * collect(rows, tokens)).sum())
    assert spread(torch.tensor([[2.0, 3.0, 0, 0]]), torch.tensor([[1, 1, 0, 0]]), 9).tolist() == [
        [0, 5, 0, 0, 0, 2, 3, 0, 0]
    ]


@pytest.mark.parametrize("heads", [2, 3, LANES, LANES + 3])
@pytest.mark.parametrize("readers", [1, 3])
@pytest.mark.parametrize("w", [NUMBERS, 3 * NUMBERS])
def test_compiled_sums_over_the_rows_of_positions_are_those_of_tensors(heads, readers, w):
    """The row of a position is that of its token plus its own; the gradient of a sum goes to both."""
    generator, T, C, blocks = torch.Generator().manual_seed(2), 4, 9, -(-heads // LANES)
    tokens = torch.randint(0, 5, (3, T), generator=generator)
    table = torch.randn(C, heads, w, generator=generator)
    sums = torch.randn(3, readers, heads, w, generator=generator)
    weights = torch.randn(3, readers, T, blocks * LANES, generator=generator)
    of_heads, rows = weights[..., :heads], table[tokens] + table[C - T :]  # (3, T, heads, w)

    def in_blocks(numbers):
        return numbers.unflatten(-1, (blocks, LANES)).permute(3, 0, 1, 2, 4).contiguous().numpy()

    flat_table, flat_sums = table.flatten(1).numpy(), sums.flatten(1).numpy()
    scratch, total = torch.empty(T, heads * w).numpy(), torch.full_like(sums.flatten(1), torch.nan)
    numba_heads_functions.sum_rows(in_blocks(weights), flat_table, w, tokens.numpy(), scratch, total.numpy())
    torch.testing.assert_close(total.view_as(sums), torch.einsum("bgkh,bkhi->bghi", of_heads, rows))
    products = in_blocks(torch.full_like(weights, torch.nan))
    numba_heads_functions.products_with_rows(flat_sums, flat_table, w, tokens.numpy(), scratch, products)
    of_lanes = torch.from_numpy(products).permute(1, 2, 3, 0, 4).flatten(3)
    expected = torch.einsum("bghi,bkhi->bgkh", sums, rows)
    torch.testing.assert_close(of_lanes[..., :heads], expected, rtol=1e-5, atol=1e-4)
    g_table = table.flatten(1).clone()
    numba_heads_functions.add_to_rows(in_blocks(weights), flat_sums, w, tokens.numpy(), scratch, g_table.numpy())
    of_positions = torch.einsum("bgkh,bghi->bkhi", of_heads, sums)
    expected = table.index_add(0, tokens.flatten(), of_positions.flatten(0, 1))
    expected[C - T :] += of_positions.sum(0)
    torch.testing.assert_close(g_table.view_as(table), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_compiled_attention_of_several_heads_is_that_of_tensors(scale):
    """At a scale of 60 sums of exponentials leave float32, and scores are taken one by one."""
    H, config = LANES + 1, PRESETS["tiny"]
    config = replace(config, model=replace(config.model, n_heads=H))
    tokens, w = sequences(config, 30)[0], Weights.of(initial_stack(config, [0]).of_model(0))
    lengths = lengths_of(w, len(tokens))
    K, T, blocks = lengths["K"], lengths["T"], lengths["blocks"]
    tables, chunk = matrices(HeadTables, lengths), matrices(HeadChunk, lengths)
    scores = scale * torch.randn(H, K + T, K + T, generator=torch.Generator().manual_seed(4))
    tables.scores_1[:] = scores.numpy()
    for h in range(H):
        numba_functions.factors_of(tables.scores_1[h], tables.factors_of_head[h], T)
        tables.factors_1[h // LANES, :, :, h % LANES] = tables.factors_of_head[h]
    tables.no_head[-1, 1:] = 1  # the last block has one head
    for block in range(blocks):
        attention = chunk.attention_1[block]
        of_equals = chunk.attention_of_equals[block]
        numba_heads_functions.layer_1(tables, block, tokens.numpy(), attention, of_equals, chunk.of_keys)
    usage = torch.zeros(len(tokens), (1 + H) ** 2 * (K + T) + 1, dtype=torch.float64)
    expected = TensorKernels(K, T, CPU, H).layer_1(scores.double(), tokens, usage)  # (B, H, T, T)
    first = 0
    for q in range(T):
        keys = torch.from_numpy(chunk.attention_1[:, :, first : first + numba_heads_functions.keys_of(q)])
        of_lanes = keys.permute(1, 0, 3, 2).flatten(1, 2).double()  # (B, lanes, keys)
        torch.testing.assert_close(of_lanes[:, :H, : q + 1], expected[:, :, q, : q + 1], rtol=3e-4, atol=1e-6)
        assert (of_lanes[:, H:] == 0).all() and (of_lanes[:, :, q + 1 :] == 0).all()
        first += numba_heads_functions.keys_of(q)
    of_lanes = torch.from_numpy(chunk.attention_of_equals)[:, :, 0, :T].permute(1, 0, 3, 2).flatten(1, 2).double()
    torch.testing.assert_close(of_lanes[:, :H], expected[:, :, -1], rtol=3e-4, atol=1e-6)


def test_double_precision_and_a_missing_compiler_fall_back_to_tensor_operations(monkeypatch):
    paper = PRESETS["paper"]
    assert type(kernels_for(paper, CPU, stacked=True)) is CompiledKernels
    assert type(kernels_for(replace(paper, numerics=Numerics(dtype="float64")), CPU, stacked=True)) is TensorKernels
    monkeypatch.setattr("assignadd.model.kernels._installed", lambda package: False)
    assert type(kernels_for(paper, CPU, stacked=True)) is TensorKernels


def compiled_cross_entropy(logits, labels, in_double=False):
    """Mean loss and gradient of one model, or of each model of a stack."""
    if logits.dim() == 3:
        return tuple(map(torch.stack, zip(*map(compiled_cross_entropy, logits, labels), strict=True)))
    losses, grad = torch.empty(len(labels)), logits.clone()
    numba_functions.cross_entropy(grad.numpy(), labels.numpy(), losses.numpy(), len(labels), in_double)
    return losses.mean(), grad


LOSSES = [
    TensorKernels(1, 1, CPU).cross_entropy,
    compiled_cross_entropy,
    partial(compiled_cross_entropy, in_double=True),
]


@pytest.mark.parametrize("cross_entropy", LOSSES[:2])
def test_cross_entropy_equals_torch_even_for_huge_logits(cross_entropy):
    generator = torch.Generator().manual_seed(1)
    scale = torch.tensor([1.0, 400.0]).view(2, 1, 1).double()
    logits = torch.randn(2, 30, 7, generator=generator, dtype=torch.float64) * scale
    labels = torch.randint(0, 7, (2, 30), generator=generator)
    leaf = logits.clone().requires_grad_()
    expected = torch.stack([torch.nn.functional.cross_entropy(x, y) for x, y in zip(leaf, labels, strict=True)])
    expected.sum().backward()
    loss, grad = cross_entropy(logits.float(), labels)
    torch.testing.assert_close(loss.double(), expected.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grad.double(), leaf.grad, rtol=1e-5, atol=1e-6)


def test_compiled_exponentials_are_those_of_double_precision_up_to_two_units_in_the_last_place():
    """By the way of attention factors: exp of the scores below the largest of a row, and 0 below exp(-87)."""
    scores, factors = torch.zeros(3, 3), torch.empty(3, 3)
    for least in (1e-7, 0.3, 5.0, 86.9):
        scores[:, 1] = torch.linspace(-least, -least / 3, 3)
        numba_functions.factors_of(scores.numpy(), factors.numpy(), 1)
        expected = scores[:, 1].double().exp()
        assert ((factors[:, 1].double() - expected).abs() <= 2 * 2**-23 * expected).all() and (factors[:, 0] == 1).all()
    scores[0, 1], scores[1, 1], scores[2, 1] = -88.0, -torch.inf, torch.nan
    numba_functions.factors_of(scores.numpy(), factors.numpy(), 1)
    assert factors[:2, 1].tolist() == [0, 0] and factors[2, 1].isnan()


@pytest.mark.parametrize("cross_entropy", LOSSES)
@pytest.mark.parametrize("gap", [1, 66, 84, 95, 103, 400])
def test_cross_entropy_of_an_answer_that_is_hardly_a_number(gap, cross_entropy):
    """exp(-84) is a float32, exp(-95) one with few digits, exp(-400) none."""
    logits = torch.tensor([[0.0, -gap, -gap], [0.0, -1.0, -2.0]])
    labels = torch.tensor([1, 1])
    expected = torch.nn.functional.cross_entropy(logits.double(), labels)
    torch.testing.assert_close(cross_entropy(logits, labels)[0], expected.float())


@pytest.mark.parametrize("gap", [8.0, 12.0, 16.0, 20.0])
@pytest.mark.parametrize("shift", [-100.0, 0.0, 30.0, 1000.0])
def test_compiled_cross_entropy_of_a_certain_answer_does_not_depend_on_a_shift_of_the_logits(shift, gap):
    logits, label = torch.zeros(1, 59), torch.tensor([7])
    logits[0, label] = gap
    expected = torch.nn.functional.cross_entropy(logits.double(), label)
    found = compiled_cross_entropy(logits + shift, label)[0]
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=0)


def gradient(step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(3, 500, generator=generator, dtype=torch.float64) * 10.0 ** (step % 4 - 4)


@pytest.mark.parametrize("update", [fused_adamw, stacked_adamw])
def test_updates_equal_torch_with_a_rate_and_decay_per_model(update):
    start = torch.randn(3, 500, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
    flat, diverged_at = start.clone(), torch.full((3,), -1)
    moments = Moments.zeros(flat, OPTIMS)
    theirs = [torch.nn.Parameter(row.clone()) for row in start]
    optimizers = [
        torch.optim.AdamW([p], lr=o.lr, weight_decay=o.weight_decay) for p, o in zip(theirs, OPTIMS, strict=True)
    ]
    for step in range(40):
        grad = gradient(step)
        update(flat, grad, moments, torch.zeros(3), diverged_at, torch.tensor(step + 1))
        for parameter, optimizer, g in zip(theirs, optimizers, grad, strict=True):
            parameter.grad = g.clone()
            optimizer.step()
    torch.testing.assert_close(flat, torch.stack([p.detach() for p in theirs]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("optim", OPTIMS)
def test_a_compiled_update_equals_that_in_double_precision(optim):
    start = torch.randn(1, 500, generator=torch.Generator().manual_seed(99))
    exact, diverged_at = start.double(), torch.full((1,), -1)
    moments, settings = Moments.zeros(exact, [optim]), (optim.weight_decay, optim.beta1, optim.beta2, optim.eps)
    rates = torch.zeros(0, dtype=torch.float64)
    weights, mean, square = start[0].clone(), torch.zeros(500), torch.zeros(500)
    for step in range(40):
        grad = gradient(step)[0].float()
        arrays = [x.numpy() for x in (weights, grad, mean, square, rates)]
        numba_step.adamw(Update(*arrays, *settings, first_step=0), 0, 500, optim.lr, step + 1)
        stacked_adamw(exact, grad.double()[None], moments, torch.zeros(1), diverged_at, torch.tensor(step + 1))
    for found, expected in ((weights, exact), (mean, moments.mean), (square, moments.square)):
        torch.testing.assert_close(found.double(), expected[0], rtol=2e-6, atol=2e-6)
    assert (weights != start[0]).all()


@pytest.mark.parametrize("update", [fused_adamw, stacked_adamw])
def test_a_model_whose_loss_was_not_finite_once_keeps_its_weights_and_disturbs_no_other(update):
    start = torch.randn(3, 500, generator=torch.Generator().manual_seed(99))
    diverged_at, never = torch.full((3,), -1), torch.full((3,), -1)
    ours, undisturbed = start.clone(), start.clone()
    moments = [Moments.zeros(start, OPTIMS) for _ in range(2)]
    for step in range(5):
        good = gradient(step).float()
        broken = good.clone()
        broken[1] = torch.nan if step >= 2 else good[1]
        losses = torch.tensor([1.0, torch.nan if step == 2 else 1.0, 1.0])  # not finite once, at step 2
        update(ours, broken, moments[0], losses, diverged_at, torch.tensor(step + 1))
        update(undisturbed, good, moments[1], torch.ones(3), never, torch.tensor(step + 1))
        if step == 1:
            kept = ours[1].clone()
    assert diverged_at.tolist() == [-1, 2, -1] and never.tolist() == [-1, -1, -1]
    assert torch.equal(ours[1], kept) and not torch.equal(kept, start[1])
    assert torch.equal(ours[[0, 2]], undisturbed[[0, 2]])
