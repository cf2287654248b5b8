"""The sampler, compared with the plain one row by row, and properties of its sequences."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from assignadd.config import PRESETS, Config, ConfigError, Task
from assignadd.task.evalsets import ALL_SETS, EVAL_SETS, EvalSet
from assignadd.task.sampler import EmptySetError, Sampler
from assignadd.task.splits import authors_split, pair_split
from tests.task.decoding import decode
from tests.task.plain_sampler import operand_choices, pairs_of_kind, plain_sequence

BANS = {"paper": ("ab", "gh"), "authors": ("kl", "ab")}  # first slot, second slot
NO_BANS = {"banned_first": "", "banned_second": ""}
ODD_TASKS = {
    "every variable in one sequence": Task(
        modulus=7, n_vars=5, max_assignments=5, length=14, banned_first="a", banned_second="ae"
    ),
    "no room for a PAD": Task(
        modulus=5, n_vars=3, max_assignments=1, length=6, two_var_ratio=0.0, banned_first="a", banned_second="c"
    ),
    "one variable": Task(
        modulus=2, n_vars=1, max_assignments=1, length=9, two_var_ratio=0.0, seen_fraction=0.5, **NO_BANS
    ),
    "two variables": Task(
        modulus=3, n_vars=2, max_assignments=2, length=8, banned_first="a", banned_second="b", two_var_ratio=5.0
    ),
    "more pairs than a word's 2^16": Task(modulus=301, n_vars=26, max_assignments=26, length=70, seen_fraction=0.001),
    "no PAD": Task(modulus=5, n_vars=4, max_assignments=4, length=12, banned_first="a", banned_second="b"),
    "long and sparse": Task(modulus=11, n_vars=9, max_assignments=2, length=40, one_var_ratio=0.0),
}


def pairs_set(seen):
    return {tuple(values) for values in seen.nonzero().tolist()}


def assert_equals_plain(task, seen, seed, step, rows, first_row=0, evalset=None):
    batch = Sampler([task], seen[None], [seed], evalset).sample(step, rows, first_row)
    pairs = pairs_of_kind(task, pairs_set(seen), evalset.pair if evalset else "seen")
    choices = operand_choices(task, evalset)
    for b in range(rows):
        expected = plain_sequence(task, pairs, choices, seed, step, first_row + b, training=evalset is None)
        assert (batch.tokens[0, b].tolist(), int(batch.labels[0, b])) == expected, f"row {b}"


@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_training_rows_equal_the_plain_samplers(preset):
    task = PRESETS[preset].task
    assert_equals_plain(task, pair_split(task, 3), seed=5, step=29_999, rows=1500, first_row=100)
    assert_equals_plain(task, authors_split(task), seed=2**63 - 1, step=0, rows=300)


@pytest.mark.parametrize("name", ODD_TASKS)
def test_training_rows_of_unusual_tasks_equal_the_plain_samplers(name):
    task = Config(task=ODD_TASKS[name]).task
    assert_equals_plain(task, pair_split(task, 1), seed=2**40 + 7, step=12, rows=250)


@pytest.mark.parametrize("preset", ["paper", "authors"])
@pytest.mark.parametrize("evalset", ALL_SETS, ids=lambda evalset: evalset.name)
def test_evaluation_rows_equal_the_plain_samplers(preset, evalset):
    task = PRESETS[preset].task
    assert_equals_plain(task, pair_split(task, 8), seed=11, step=0, rows=80, evalset=evalset)


@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_a_million_training_sequences_have_only_seen_pairs_and_no_banned_slots(preset):
    task, seed = PRESETS[preset].task, 17
    seen = pair_split(task, seed)
    sampler = Sampler([task], seen[None], [seed])
    asked = np.zeros((59, 59), dtype=int)
    for step in range(10):
        batch = sampler.sample(step, 100_000)
        decoded = decode(task, batch.tokens[0].numpy())
        assert decoded.banned(*BANS[preset]).max() == 0
        assert ((decoded.pair.sum(0)) % 59 == batch.labels[0].numpy()).all()
        assert (decoded.n >= np.where(decoded.kind == 3, 2, 1)).all() and decoded.n.max() <= 6
        np.add.at(asked, tuple(decoded.pair), 1)
    assert asked[~seen.numpy()].sum() == 0
    assert asked[seen.numpy()].min() > 0  # about 400 times each: every seen pair is met


@pytest.mark.parametrize("preset", ["paper", "authors"])
@pytest.mark.parametrize("evalset", ALL_SETS, ids=lambda evalset: evalset.name)
def test_evaluation_sets_match_their_definitions(preset, evalset):
    task = PRESETS[preset].task
    seen = authors_split(task)
    batch = Sampler([task], seen[None], [1], evalset).sample(0, 4000)
    decoded = decode(task, batch.tokens[0].numpy())
    (n, m), seen = decoded.pair, seen.numpy()
    assert ((n + m) % 59 == batch.labels[0].numpy()).all()
    assert ((decoded.first >= 0).astype(int) + (decoded.second >= 0) == evalset.n_vars).all()
    assert (decoded.banned(*BANS[preset]) == evalset.n_banned).all()
    assert (seen[n, m] == (evalset.pair == "seen")).all()
    if evalset.pair in ("mirror_seen", "neither_order"):
        assert (n != m).all() and (seen[m, n] == (evalset.pair == "mirror_seen")).all()
    if evalset.pair == "doubles":
        assert (n == m).all()
    if evalset.n_vars == 1:  # either slot, about equally often (2000 +- 32)
        assert 1800 < (decoded.first >= 0).sum() < 2200


def test_the_nine_sets_of_the_paper():
    table = [(s.n_vars, s.pair, s.n_banned) for s in EVAL_SETS]
    assert table == [
        *[(0, "seen", 0), (0, "held_out", 0)],
        *[(1, "seen", 0), (1, "held_out", 0), (1, "seen", 1)],
        *[(2, "seen", 0), (2, "held_out", 0), (2, "seen", 1), (2, "seen", 2)],
    ]
    assert len({s.name for s in ALL_SETS}) == len(ALL_SETS) == 21


@pytest.mark.parametrize("evalset", [None, EVAL_SETS[4], EVAL_SETS[6]], ids=["training", "1-var var", "2-var add"])
def test_a_stack_equals_its_single_models(evalset):
    base = PRESETS["authors"].task
    tasks = [
        base,
        dataclasses.replace(base, seen_fraction=0.2, two_var_ratio=0.1),
        dataclasses.replace(base, seen_fraction=0.95, one_var_ratio=0.0, two_var_ratio=3.0),
    ]
    seeds = [4, 4, 2**33]
    seen = torch.stack([pair_split(task, seed) for task, seed in zip(tasks, [0, 9, 0], strict=True)])
    stacked = Sampler(tasks, seen, seeds, evalset).sample(7, 500)
    assert stacked.tokens.shape == (3, 500, 16) and stacked.labels.shape == (3, 500)
    for i in range(3):
        alone = Sampler(tasks[i : i + 1], seen[i : i + 1], seeds[i : i + 1], evalset).sample(7, 500)
        assert torch.equal(stacked.tokens[i], alone.tokens[0]) and torch.equal(stacked.labels[i], alone.labels[0])
        pairs = decode(base, alone.tokens[0].numpy()).pair
        assert (seen[i][tuple(pairs)] == (evalset is None or evalset.pair == "seen")).all()
    if evalset is None:
        kinds = [np.bincount(decode(base, tokens.numpy()).kind, minlength=4) / 500 for tokens in stacked.tokens]
        assert kinds[1][3] < 0.08 and kinds[2][1] == kinds[2][2] == 0 and kinds[2][3] > 0.65


def test_chunks_of_steps_and_rows_equal_single_ones():
    task = PRESETS["paper"].task
    seen = torch.stack([pair_split(task, seed) for seed in (0, 1)])
    sampler = Sampler([task, task], seen, [0, 1])
    steps = [3, 30_000, 0]
    chunk = sampler.sample(torch.tensor(steps)[:, None, None], 40)
    assert chunk.tokens.shape == (3, 2, 40, 16) and chunk.labels.shape == (3, 2, 40)
    for s, step in enumerate(steps):
        whole = sampler.sample(step, 40)
        parts = [sampler.sample(step, rows, first_row) for first_row, rows in ((0, 1), (1, 25), (26, 14))]
        for field in ("tokens", "labels"):
            expected = getattr(whole, field)
            assert torch.equal(getattr(chunk, field)[s], expected)
            assert torch.equal(torch.cat([getattr(part, field) for part in parts], 1), expected)


def test_seeds_steps_and_streams_give_different_sequences():
    task = dataclasses.replace(PRESETS["paper"].task, one_var_ratio=0.0, two_var_ratio=0.0)
    seen = pair_split(task, 0)[None]
    batches = [Sampler([task], seen, [seed]).sample(step, 1000).tokens for seed, step in ((0, 0), (1, 0), (0, 1))]
    batches.append(Sampler([task], seen, [0], EvalSet("the same law", n_vars=0)).sample(0, 1000).tokens)
    for i, batch in enumerate(batches):
        for other in batches[:i]:
            assert (batch == other).all(-2).sum() < 10


@pytest.mark.parametrize(
    ("changes", "evalset", "said"),
    [
        ({"seen_fraction": 1.0}, EvalSet("x", n_vars=0, pair="held_out"), "held_out at task.seen_fraction = 1.0"),
        ({"banned_first": ""}, EvalSet("x", n_vars=2, n_banned=2), "banned_first=''"),
        ({"banned_first": "", "banned_second": ""}, EvalSet("x", n_vars=1, n_banned=1), "banned_second=''"),
        ({"max_assignments": 1, "two_var_ratio": 0.0}, EvalSet("x", n_vars=2), "max_assignments=1"),
        ({"n_vars": 1, "max_assignments": 1, "two_var_ratio": 0.0, **NO_BANS}, EvalSet("x", n_vars=2), "n_vars=1"),
    ],
)
def test_an_empty_set_is_an_error_that_says_why(changes, evalset, said):
    task = Config(task=dataclasses.replace(Task(), **changes)).task
    with pytest.raises(EmptySetError, match=said):
        Sampler([task], pair_split(task, 0)[None], [0], evalset)


def test_an_empty_set_names_the_fraction_of_the_model_that_has_none():
    tasks = [Task(), Task(seen_fraction=1.0)]
    with pytest.raises(EmptySetError, match=r"seen_fraction = 1\.0"):
        Sampler(tasks, torch.stack([pair_split(task, 0) for task in tasks]), [0, 0], EVAL_SETS[1])


@st.composite
def small_tasks(draw):
    V = draw(st.integers(1, 6))
    most = draw(st.integers(1, V))
    letters = st.lists(st.sampled_from("abcdef"[:V]), unique=True).map("".join)
    ratios = st.sampled_from([0.0, 0.3, 2.0])
    task = Task(
        modulus=draw(st.integers(2, 9)),
        n_vars=V,
        length=draw(st.integers(2 * most + 4, 2 * most + 12)),
        max_assignments=most,
        seen_fraction=draw(st.floats(0.0, 1.0)),
        banned_first=draw(letters),
        banned_second=draw(letters),
        one_var_ratio=draw(ratios),
        two_var_ratio=draw(ratios),
    )
    try:
        return Config(task=task).task
    except ConfigError:
        assume(False)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    task=small_tasks(),
    seed=st.integers(0, 2**63 - 1),
    step=st.integers(0, 2**31),
    evalset=st.sampled_from([None, *ALL_SETS]),
)
def test_any_valid_task_gives_well_formed_rows_equal_to_the_plain_samplers(task, seed, step, evalset):
    seen = pair_split(task, seed)
    try:
        batch = Sampler([task], seen[None], [seed], evalset).sample(step, 12)
    except EmptySetError:
        pairs = pairs_of_kind(task, pairs_set(seen), evalset.pair)
        assert not pairs or not any(operand_choices(task, evalset))
        return
    decoded = decode(task, batch.tokens[0].numpy())
    assert (decoded.banned(task.banned_first, task.banned_second) == (evalset.n_banned if evalset else 0)).all()
    assert (decoded.pair.sum(0) % task.modulus == batch.labels[0].numpy()).all()
    assert_equals_plain(task, seen, seed, step, rows=12, evalset=evalset)


@pytest.mark.parametrize("steps", [7, torch.arange(3).view(-1, 1, 1)], ids=["one step", "several"])
def test_without_random_padding_the_same_sequences_have_all_of_it_in_front(steps):
    task, seen = Task(), torch.stack([pair_split(Task(), seed) for seed in (1, 2)])
    fixed = dataclasses.replace(task, random_padding=False)
    random, front = (Sampler([t, t], seen, [1, 2]).sample(steps, 50) for t in (task, fixed))
    assert torch.equal(random.labels, front.labels) and not torch.equal(random.tokens, front.tokens)
    pad = task.modulus + 2
    for before, after in zip(random.tokens.flatten(0, -2).tolist(), front.tokens.flatten(0, -2).tolist(), strict=True):
        others = [token for token in before if token != pad]
        assert after == [pad] * (task.length - len(others)) + others
