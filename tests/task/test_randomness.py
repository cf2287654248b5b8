"""The counter-based randomness: published known answers, uniformity, and independence from order and stacking."""

import math
from itertools import pairwise

import pytest
import torch
from scipy import stats

from assignadd.config import Task
from assignadd.config.task import LETTERS
from assignadd.task.randomness import (
    Digits,
    EvalSteps,
    Stream,
    TrainingLawDraws,
    digit,
    normals,
    philox,
    word_of_each_draw,
    words,
)
from tests.task.plain_sampler import philox as plain_philox

ZERO = torch.tensor(0)
# From kat_vectors of the Random123 distribution, philox4x32 with 10 rounds: counter, key, output.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def hexadecimal(text):
    return tuple(int(word, 16) for word in text.split())


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(counter, key, expected):
    as_tensors = [tuple(torch.tensor(word) for word in hexadecimal(text)) for text in (counter, key)]
    assert tuple(int(word) for word in philox(*as_tensors)) == hexadecimal(expected)
    assert plain_philox(hexadecimal(counter), hexadecimal(key)) == hexadecimal(expected)


def test_a_tensor_of_counters_equals_single_counters():
    generator = torch.Generator().manual_seed(1)
    *counter, k0, k1 = torch.randint(2**32, (6, 200), generator=generator)
    together = torch.stack(philox(tuple(counter), (k0, k1))).T.tolist()
    alone = [list(plain_philox(c[:4], c[4:])) for c in torch.stack([*counter, k0, k1]).T.tolist()]
    assert together == alone


def test_words_count_row_step_block_and_stream_under_the_whole_seed():
    seed, step, row = 2**63 - 12345, 29_999, 511
    drawn = words(torch.tensor(seed), Stream.EVAL, torch.tensor(step), torch.tensor(row), 10).tolist()
    blocks = [plain_philox((row, step, block, 1), (seed % 2**32, seed >> 32)) for block in range(3)]
    assert drawn == [word for block in blocks for word in block][:10]


def test_streams_seeds_steps_and_rows_share_no_word():
    seeds = torch.tensor([0, 1, 2**32, 2**62])[:, None, None]
    steps, rows = torch.tensor([0, 1, 2])[:, None], torch.arange(50)
    drawn = torch.cat([words(seeds, stream, steps, rows, 8).flatten() for stream in Stream])
    # About n^2 / 2^33 = 0.4 chance repetitions among so many words; every repeated use of a counter would add 8 at
    # least.
    assert len(drawn) - len(drawn.unique()) < 8


@pytest.mark.parametrize("reserved", [EvalSteps, TrainingLawDraws])
def test_no_two_reserved_ranges_overlap(reserved):
    ranges = sorted((r for r in vars(reserved).values() if isinstance(r, range)), key=lambda r: r.start)
    assert len(ranges) >= 2 and all(len(r) > 0 and r.step == 1 for r in ranges)
    assert all(one.stop <= following.start for one, following in pairwise(ranges))


def test_draws_fit_into_their_reserved_range():
    from assignadd.measures.accuracies import ANY_PAIR_PLACE, variable_sets
    from assignadd.model.accuracy import END_EVALUATIONS
    from assignadd.task.evalsets import ALL_SETS

    most = max(len(variable_sets(Task(n_vars=len(LETTERS)))), len(ALL_SETS))
    assert most <= min(len(EvalSteps.EXAMS), len(EvalSteps.FINAL_EXAM))
    assert 3 * TrainingLawDraws.INTERCHANGE.stop <= len(EvalSteps.TRAINING_LAW)
    # The sets of one of the last evaluations, and behind them the one that is asked for by itself.
    assert len(ALL_SETS) <= ANY_PAIR_PLACE < len(EvalSteps.END_EXAMS) // END_EVALUATIONS


