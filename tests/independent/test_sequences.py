"""The NumPy sampler follows the distribution of the task, and the forward pass the definition of attention."""

import numpy as np
import pytest

from tests.independent.network import CAUSAL, Network, forward, softmax
from tests.independent.sequences import (
    AUTHORS_SLOTS,
    EQUALS,
    FIRST_VARIABLE,
    LITERAL,
    PAD,
    PAPER_SLOTS,
    PLUS,
    PREFIX,
    N,
    authors_seen,
    operand_variables,
    pair_classes,
    random_sequences,
)

B = 4000


@pytest.mark.parametrize("n_vars", [0, 1, 2])
def test_every_sequence_is_one_of_the_task(n_vars):
    batch = random_sequences(np.random.default_rng(0), n_vars, B)
    columns = batch.tokens, batch.variables, batch.pairs, batch.value_positions
    for tokens, variables, pair, positions in zip(*columns, strict=True):
        assert tokens[12] == PLUS and tokens[15] == EQUALS
        assigned, i = {}, 0
        while i < PREFIX:
            if tokens[i] == PAD:
                i += 1
            else:
                assert tokens[i] >= FIRST_VARIABLE and tokens[i] not in assigned and tokens[i + 1] < N
                assigned[tokens[i]] = i + 1
                i += 2
        assert max(1, n_vars) <= len(assigned) <= 6
        assert (variables != LITERAL).sum() == n_vars and (n_vars < 2 or variables[0] != variables[1])
        for slot, operand in enumerate(tokens[13:15]):
            assert positions[slot] == (assigned[operand] if operand >= FIRST_VARIABLE else 13 + slot)
            assert tokens[positions[slot]] == pair[slot]


SIXTHS = [1 / 6] * 6


@pytest.mark.parametrize(
    ("n_vars", "even", "shares"),
    [
        (0, False, SIXTHS),
        (1, False, SIXTHS),
        (2, False, [0, 2 / 6, *[1 / 6] * 4]),
        (0, True, SIXTHS),
        (1, True, SIXTHS),
        (2, True, [0, *[1 / 5] * 5]),
    ],
)
def test_number_of_assignments(n_vars, even, shares):
    batch = random_sequences(np.random.default_rng(1), n_vars, B, even=even)
    found = np.bincount(batch.assigned.sum(1), minlength=7)[1:] / B
    np.testing.assert_allclose(found, shares, atol=4 * np.sqrt(0.25 / B))  # four standard errors at most


def test_pads_are_put_into_gaps_independently():
    """With one assignment each of ten PADs is before or after it with equal chance: its position is binomial."""
    batch = random_sequences(np.random.default_rng(2), 0, 3 * B)
    alone = batch.assigned.sum(1) == 1
    start = batch.assigned[alone].argmax(1) - 1
    assert abs(start.mean() - 5) < 4 * np.sqrt(2.5 / alone.sum())
    assert abs(start.var() - 2.5) < 4 * 2.5 * np.sqrt(2 / alone.sum())


@pytest.mark.parametrize(
    ("allowed", "first", "second"), [(PAPER_SLOTS, {0, 1}, {6, 7}), (AUTHORS_SLOTS, {10, 11}, {0, 1})]
)
def test_banned_variables_are_not_used(allowed, first, second):
    for n_vars in (1, 2):
        found = operand_variables(np.random.default_rng(3), n_vars, B, allowed)
        assert set(range(12)) - set(found[:, 0]) == first and set(range(12)) - set(found[:, 1]) == second


def test_classes_of_the_papers_split():
    classes = pair_classes(authors_seen())
    assert {name: len(pairs) for name, pairs in classes.items()} == {
        "seen": 2436, "mirror seen": 723, "neither order seen": 302, "held-out doubles": 20,
    }  # fmt: skip


def test_forward_pass_equals_the_definition():
    """Queries, keys and values formed one by one in float64, at every position of both layers, for random weights."""
    rng, d, h = np.random.default_rng(4), 128, 512
    shapes = [(74, d), (16, d), *[(d, d)] * 8, (d, h), (h, d), (d, 59)]
    net = Network(*(rng.normal(size=shape, scale=0.2).astype(np.float32) for shape in shapes))
    tokens = random_sequences(rng, 2, 20).tokens
    x = (net.W_E[tokens] + net.W_pos).astype(np.float64)
    patterns = []
    for W_Q, W_K, W_V, W_O in ((net.W_Q1, net.W_K1, net.W_V1, net.W_O1), (net.W_Q2, net.W_K2, net.W_V2, net.W_O2)):
        scores = np.einsum("bqh,bkh->bqk", x @ W_Q, x @ W_K) / np.sqrt(128)
        patterns.append(softmax(np.where(CAUSAL, scores, -np.inf)))
        x = x + np.einsum("bqk,bkh->bqh", patterns[-1], x @ W_V) @ W_O
    x = x + np.maximum(x @ net.W_in, 0) @ net.W_out
    state = forward(net, tokens)
    np.testing.assert_allclose(state.pattern_1, patterns[0], atol=1e-4)
    np.testing.assert_allclose(state.pattern_2, patterns[1][:, -1], atol=1e-4)
    expected = x[:, -1] @ net.W_U
    np.testing.assert_allclose(state.logits, expected, atol=1e-4 * np.abs(expected).max())
