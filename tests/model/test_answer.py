"""Logits by the fewest operations, and their gradients, against the reference transformer in double precision."""

import random
from dataclasses import replace

import pytest
import torch

from assignadd.config import Config, Model, Numerics, Optim, Task
from assignadd.model.answer import logits_of_answers, transformer_of
from assignadd.model.forward import answer_logits
from assignadd.model.table import covers
from assignadd.model.transformer import Transformer
from assignadd.task.sampler import Batch
from assignadd.training.gradient import AnswerGradient, gradient_of
from tests.architectures import ARCHITECTURES, random_stack, sequences_of


def configurations(n: int) -> list[Config]:
    """Random networks and tasks: every kind of norm, activation, MLPs and biases, heads wider and narrower than d."""
    choose, found = random.Random(0).choice, []
    for _ in range(n):
        layers = choose((1, 2, 3, 4))
        model = Model(
            n_layers=layers, n_heads=choose((1, 1, 2, 3)), d_model=choose((3, 8, 12)), d_head=choose((2, 8, 12, 16)),
            d_mlp=(*(choose((None, 5)) for _ in range(layers - 1)), 7), activation=choose(("relu", "gelu", "abs")),
            norm=choose(("none", "layer", "rms")), biases=choose((True, False)), direct_path=choose((True, False)),
        )  # fmt: skip
        length = choose((8, 10, 13))
        task = Task(choose((5, 7)), 4, length, max_assignments=2, banned_first="a", banned_second="b")
        found.append(Config(task=task, model=model, numerics=Numerics(dtype="float64")))
    return found


def gradients(logits: torch.Tensor, model: Transformer) -> dict[str, torch.Tensor]:
    """The gradients of a sum of the logits, each with another weight, by the names of the weights."""
    weights = torch.linspace(-1, 2, logits.numel(), dtype=logits.dtype).view_as(logits)
    names, parameters = zip(*model.named_parameters(), strict=True)
    grads = torch.autograd.grad((logits * weights).sum(), parameters, materialize_grads=True)
    return dict(zip(names, grads, strict=True))


@pytest.mark.parametrize("everywhere", [False, True])
def test_logits_and_gradients_are_those_of_the_reference(everywhere):
    for index, config in enumerate(configurations(120)):
        stack = random_stack(config)
        model, tokens = Transformer.from_stack(stack, 0), sequences_of(config, 9)[0]
        expected, short = model(tokens), transformer_of(stack)
        short.sizes = short.sizes._replace(everywhere=everywhere)
        logits = logits_of_answers(short, tokens)
        expected = expected if everywhere else expected[:, -1]
        torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-11, msg=f"{index}: {config.model}")
        wanted, found = gradients(expected, model), gradients(logits, short)
        largest = max(float(gradient.abs().max()) for gradient in wanted.values())
        for name, gradient in wanted.items():
            error = float((found[name] - gradient).abs().max())
            assert error < 1e-10 * (float(gradient.abs().max()) + 1e-3 * largest), (index, name, config.model)


def test_every_position_reads_its_own_token_and_place():
    """Where all sequences are equal, where no two positions have the same token, and of a single sequence."""
    config = ARCHITECTURES["layer norm"]
    stack, K, T = random_stack(config), 23 + 9, config.task.length
    for tokens in (torch.full((5, T), 3), torch.arange(3 * T).view(3, T) % K, torch.arange(T)[None]):
        found = answer_logits(stack, tokens[None])[0]
        torch.testing.assert_close(found, Transformer.from_stack(stack, 0)(tokens)[:, -1])


@pytest.mark.parametrize("name", [name for name, config in ARCHITECTURES.items() if not covers(config)])
def test_a_model_alone_trains_so_and_repeats_itself_bit_for_bit(name):
    config = replace(ARCHITECTURES[name], optim=Optim(batch=24))
    stack = random_stack(config)
    batch = Batch(sequences_of(config), torch.arange(24)[None] % config.task.modulus)
    first, second = gradient_of(stack), gradient_of(stack.clone())
    assert isinstance(first, AnswerGradient)
    losses = first(batch), second(batch), first(batch)
    assert losses[0].shape == (1,) and torch.equal(losses[0], losses[1]) and torch.equal(losses[0], losses[2])
    assert torch.equal(first.flat, second.flat) and first.flat.shape == stack.flat.shape
    model = Transformer.from_stack(stack, 0)
    loss = torch.nn.functional.cross_entropy(model.answer_logits(batch.tokens[0]), batch.labels[0])
    torch.testing.assert_close(losses[0][0], loss.detach())
    loss.backward()
    expected = torch.cat([model.get_parameter(weight).grad.flatten() for weight in stack.weights])
    torch.testing.assert_close(first.flat[0], expected)


def test_the_weights_are_those_of_the_stack_as_they_are_now():
    stack = random_stack(ARCHITECTURES["three layers"])
    gradient, tokens = gradient_of(stack), sequences_of(ARCHITECTURES["three layers"])
    batch = Batch(tokens, torch.zeros(1, 24, dtype=torch.int64))
    before = gradient(batch)
    stack.flat.mul_(0.5)
    assert not torch.equal(gradient(batch), before)
    torch.testing.assert_close(gradient(batch), gradient_of(stack)(batch), rtol=0, atol=0)
