"""Logits and answers of a stack, computed for some sequences at a time, against the reference transformer."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from assignadd.config import PRESETS
from assignadd.model import forward
from assignadd.model.forward import answer_logits, answers, largest
from assignadd.model.stack import Stack, initial_stack
from assignadd.model.transformer import reference_logits
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split

CONFIG = PRESETS["tiny"]
CHUNK = 700


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(forward, "COMPILED_CHUNK", CHUNK)


def stack_and_tokens(n: int) -> tuple[Stack, torch.Tensor]:
    """Two models far from their initial weights, and n sequences for each."""
    stack = initial_stack(CONFIG, [0, 1])
    stack.flat.mul_(1.5)
    return stack, Sampler([CONFIG.task] * 2, pair_split(CONFIG.task, 0).expand(2, -1, -1), [0, 1]).sample(0, n).tokens


@pytest.mark.parametrize("n", [0, 1, CHUNK, 2 * CHUNK + 70])
@pytest.mark.parametrize("threads", [1, 2])
def test_logits_of_every_number_of_sequences_are_those_of_the_reference(n, threads):
    stack, tokens = stack_and_tokens(max(n, 1))
    tokens = tokens[:, :n]
    torch.set_num_threads(threads)
    try:
        found, chosen = answer_logits(stack, tokens), answers(stack, tokens)
    finally:
        torch.set_num_threads(1)
    assert found.shape == (2, n, CONFIG.task.modulus) and chosen.shape == (2, n)
    if n:
        expected = reference_logits(stack, tokens)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        assert torch.equal(chosen, found.argmax(-1))


def test_logits_are_those_of_the_weights_as_they_are_now():
    stack, tokens = stack_and_tokens(20)
    before = answer_logits(stack, tokens)
    stack.flat.mul_(0.5)
    torch.testing.assert_close(answer_logits(stack, tokens), reference_logits(stack, tokens), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(before, answer_logits(stack, tokens))


def test_threads_that_evaluate_at_once_do_not_disturb_each_other():
    stack, tokens = stack_and_tokens(3 * CHUNK)
    expected = answer_logits(stack, tokens)

    def evaluate(model: int) -> bool:
        one, own = stack.models(model), tokens[model : model + 1]
        return all(torch.equal(answer_logits(one, own)[0], expected[model]) for _ in range(20))

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(evaluate, [0, 1])) == [True, True]


def test_an_evaluation_in_inference_mode_is_followed_by_one_outside_of_it():
    stack, tokens = stack_and_tokens(33)  # a number for which nothing is kept from another test
    with torch.inference_mode():
        inside = answers(stack, tokens).tolist()
    assert answers(stack, tokens).tolist() == inside


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_in_another_order_or_precision_are_read_too(dtype):
    stack, tokens = stack_and_tokens(20)
    apart = Stack(CONFIG, torch.stack([stack.flat, stack.flat + 1], -1).to(dtype)[..., 0])
    assert not apart.flat.is_contiguous()
    torch.testing.assert_close(answer_logits(apart, tokens).float(), answer_logits(stack, tokens), rtol=1e-5, atol=1e-5)


def test_the_largest_is_the_first_of_several_and_nan_counts_as_largest():
    x = torch.tensor([[[1.0, 3.0, 3.0], [torch.nan, 5.0, torch.inf]], [[-torch.inf] * 3, [2.0, torch.nan, torch.nan]]])
    assert largest(x).tolist() == [[1, 0], [0, 1]] and largest(x[0, 0]).item() == 1
