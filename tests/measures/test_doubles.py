"""Votes of single operands against doubles, and the measures of Zhong et al., each against a plain computation."""

from dataclasses import replace

import pytest
import torch

from assignadd.config import PRESETS, Member, Numerics
from assignadd.measures.clock_or_pizza import distance_irrelevance, gradient_symmetricity
from assignadd.measures.doubles import (
    HELD_OUT_DOUBLES,
    NOT_LINEAR,
    OTHERS_WITHOUT_VOTES,
    VOTE_HELD_OUT,
    VOTE_SEEN,
    WITHOUT_VOTES,
    doubles_columns,
    pair_logits,
)
from assignadd.measures.sequences import every_pair
from assignadd.model.forward import answer_logits
from assignadd.model.handmade import handmade
from assignadd.model.stack import initial_stack
from assignadd.model.transformer import Transformer
from assignadd.task.splits import pair_split

SMOKE = replace(PRESETS["smoke"], numerics=Numerics(dtype="float64"))
CONFIGS = [Member(seed).config(SMOKE) for seed in (0, 1)]
SEEN = torch.stack([pair_split(SMOKE.task, seed) for seed in (0, 1)])
N = SMOKE.task.modulus


def test_the_linear_part_is_half_of_the_logits_of_x_less_those_of_minus_x():
    """f(x) = x + MLP2(x) before the unembedding; the linear part is given less its mean over the pairs."""
    stack = initial_stack(SMOKE, [0, 1])
    for m, found in enumerate(pair_logits(stack, CONFIGS, SEEN)):
        model = Transformer.from_stack(stack, m)
        kept = {}
        model.blocks[1].mlp.register_forward_pre_hook(lambda _, args, kept=kept: kept.update(r=args[0]))
        with torch.no_grad():
            model(every_pair(CONFIGS, SEEN, 0).tokens[m])
            r = kept["r"][:, -1]
            both = [r + model.blocks[1].mlp(r), -r + model.blocks[1].mlp(-r)]
            odd = (both[0] - both[1]) / 2 @ model.unembed.W_U
        torch.testing.assert_close(found.linear.view(N * N, N), odd - odd.mean(0))


def test_only_the_two_votes_for_doubles_are_removed():
    n = torch.arange(N)
    answers = (n[:, None] + n) % N
    for found in pair_logits(initial_stack(SMOKE, [0, 1]), CONFIGS, SEEN):
        changed = found.logits - found.without_votes_for_doubles(answers)
        for a in range(N):
            for b in range(N):
                expected = torch.zeros(N, dtype=torch.float64)
                expected[2 * a % N] += found.votes[0, a, 2 * a % N]
                expected[2 * b % N] += found.votes[1, b, 2 * b % N]
                torch.testing.assert_close(changed[a, b], expected)


def test_planted_votes_are_found_and_removing_them_makes_doubles_right():
    """The hand-made network with a direct path from n to the logit of 2n, negative where n + n is held out."""
    config = Member(0).config(replace(PRESETS["paper"], numerics=Numerics(dtype="float64")))
    stack, seen, N = handmade(config), pair_split(config.task, 0)[None], config.task.modulus
    tokens = every_pair([config], seen, 0).tokens
    plain = doubles_columns(stack, [config], seen)[0]
    assert plain[HELD_OUT_DOUBLES] == plain[WITHOUT_VOTES] == plain[OTHERS_WITHOUT_VOTES] == 1
    # The residual of the numbers at `=` is read off the network, and its pseudo-inverse writes the votes into W_U.
    logits, n = answer_logits(stack, tokens).view(N, N, N), torch.arange(N)
    margin = float((logits.max(-1).values - logits.sort(-1).values[..., -2]).max())
    model = Transformer.from_stack(stack, 0)
    kept = {}
    model.blocks[1].mlp.register_forward_pre_hook(lambda _, args: kept.update(r=args[0]))
    with torch.no_grad():
        model(tokens[0])
    r = kept["r"][:, -1].view(N, N, -1).mean(1)
    wanted = torch.zeros(N, N, dtype=torch.float64)
    wanted[n, 2 * n % N] = -3 * margin * (~seen[0]).diagonal().double()
    planted = torch.linalg.pinv(r - r.mean(0)) @ (wanted - wanted.mean(0))
    stack.W_U[0].add_(planted)
    found = doubles_columns(stack, [config], seen)[0]
    assert found[HELD_OUT_DOUBLES] < 0.2 and found[VOTE_HELD_OUT] < -1 < found[VOTE_SEEN]
    assert found[WITHOUT_VOTES] > 0.9 and found[NOT_LINEAR] > 0.9


def test_distance_irrelevance_of_a_clock_and_a_pizza():
    n = torch.arange(11)
    distance = ((n - n[:, None]) % 11).double()
    assert distance_irrelevance(distance) == pytest.approx(0)
    sums = ((n + n[:, None]) % 11).double()
    assert distance_irrelevance(sums) == pytest.approx(1)


def test_gradient_symmetricity_is_the_cosine_of_two_finite_differences():
    stack = initial_stack(SMOKE, [3])
    tokens, answers = every_pair(CONFIGS[:1], SEEN[:1], 0).tokens[0, 1:2], torch.tensor([4])
    model, step = Transformer.from_stack(stack, 0), 1e-6
    x = model.embed.W_E[tokens] + model.pos_embed.W_pos
    first, second = SMOKE.task.length - 3, SMOKE.task.length - 2
    gradients = []
    with torch.no_grad():
        for slot in (first, second):
            moved = x.expand(x.shape[-1], -1, -1).clone()
            moved[:, slot] += step * torch.eye(x.shape[-1], dtype=x.dtype)
            gradients.append((model.from_residual(moved)[:, -1, 4] - model.from_residual(x)[:, -1, 4]) / step)
    expected = torch.cosine_similarity(*gradients, dim=0)
    assert gradient_symmetricity(stack, tokens, answers) == pytest.approx(float(expected), abs=1e-4)
