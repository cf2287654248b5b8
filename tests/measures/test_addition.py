"""The isolated addition circuit on the hand-made model, on random weights, and on the paper's network."""

import dataclasses
import itertools

import pytest
import torch

from assignadd.config import PRESETS, Config, Task
from assignadd.measures.addition import (
    best_answers,
    mlp_readout,
    number_outputs,
    number_preactivations,
    ov2_mlp2_accuracy,
    ov2_mlp2_correct,
    wrong_pairs,
)
from assignadd.model.handmade import handmade
from assignadd.model.stack import concatenate, initial_stack
from assignadd.model.transformer import Transformer

HANDMADE = handmade(Config(task=PRESETS["tiny"].task))
N = PRESETS["tiny"].task.modulus


def test_the_hand_made_model_adds_every_pair():
    doubled = HANDMADE.clone()
    doubled["blocks.0.attn.W_O"].mul_(2)  # the layer-2 value and output matrices alone decide how strong a number is
    assert ov2_mlp2_accuracy(concatenate([HANDMADE, doubled])).tolist() == [1.0, 1.0]
    assert wrong_pairs(HANDMADE) == [[]]


@pytest.mark.parametrize("modulus", [N, N + 1])  # an even N has pairs n, n + N/2, which are their own mirror images
def test_the_circuit_equals_the_mlp_of_the_transformer(modulus):
    stack = initial_stack(dataclasses.replace(PRESETS["smoke"], task=Task(modulus=modulus)), [3, 4])
    model, x = Transformer.from_stack(stack, 0), number_outputs(stack)
    with torch.no_grad():
        plain = torch.stack([model.blocks[1].mlp((x[0, a] + x[0])[None])[0] for a in range(modulus)]) @ stack.W_U[0]
    together = best_answers(number_preactivations(stack), mlp_readout(stack))
    assert (together[0] == plain.argmax(-1)).all() and not torch.equal(together[0], together[1])
    right = [[int(plain[a, b].argmax()) == (a + b) % modulus for b in range(modulus)] for a in range(modulus)]
    assert ov2_mlp2_correct(stack)[0].tolist() == right


@pytest.mark.parametrize("n", [9, 16])  # with 16 numbers there are nine shifts, one more than in memory at once
def test_answers_equal_those_of_one_pair_after_the_other(n):
    generator = torch.Generator().manual_seed(n)
    x = 3 * torch.randn(2, n, 13, generator=generator) - torch.linspace(6, 0, 13)  # from never to often active
    x[0, :3] = -1  # pairs of these numbers activate no neuron: all logits are 0
    readout = torch.randn(2, 13, n, generator=generator)
    best = best_answers(x, readout)
    for version, (a, b) in itertools.product(range(2), itertools.product(range(n), repeat=2)):
        logits = [0.0] * n
        for j in range(13):
            for c in range(n):
                logits[c] += max(float(x[version, a, j] + x[version, b, j]), 0.0) * float(readout[version, j, c])
        assert best[version, a, b] == logits.index(max(logits))
    assert (best[0, :3, :3] == 0).all() and len(best.unique()) > 3


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_numbers_that_are_not_finite_give_the_answers_of_all_pairs_at_once(value):
    generator = torch.Generator().manual_seed(0)
    x, readout = torch.randn(2, 9, 13, generator=generator), torch.randn(13, 9, generator=generator)
    x[1, 4, 2] = readout[3, 5] = value
    expected = ((x.unsqueeze(2) + x.unsqueeze(1)).relu() @ readout).max(-1).indices
    assert torch.equal(best_answers(x, readout.expand(2, -1, -1)), expected) and len(expected.unique()) > 1


def test_a_number_that_is_not_finite_spoils_only_the_answers_it_is_part_of():
    broken = HANDMADE.clone()
    broken.W_E[:, 7] = torch.nan
    assert ov2_mlp2_accuracy(broken).item() > 0.8


def test_random_weights_and_a_broken_ov2_are_at_chance():
    broken = HANDMADE.clone()
    order = torch.randperm(N, generator=torch.Generator().manual_seed(0))
    broken.W_E[:, :N] = HANDMADE.W_E[:, order]  # every number means another one
    assert ov2_mlp2_accuracy(initial_stack(PRESETS["paper"], [0, 1])).max() < 0.05
    accuracy = ov2_mlp2_accuracy(broken)[0]
    assert accuracy < 0.2
    assert len(wrong_pairs(broken)[0]) == round(float((1 - accuracy) * N * N))
    assert all(not ov2_mlp2_correct(broken)[0, n, m] for n, m in wrong_pairs(broken)[0])


def test_the_papers_network_fails_on_four_doubles(paper_run):
    stack = paper_run.checkpoint(40_000)
    assert wrong_pairs(stack) == [[(n, n) for n in (0, 2, 28, 44)]]
    assert round(float(ov2_mlp2_accuracy(stack) * 3481)) == 3477


def test_the_papers_network_along_its_training(paper_run):
    published = {1001: 0.961, 3001: 0.998, 5301: 1.0, 5401: 1.0, 10001: 0.999, 14501: 0.999, 16001: 0.999, 20001: 0.999}
    found = ov2_mlp2_accuracy(paper_run.trajectory(list(published)))
    assert [round(x, 3) for x in found.tolist()] == list(published.values())
