"""Seen and held-out pairs."""

import dataclasses
import random
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats

from assignadd.config import Task
from assignadd.task.splits import authors_split, pair_split
from tests.task.plain_sampler import philox


def test_seventy_percent_of_3481_rounds_down():
    seen = pair_split(Task(), 0)
    assert seen.shape == (59, 59) and seen.dtype == torch.bool
    assert int(seen.sum()) == 2436 and int((~seen).sum()) == 1045


@pytest.mark.parametrize(
    ("modulus", "fraction", "n_seen"),
    [(10, 0.29, 29), (10, 0.57, 57), (10, 0.999, 99), (59, 1.0, 3481), (2, 0.25, 1), (10, 0.07, 7)],
)
def test_a_fraction_that_is_whole_stays_whole(modulus, fraction, n_seen):
    task = Task(modulus=modulus, seen_fraction=fraction)  # 0.29 * 100 and 0.57 * 100 are just below 29 and 57 in floats
    assert int(pair_split(task, 5).sum()) == n_seen


@pytest.mark.parametrize("seed", [0, 2**40 + 5])
def test_the_seen_pairs_come_first_in_the_order_of_their_random_bits(seed):
    def bits(pair):  # of row 59 n + m in the split's stream, number 3
        high, low, *_ = philox((59 * pair[0] + pair[1], 0, 0, 3), (seed % 2**32, seed >> 32))
        return high, low

    pairs = [(n, m) for n in range(59) for m in range(59)]
    assert {tuple(pair) for pair in pair_split(Task(), seed).nonzero().tolist()} == {*sorted(pairs, key=bits)[:2436]}


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
def test_splits_of_a_seed_are_nested(seed):
    fractions = [0.001, 0.1, 0.25, 0.5, 0.7, 0.9, 1.0]
    splits = [pair_split(Task(seen_fraction=f), seed) for f in fractions]
    for smaller, larger in pairwise(splits):
        assert (larger | ~smaller).all() and larger.sum() > smaller.sum()


def test_splits_are_a_function_of_the_seed_only():
    other_settings = dataclasses.replace(Task(), n_vars=20, length=30, two_var_ratio=0.1)
    assert torch.equal(pair_split(Task(), 6), pair_split(other_settings, 6))
    # Two unrelated splits agree where both see or both hold out: .7^2 + .3^2 = .58 of the pairs, give or take .008.
    agreement = (pair_split(Task(), 6) == pair_split(Task(), 7)).double().mean()
    assert 0.54 < agreement < 0.62


def test_over_seeds_every_pair_is_held_out_equally_often():
    held_out = torch.stack([~pair_split(Task(modulus=12), seed) for seed in range(500)]).sum(0).flatten().numpy()
    # A split fixes the number of held-out pairs, which leaves each count a variance of 500 f (1 - f).
    f = 44 / 144
    statistic = ((held_out - 500 * f) ** 2 / (500 * f * (1 - f))).sum() * (143 / 144)
    assert 1e-3 < stats.chi2(143).sf(statistic) < 1 - 1e-3


def test_the_authors_split():
    pairs = [(n, m) for n in range(59) for m in range(59)]
    expected = np.zeros((59, 59), dtype=bool)
    for n, m in random.Random(42).sample(pairs, 2436):
        expected[n, m] = True
    seen = authors_split(Task()).numpy()
    assert (seen == expected).all()
    held_out = [(n, m) for n, m in pairs if not seen[n, m]]
    mirror_seen, doubles = sum(bool(seen[m, n]) for n, m in held_out), sum(n == m for n, m in held_out)
    assert (len(held_out), mirror_seen, len(held_out) - mirror_seen - doubles, doubles) == (1045, 723, 302, 20)


@pytest.mark.parametrize("fraction", [0.0001, 0.3, 0.7, 1.0])
def test_with_unordered_pairs_both_orders_are_seen_or_held_out(fraction):
    task = Task(modulus=30, seen_fraction=max(fraction, 1 / 900), unordered_split=True)
    seen = pair_split(task, 3)
    assert torch.equal(seen, seen.T) and 0 <= int(seen.sum()) - task.n_seen <= 1
    assert not torch.equal(pair_split(task, 4), seen) or fraction == 1
    larger = pair_split(dataclasses.replace(task, seen_fraction=1.0), 3)
    assert (larger | ~seen).all()
    if 0.1 < fraction < 1:  # a pair of different numbers is no more often seen than (n, n)
        doubles = torch.stack([pair_split(task, seed).diagonal() for seed in range(200)]).double().mean()
        assert abs(doubles - fraction) < 0.03


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_share_of_seen_doubles_changes_no_other_pair(share):
    task, other = Task(), ~torch.eye(59, dtype=torch.bool)
    plain, seen = pair_split(task, 8), pair_split(dataclasses.replace(task, seen_doubles=share), 8)
    assert torch.equal(plain[other], seen[other]) and int(seen.diagonal().sum()) == int(59 * share)
    # Nested with the plain split, which sees the doubles with the smallest random bits.
    fewer, more = sorted((plain.diagonal(), seen.diagonal()), key=lambda mask: int(mask.sum()))
    assert (more | ~fewer).all()


def test_a_held_out_distance_holds_out_a_line_in_both_orders_and_nothing_else():
    plain = Task(seen_fraction=1.0)
    lines = {0: {(n, n) for n in range(59)}, 7: {(n, (n + step) % 59) for n in range(59) for step in (7, -7)}}
    for distance, pairs in lines.items():
        held_out = ~pair_split(dataclasses.replace(plain, held_out_distance=distance), 5)
        assert {tuple(pair) for pair in held_out.nonzero().tolist()} == pairs
    task = Task(seen_doubles=1.0)
    line = pair_split(dataclasses.replace(task, held_out_distance=7), 5)
    assert line.diagonal().all() and torch.equal(line, pair_split(task, 5) & ~held_out)


def test_a_shuffled_distance_holds_out_as_many_pairs_of_each_number():
    task = Task(seen_fraction=1.0, held_out_distance=7, shuffled_distance=True)
    masks = [~pair_split(task, seed) for seed in range(20)]
    for held_out in masks:
        assert torch.equal(held_out, held_out.T) and not held_out.diagonal().any()
        assert (held_out.sum(1) == 2).all()
    n = torch.arange(59)
    distances = torch.cat([((n - n[:, None]) % 59)[mask] for mask in masks])
    counts = torch.bincount(distances, minlength=59)[1:]
    assert stats.chisquare(counts[:29]).pvalue > 1e-4  # no distance is preferred
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == 20