def test_words_do_not_depend_on_order_number_or_stack():
    seeds, steps, rows = (
        torch.tensor([3, 2**40 + 1, 77])[:, None],
        torch.tensor([5, 0])[:, None, None],
        torch.tensor([9, 0, 4]),
    )
    stacked = words(seeds, Stream.DATA, steps, rows, 9)
    assert stacked.shape == (9, 2, 3, 3)
    for s, step in enumerate([5, 0]):
        for m, seed in enumerate([3, 2**40 + 1, 77]):
            for b, row in enumerate([9, 0, 4]):
                alone = words(torch.tensor(seed), Stream.DATA, torch.tensor(step), torch.tensor(row), 3)
                assert stacked[:3, s, m, b].tolist() == alone.tolist()


def test_a_digit_is_the_fraction_times_the_bound():
    for word in (0, 1, 2**31, 2**32 - 1):
        for bound in (1, 2, 59, 3481, 997**2):
            drawn, rest = digit(torch.tensor(word), bound)
            assert (int(drawn), int(rest)) == divmod(word * bound, 2**32)
            assert 0 <= drawn < bound


@pytest.mark.parametrize("bounds", [[6, 6, 6, 103], [59, 59], [2] * 12, [3481], [5, 1, 7]])
def test_digits_from_shared_words_are_jointly_uniform(bounds):
    n = 400_000
    draw = Digits(words(torch.tensor(20), Stream.DATA, ZERO, torch.arange(n), 4), word_of_each_draw(bounds))
    joint = torch.zeros(n, dtype=torch.int64)
    for bound in bounds:
        joint = joint * bound + draw.below(bound)
    outcomes = math.prod(bounds)
    counts = torch.bincount(joint, minlength=outcomes)
    assert len(counts) == outcomes
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_a_bound_may_differ_from_row_to_row():
    bound = torch.arange(1, 7).repeat_interleave(50_000)
    drawn = Digits(words(torch.tensor(21), Stream.DATA, ZERO, torch.arange(len(bound)), 2), (1,)).below(bound)
    for b in range(2, 7):
        counts = torch.bincount(drawn[bound == b])
        assert len(counts) == b and stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_draws_share_a_word_as_long_as_their_bounds_fit_into_it():
    """Word 0 is not drawn from; a draw that begins no word is 0."""
    assert word_of_each_draw([65536, 1, 2]) == (1, 0, 2) and word_of_each_draw([65537, 2]) == (1, 2)
    assert word_of_each_draw([6, 6, 6, 103, 3481, 7, 2]) == (1, 0, 0, 0, 2, 0, 0)
    assert word_of_each_draw([997**2] * 3) == (1, 2, 3) and max(word_of_each_draw([2] * 33)) == 3


def test_normals_are_standard_normal_and_independent():
    x = normals(4, Stream.INIT, torch.arange(200_000))
    assert stats.kstest(x.numpy(), "norm").pvalue > 1e-3
    assert abs(x.mean()) < 5 / math.sqrt(len(x))
    assert abs((x**2).mean() - 1) < 5 * math.sqrt(2 / len(x))
    assert abs((x**3).mean()) < 5 * math.sqrt(15 / len(x))
    assert abs((x**4).mean() - 3) < 5 * math.sqrt(96 / len(x))
    assert abs((x[1:] * x[:-1]).mean()) < 5 / math.sqrt(len(x))
    assert abs((x * normals(5, Stream.INIT, torch.arange(200_000))).mean()) < 5 / math.sqrt(len(x))


def test_normals_depend_only_on_their_row():
    x = normals(9, Stream.INIT, torch.tensor([[7, 100_000], [0, 3]]))
    for row, value in ((7, x[0, 0]), (100_000, x[0, 1]), (0, x[1, 0]), (3, x[1, 1])):
        u, v, *_ = plain_philox((row, 0, 0, 2), (9, 0))
        assert float(value) == pytest.approx(
            math.sqrt(-2 * math.log((u + 1) / 2**32)) * math.cos(2 * math.pi * v / 2**32), abs=1e-12
        )
    assert x.dtype == torch.float64 and x.isfinite().all()
