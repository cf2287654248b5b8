"""Other members of the family of tasks: answers, counts and samplers, each against a plain computation."""

import os
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from itertools import permutations, product
from math import comb
from pathlib import Path

import numpy as np
import pytest
import torch

from assignadd.config import Config, ConfigError, Task
from assignadd.runs.config_json import read_table, with_operation
from assignadd.runs.files import MOST_SETTINGS
from assignadd.task import examples
from assignadd.task.arithmetic import answer_of, tuple_code, tuple_values
from assignadd.task.evalsets import LITERAL, all_sets, kinds, operand_choices, recorded_sets
from assignadd.task.positions import (
    answers,
    as_in_training,
    count_variables,
    roles,
    with_values,
)
from assignadd.task.sampler import EmptySetError, EveryAddition, EveryPair, Sampler
from assignadd.task.splits import pair_mask, pair_split
from assignadd.task.text import answer, operand_values, parse, render, render_tokens
from tests.task.plain_sampler import answer as plain_answer
from tests.task.plain_sampler import operand_choices as plain_choices
from tests.task.plain_sampler import pairs_of_kind, plain_sequence

SYMMETRIES = [list(p) for p in permutations(range(3))]  # the symmetric group of order 6 as permutations
S3 = tuple(SYMMETRIES.index([x[i] for i in y]) for x, y in product(SYMMETRIES, repeat=2))
SMALL = {"n_vars": 5, "max_assignments": 4, "banned_first": "a", "banned_second": "bc"}
OPERATIONS = {
    "add": Task(modulus=7, length=14, **SMALL),
    "subtract": Task(modulus=7, length=14, operation="subtract", **SMALL),
    "multiply": Task(modulus=7, length=14, operation="multiply", **SMALL),
    "affine": Task(modulus=7, length=14, operation="affine 2 5", **SMALL),
    "dihedral": Task(modulus=8, length=14, operation="dihedral", **SMALL),
    "table": Task(modulus=6, length=14, operation="table", table=S3, **SMALL),
    "doubles three times as often": Task(modulus=7, length=14, doubles_weight=3, **SMALL),
}
OPERANDS = {
    "one operand": Task(modulus=9, length=12, operands=1, **SMALL),
    "three operands": Task(modulus=5, length=15, operands=3, operation="subtract", banned_further="ad", **SMALL),
    "four operands": Task(modulus=4, length=16, operands=4, banned_further="e", operation="affine 3 2", **SMALL),
    "three operands, no room": Task(
        modulus=3, length=11, operands=3, n_vars=3, max_assignments=3, banned_first="", banned_second=""
    ),
}
CHAINS = {
    "one hop": Task(modulus=7, length=16, n_vars=6, max_assignments=6, hops=1),
    "two hops": Task(modulus=7, length=18, n_vars=9, max_assignments=7, hops=2, operation="subtract"),
    "rebinding": Task(modulus=7, length=14, rebinding=0.5, **SMALL),
    "both": Task(modulus=5, length=18, n_vars=7, max_assignments=6, hops=3, rebinding=0.4, operands=3),
    "lookup through links": Task(modulus=5, length=11, hops=3, rebinding=1.0, operands=1, **SMALL),
}
CHAINS = {name: replace(task, banned_first="a", banned_second="bc") for name, task in CHAINS.items()}
FAMILY = {name: Config(task=task).task for name, task in {**OPERATIONS, **OPERANDS, **CHAINS}.items()}


def sampled(task, evalset=None, rows=40, seed=3):
    return Sampler([task], pair_split(task, 0)[None], [seed], evalset).sample(5, rows)


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_answer_of_every_pair_is_that_of_the_plain_operation(name):
    task = FAMILY[name]
    N = task.modulus
    expected = [plain_answer(task, pair) for pair in product(range(N), repeat=2)]
    assert [answer_of(task, pair) for pair in product(range(N), repeat=2)] == expected
    assert answer_of(task, tuple_values(torch.arange(N * N), N)).tolist() == expected
    assert len({*expected}) == N  # every number is an answer


def test_groups_are_groups_and_the_two_non_commutative_ones_are_not_commutative():
    for name in ("add", "dihedral", "table"):
        task, N = FAMILY[name], FAMILY[name].modulus
        times = np.array([[answer_of(task, (x, y)) for y in range(N)] for x in range(N)])
        assert all(sorted(row) == [*range(N)] for row in [*times, *times.T])  # inverses
        assert (times[times] == times[:, times]).all()  # (x y) z = x (y z)
        assert (times == times.T).all() == (name == "add")
    assert answer_of(FAMILY["dihedral"], (1, 4)) == 5 and answer_of(FAMILY["dihedral"], (4, 1)) == 7  # 4: a reflection


