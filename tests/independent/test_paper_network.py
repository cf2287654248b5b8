"""The paper's own network, compared with the numbers known for it (the paper's text and the study's reference table).

Tolerances of shares are four standard errors of the sampling here and in the reference (20,000 sequences per set).
"""

import numpy as np
import pytest

from tests.independent import behaviour, circuit, weights
from tests.independent.interchange import exchange_rates
from tests.independent.network import answers, gathered, read_pth
from tests.independent.sequences import AUTHORS_SLOTS, authors_seen, pair_classes, random_sequences, sequences
from tests.reference import REFERENCE

CLASSES = pair_classes(authors_seen())
HELD_OUT = ("mirror seen", "neither order seen", "held-out doubles")


@pytest.fixture(scope="module")
def net():
    if not REFERENCE.is_dir():
        pytest.skip(f"no reference checkpoints at {REFERENCE.name}/ beside the checkout")
    return read_pth(REFERENCE / "model_state_dict.pth")


@pytest.fixture(scope="module")
def literals(net):
    """For every class the share of right answers to each pair, in 24 contexts per pair."""
    rng = np.random.default_rng(10)
    return {name: behaviour.pair_accuracy(net, rng, pairs, 0) for name, pairs in CLASSES.items()}


@pytest.fixture(scope="module")
def one_variable(net):
    rng = np.random.default_rng(11)
    contexts = {name: 24 if name in HELD_OUT else 4 for name in CLASSES}
    return {
        name: behaviour.pair_accuracy(net, rng, pairs, 1, AUTHORS_SLOTS, contexts[name])
        for name, pairs in CLASSES.items()
    }


def mean_over_held_out_pairs(by_class):
    return np.concatenate([by_class[name] for name in HELD_OUT]).mean()


def test_literal_sums_by_class(literals):
    """1.000, 1.000, .65, the first two to three digits. All 20 doubles are used; only the 480 contexts are random."""
    assert literals["seen"].mean() > 0.9995
    assert literals["mirror seen"].mean() > 0.9995
    assert literals["neither order seen"].mean() > 0.9995
    assert literals["held-out doubles"].mean() == pytest.approx(0.65, abs=4 * np.sqrt(0.65 * 0.35 / 480))
    allowed = 4 * np.sqrt(0.0071 / 20_000 + 0.0071 / 25_080)
    assert mean_over_held_out_pairs(literals) == pytest.approx(0.9929, abs=allowed)


def test_pairs_that_fail_are_held_out_doubles(literals):
    """Pairs that are wrong in most contexts are held-out doubles; 0 + 0, 2 + 2 and 44 + 44 are wrong in all."""
    for name in ("seen", "mirror seen", "neither order seen"):
        assert literals[name].min() > 0.5
    doubles = dict(zip(CLASSES["held-out doubles"][:, 0].tolist(), literals["held-out doubles"], strict=True))
    assert {0, 2, 44} <= {n for n, share in doubles.items() if share == 0}


def test_other_literals_fail_in_a_few_contexts(net):
    """0 + 11, a seen pair, is wrong in 3 % of its contexts: not every error on literal sums is a double."""
    share = behaviour.pair_accuracy(net, np.random.default_rng(19), np.array([[0, 11]]), 0, contexts=2000)[0]
    assert share == pytest.approx(0.966, abs=4 * np.sqrt(0.034 / 1000))


def test_one_variable_sums_by_class(one_variable):
    """The same pattern with one variable; .9996 on seen and .9921 on held-out pairs."""
    assert one_variable["seen"].mean() == pytest.approx(0.9996, abs=0.001)
    assert one_variable["mirror seen"].mean() > 0.998
    assert one_variable["neither order seen"].mean() > 0.995
    assert one_variable["held-out doubles"].mean() == pytest.approx(0.65, abs=4 * np.sqrt(0.65 * 0.35 / 480))
    allowed = 4 * np.sqrt(0.0079 / 20_000 + 0.0079 / 25_080)
    assert mean_over_held_out_pairs(one_variable) == pytest.approx(0.9921, abs=allowed)


def test_qk1_previous_position(net):
    """11 of 11 rows if j = i is excluded, with or without j = i - 2; otherwise j = i is the largest in rows 1 to 9."""
    expected = {(True, True): 11, (True, False): 11, (False, True): 2, (False, False): 2}
    for excluded, rows in expected.items():
        assert round(11 * weights.previous_position_share(net, *excluded)) == rows


def test_qk2_identity(net):
    assert weights.identity_share(net) == 1
    assert weights.identity_margins(net).mean() == pytest.approx(74.3, abs=0.05)


def test_ov_mlp(net):
    assert weights.ov_mlp_misses(net) == [(n, n) for n in (0, 2, 28, 44)]


def test_cosine_across_types(net):
    rng = np.random.default_rng(12)
    for types, expected in (((0, 1), 0.966), ((0, 2), 0.941)):
        matched, mismatched = behaviour.cosine_across_types(net, *behaviour.same_values(rng, types, 2000))
        assert matched == pytest.approx(expected, abs=0.005)  # a standard deviation of .03 over 2,000
        assert 0.09 < mismatched < 0.14  # the value for templates like those of the paper


