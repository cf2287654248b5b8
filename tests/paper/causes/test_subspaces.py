"""The search finds subspaces that exist by construction, and finds none where there can be none."""

import dataclasses
import importlib.util
import itertools

import pytest
import torch

from assignadd.config import ConfigError
from assignadd.model.forward import answer_logits
from assignadd.model.stack import initial_stack
from assignadd.model.transformer import Transformer
from assignadd.paper.causes.subspaces import (
    COMPLEMENT,
    PLACES,
    RANDOM,
    SEARCHED,
    Rotation,
    Search,
    copied_variables,
    fetched_values,
    random_directions,
    searched,
    span,
    within,
)
from tests.interventions.small import CONFIG, HANDMADE, SEEN, TASK

INSTALLED = importlib.util.find_spec("pyvene") is not None
needs_pyvene = pytest.mark.skipif(not INSTALLED, reason="the das extra's pyvene is not installed")
SEARCH = Search(CONFIG, SEEN, 3600)


def test_two_operands_in_separate_subspaces_are_found():
    """In a network with a and b one-hot in two known subspaces of a rotated space, and a neuron for every pair."""
    N, d = 5, 12
    axes = random_directions(torch.zeros(2 * N, d), 3)  # (2 N, d)
    pair = torch.tensor(list(itertools.product(range(N), range(N))))
    W_in = axes[pair[:, 0]] + axes[N + pair[:, 1]]  # (N^2, d)
    W_out = torch.nn.functional.one_hot(pair.sum(1) % N, N).float()
    readout = lambda x: 20 * (x @ W_in.T - 1.5).relu() @ W_out  # noqa: E731
    a, b, other_a, other_b = torch.randint(0, N, (4, 2000), generator=torch.Generator().manual_seed(0))
    base, source = axes[a] + axes[N + b], axes[other_a] + axes[N + other_b]
    assert (readout(base).argmax(-1) == (a + b) % N).all()
    found = searched(readout, base, source, (other_a + b) % N, random_directions(torch.zeros(N - 1, d), 1), 150)
    assert torch.allclose(found @ found.T, torch.eye(N - 1), atol=1e-4)
    answer = readout(base + (source - base) @ found.T @ found).argmax(-1)
    assert (answer == (other_a + b) % N).float().mean() > 0.99
    # The N - 1 differences of the a's are the subspace: as much of it as the answers need, and next to nothing of the
    # b's.
    shares = [(span(own[1:] - own[:1]) @ found.T).square().sum() / (N - 1) for own in axes.split(N)]
    assert shares[0] > 0.85 and shares[1] < 0.05


def test_the_hand_made_model_has_a_sum_and_no_operands():
    """Its layer 2 writes half of each one-hot value into the same N directions."""
    rank = len(fetched_values(HANDMADE))
    for place in PLACES:
        outcome = SEARCH(HANDMADE, "sum", place, rank, steps=100)
        assert outcome.accuracy(SEARCHED) > 0.97 and outcome.accuracy(RANDOM) < 0.4, place
        assert outcome.accuracy(COMPLEMENT) < 0.01
    for variable in ("first operand", "second operand"):
        outcome = SEARCH(HANDMADE, variable, PLACES[0], rank, steps=100)
        assert (
            outcome.accuracy(SEARCHED) < 0.35 and abs(outcome.accuracy(SEARCHED) - outcome.accuracy(COMPLEMENT)) < 0.08
        )


def test_nothing_is_found_in_an_untrained_network():
    assert SEARCH(initial_stack(CONFIG, [0]), "sum", PLACES[0], 8).accuracy(SEARCHED) < 2 / TASK.modulus


def test_the_result_does_not_depend_on_the_state_of_torchs_generator():
    """The result is equal bit by bit, and the state of the generator does not change."""
    readout, base, source = SEARCH.activations(HANDMADE, PLACES[0])
    start, found = random_directions(base[:4], 5), []
    for seed in (1, 2):
        torch.manual_seed(seed)
        found.append(searched(readout, base, source, SEARCH.pairs[True, True].answer, start, steps=5))
        assert torch.equal(torch.get_rng_state(), torch.random.manual_seed(seed).get_state())
    assert torch.equal(*found) and not torch.allclose(found[0], start, atol=1e-3)


