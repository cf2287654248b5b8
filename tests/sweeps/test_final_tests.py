"""The tests of a sweep after the last step, against brute force and against each model alone."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from assignadd.config import PRESETS, Config, Member
from assignadd.model.accuracy import Exam
from assignadd.model.handmade import handmade
from assignadd.model.stack import Stack, concatenate, initial_stack, views
from assignadd.sweeps.final_tests import (
    FREQUENCIES,
    TWO_VAR,
    TWO_VAR_PARTS,
    ZERO_VAR,
    addition_tests,
    final_column,
    final_exam,
)
from assignadd.task.evalsets import ALL_SETS, DOUBLY_HELD_OUT, EVAL_SETS, EvalSet
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import EveryAddition
from assignadd.task.splits import pair_split
from tests.sweeps.small import CONFIG
from tests.task.decoding import decode

torch.set_num_threads(1)

SMOKE = PRESETS["smoke"].task
SETS = (*TWO_VAR_PARTS, EvalSet(ZERO_VAR, n_vars=0, pair="held_out"))


@pytest.mark.parametrize("evalset", SETS, ids=lambda s: s.name)
def test_every_addition_comes_exactly_once(evalset):
    seen = torch.stack([pair_split(SMOKE, s) for s in (0, 1)])
    sampler = EveryAddition([SMOKE] * 2, seen, [0, 1], evalset)
    n = int(sampler.n_rows[0])
    parts = [sampler.sample(5, min(50, n - start), first_row=start) for start in range(0, n, 50)]
    tokens = torch.cat([p.tokens for p in parts], 1)
    for m in range(2):
        decoded = decode(SMOKE, tokens[m].numpy())
        found = list(zip(decoded.first.tolist(), decoded.second.tolist(), *decoded.pair.tolist(), strict=True))
        wanted = evalset.pair == "seen"
        pairs = [(a, b) for a, b in product(range(7), repeat=2) if bool(seen[m, a, b]) == wanted]
        letters = [(v, w) for v, w in product(range(4), repeat=2) if v != w] if evalset.n_vars else [(-1, -1)]
        kept = [
            (v, w) for v, w in letters if (v == 0) + (w == 1) == evalset.n_banned
        ]  # a may not stand first, b not second
        assert sorted(found) == sorted((v, w, a, b) for (a, b), (v, w) in product(pairs, kept))
        assert (
            np.array([(a + b) % 7 for *_, a, b in found]) == torch.cat([p.labels for p in parts], 1)[m].numpy()
        ).all()


def test_the_parts_have_the_papers_sizes():
    config = PRESETS["authors"]
    seen = pair_split(config.task, 0)[None]
    sizes = [int(EveryAddition([config.task], seen, [0], evalset).n_rows) for evalset in SETS]
    assert sizes == [1045 * 92, 2436 * 36, 2436 * 4, 1045] and sum(sizes[:3]) == 193_580


def test_right_and_wrong_answers_are_counted():
    """The hand-made model knows everything; with two output columns swapped it is wrong on just those sums."""
    stack = handmade(Config(task=SMOKE))
    swapped = Stack(stack.config, stack.flat.clone())
    W_U = views(stack.config, swapped.flat)["unembed.W_U"]
    W_U[..., [2, 5]] = W_U[..., [5, 2]]
    configs = [Member(0).config(stack.config)] * 2
    seen = pair_split(SMOKE, 0).expand(2, 7, 7)
    perfect, wrong = addition_tests(concatenate([stack, swapped]), configs, seen)
    assert perfect == dict.fromkeys((*(s.name for s in TWO_VAR_PARTS), ZERO_VAR, TWO_VAR), 1.0)
    sums = [(a + b) % 7 in (2, 5) for a, b in product(range(7), repeat=2)]
    held = [s for s, is_seen in zip(sums, seen[0].flatten().tolist(), strict=True) if not is_seen]
    learned = [s for s, is_seen in zip(sums, seen[0].flatten().tolist(), strict=True) if is_seen]
    assert wrong[ZERO_VAR] == wrong["2-var test held out"] == pytest.approx(1 - sum(held) / len(held))
    assert (
        wrong["2-var test banned (1)"]
        == wrong["2-var test banned (2)"]
        == pytest.approx(1 - sum(learned) / len(learned))
    )
    n = [len(held) * 7, len(learned) * 4, len(learned)]  # of 12 pairs of letters 7 have no ban, 4 one, 1 both
    expected = (n[0] * wrong["2-var test held out"] + (n[1] + n[2]) * wrong["2-var test banned (1)"]) / sum(n)
    assert wrong[TWO_VAR] == pytest.approx(expected)


def test_what_is_empty_for_one_model_is_left_out_for_it_alone():
    members = [Member(0, seen_fraction=1.0), Member(0, seen_fraction=0.5), Member(1, seen_fraction=1.0)]
    configs = [m.config(replace(PRESETS["smoke"])) for m in members]
    seen = torch.stack([pair_split(c.task, c.seed.split) for c in configs])
    stack = initial_stack(PRESETS["smoke"], [0, 1, 2])
    together = addition_tests(stack, configs, seen)
    assert [ZERO_VAR in tests for tests in together] == [False, True, False]
    assert together == [addition_tests(stack.models(i), configs[i : i + 1], seen[i : i + 1])[0] for i in range(3)]
    sets = EVAL_SETS + DOUBLY_HELD_OUT
    marks = Exam(configs, seen, sets, 40).accuracies(stack)
    assert [len(m) for m in marks] == [6, 12, 6]
    assert marks == [
        Exam(configs[i : i + 1], seen[i : i + 1], sets, 40).accuracies(stack.models(i))[0] for i in range(3)
    ]


def test_each_set_is_that_of_the_model_alone_and_empty_ones_are_left_out():
    made = handmade(CONFIG)
    config = replace(CONFIG, model=made.config.model)
    stack = concatenate([initial_stack(config, [1]), made])
    configs = [Member(1, seen_fraction=0.5).config(config), Member(2, seen_fraction=1.0).config(config)]
    seen = torch.stack([pair_split(c.task, c.seed.split) for c in configs])
    first, second = final_exam(stack, configs, seen)
    counts = [row.pop(final_column(FREQUENCIES)) for row in (first, second)]
    assert counts[1] == 3 and 1 <= counts[0] <= 3  # the hand-made model has all (7 - 1) / 2
    of_sets = {name for name in second if not name.startswith("attn_")}
    assert of_sets == {final_column(s.name) for s in ALL_SETS if s.pair == "seen"}  # nothing is held out from it
    assert (
        len(second) - len(of_sets) == 18
    )  # three patterns, 0 to 2 variables, all sequences and those training could show
    assert set(second.values()) == {1.0}
    for i, evalset in enumerate(ALL_SETS):
        if final_column(evalset.name) in first:
            alone = Exam(configs[:1], seen[:1], [evalset], 50, first_step=EvalSteps.FINAL_EXAM[i])
            assert first[final_column(evalset.name)] == pytest.approx(
                alone.accuracies(stack.models(0))[0][evalset.name]
            )
    assert len(first) >= 18 and 0 < sum(first.values()) / len(first) < 0.5


def test_none_is_taken_where_none_is_asked_for():
    config = replace(CONFIG, record=replace(CONFIG.record, final_sequences=0))
    assert final_exam(initial_stack(config, [0]), [Member(0).config(config)], pair_split(config.task, 0)[None]) == [{}]
