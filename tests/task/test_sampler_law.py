"""The distribution of training sequences (paper, section 3), factor by factor, on 400,000 sequences of each preset."""

from itertools import combinations, permutations, product
from math import factorial, prod

import numpy as np
import pytest
from scipy import stats

from assignadd.config import PRESETS
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from tests.task.decoding import decode

ROWS = 400_000
ALLOWED = {  # variables that training may put first and second: all of a..l but the banned ones
    "paper": ([*range(2, 12)], [0, 1, 2, 3, 4, 5, 8, 9, 10, 11]),
    "authors": ([*range(10)], [*range(2, 12)]),
}
ZERO, FIRST, SECOND, TWO = range(4)


@pytest.fixture(scope="module", params=["paper", "authors"])
def training(request):
    task = PRESETS[request.param].task
    seen = pair_split(task, 2)
    tokens = Sampler([task], seen[None], [23]).sample(4, ROWS).tokens[0].numpy()
    return request.param, seen.numpy(), decode(task, tokens)


def assert_follows(observed, law):
    """Chi-square of what was observed (hashable, one per sequence) against a law {outcome: probability}."""
    outcomes, counts = np.unique(np.asarray(observed), return_counts=True, axis=0)
    counted = {tuple(o) if np.ndim(o) else o.item(): c for o, c in zip(outcomes, counts, strict=True)}
    assert set(counted) <= set(law), "an outcome the law does not have"
    assert sum(law.values()) == pytest.approx(1)
    expected = np.array([*law.values()]) * len(observed)
    assert expected.min() > 5, "too few sequences for a chi-square test"
    assert stats.chisquare([counted.get(o, 0) for o in law], expected).pvalue > 1e-4


def uniform(outcomes):
    outcomes = [*outcomes]
    return dict.fromkeys(outcomes, 1 / len(outcomes))


def assert_independent(x, y):
    _, x = np.unique(x, return_inverse=True)
    _, y = np.unique(y, return_inverse=True)
    table = np.zeros((x.max() + 1, y.max() + 1))
    np.add.at(table, (x, y), 1)
    assert stats.chi2_contingency(table).pvalue > 1e-4


def slot_of(decoded, variable):
    """Which assignment, counted from 0, is this variable's."""
    return (decoded.order == variable).argmax(0)


def test_kinds_are_mixed_12_to_20_to_10(training):
    *_, decoded = training
    assert_follows(decoded.kind, {ZERO: 12 / 42, FIRST: 10 / 42, SECOND: 10 / 42, TWO: 10 / 42})


def test_without_literals_the_other_kinds_are_mixed_20_to_10():
    task = PRESETS["paper"].task
    tokens = Sampler([task], pair_split(task, 2)[None], [23], literals=[False]).sample(4, 20_000).tokens[0].numpy()
    assert_follows(decode(task, tokens).kind, uniform([FIRST, SECOND, TWO]))


def test_the_number_of_assignments_is_uniform_and_at_least_two_for_two_variables(training):
    *_, decoded = training
    for kind in (ZERO, FIRST, SECOND):
        assert_follows(decoded.n[decoded.kind == kind], uniform(range(1, 7)))
    assert_follows(decoded.n[decoded.kind == TWO], {2: 1 / 3, 3: 1 / 6, 4: 1 / 6, 5: 1 / 6, 6: 1 / 6})


@pytest.mark.parametrize("evalset", EVAL_SETS, ids=lambda s: s.name)
def test_in_evaluation_sets_the_number_of_assignments_is_uniform(evalset):
    task = PRESETS["paper"].task
    tokens = Sampler([task], pair_split(task, 2)[None], [23], evalset).sample(0, 20_000).tokens[0].numpy()
    assert_follows(decode(task, tokens).n, uniform(range(max(1, evalset.n_vars), 7)))


def test_each_pad_is_in_a_gap_uniformly_and_independently(training):
    *_, decoded = training
    for n in (1, 4, 5):
        pads, n_gaps = 12 - 2 * n, n + 1
        gaps = decoded.gaps[:n_gaps, decoded.n == n].T
        law = {
            counts: factorial(pads) / prod(map(factorial, counts)) / n_gaps**pads
            for counts in product(range(pads + 1), repeat=n_gaps)
            if sum(counts) == pads
        }
        rare = {counts for counts, p in law.items() if p * len(gaps) < 10}  # pooled, as the test asks
        if rare:
            gaps = np.array([(-1,) * n_gaps if tuple(g) in rare else g for g in gaps.tolist()])
            law = {c: p for c, p in law.items() if c not in rare} | {(-1,) * n_gaps: sum(law[c] for c in rare)}
        assert_follows(gaps, law)