def test_training_pairs_are_not_test_pairs(monkeypatch):
    shown = []

    def fake(readout, base, source, answer, start, steps):
        shown.append((base, source, answer))
        return start

    monkeypatch.setattr("assignadd.paper.causes.subspaces.searched", fake)
    outcome, pairs = SEARCH(HANDMADE, "first operand", PLACES[0], 4), SEARCH.pairs[True, False]
    even, odd = pairs.counts.clone(), pairs.counts.clone()
    even[1::2], odd[::2] = False, False
    _, base, source = SEARCH.activations(HANDMADE, PLACES[0])
    assert all(
        torch.equal(*both) for both in zip(shown[0], (base[even], source[even], pairs.answer[even]), strict=True)
    )
    assert torch.equal(outcome.base_vars, pairs.base_vars[odd]) and torch.equal(
        outcome.source_vars, pairs.source_vars[odd]
    )
    assert torch.equal(outcome.hits[SEARCHED], outcome.hits[RANDOM])  # the fake found what it was given
    twice = {tuple(row) for row in SEARCH.base[even].tolist()} & {tuple(row) for row in SEARCH.base[odd].tolist()}
    assert len(twice) < 0.02 * odd.sum()  # so small a task draws some prompts again
    types = torch.stack([pairs.base_vars, pairs.source_vars], 1)
    assert torch.equal(
        types[::2].unique(dim=0, return_counts=True)[1], types[1::2].unique(dim=0, return_counts=True)[1]
    )


@needs_pyvene
def test_the_search_equals_pyvene_on_the_hooked_transformer():
    """pyvene's rotation at a hook of the whole transformer gives the same logits as the rotation of the search."""
    import pyvene

    model, rows = Transformer.from_stack(HANDMADE, 0), slice(0, 50)
    readout, base, source = SEARCH.activations(HANDMADE, PLACES[0])
    with torch.random.fork_rng():
        rotation = pyvene.LowRankRotatedSpaceIntervention(embed_dim=HANDMADE.config.model.d_model, low_rank_dimension=4)
    place = pyvene.RepresentationConfig(1, "blocks.1.hook_resid_mid.output", intervention=rotation)
    hung = pyvene.IntervenableModel(pyvene.IntervenableConfig([place]), model)
    last = TASK.length - 1
    tokens = ({"tokens": SEARCH.base[rows]}, [{"tokens": SEARCH.source[rows]}])
    with torch.no_grad():
        _, logits = hung(*tokens, {"sources->base": last})
        own = Rotation(rotation.rotate_layer.weight.T.contiguous())
        expected = readout(own(base[rows], source[rows]))
    assert torch.allclose(logits[:, -1], expected, atol=1e-4)


def test_a_rotation_exchanges_what_it_spans():
    start = random_directions(torch.zeros(3, 7), 2)
    rotation, (base, source) = Rotation(start), torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(rotation.weight.T, start, atol=1e-6)
    assert torch.allclose(rotation(base, source), base + within(source - base, start), atol=1e-5)


def test_a_rotation_is_a_product_of_reflections():
    """By torch's own product of Householder reflections, in the basis that begins with the first directions."""
    start = random_directions(torch.zeros(3, 7, dtype=torch.float64), 2)
    rotation = Rotation(start)
    rotation.vectors.data = torch.randn(7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    below = rotation.vectors.detach().tril(-1)
    reflected = torch.linalg.householder_product(below, 2 / (1 + below.square().sum(0)))
    assert torch.allclose(rotation.weight, -rotation.basis @ reflected, atol=1e-12)
    assert torch.allclose(rotation.weight.T @ rotation.weight, torch.eye(3, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(rotation.basis[:, :3].T, start) and not torch.allclose(rotation.weight.T, start, atol=0.1)


def test_errors_say_what_is_accepted():
    with pytest.raises(ConfigError, match="rank = 57: expected a number of directions from 1 to 56"):
        SEARCH(HANDMADE, "sum", PLACES[0], 57)


@pytest.mark.parametrize("place", PLACES)
def test_the_readout_of_other_architectures_gives_their_logits(place):
    model = dataclasses.replace(CONFIG.model, n_heads=2, n_layers=3, d_mlp=(8, None, 40), norm="rms", biases=True)
    one = initial_stack(dataclasses.replace(CONFIG, model=model), [0])
    readout, base, source = SEARCH.activations(one, place)
    assert torch.allclose(readout(base), answer_logits(one, SEARCH.base[None])[0], atol=1e-5)
    assert not torch.allclose(base, source, atol=0.1)


def test_directions():
    basis = copied_variables(HANDMADE)
    assert basis.shape[0] == TASK.n_vars and torch.allclose(basis @ basis.T, torch.eye(TASK.n_vars), atol=1e-5)
    other = random_directions(basis, 3)
    assert other.shape == basis.shape and torch.allclose(other @ other.T, torch.eye(TASK.n_vars), atol=1e-5)
    x = torch.arange(float(2 * basis.shape[1])).view(2, -1)
    assert torch.allclose(within(within(x, other), other), within(x, other), atol=1e-3) and within(x, None) is x
