"""The edits of two variables' copies: what they leave alone, and what a network of the package does under them."""

from dataclasses import replace

import numpy as np
import pytest

from assignadd.runs.folder import NETWORKS
from tests.independent.network import answers, read_safetensors
from tests.independent.opposite import NEVER_MEET, both_orders, copies, cosine, outcome, results, with_cosine

NETWORK = read_safetensors(NETWORKS / "census-six" / "checkpoints" / "00050000.safetensors")[0]


@pytest.mark.parametrize("wanted", [-0.95, 0.0, 0.6])
def test_a_turned_vector_has_the_cosine_and_its_length(wanted):
    first, second = np.random.default_rng(0).normal(size=(2, 9))
    turned = with_cosine(first, second, wanted)
    assert cosine(first, turned) == pytest.approx(wanted)
    assert np.linalg.norm(turned) == pytest.approx(np.linalg.norm(second))


@pytest.mark.parametrize(("v", "w"), NEVER_MEET)
def test_the_edits_on_a_network_that_answers_the_pair(v, w):
    batch = both_orders(np.random.default_rng(1), v, w, 200)[0]
    assert set(batch.variables[0]) == {v, w} and (batch.variables == batch.variables[0]).all()
    plain = outcome(NETWORK, batch)
    assert plain.accuracy == (answers(NETWORK, batch.tokens) == batch.answers).mean() > 0.95
    assert outcome(NETWORK, batch, copies(NETWORK)) == plain  # the network's own copies change nothing
    half = outcome(NETWORK, batch, halves=True)
    assert half.accuracy > 0.95 and half.on_values == pytest.approx(1) and half.on_operands == plain.on_operands
    opposite = copies(NETWORK).copy()
    opposite[w] = with_cosine(opposite[v], opposite[w], -1)
    assert outcome(NETWORK, batch, opposite).on_values < plain.on_values - 0.2


def test_the_cases_of_a_network_that_answers_both_pairs():
    found = results([NETWORK], np.random.default_rng(2), n=100)
    assert not found["opposite"] and not found["fails otherwise"]
    answered = found["answered"]
    assert len(answered["accuracy"]) == len(NEVER_MEET) and min(answered["accuracy"]) > 0.9
    assert max(answered["twice one value"]) < 0.2 and min(answered["half on each value"]) > 0.95


def test_a_network_whose_copies_are_opposite_is_such_a_case():
    """By hand: the embedding of h is that of g, negated where layer 1 copies it."""
    opposite = copies(NETWORK)
    v, w = NEVER_MEET[1]
    to_embedding = np.linalg.pinv(NETWORK.OV1)
    W_E = NETWORK.W_E.copy()
    W_E[62 + w] += (-opposite[v] - opposite[w]) @ to_embedding
    changed = results([replace(NETWORK, W_E=W_E)], np.random.default_rng(3), n=100)
    assert min(changed["opposite"]["cosine"]) < -0.9 and len(changed["opposite"]["cosine"]) == 1
