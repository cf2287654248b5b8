"""Six shipped networks: the package's numbers compared with the same numbers in plain NumPy.

Where the package measures on sequences of the NumPy sampler, the two differ by float32 rounding only. Where it draws
its own sequences, they differ by sampling error, and the tolerance is 4.5 standard errors of the difference.
"""

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from assignadd.measures.accuracies import set_accuracies
from assignadd.measures.addition import circuit_waves, network_frequencies, ov2_mlp2_correct, preactivation_spectrum
from assignadd.measures.probes import answer_probes
from assignadd.measures.routing import routings
from assignadd.measures.scores import qk1_num_to_prev_var, qk2_ov1_var_identity, qk2_ov1_var_margin
from assignadd.model.accuracy import Exam
from assignadd.model.forward import answer_logits
from assignadd.paper.addition.similarity import across_types, against_ov2
from assignadd.paper.causes.circuit import (
    SECTION_5,
    SECTION_7,
    SECTION_7_EQUALS,
    WHOLE,
    kept_logits,
    variants,
)
from assignadd.paper.causes.interchange import EXCHANGES, Interchange
from assignadd.runs.folder import open_run, shipped
from assignadd.task.evalsets import CLASS_SETS, EVAL_SETS
from tests.independent import behaviour, circuit, weights
from tests.independent.interchange import exchange_rates
from tests.independent.network import answers, gathered, read_safetensors
from tests.independent.sequences import ALL_PAIRS, PAPER_SLOTS, pair_classes, sequences

SIX = shipped("census-six")
SEEDS = (0, 3, 4, 1, 2, 15)
BINDING = 3  # the first three bind
B = 400
STANDARD_ERRORS = 4.5  # there are several hundred comparisons; by chance one in 150,000 exceeds this


@pytest.fixture(scope="module")
def nets():
    return read_safetensors(SIX / "checkpoints" / "00050000.safetensors")


@pytest.fixture(scope="module")
def seen():
    return load_file(SIX / "splits.safetensors")["seen"]


@pytest.fixture(scope="module")
def run():
    torch.set_num_threads(1)
    return open_run(SIX)


@pytest.fixture(scope="module")
def stack(run):
    return run.at()[1]


@pytest.fixture(scope="module")
def batches():
    """Any pair and any slot, for 0, 1 and 2 variables, with the same values row by row."""
    return behaviour.same_values(np.random.default_rng(20), (0, 1, 2), B)


def as_package(tokens):
    return torch.from_numpy(tokens)[None]  # (M = 1, B, T): shared by all models


def by_model(found):
    return np.asarray(found, dtype=np.float64)


def test_weights_and_splits_equal_those_of_the_package(run, stack, nets, seen):
    assert tuple(member.seed for member in run.members) == SEEDS
    assert (run.seen.numpy() == seen).all()
    for i, net in enumerate(nets):
        classes = pair_classes(seen[i])
        assert sum(map(len, classes.values())) == 3481 and len(classes["seen"]) == 2436
        np.testing.assert_array_equal(net.W_E, stack.W_E[i].numpy())


def test_logits(stack, nets, batches):
    for batch in batches:
        theirs = answer_logits(stack, as_package(batch.tokens)).numpy()
        for net, logits in zip(nets, theirs, strict=True):
            (ours,) = gathered(net, batch.tokens, "logits")
            np.testing.assert_allclose(ours, logits, atol=1e-4 * np.abs(logits).max())


def test_numbers_of_the_weights(stack, nets):
    exclusions = {(a, b): [*["self"] * a, *["two_back"] * b] for a in (False, True) for b in (False, True)}
    for (without_self, without_two_back), names in exclusions.items():
        theirs = by_model(qk1_num_to_prev_var(stack, names))
        ours = [weights.previous_position_share(net, without_self, without_two_back) for net in nets]
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    np.testing.assert_allclose([weights.identity_share(net) for net in nets], qk2_ov1_var_identity(stack), atol=1e-6)
    scaled = [weights.identity_margins(net) / np.sqrt(128) for net in nets]
    np.testing.assert_allclose(scaled, qk2_ov1_var_margin(stack), atol=1e-3)
    # If the two best logits of a pair are equal in float32, either may be chosen, in both orders of the pair.
    for net, theirs in zip(nets, ov2_mlp2_correct(stack).numpy(), strict=True):
        assert (weights.ov_mlp_correct(net) != theirs).sum() <= 2


