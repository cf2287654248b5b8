"""The compiled step of one model against autograd through the reference transformer, and the table forward."""

import os
import random
import shutil
import statistics
import subprocess
import sys
from ast import literal_eval
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from assignadd.config import PRESETS, Model, Numerics
from assignadd.model.forward import answer_logits
from assignadd.model.kernels.tensor import TensorKernels
from assignadd.model.stack import Stack, initial_stack
from assignadd.model.table import Weights
from assignadd.task.sampler import Batch, Sampler
from assignadd.task.splits import pair_split
from assignadd.training.gradient import ReferenceGradient, TableGradient

pytest.importorskip("numba")
from assignadd.model import cpu_step
from assignadd.model.cpu_step import CompiledGradient
from assignadd.model.kernels import blas, numba_functions, numba_heads, numba_heads_functions, numba_step, numba_vectors

pytestmark = pytest.mark.skipif(not blas.available(), reason="torch's BLAS library is not found (numba)")
torch.set_num_threads(1)
PACKAGE = Path(cpu_step.__file__).parents[1]


def random_size(seed, heads=1):
    """The tiny task and model with other sizes: no width is a multiple of a vector, no batch of a chunk."""
    draw = random.Random(seed).randint
    model = Model(n_heads=heads, d_model=draw(3, 90), d_head=draw(1, 70), d_mlp=(None, draw(1, 200)))
    task = replace(PRESETS["tiny"].task, length=draw(11, 20), modulus=draw(8, 40))
    return replace(PRESETS["tiny"], model=model, task=task, optim=replace(PRESETS["tiny"].optim, batch=draw(1, 300)))