def test_operations_go_from_left_to_right():
    task = Task(operation="subtract", operands=3, length=17)
    assert answer_of(task, (10, 20, 5)) == (10 - 20 - 5) % 59
    assert (
        answer_of(Task(operation="affine 2 5", operands=3, length=17), (1, 2, 3)) == (2 * (2 * 1 + 5 * 2) + 5 * 3) % 59
    )
    assert answer_of(Task(operands=1), (17,)) == 17


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_tuples_are_numbers_in_base_n(k):
    codes = torch.arange(5**k)
    values = tuple_values(codes, 5, k)
    assert [*zip(*(v.tolist() for v in values), strict=True)] == [*product(range(5), repeat=k)]
    assert torch.equal(tuple_code(values, 5), codes)


@pytest.mark.parametrize(("k", "V"), [(1, 5), (2, 12), (3, 6), (4, 5)])
def test_the_number_of_choices_of_each_kind_is_known(k, V):
    """V (V - 1) ... choices for a kind with so many variables, in comb(k, n) kinds with n variables."""
    task = Task(operands=k, n_vars=V, length=20, max_assignments=4, modulus=5, banned_first="", banned_second="")
    found = Counter((kind.bit_count(), len(operand_choices(task, kind, None))) for kind in kinds(task))
    falling = [1, V, V * (V - 1), V * (V - 1) * (V - 2), V * (V - 1) * (V - 2) * (V - 3)]
    assert found == {(n, falling[n]): comb(k, n) for n in range(k + 1)}
    assert operand_choices(task, 0, 0) == [(LITERAL,) * k]


@pytest.mark.parametrize(("k", "shares"), [(1, [3, 5]), (2, [12, 20, 10]), (3, [12, 20, 10, 10])])
def test_the_mix_follows_the_ratios_for_any_number_of_operands(k, shares):
    task = Task(operands=k, length=20)
    by_count = [sum(s for kind, s in enumerate(task.mix) if kind.bit_count() == n) for n in range(k + 1)]
    assert by_count == pytest.approx([s / sum(shares) for s in shares])
    for n in range(k + 1):
        assert len({round(s, 12) for kind, s in enumerate(task.mix) if kind.bit_count() == n}) == 1


@pytest.mark.parametrize("name", FAMILY)
def test_training_rows_equal_the_plain_samplers_in_compiled_code_and_in_tensor_operations(name):
    task = FAMILY[name]
    seen = pair_split(task, 4)
    seen_tuples, choices = {tuple(v) for v in seen.nonzero().tolist()}, plain_choices(task)
    assert len(seen_tuples) == int(0.7 * task.modulus**task.operands)
    sampler = Sampler([task], seen[None], [11])
    compiled, tensors = sampler.sample(9, 70, first_row=7), sampler._sample_in_tensors(9, 70, first_row=7)
    assert torch.equal(compiled.tokens, tensors.tokens) and torch.equal(compiled.labels, tensors.labels)
    assert (sampler._compiled is None) == (find_spec("numba") is None)
    tuples = pairs_of_kind(task, seen_tuples, "seen")
    tuples = [pair for pair in tuples for _ in range(task.doubles_weight if len({*pair}) == 1 else 1)]
    for b in range(70):
        expected = plain_sequence(task, tuples, choices, 11, 9, 7 + b, training=True)
        assert (tensors.tokens[0, b].tolist(), int(tensors.labels[0, b])) == expected, f"row {b}"


@pytest.mark.parametrize("name", FAMILY)
def test_every_evaluation_set_equals_the_plain_samplers_and_its_definition(name):
    task = FAMILY[name]
    seen, drawn = pair_split(task, 0), 0
    for evalset in all_sets(task):
        try:
            batch = sampled(task, evalset, rows=12)
        except EmptySetError:
            continue
        drawn += 1
        tuples = pairs_of_kind(task, {tuple(v) for v in seen.nonzero().tolist()}, evalset.pair)
        choices = plain_choices(task, evalset)
        for b in range(12):
            expected = plain_sequence(task, tuples, choices, 3, 5, b, False, evalset)
            assert (batch.tokens[0, b].tolist(), int(batch.labels[0, b])) == expected
        assert (count_variables(task, batch.tokens) == evalset.n_vars).all()
        assert as_in_training(task, seen[None], batch.tokens).all() == (evalset.pair == "seen" and not evalset.n_banned)
    assert drawn >= 2 * (task.operands + 1)


