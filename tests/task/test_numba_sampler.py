"""The compiled sampler returns the integers of the tensor operations; `test_sampler` compares it with the plain one."""

import dataclasses

import pytest
import torch

from assignadd.config import PRESETS, Config, Task
from assignadd.task.evalsets import ALL_SETS, EvalSet, all_sets, any_sums
from assignadd.task.randomness import Stream, words
from assignadd.task.sampler import EmptySetError, EveryAddition, EveryPair, Sampler
from assignadd.task.splits import pair_split

pytest.importorskip("numba", reason="tensor operations draw the sequences where Numba is not installed")

TASKS = {
    **{name: PRESETS[name].task for name in ("paper", "authors", "tiny", "smoke")},
    "odd": Task(
        modulus=31, n_vars=9, max_assignments=5, length=21, banned_first="ci", banned_second="cde", two_var_ratio=3.0
    ),
    "largest": Task(modulus=997, n_vars=26, max_assignments=26, length=256, seen_fraction=0.1),
    "largest with chains": Task(
        modulus=997, n_vars=26, max_assignments=26, length=256, seen_fraction=0.1, hops=25, rebinding=0.5
    ),
    "links": Task(hops=2),
    "rebinding, padding first": Task(rebinding=0.4, random_padding=False),
    "chains of every length": Task(modulus=7, hops=5, rebinding=1.0),
    "every variable, no PAD": Task(
        modulus=5, n_vars=4, max_assignments=4, length=12, seen_fraction=0.5, banned_first="a", banned_second="b"
    ),
    "one variable": Task(
        modulus=2,
        n_vars=1,
        max_assignments=1,
        length=6,
        seen_fraction=0.5,
        two_var_ratio=0.0,
        banned_first="",
        banned_second="",
    ),
}
CERTAIN_OPERANDS = EvalSet("c + b", n_vars=2, pair="any", n_banned=None, in_slots=(2, 1))
SETS = [None, *ALL_SETS, any_sums(0), any_sums(1), any_sums(2), CERTAIN_OPERANDS]


def three_models(task):
    """Tasks, seen pairs and seeds of three models that differ in all of them."""
    tasks = [
        task,
        dataclasses.replace(task, seen_fraction=0.6 * task.seen_fraction, one_var_ratio=0.0),
        dataclasses.replace(task, seen_fraction=0.9 * task.seen_fraction, one_var_ratio=5.0),
    ]
    tasks = [Config(task=t).task for t in tasks]
    seen = torch.stack([pair_split(t, seed) for seed, t in enumerate(tasks)])
    return tasks, seen, [3, 2**63 - 1, 2**32]


def chain_sets(task):
    return [s for s in all_sets(task) if s.links is not None or s.rebound]


def sampler_or_skip(*arguments):
    try:
        return Sampler(*arguments)
    except EmptySetError as error:
        pytest.skip(str(error))


def assert_equal(sampler, step, rows, first_row=0):
    vars(sampler).pop("_compiled", None)
    batch, expected = sampler.sample(step, rows, first_row), sampler._sample_in_tensors(step, rows, first_row)
    assert "_compiled" in vars(sampler)  # the compiled code was used for this step
    for field in ("tokens", "labels"):
        actual, wanted = getattr(batch, field), getattr(expected, field)
        assert actual.dtype == wanted.dtype == torch.int64
        assert actual.shape == wanted.shape
        assert torch.equal(actual, wanted), field


# The largest tasks take a second for each set.
CASES = [(name, s) for name in TASKS for s in SETS if not name.startswith("largest") or s in (None, any_sums(2))]
CASES += [(name, s) for name in TASKS if not name.startswith("largest") for s in chain_sets(TASKS[name])]