def with_heads(preset, heads):
    """The preset with several heads, which are as wide together as its only one."""
    config = PRESETS[preset]
    return replace(config, model=replace(config.model, n_heads=heads, d_head=config.model.d_head // heads))


CONFIGS = {name: PRESETS[name] for name in ("paper", "tiny", "smoke")}
CONFIGS |= {f"{heads} heads": with_heads("paper", heads) for heads in (2, 4)}
CONFIGS |= {f"size {i}": random_size(i) for i in range(8)}
CONFIGS |= {f"size {i}, {i} heads": random_size(i, heads=i) for i in range(2, 6)}


@pytest.fixture(params=[(1, 512), (1, 10), (3, 512), (3, 10)], ids="{0[0]} threads, chunks of {0[1]}".format)
def threads(request, monkeypatch):
    """As many threads, and chunks of this size, whatever this machine would choose; the last ones are smaller."""
    threads, chunk = request.param
    if threads > 1 and not blas.has_threads():
        pytest.skip("products here do not keep to a thread each (numba)")
    monkeypatch.setattr(cpu_step, "threads_for", lambda batch: min(threads, batch))
    monkeypatch.setattr(cpu_step, "chunk_size", lambda sequences: min(sequences, chunk))


def batch_of(config, step):
    return Sampler([config.task], pair_split(config.task, 0)[None], [0]).sample(step, config.optim.batch)


@pytest.mark.parametrize("name", CONFIGS)
def test_loss_gradient_and_logits_are_those_of_autograd_in_double_precision(name, threads):
    config = CONFIGS[name]
    stack = initial_stack(config, [0])
    stack.flat.mul_(1.5)  # attention is far from uniform
    exact = Stack(replace(config, numerics=Numerics(dtype="float64")), stack.flat.double())
    gradient, reference = CompiledGradient(stack), ReferenceGradient(exact)
    for step in range(2):  # the second time in memory that holds the first
        gradient.flat.fill_(torch.nan)
        batch = batch_of(config, step)
        torch.testing.assert_close(gradient(batch).double(), reference(batch), rtol=1e-5, atol=0)
        assert (gradient.flat.double() - reference.flat).norm() < 1e-5 * reference.flat.norm()
    logits = answer_logits(exact, batch.tokens)
    assert (answer_logits(stack, batch.tokens).double() - logits).norm() < 1e-5 * logits.norm()


@pytest.mark.parametrize("share", range(4))
def test_a_hundred_networks_of_several_heads_have_the_gradient_of_autograd(share):
    """Where attention is sharp, or a neuron is almost 0, single precision itself is wrong by more than elsewhere."""
    errors = []
    for number in range(share, 100, 4):
        config = random_size(number, heads=2 + number % 5)
        config = replace(config, optim=replace(config.optim, batch=1 + number % 40))
        stack, batch = initial_stack(config, [number]), batch_of(config, number)
        stack.flat.mul_(0.5 + number / 100)
        exact = Stack(replace(config, numerics=Numerics(dtype="float64")), stack.flat.double())
        gradient, reference = CompiledGradient(stack), ReferenceGradient(exact)
        torch.testing.assert_close(gradient(batch).double(), reference(batch), rtol=1e-5, atol=0)
        errors.append(((gradient.flat.double() - reference.flat).norm() / reference.flat.norm()).item())
    assert statistics.median(errors) < 2e-6 and max(errors) < 2e-4


def tensor_gradient(stack):
    """Loss and gradient in tensor operations, of the precision of the weights."""
    gradient = TableGradient(stack)
    gradient.kernels = gradient._table.kernels = TensorKernels(
        gradient._table.K, gradient._table.T, torch.device("cpu"), stack.config.model.n_heads
    )
    return gradient


def test_a_loss_in_double_precision_keeps_what_single_precision_rounds_to_zero(threads):
    """An answer of probability 1 - exp(-20), which is 1 in single precision: its logit has no gradient there."""
    config = PRESETS["smoke"]
    stack, batch = initial_stack(config, [0]), batch_of(config, 0)
    tokens = batch.tokens[:, :1].expand_as(batch.tokens)
    first, second = answer_logits(stack, tokens)[0, 0].topk(2).values
    stack.weights["unembed.W_U"].mul_(20 / (first - second))
    sure = Batch(tokens, answer_logits(stack, tokens).argmax(-1))
    exact = ReferenceGradient(Stack(replace(config, numerics=Numerics(dtype="float64")), stack.flat.double()))
    exact(sure)
    errors = []
    for loss_in_float64 in (False, True):
        numerics = Numerics(loss_in_float64=loss_in_float64)
        gradient = CompiledGradient(Stack(replace(config, numerics=numerics), stack.flat))
        gradient(sure)
        errors.append((gradient.flat.double() - exact.flat).norm() / exact.flat.norm())
    assert errors[0] > 0.1 and errors[1] < 1e-4


def test_a_batch_of_another_size_or_number_of_threads_has_its_own_memory(monkeypatch):
    config = PRESETS["smoke"]
    stack = initial_stack(config, [0])
    gradient, batch = CompiledGradient(stack), batch_of(config, 0)
    fewer = Batch(batch.tokens[:, :20], batch.labels[:, :20])
    first, loss = gradient(batch).item(), gradient(fewer).item()
    assert loss == CompiledGradient(stack)(fewer).item() != first
    assert gradient(batch).item() == first
    memory = gradient._memory
    gradient(batch)
    assert gradient._memory is memory
    monkeypatch.setattr(cpu_step, "threads_for", lambda batch: 2)
    gradient(batch)
    assert gradient._memory is not memory


def test_batches_of_another_shape_are_refused(unchecked):
    config = PRESETS["smoke"]
    batch = batch_of(config, 0)
    gradient = CompiledGradient(initial_stack(config, [0]))
    tokens, labels = batch.tokens[0], batch.labels[0]
    for wrong in ((tokens[:, :-1], labels), (tokens, labels[:20]), (tokens[:20], labels)):
        with pytest.raises(ValueError, match="have shape"):
            gradient(Batch(*wrong))
    with pytest.raises(ValueError, match="have shape"):
        cpu_step.answer_logits(
            Weights.of({n: w[0] for n, w in initial_stack(config, [0]).weights.items()}), tokens[:, 1:], 0, 1.0
        )


def test_tokens_in_another_order_or_kind_are_read_too():
    config = PRESETS["smoke"]
    batch, gradient = batch_of(config, 0), CompiledGradient(initial_stack(config, [0]))
    loss, flat = gradient(batch), gradient.flat.clone()
    other = Batch(batch.tokens.mT.contiguous().mT.to(torch.int32), batch.labels.to(torch.int16))
    assert torch.equal(gradient(other), loss) and torch.equal(gradient.flat, flat)


def test_a_batch_has_a_thread_for_each_of_torchs_but_no_small_shares(monkeypatch):
    monkeypatch.setattr(cpu_step, "has_threads", lambda: True)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert [cpu_step.threads_for(batch) for batch in (20, 64, 128, 512)] == [1, 1, 2, 4]
    monkeypatch.setattr(cpu_step, "has_threads", lambda: False)
    assert cpu_step.threads_for(512) == 1


def test_chunks_are_small_where_products_are_mkls(monkeypatch):
    for mkl, sizes in ((True, [20, 128, 128]), (False, [20, 128, 512])):
        monkeypatch.setattr(torch.backends.mkl, "is_available", lambda mkl=mkl: mkl)
        assert [cpu_step.chunk_size(sequences) for sequences in (20, 128, 512)] == sizes


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("spoiled", ["W_in", "W_out", "U", "E"])
def test_a_weight_that_is_not_a_number_is_passed_on_as_by_the_table_forward(spoiled, heads, threads):
    config = with_heads("tiny", heads)
    stack, batch = initial_stack(config, [0]), batch_of(config, 0)
    getattr(Weights.of({name: w[0] for name, w in stack.weights.items()}), spoiled)[3, 5] = torch.nan
    gradient, tensors = CompiledGradient(stack), tensor_gradient(stack)
    assert gradient(batch).isnan() and tensors(batch).isnan() and tensors.flat.isnan().any()
    assert torch.equal(gradient.flat.isnan(), tensors.flat.isnan())


@pytest.mark.parametrize("heads", [1, 4])
def test_a_repeated_step_is_the_same_bit_for_bit(heads, threads):
    config = with_heads("tiny", heads)
    batch = batch_of(config, 0)
    results = []
    for _ in range(3):
        gradient = CompiledGradient(initial_stack(config, [0]))
        results.append((gradient(batch).item(), gradient.flat.clone()))
    assert all(loss == results[0][0] and torch.equal(flat, results[0][1]) for loss, flat in results)


def signatures_after_steps() -> dict[str, int]:
    """For each compiled function, the number of kinds of arguments that steps of other sizes compile it for."""
    for config in (PRESETS["tiny"], PRESETS["smoke"], with_heads("tiny", 2), with_heads("smoke", 4)):
        stack, batch = initial_stack(config, [0]), batch_of(config, 0)
        CompiledGradient(stack)(batch)
        answer_logits(stack, batch.tokens)
    modules = (numba_functions, numba_heads, numba_heads_functions, numba_step, numba_vectors, blas)
    functions = [item for module in modules for item in vars(module).items()]
    return {name: len(getattr(function, "signatures", ())) for name, function in functions}


def test_every_function_is_compiled_once_for_all_sizes_or_once_for_each_kind_of_table():
    """Each further kind of array would take as long again. Other tests use double precision too, not this process."""
    of_both_kinds = {"train", "pass_share", "forward", "backward", "write_tables", "write_transposes",
                     "write_gradients", "answer"}  # fmt: skip
    code = "from tests.model.test_cpu_step import signatures_after_steps; print(signatures_after_steps())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    signatures = literal_eval(done.stdout)
    assert signatures["train"] == signatures["answer"] == 2
    for name, n in signatures.items():
        assert n <= 1 + (name in of_both_kinds) or name == "_add_vector", name


SMALL_STEP = """
from dataclasses import replace
import torch
from assignadd.config import PRESETS
from assignadd.model.stack import initial_stack
from assignadd.task.sampler import Batch
from assignadd.model.cpu_step import CompiledGradient
for heads in (1, 2):
    config = replace(PRESETS["smoke"], model=replace(PRESETS["smoke"].model, n_heads=heads))
    gradient = CompiledGradient(initial_stack(config, [0]))
    tokens = torch.arange(6 * config.task.length).view(1, 6, -1) % 7
    loss = gradient(Batch(tokens, torch.arange(6)[None] % config.task.modulus))
    print(loss.item(), gradient.flat.double().norm().item())
"""


def small_step(folder=PACKAGE.parent, **environment):
    """Loss and length of the gradient with one head and with two, by the package in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", SMALL_STEP], env=os.environ | environment | {"PYTHONPATH": str(folder)},
        capture_output=True, text=True, check=True, cwd=folder,
    )  # fmt: skip
    return tuple(map(float, done.stdout.split()))


def test_the_same_code_runs_in_python_with_the_compiler_switched_off(capsys):
    exec(SMALL_STEP, {})
    compiled = tuple(map(float, capsys.readouterr().out.split()))
    assert small_step(NUMBA_DISABLE_JIT="1") == pytest.approx(compiled, rel=1e-5)


@pytest.mark.slow
def test_a_cache_that_is_empty_warm_or_of_other_code_gives_the_same_step(tmp_path):
    """A function that another one calls is changed: the caller, in a file that stays the same, is compiled again."""
    source = tmp_path / "source"
    shutil.copytree(PACKAGE, source / "assignadd", ignore=shutil.ignore_patterns("__pycache__", "web", "data"))
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    cold, warm = small_step(source, **cache), small_step(source, **cache)
    assert cold == warm
    file = source / "assignadd" / "model" / "kernels" / "numba_functions.py"
    text = file.read_text()
    file.write_text(text.replace("np.float32(0) if row[i] < 0 else row[i]", "np.float32(0) if row[i] < 9 else row[i]"))
    changed = small_step(source, **cache)
    assert changed != cold
    file.write_text(text)
    assert small_step(source, **cache) == cold