@pytest.mark.parametrize(("k", "recorded", "every"), [(1, 5 + 1, 6), (2, 9 + 3, 21), (3, 14 + 6, 20)])
def test_the_number_of_evaluation_sets(k, recorded, every):
    """Two sets for each number of variables n and n with banned slots; n more that are doubly held out."""
    task = Task(operands=k, length=20)
    assert (len(recorded_sets(task)), len(all_sets(task))) == (recorded, every)
    assert len({s.name for s in all_sets(task)}) == len({s.label for s in all_sets(task)}) == every


def test_labels_say_what_is_held_out():
    labels = {s.name: s.label for s in all_sets(Task(operands=3, length=17))}
    assert labels["3-var add-restricted"] == "three variables, held-out triple"
    assert labels["3-var var-restricted (2)"] == "three variables, two in banned slots"
    assert labels["3-var doubly held out (3)"] == "three variables, held-out triple, all in banned slots"
    assert {s.name: s.label for s in all_sets(Task(operands=1))}[
        "1-var add-restricted"
    ] == "one variable, held-out number"


def test_models_of_a_stack_may_have_different_operations():
    tasks = [FAMILY[name] for name in ("add", "subtract", "multiply", "affine")]
    sampler = Sampler(tasks, torch.stack([pair_split(task, 0) for task in tasks]), [1] * 4)
    for batch in (sampler.sample(2, 100), sampler._sample_in_tensors(2, 100)):
        for m, task in enumerate(tasks):
            assert torch.equal(batch.tokens[m], batch.tokens[0])
            assert torch.equal(batch.labels[m], answers(task, batch.tokens[m]))


@pytest.mark.parametrize("name", FAMILY)
def test_sequences_are_read_back_as_text_and_as_roles(name):
    task = FAMILY[name]
    batch = sampled(task)
    found = roles(task, batch.tokens[0])
    for b, (tokens, label) in enumerate(zip(batch.tokens[0].tolist(), batch.labels[0].tolist(), strict=True)):
        text = render(tokens, task)
        assert parse(render_tokens(tokens, task), task) == tokens
        assert render(parse(text, task), task) == text
        values = operand_values(tokens, task)
        assert answer(parse(text, task), task) == plain_answer(task, values) == label
        assert tuple(found.values[b].tolist()) == values and len(values) == task.operands
    assert torch.equal(answers(task, batch.tokens), batch.labels)
    changed = with_values(task, batch.tokens, torch.zeros_like(found.values)[None])
    assert (roles(task, changed).values == 0).all() and (
        answers(task, changed) == plain_answer(task, (0,) * task.operands)
    ).all()


@pytest.mark.parametrize(
    ("settings", "text", "expected"),
    [
        ({"operation": "subtract"}, "c=5, b=8, b-3=?", 5),
        ({"operation": "subtract"}, "c=5, b=8, c-b=?", 56),
        ({"operation": "multiply"}, "c=5, b=8, c*b=?", 40),
        ({"operation": "affine 2 3"}, "c=5, 4@c=?", 23),
        ({"operation": "dihedral", "modulus": 10}, "c=5, 1@c=?", 6),
        ({"operands": 3, "length": 17}, "a=1, b=2, c=3, a+b+c=?", 6),
        ({"operands": 3, "length": 17, "operation": "subtract"}, "a=1, 5-a-2=?", 2),
        ({"operands": 1}, "a=1, b=2, b=?", 2),
        ({"operands": 1}, "a=1, 7=?", 7),
        ({"operands": 1}, "a=1, a=", 1),
    ],
)
def test_the_text_form_of_other_tasks(settings, text, expected):
    task = Config(task=Task(**settings)).task
    tokens = parse(text, task)
    assert answer(tokens, task) == expected
    assert render(tokens, task) == text.rstrip("?") + "?"
    assert parse(render_tokens(tokens, task), task) == tokens


