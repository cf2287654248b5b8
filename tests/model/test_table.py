"""The table forward and its hand-written backward against the reference transformer and autograd."""

import random
from dataclasses import replace

import pytest
import torch

from assignadd.config import PRESETS, Config, Model, Numerics
from assignadd.model.forward import answer_logits, table_forward, traces
from assignadd.model.forward import trace as table_trace
from assignadd.model.stack import Stack, initial_stack, views
from assignadd.model.table import Weights, covers
from assignadd.model.trace import reference_trace
from assignadd.model.transformer import reference_logits
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split

torch.set_num_threads(1)
SEEDS = [3, 8]
SETTINGS = PRESETS | {"odd": replace(PRESETS["tiny"], task=replace(PRESETS["tiny"].task, length=11))}


def make(config: Config, scale: float, batch: int = 48) -> tuple[Stack, torch.Tensor]:
    """Random weights, larger than at the start so that attention is far from uniform, and sequences of the task."""
    stack = initial_stack(config, SEEDS)
    stack.flat.mul_(scale)
    seen = torch.stack([pair_split(config.task, s) for s in SEEDS])
    return stack, Sampler([config.task] * 2, seen, SEEDS).sample(0, batch).tokens


def training_logits(stack: Stack, tokens: torch.Tensor) -> torch.Tensor:
    table = table_forward(stack.config)
    return table.logits(table.forward(Weights.of(stack.weights), tokens))


def gradients(stack: Stack, tokens: torch.Tensor, grad: torch.Tensor, stacked: bool) -> dict[str, torch.Tensor]:
    table = table_forward(stack.config)
    out = torch.full_like(stack.flat, torch.nan)  # what is not written stays NaN and fails
    if stacked:
        weights = Weights.of(stack.weights)
        table.backward(weights, table.forward(weights, tokens), grad, Weights.of(views(stack.config, out)))
    else:
        for i in range(len(stack)):
            weights = Weights.of({name: w[i] for name, w in stack.weights.items()})
            part = Weights.of({name: g[i] for name, g in views(stack.config, out).items()})
            table.backward(weights, table.forward(weights, tokens[i]), grad[i], part)
    return views(stack.config, out)


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize(
    ("preset", "batch", "scale", "dtype", "logit_error", "gradient_error"),
    [
        ("paper", 48, 1.0, "float32", 1e-5, 1e-4),
        ("paper", 48, 2.0, "float32", 1e-5, 1e-4),
        ("paper", 256, 2.0, "float32", 1e-5, 1e-4),  # logits by W_out W_U
        ("tiny", 48, 2.0, "float32", 1e-5, 1e-4),
        ("paper", 48, 1.0, "float64", 1e-10, 1e-10),
        ("paper", 256, 1.0, "float64", 1e-10, 1e-10),
        ("tiny", 16, 2.0, "float64", 1e-10, 1e-10),
        ("tiny", 48, 2.0, "float64", 1e-10, 1e-10),
        ("odd", 48, 2.0, "float64", 1e-10, 1e-10),  # a length that has no halves
        ("tiny", 48, 5.0, "float64", 1e-10, 1e-10),  # scores far apart
    ],
)
def test_equals_reference_in_logits_and_every_gradient(
    preset, batch, scale, dtype, logit_error, gradient_error, stacked
):
    config = replace(SETTINGS[preset], numerics=Numerics(dtype=dtype))
    stack, tokens = make(config, scale, batch)
    flat = stack.flat.clone().requires_grad_()
    expected = reference_logits(Stack(config, flat), tokens)
    grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(0)).to(expected.dtype)
    expected.backward(grad)
    wanted = views(config, flat.grad)
    size = expected.detach().abs().max()
    assert (answer_logits(stack, tokens) - expected).abs().max() <= logit_error * size
    assert (training_logits(stack, tokens) - expected).abs().max() <= logit_error * size
    for name, found in gradients(stack, tokens, grad, stacked).items():
        assert (found - wanted[name]).norm() <= gradient_error * wanted[name].norm(), name


