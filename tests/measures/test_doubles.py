"""Votes of single operands against doubles, and the measures of Zhong et al., each against a plain computation."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from assignadd.config import PRESETS, Member, Numerics
from assignadd.measures.doubles import (
    AS_SEEN,
    ASYMMETRY,
    HELD_OUT_DOUBLES,
    LINEAR_LACK,
    NEXT_VOTE,
    NOT_LINEAR,
    OTHERS_LOWERED,
    OTHERS_WITHOUT_VOTES,
    REST_LACK,
    SAME_AMOUNT,
    SEEN_LOWERED,
    VOTE_HELD_OUT,
    VOTE_OF_REST,
    VOTE_OTHERS,
    VOTE_SEEN,
    WITHOUT_VOTES,
    PairLogits,
    asymmetry_columns,
    control_columns,
    distance_irrelevance,
    doubles_columns,
    gradient_symmetricity,
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


def test_the_difference_of_the_operands_is_that_of_mean_residuals():
    stack = initial_stack(SMOKE, [0, 1])
    for m, found in enumerate(asymmetry_columns(stack, CONFIGS, SEEN)):
        _, cache = Transformer.from_stack(stack, m).run_with_cache(every_pair(CONFIGS, SEEN, 0).tokens[m])
        r = cache["blocks.1.hook_resid_mid"][:, -1].numpy().reshape(N, N, -1)
        first = [np.mean([r[n, m] for m in range(N)], 0) - r.mean((0, 1)) for n in range(N)]
        second = [np.mean([r[m, n] for m in range(N)], 0) - r.mean((0, 1)) for n in range(N)]
        apart = sum(((a - b) ** 2).sum() for a, b in zip(first, second, strict=True))
        together = sum(((a + b) ** 2).sum() for a, b in zip(first, second, strict=True))
        assert found[ASYMMETRY] == pytest.approx((apart / together) ** 0.5) and found[ASYMMETRY] > 0.01


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


def test_controls_are_those_of_loops_over_pairs():
    """Random logits and votes with a bonus for the right answer, so that accuracies are neither 0 nor 1."""
    random, N = np.random.default_rng(3), 23
    answers = np.add.outer(np.arange(N), np.arange(N)) % N
    linear, rest, votes = (random.normal(size=shape) for shape in ((N, N, N), (N, N, N), (2, N, N)))
    rest += 2.0 * (answers[..., None] == np.arange(N))
    seen = random.random((N, N)) < 0.5
    held_out, trained = ([n for n in range(N) if seen[n, n] == was] for was in (False, True))
    others = [(n, m) for n in range(N) for m in range(N) if n != m and not seen[n, m] and not seen[m, n]]
    own = np.array([[votes[place, n, 2 * n % N] for n in range(N)] for place in (0, 1)])
    unit = votes.std(ddof=1)

    def right(n, m, taken):
        """Whether n + m is right with amounts (2, N) of n and m taken from the logits of 2n and 2m."""
        logits = (linear + rest)[n, m].copy()
        logits[2 * n % N] -= taken[0][n]
        logits[2 * m % N] -= taken[1][m]
        return logits.argmax() == (n + m) % N

    def accuracy(taken, doubles):
        return np.mean([right(n, n, taken) for n in doubles])

    low, high = (np.repeat(own[:, k].mean(1, keepdims=True), N, 1) for k in (held_out, trained))
    after = np.array([[votes[place, n, 2 * (n + 1) % N] for n in range(N)] for place in (0, 1)])
    lowered = [(linear + rest)[n, m] + low[:, 0].sum() * (np.arange(N) == (n + m) % N) for n, m in others]

    def lack(part):
        at = {(n, m): part[n, m, (n + m) % N] - part[n, m].mean() for n in range(N) for m in range(N)}
        return (np.mean([at[n, n] for n in held_out]) - np.mean([at[pair] for pair in others])) / unit

    def of_rest(n):
        first, second = (np.array([np.mean([r[k, m] for m in range(N) if m != k], axis=0) for k in range(N)])
                         for r in (rest, rest.swapaxes(0, 1)))  # fmt: skip
        above = [x[n] - x.mean(0) for x in (first, second)]
        return np.mean([x[2 * n % N] - x.mean() for x in above]) / unit

    cast = [(votes[0, n, (n + m) % N] + votes[1, m, (n + m) % N]) / 2 / unit for n, m in others]
    expected = {
        VOTE_OTHERS: np.mean(cast),
        VOTE_OF_REST: np.mean([of_rest(n) for n in held_out]),
        LINEAR_LACK: lack(linear),
        REST_LACK: lack(rest),
        SAME_AMOUNT: accuracy(low, held_out),
        AS_SEEN: accuracy(own - high, held_out),
        NEXT_VOTE: accuracy(after, held_out),
        SEEN_LOWERED: accuracy(own - low, trained),
        OTHERS_LOWERED: np.mean([x.argmax() == (n + m) % N for x, (n, m) in zip(lowered, others, strict=True)]),
    }
    logits, votes, linear, answers, seen = map(torch.tensor, (linear + rest, votes, linear, answers, seen))
    found = control_columns(PairLogits(torch.zeros(1, 1, dtype=torch.long), logits, votes, linear), answers, seen)
    assert found == pytest.approx(expected)
    assert len({expected[name] for name in (SAME_AMOUNT, AS_SEEN, NEXT_VOTE)} - {0, 1}) >= 2


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