def test_operands_are_uniform_among_the_variables_that_are_not_banned(training):
    preset, _, decoded = training
    first, second = ALLOWED[preset]
    assert_follows(decoded.first[decoded.kind == FIRST], uniform(first))
    assert_follows(decoded.second[decoded.kind == SECOND], uniform(second))
    two = np.stack([decoded.first, decoded.second], 1)[decoded.kind == TWO]
    assert_follows(two, uniform((a, b) for a, b in product(first, second) if a != b))


def test_the_pair_of_values_is_uniform_on_the_seen_pairs_for_every_kind(training):
    _, seen, decoded = training
    pairs = [(n, m) for n in range(59) for m in range(59) if seen[n, m]]
    for kind in range(4):
        assert_follows(decoded.pair.T[decoded.kind == kind], uniform(pairs))


def test_operands_are_anywhere_among_the_assignments(training):
    *_, decoded = training
    slots = np.stack([slot_of(decoded, decoded.first), slot_of(decoded, decoded.second)], 1)
    for n in range(2, 7):
        assert_follows(slots[(decoded.kind == FIRST) & (decoded.n == n), 0], uniform(range(n)))
        assert_follows(slots[(decoded.kind == SECOND) & (decoded.n == n), 1], uniform(range(n)))
        assert_follows(slots[(decoded.kind == TWO) & (decoded.n == n)], uniform(permutations(range(n), 2)))


def test_distractors_are_all_other_variables_in_any_order(training):
    *_, decoded = training
    pairs = decoded.order[:2, (decoded.kind == ZERO) & (decoded.n == 2)].T
    assert_follows(pairs, uniform(permutations(range(12), 2)))
    everyone = np.sort(decoded.order[:, (decoded.kind == ZERO) & (decoded.n == 6)].T, 1)
    assert_follows(everyone, uniform(combinations(range(12), 6)))
    # With operands: the distractor's rank among the variables that are left, banned ones included.
    for kind, n, left in ((FIRST, 2, 11), (SECOND, 2, 11), (TWO, 3, 10)):
        chosen = (decoded.kind == kind) & (decoded.n == n)
        order, operands = decoded.order[:n, chosen], np.stack([decoded.first, decoded.second])[:, chosen]
        distractor = order.sum(0) - np.where(operands >= 0, operands, 0).sum(0)
        rank = distractor - ((operands >= 0) & (operands < distractor)).sum(0)
        assert_follows(rank, uniform(range(left)))
        assert_independent(rank, operands[0] if kind != SECOND else operands[1])


def test_distractors_values_are_uniform_and_independent(training):
    *_, decoded = training
    chosen = (decoded.kind == ZERO) & (decoded.n == 6)
    values = np.stack([decoded.value[decoded.order[i, chosen], np.flatnonzero(chosen)] for i in range(6)])
    for i in range(6):
        assert_follows(values[i], uniform(range(59)))
        assert_independent(values[i] % 7, decoded.pair[0, chosen])
        assert_independent(values[i] % 7, values[i - 1] % 5)
        assert_independent(values[i], decoded.order[i, chosen])


def test_the_factors_are_independent_of_each_other(training):
    *_, decoded = training
    for kind in range(4):
        chosen = decoded.kind == kind
        assert_independent(decoded.n[chosen], decoded.pair[0, chosen])
        assert_independent(decoded.n[chosen], decoded.pair[1, chosen])
        if kind in (FIRST, TWO):
            assert_independent(decoded.n[chosen], decoded.first[chosen])
            assert_independent(decoded.first[chosen], decoded.pair[0, chosen])
            six = chosen & (decoded.n == 6)
            assert_independent(slot_of(decoded, decoded.first)[six], decoded.first[six])
        if kind in (SECOND, TWO):
            assert_independent(decoded.second[chosen], decoded.pair[1, chosen])