def test_fourier_shares(stack, nets):
    waves, spectrum = circuit_waves(stack), preactivation_spectrum(stack)
    for i, net in enumerate(nets):
        np.testing.assert_allclose(weights.preactivation_shares(net), spectrum[i], atol=1e-5)
        assert weights.network_frequencies(net) == (network_frequencies(stack)[i].nonzero()[:, 0] + 1).tolist()
        np.testing.assert_allclose(weights.one_frequency_shares(net), waves.share[i], atol=1e-4)


def test_attention_rates(stack, nets, batches):
    for batch in batches:
        tokens = as_package(batch.tokens)
        theirs = routings(stack, tokens, [torch.ones_like(tokens[..., 0], dtype=torch.bool)])[0]
        columns = [theirs[f"attn_{x}"] for x in ("l1_equal_to_operands", "l1_num_to_prev", "l2_equal_to_values")]
        ours = np.array([list(behaviour.attention_rates(net, batch).values()) for net in nets])
        np.testing.assert_allclose(ours, np.stack(columns, 1), atol=1.5 / B)  # one sequence with a tie


def test_cosines(stack, nets, batches):
    theirs = across_types(stack, {n_vars: as_package(batch.tokens) for n_vars, batch in enumerate(batches)})
    for (x, y), found in theirs.items():
        ours = [behaviour.cosine_across_types(net, batches[x], batches[y]) for net in nets]
        np.testing.assert_allclose(ours, np.stack([found.matched.mean, found.mismatched.mean], 1), atol=1e-4)
    for batch in batches:
        against = against_ov2(stack, as_package(batch.tokens))
        for name, shuffles in (("residual", against.residual), ("attention output", against.attention_output)):
            means = np.stack([c.mean for c in (shuffles.matched, shuffles.second_shuffled, shuffles.both_shuffled)], 1)
            np.testing.assert_allclose([behaviour.cosines_with_ov2(net, batch)[name] for net in nets], means, atol=1e-4)


@pytest.mark.parametrize("n_vars", [0, 1, 2])
def test_distribution_of_the_samplers(run, n_vars):
    """Both samplers agree on how often each position has a variable, a number or PAD, and each slot each letter."""
    n = 5000
    evalset = next(e for e in EVAL_SETS if e.name == f"{n_vars}-var train")
    theirs = Exam([run.configs[0]], run.seen[:1], [evalset], n).tokens[0].numpy()
    seen_pairs = np.argwhere(run.seen[0].numpy())
    rng = np.random.default_rng(25 + n_vars)
    ours = sequences(rng, n_vars, seen_pairs[rng.integers(len(seen_pairs), size=n)], PAPER_SLOTS, even=True).tokens
    for found in (lambda t: t < 59, lambda t: t == 61, lambda t: t >= 62):
        pairs_of_shares = np.stack([found(ours).mean(0), found(theirs).mean(0)], 1)
        assert all(abs(p - q) <= difference_allowed(p, n, q, n) for p, q in pairs_of_shares)
    for position in (0, 1, 13, 14):
        for token in range(62, 74):
            p, q = (ours[:, position] == token).mean(), (theirs[:, position] == token).mean()
            assert abs(p - q) <= difference_allowed(p, n, q, n), (position, token, p, q)


def difference_allowed(p, n, q, m):
    """STANDARD_ERRORS times the standard error of the difference of two shares; half a count is added near 0 and 1."""
    pooled = (p * n + q * m + 0.5) / (n + m + 1)
    pooled = min(pooled, 1 - 0.5 / (n + m + 1))
    return STANDARD_ERRORS * np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))


@pytest.mark.parametrize("i", range(6), ids=[f"seed {seed}" for seed in SEEDS])
def test_accuracies(run, stack, nets, seen, i):
    """The package's own sampler and forward pass, on sets of the paper's figure."""
    n, rng = 1000, np.random.default_rng(30 + i)
    theirs = set_accuracies(stack.models(i), run.configs[i], run.seen[i], n, EVAL_SETS)
    pairs = {"train": np.argwhere(seen[i]), "add-restricted": np.argwhere(~seen[i])}
    for n_vars in (0, 1, 2):
        for kind, among in pairs.items():
            batch = sequences(rng, n_vars, among[rng.integers(len(among), size=n)], PAPER_SLOTS, even=True)
            ours = (answers(nets[i], batch.tokens) == batch.answers).mean()
            other = theirs[f"{n_vars}-var {kind}"].accuracy
            assert abs(ours - other) < difference_allowed(ours, n, other, n), (n_vars, kind, ours, other)