@pytest.mark.parametrize(("name", "evalset"), CASES, ids=[f"{name}-{s.name if s else 'training'}" for name, s in CASES])
def test_every_integer_equals_that_of_the_tensor_operations(name, evalset):
    sampler = sampler_or_skip(*three_models(Config(task=TASKS[name]).task), evalset)
    assert_equal(sampler, torch.tensor([0, 29_999])[:, None, None], 150)  # more rows than are drawn at once
    assert_equal(sampler, 7, 64, first_row=100)


@pytest.mark.parametrize("step", [0, 2**31, 2**32 - 1, 2**32 + 5, 2**62, -1])
@pytest.mark.parametrize("first_row", [0, 2**31 - 3, 2**32 - 3, 2**40 + 1, 2**63 - 70, -3])
def test_large_steps_and_rows(step, first_row):
    sampler = Sampler(*three_models(PRESETS["tiny"].task))
    assert_equal(sampler, step, 66, first_row)
    assert_equal(sampler, torch.tensor([step, 1]).view(-1, 1, 1), 5, first_row)


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, -1, -(2**63)])
def test_64_bit_seeds(seed):
    task = PRESETS["smoke"].task
    assert_equal(Sampler([task], pair_split(task, 0)[None], [seed]), 5, 100)


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 128])
def test_any_number_of_rows_and_forms_of_a_step(rows):
    sampler = Sampler(*three_models(PRESETS["paper"].task))
    steps = [4, torch.tensor(4), torch.tensor(4, dtype=torch.int32), torch.arange(12)[::3].view(-1, 1, 1)]
    for step in [*steps, torch.zeros(0, 1, 1, dtype=torch.int64)]:
        assert_equal(sampler, step, rows)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_sequence_has_the_next_kind_from_its_threshold_on(compiled):
    """Row 0 has kind 0 where the first threshold is above its first random word, and kind 1 where it equals it."""
    task = PRESETS["tiny"].task
    word = int(words(4, Stream.DATA, 9, torch.arange(1), 1)[0])
    for threshold, kind in ((word + 1, 0), (word, 1)):
        sampler = Sampler([task], pair_split(task, 0)[None], [4])
        sampler.thresholds = torch.tensor([[threshold, 2**32, 2**32]])
        tokens = (sampler.sample if compiled else sampler._sample_in_tensors)(9, 1).tokens[0, 0]
        assert [int(token >= task.modulus) for token in tokens[-3:-1]] == [kind, 0]


def test_no_variable_is_assigned_twice_without_rebinding():
    """The draw that decides it has 2^16 outcomes, of which 200,000 sequences have each."""
    task = TASKS["links"]
    assert_equal(Sampler([task], pair_split(task, 0)[None], [0]), 1, 200_000)


def test_other_shapes_of_steps_are_drawn_in_tensor_operations():
    sampler = Sampler(*three_models(PRESETS["smoke"].task))
    step = torch.tensor([[3], [1], [4]])  # a step for each model
    assert torch.equal(sampler.sample(step, 9).tokens[1], sampler.sample(1, 9).tokens[1])


def test_batches_do_not_share_memory():
    sampler = Sampler(*three_models(PRESETS["smoke"].task))
    first = sampler.sample(0, 10)
    before = first.tokens.clone()
    sampler.sample(1, 10).tokens.zero_()
    assert torch.equal(first.tokens, before)


@pytest.mark.parametrize("law", [EveryAddition, EveryPair])
def test_enumerations_are_drawn_in_tensor_operations(law):
    task = PRESETS["smoke"].task
    sampler = law([task], pair_split(task, 0)[None], [0], any_sums(2))
    assert torch.equal(sampler.sample(0, 50).tokens, sampler._sample_in_tensors(0, 50).tokens)
    assert sampler._compiled is None


def test_without_numba_tensor_operations_draw(monkeypatch):
    monkeypatch.setattr("assignadd.task.sampler.find_spec", lambda name: None)
    sampler = Sampler(*three_models(PRESETS["smoke"].task))
    sampler.sample(0, 5)
    assert sampler._compiled is None