@pytest.mark.parametrize(
    ("settings", "text", "said"),
    [
        ({"operation": "subtract"}, "c=5, c+3=?", "column 7: expected '-', got '+'"),
        ({"operation": "subtract"}, "", "column 1: expected a sequence such as a=1, a-0=?, got the end"),
        (
            {"operands": 3, "length": 17},
            "a=1, a+a+2=?",
            "column 8: expected a number from 0 to 58 or an assigned variable",
        ),
        ({"operands": 3, "length": 17}, "a=1, b=2, a+b+b=?", "other than a and b, got 'b'"),
        ({"operands": 3, "length": 17}, "a=1, a+2=?", "column 9: expected '+', got '='"),
        ({"operands": 1}, "a=1, b=?", "column 6: expected a number from 0 to 58 or an assigned variable, got 'b'"),
        ({"operands": 1}, "a=1, a+2=?", "column 7: expected '=', got '+'"),
        ({"operands": 1}, "", "a=1, a=?"),
    ],
)
def test_what_is_wrong_in_the_text_of_other_tasks(settings, text, said):
    with pytest.raises(ValueError, match="column") as caught:
        parse(text, Config(task=Task(**settings)).task)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "b=7, e=5, d=2, b+9=?"),
        ({"operation": "subtract"}, "b=7, e=5, d=2, b-9=?"),
        ({"operands": 1}, "b=7, e=5, d=2, b=?"),
        ({"operands": 4, "length": 18, "modulus": 6}, "b=1, e=5, d=2, b+3+1+2=?"),
    ],
)
def test_the_papers_sequences_are_adapted_to_other_tasks(settings, expected):
    task = Config(task=Task(**settings)).task
    assert render(examples.fitted(examples.ATTENTION, task), task) == expected


def test_every_tuple_with_every_choice_of_operands_once():
    task = FAMILY["three operands"]
    seen = pair_split(task, 1)
    n_held_out = 125 - int(0.7 * 125)
    for evalset in all_sets(task):
        if evalset.pair == "held_out" and evalset.n_vars == 3 and evalset.n_banned == 0:
            sampler = EveryAddition([task], seen[None], [0], evalset)
    # First operand not a, second not b or c, third not a or d; all different.
    n_choices = sum(len({*c}) == 3 for c in product("bcde", "ade", "bce"))
    assert int(sampler.n_rows) == n_held_out * n_choices
    batch = sampler.sample(0, int(sampler.n_rows))
    rows = {(*operand_values(t, task), *t[-4:-1]) for t in batch.tokens[0].tolist()}
    assert len(rows) == int(sampler.n_rows) and {row[:3] for row in rows} == {*map(tuple, (~seen).nonzero().tolist())}
    every = EveryPair([task], torch.ones(1, 5, 5, 5, dtype=torch.bool), [0]).sample(0, 125).tokens[0].tolist()
    assert {operand_values(t, task) for t in every} == {*product(range(5), repeat=3)}


def test_classes_of_held_out_pairs_are_those_of_two_operands():
    with pytest.raises(EmptySetError, match=r"task.operands = 2 alone"):
        pair_mask(pair_split(FAMILY["three operands"], 0), "doubles")


@pytest.mark.parametrize("form", ["text", "csv"])
def test_a_table_is_read_from_a_file_and_stored(tmp_path, form):
    rows = [[*S3[6 * i : 6 * i + 6]] for i in range(6)]
    text = {
        "text": "\n".join(" ".join(map(str, row)) for row in rows) + "\n",
        "csv": "\n".join(",".join(map(str, row)) for row in rows),
    }[form]
    (tmp_path / "s3").write_text(text)
    assert read_table(tmp_path / "s3") == rows
    from_file = {"task.operation": "table", "task.table": S3, "task.modulus": 6}
    assert with_operation({"task.operation": str(tmp_path / "s3")}) == from_file
    assert with_operation({"task.operation": "affine 2 3"}) == {"task.operation": "affine 2 3"}


@pytest.mark.parametrize(
    "text", ["", "0 1\n1", "0 1\n1 2", "0 x\n1 0", "[[0, 1], [1, 0.5]]", "[1, 2]", "[[0,1],[1", "0", "\x00"]
)
def test_a_file_that_is_no_table_is_refused_in_one_line(tmp_path, text):
    (tmp_path / "wrong").write_text(text)
    with pytest.raises(
        ConfigError, match=r"^task.operation = '.*wrong': expected a table with as many rows as columns"
    ):
        read_table(tmp_path / "wrong")


@pytest.mark.parametrize("kind", ["device", "pipe", "large"])
def test_a_table_is_read_from_a_regular_file_of_a_limited_size_alone(tmp_path, kind):
    path = {"device": Path("/dev/zero"), "pipe": tmp_path / "pipe", "large": tmp_path / "large"}[kind]
    if kind == "pipe":
        os.mkfifo(path)  # nobody writes to it: reading would wait for ever
    if kind == "large":
        path.touch()
        os.truncate(path, MOST_SETTINGS + 1)
    with pytest.raises(ConfigError) as refused:
        with_operation({"task.operation": str(path)})
    message = str(refused.value)
    assert message.startswith(f"task.operation = '{path}': expected ") and "\n" not in message
    assert ("of which at most" if kind == "large" else "not a regular file") in message