@pytest.mark.parametrize("i", range(6), ids=[f"seed {seed}" for seed in SEEDS])
def test_held_out_classes(run, stack, nets, seen, i):
    """Literal sums in the three classes of held-out pairs, compared with the package's exam of each class and with all
    held-out pairs together."""
    rng, classes = np.random.default_rng(40 + i), pair_classes(seen[i])
    by_class = {name: behaviour.pair_accuracy(nets[i], rng, classes[name], 0, contexts=8) for name in list(classes)[1:]}
    assert by_class["mirror seen"].mean() > 0.95
    exam = set_accuracies(stack.models(i), run.configs[i], run.seen[i], 3000, CLASS_SETS[:3])
    for (name, own), theirs in zip(by_class.items(), exam.values(), strict=True):  # in the same order
        allowed = difference_allowed(own.mean(), 8 * len(own), theirs.accuracy, theirs.n)
        assert abs(own.mean() - theirs.accuracy) < allowed, name
    held_out = np.concatenate(list(by_class.values()))
    assert len(held_out) == 1045
    once = sequences(rng, 0, ALL_PAIRS[~seen[i].ravel()])
    ours, other = held_out.mean(), (answers(nets[i], once.tokens) == once.answers).mean()
    assert abs(ours - other) < difference_allowed(ours, 8 * 1045, other, 1045)


@pytest.mark.parametrize("i", [0, 3], ids=["seed 0", "seed 1"])
def test_answer_probes(run, stack, nets, i):
    probes = answer_probes(stack.models(i), [run.configs[i]], run.seen[i : i + 1])
    theirs = dict(zip(probes.stages, probes.test[0], strict=True))
    before, after = behaviour.answer_probes(nets[i], np.random.default_rng(50 + i), PAPER_SLOTS)
    assert before < 1 / 59 and theirs["before MLP"] < 1 / 59 + 0.01
    other = float(theirs["after MLP"])
    assert abs(after - other) < difference_allowed(after, 1045, other, 1045) + 0.02  # the ridge penalties differ


@pytest.mark.parametrize("i", range(6), ids=[f"seed {seed}" for seed in SEEDS])
def test_interchange(run, stack, nets, i):
    exchanges = {name: EXCHANGES[name] for name in ("binding tag", "operand query")}
    theirs = Interchange(run.configs[i], run.seen[i], 3600)(stack.models(i), exchanges)
    for n_vars in (1, 2):
        ours = exchange_rates(nets[i], np.random.default_rng(60 + i), n_vars, 1500, PAPER_SLOTS, even=True)
        for name in exchanges:
            hits = theirs[name].with_variables(n_vars).hits.double()
            (share, n), other = ours[name], hits.mean().item()
            assert abs(share - other) < difference_allowed(share, n, other, len(hits)), (n_vars, name, share, other)
            assert (share > 0.5) == (i < BINDING), (n_vars, name, share)


def test_circuit_alone(run, stack, nets, batches):
    """Kept parts give the logits that are recomputed here from masks of their own."""
    tokens = np.concatenate([batch.tokens for batch in batches])
    of_equals = circuit.P_LAST | circuit.E_EQUALS
    for i, net in enumerate(nets[:BINDING]):
        theirs = variants(run.config.task, network_frequencies(stack.models(i))[0])
        for name, parts in {
            WHOLE: circuit.everything(),
            SECTION_5: circuit.section_5(net),
            SECTION_7: circuit.with_section_7(net),
            SECTION_7_EQUALS: circuit.with_section_7(net, of_equals),
        }.items():
            expected = circuit.circuit_logits(net, tokens, parts)
            logits = kept_logits(stack.models(i), as_package(tokens)[0], theirs[name]).numpy()
            np.testing.assert_allclose(logits, expected, atol=1e-4 * np.abs(logits).max())