def drawn(number: int, heads: int) -> Config:
    """A configuration with this many heads, of other sizes for every number."""
    draw = random.Random(1000 * heads + number)
    d, d_head, d_mlp = draw.choice([8, 12, 24]), draw.choice([3, 5, 8, 16]), draw.choice([6, 20, 40])
    tiny = PRESETS["tiny"].task
    task = replace(tiny, length=tiny.length + draw.randrange(5), n_vars=draw.randrange(4, 9))
    model = Model(n_heads=heads, d_model=d, d_head=d_head, d_mlp=(None, d_mlp))
    return Config(task=task, model=model, numerics=Numerics(dtype="float64"))


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("number", range(12))
def test_equals_reference_with_several_heads_at_random_sizes(heads, number):
    config = drawn(number, heads)
    assert covers(config)
    stack, tokens = make(config, 1 + number / 3, batch=(5, 40)[number % 2])
    flat = stack.flat.clone().requires_grad_()
    expected = reference_logits(Stack(config, flat), tokens)
    grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
    expected.backward(grad)
    wanted = views(config, flat.grad)
    torch.testing.assert_close(answer_logits(stack, tokens), expected.detach())
    torch.testing.assert_close(training_logits(stack, tokens), expected.detach())
    for name, found in gradients(stack, tokens, grad, stacked=number % 3 > 0).items():
        assert (found - wanted[name]).norm() <= 1e-10 * wanted[name].norm(), name


def test_traces_of_several_heads_are_those_of_the_reference():
    config = drawn(0, 3)
    stack, tokens = make(config, 3.0)
    found, expected = table_trace(stack, tokens), reference_trace(stack, tokens, chunk=48)
    for layer in (1, 2):
        torch.testing.assert_close(found.attention(layer), expected.attention(layer))
    torch.testing.assert_close(found.after_layer(1), expected.after_layer(1))
    torch.testing.assert_close(dict(found.residuals), dict(expected.residuals))
    torch.testing.assert_close(dict(found.last), dict(expected.last))


@pytest.mark.parametrize(
    "model",
    [
        Model(n_layers=3, d_mlp=(None, None, 32), d_model=16, d_head=16),
        Model(d_mlp=(32, 32), d_model=16, d_head=16),
        Model(norm="layer", d_mlp=(None, 32), d_model=16, d_head=16),
        Model(biases=True, d_mlp=(None, 32), d_model=16, d_head=16),
        Model(activation="gelu", d_mlp=(None, 32), d_model=16, d_head=16),
    ],
)
def test_other_architectures_have_the_answers_of_the_reference(model):
    config = replace(PRESETS["smoke"], model=model, numerics=Numerics(dtype="float64"))
    assert not covers(config)
    stack, tokens = make(config, 2.0)
    torch.testing.assert_close(answer_logits(stack, tokens), reference_logits(stack, tokens))


def test_narrow_heads_are_covered():
    config = replace(
        PRESETS["smoke"], model=Model(d_model=24, d_head=10, d_mlp=(None, 20)), numerics=Numerics(dtype="float64")
    )
    assert covers(config)
    stack, tokens = make(config, 3.0)
    torch.testing.assert_close(answer_logits(stack, tokens), reference_logits(stack, tokens))


@pytest.mark.parametrize("token", [-1, 10**6])
def test_tokens_outside_the_vocabulary_are_an_error(token):
    stack, tokens = make(PRESETS["smoke"], 1.0, batch=3)
    tokens = tokens.clone()
    tokens[1, 2, 0] = token
    for run in (answer_logits, table_trace, lambda *given: list(traces(*given))):
        with pytest.raises(ValueError, match=f"expected 0 to {len(stack['embed.W_E'][0]) - 1}"):
            run(stack, tokens)


def test_traces_leave_gradients_as_they_were():
    stack = initial_stack(PRESETS["smoke"], [0, 1])
    tokens = torch.zeros(1, 3, PRESETS["smoke"].task.length, dtype=torch.long)
    for _ in zip(traces(stack, tokens), traces(stack, tokens), strict=True):
        assert torch.is_grad_enabled()
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("length", [9, 11])
def test_sequences_of_another_length_are_an_error(length):
    """The compiled kernels do not check bounds: they would answer from memory that is not theirs."""
    stack, tokens = make(PRESETS["tiny"], 1.0)
    other = tokens.new_zeros(*tokens.shape[:-1], length)
    with pytest.raises(ValueError, match=rf"{length}\): expected .*sequences of {tokens.shape[-1]} tokens$"):
        answer_logits(stack, other)