def test_cosines_with_ov2(net):
    rng = np.random.default_rng(13)
    found = [behaviour.cosines_with_ov2(net, random_sequences(rng, n_vars, 2000)) for n_vars in (0, 1, 2)]
    np.testing.assert_allclose([of_type["residual"][0] for of_type in found], [0.981, 0.962, 0.940], atol=0.005)
    # Shuffled cosines have a standard deviation of .2 to .3, so .02 is four standard errors of 2,000.
    np.testing.assert_allclose(found[0]["attention output"], [0.986, 0.535, 0.061], atol=0.025)
    assert found[0]["attention output"][0] == pytest.approx(0.986, abs=0.002)


def test_fourier_shares(net):
    frequencies = weights.network_frequencies(net)
    assert frequencies == [1, 2, 4, 5, 11, 15, 19, 20, 22, 27]
    assert weights.preactivation_shares(net)[np.array(frequencies) - 1].sum() == pytest.approx(0.994, abs=5e-4)
    shares = weights.one_frequency_shares(net)
    assert (round(shares.mean(), 3), round(float(np.median(shares)), 3), round(shares[70], 3)) == (0.609, 0.693, 0.963)
    assert ((shares >= 0.9).sum(), (shares < 0.5).sum()) == (70, 201)


def test_fourier_shares_in_context(net):
    """Contexts of the training distribution add noise: .674 for the median neuron in the ledger; neuron 70 keeps 11."""
    preactivations = behaviour.context_preactivations(net, np.random.default_rng(14), AUTHORS_SLOTS)
    shares, best = weights.one_frequency_shares_of_maps(preactivations)
    assert np.median(shares) == pytest.approx(0.674, abs=0.01)
    assert best[70] == 11 and shares[70] > 0.93


def test_answer_probes(net):
    """Below chance before MLP2 (the answer to a test pair is the one missing from its row and column), near 1 after."""
    before, after = behaviour.answer_probes(net, np.random.default_rng(15), AUTHORS_SLOTS)
    assert before < 1 / 59
    assert after > 0.99


def test_interchange(net):
    """.995 and .900 over both types in the ledger; here one and two variables separately."""
    rng = np.random.default_rng(16)
    one, two = (exchange_rates(net, rng, n_vars, 4000, AUTHORS_SLOTS) for n_vars in (1, 2))
    assert one["binding tag"][0] > 0.99 and two["binding tag"][0] > 0.98
    assert one["operand query"][0] == pytest.approx(0.836, abs=0.03)
    assert two["operand query"][0] == pytest.approx(0.990, abs=0.01)


def test_circuit_alone(net):
    """The parts of section 5 answer only two-variable sums; with section 7's block also literals."""
    rng = np.random.default_rng(17)
    batches = [random_sequences(rng, n_vars, 1500, AUTHORS_SLOTS) for n_vars in (0, 1, 2)]
    for batch in batches:
        own = gathered(net, batch.tokens, "logits")[0]
        whole = circuit.circuit_logits(net, batch.tokens, circuit.everything())
        np.testing.assert_allclose(whole, own, atol=1e-4 * np.abs(own).max())
    both = circuit.P_LAST | circuit.E_EQUALS
    versions = {
        "section 5": (circuit.section_5(net), (0.084, 0.246, 0.982)),
        "and section 7, p_15 asking": (circuit.with_section_7(net), (0.609, 0.842, 0.982)),
        "and section 7, p_15 and = asking": (circuit.with_section_7(net, both), (0.986, 0.997, 0.981)),
    }
    for name, (parts, expected) in versions.items():
        found = [circuit.circuit_accuracy(net, batch.tokens, batch.answers, parts) for batch in batches]
        # The expected values are from 2,000 sequences: four standard errors of the difference, plus .005 near 1.
        errors = [4 * np.sqrt(p * (1 - p) * (1 / 2000 + 1 / 1500)) + 0.005 for p in expected]
        assert np.all(np.abs(np.subtract(found, expected)) < errors), (name, found)


def test_attention_rates(net):
    """1.000 to three digits, with any pair of values and variables in any slot."""
    rng = np.random.default_rng(18)
    for n_vars in (0, 1, 2):
        rates = behaviour.attention_rates(net, random_sequences(rng, n_vars, 2000))
        assert min(rates.values()) > 0.9985, (n_vars, rates)


@pytest.mark.parametrize(
    ("step", "seen", "held_out"), [(1001, 0.343, 0.227), (3001, 0.458, 0.357), (5401, 0.869, 0.816)]
)
def test_two_variable_sums_along_training(step, seen, held_out):
    """The reference accuracies, on 3,000 sequences each, have 2..6 assignments equally often.

    The training distribution is easier: it raises one assignment to two, so two are twice as frequent, and there a
    network that does not bind can add both numbers.
    """
    if not REFERENCE.is_dir():
        pytest.skip(f"no reference checkpoints at {REFERENCE.name}/ beside the checkout")
    net, rng, n = read_pth(REFERENCE / f"checkpoint_step_{step}.pth"), np.random.default_rng(step), 3000
    for among, expected in ((authors_seen(), seen), (~authors_seen(), held_out)):
        pairs = np.argwhere(among)[rng.integers(among.sum(), size=n)]
        even, trained = (sequences(rng, 2, pairs, AUTHORS_SLOTS, even=even) for even in (True, False))
        accuracy, in_training = ((answers(net, batch.tokens) == batch.answers).mean() for batch in (even, trained))
        assert accuracy == pytest.approx(expected, abs=4 * np.sqrt(2 * expected * (1 - expected) / n))
        assert in_training > accuracy
