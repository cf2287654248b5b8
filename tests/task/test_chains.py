"""Links between variables and variables assigned twice: the law of the sequences, and which assignment counts."""

from collections import Counter

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from assignadd.config import Config, ConfigError, Task
from assignadd.task.evalsets import all_sets
from assignadd.task.positions import Positions, roles
from assignadd.task.sampler import EmptySetError, Sampler
from assignadd.task.splits import pair_split
from assignadd.task.text import ParseError, answer, assignments, parse, render, render_tokens
from tests.task.plain_sampler import operand_choices, pairs_of_kind, plain_sequence
from tests.task.test_sampler_law import assert_follows, uniform

NO_BANS = {"banned_first": "", "banned_second": ""}
ROWS = 20_000
HOPS = Config(task=Task(modulus=11, hops=2, **NO_BANS)).task
TWICE = Config(task=Task(modulus=11, rebinding=0.3, **NO_BANS)).task
BOTH = Config(task=Task(modulus=11, hops=2, rebinding=0.5, **NO_BANS)).task


def read(task, tokens):
    """The assignments of a sequence, (variable, right side) as names, and the operands, by reading its tokens."""
    N, prefix = task.modulus, task.length - task.operands - 2
    name = lambda t: t if t < N else "abcdefghijklmnopqrstuvwxyz"[t - N - 3]  # noqa: E731
    found, i = [], 0
    while i < prefix:
        if tokens[i] == N + 2:
            i += 1
            continue
        found.append((name(tokens[i]), name(tokens[i + 1])))
        i += 2
    return found, [name(t) for t in tokens[prefix + 1 : -1]]


def run_program(found):
    """The value and the number of links of each variable after executing the assignments one after the other."""
    values, links = {}, {}
    for variable, right in found:
        assert isinstance(right, int) or right in values, "a reference to a variable that is not assigned yet"
        values[variable], links[variable] = (right, 0) if isinstance(right, int) else (values[right], links[right] + 1)
    return values, links


def drawn(task, evalset=None, rows=ROWS):
    batch = Sampler([task], pair_split(task, 0)[None], [5], evalset).sample(1, rows)
    for tokens, label in zip(batch.tokens[0].tolist(), batch.labels[0].tolist(), strict=True):
        found, operands = read(task, tokens)
        values, links = run_program(found)
        asked = [x if isinstance(x, int) else values[x] for x in operands]
        assert sum(asked) % task.modulus == label  # the last assignment counts, and links are followed
        yield found, operands, links


def test_an_operand_is_each_number_of_links_from_its_number_equally_often():
    """One variable among n assignments: 0..min(2, n - 1) links; two variables: 0..min(2, n // 2 - 1) each."""
    one, two, counts = {}, {}, Counter()
    for found, operands, links in drawn(HOPS):
        n, named = len(found), [x for x in operands if isinstance(x, str)]
        counts[len(named), n] += 1
        if len(named) == 1:
            one.setdefault(n, []).append(links[named[0]])
        elif len(named) == 2:
            two.setdefault(n, []).append(tuple(links[x] for x in named))
        assert len({v for v, _ in found}) == n  # each variable once
        assert max(links.values()) <= 2
    assert set(one[1]) == {0} and set(two[2]) == set(two[3]) == {(0, 0)}
    for n in range(2, 7):
        assert_follows(one[n], uniform(range(min(2, n - 1) + 1)))
    for n in range(4, 7):
        most = min(2, n // 2 - 1)
        assert_follows(two[n], uniform((i, j) for i in range(most + 1) for j in range(most + 1)))
    assert set(counts) == {(v, n) for v in (0, 1, 2) for n in range(max(1, v), 7)}


def test_distractors_form_chains_by_the_same_law():
    """Literals and three assignments: the first chain has 1, 2 or 3 of them, each in a third of the sequences.

    After one of length 1, two assignments are left, which are one chain or two equally often.
    """
    lengths = Counter()
    for found, operands, links in drawn(HOPS):
        if len(found) == 3 and all(isinstance(x, int) for x in operands):
            referred = {right for _, right in found}
            lengths[tuple(sorted(links[v] + 1 for v, _ in found if v not in referred))] += 1
    n = sum(lengths.values())
    law = {(3,): 1 / 3, (1, 2): 1 / 3 + 1 / 6, (1, 1, 1): 1 / 6}
    assert lengths.keys() == law.keys()
    assert_follows([[*lengths].index(k) for k in lengths for _ in range(lengths[k])], {
        [*lengths].index(k): p for k, p in law.items()
    })  # fmt: skip
    assert n > 500


def test_a_variable_is_assigned_twice_with_the_given_probability_where_there_is_room():
    one, other = {}, {}
    for found, operands, _ in drawn(TWICE):
        n, times = len(found), Counter(v for v, _ in found)
        assert max(times.values()) <= 2
        named = [x for x in operands if isinstance(x, str)]
        if len(named) == 1:
            one.setdefault(n, []).append(times[named[0]])
        if not named and n == 2:
            other.setdefault(n, []).append(len(times))
    assert set(one[1]) == {1}
    for n in range(2, 7):
        assert_follows(one[n], {1: 0.7, 2: 0.3})
    assert_follows(other[2], {1: 0.3, 2: 0.7})  # distractors too


@pytest.mark.parametrize(
    "evalset", [s for s in all_sets(BOTH) if s.links is not None or s.rebound], ids=lambda s: s.name
)
def test_sets_by_the_number_of_links_and_of_variables_assigned_twice(evalset):
    sizes = set()
    for found, operands, links in drawn(BOTH, evalset, rows=400):
        named = [x for x in operands if isinstance(x, str)]
        assert len(named) == evalset.n_vars
        times = Counter(v for v, _ in found)
        sizes.add(len(found))
        assert evalset.links is None or [links[x] for x in named] == [evalset.links] * evalset.n_vars
        assert evalset.rebound is None or [times[x] for x in named] == [2] * evalset.n_vars
    least = evalset.n_vars * (1 + (evalset.links or 0) + bool(evalset.rebound))
    assert sizes == set(range(least, 7))  # uniform on what is possible


def test_the_sets_of_a_task_with_chains():
    names = [s.name for s in all_sets(BOTH)]
    assert names[12:20] == ["1-var 0 links", "1-var 1 link", "1-var 2 links", "2-var 0 links", "2-var 1 link",
                            "2-var 2 links", "1-var rebound", "2-var rebound"]  # fmt: skip
    labels = {s.name: s.label for s in all_sets(BOTH)}
    assert labels["1-var 1 link"] == "one variable, 1 link from the number"
    assert labels["2-var rebound"] == "two variables, assigned twice"
    assert not any("link" in s.name or "rebound" in s.name for s in all_sets(Task()))


@st.composite
def tasks_with_chains(draw):
    most, operands = draw(st.integers(2, 9)), draw(st.integers(1, 4))
    task = Task(
        modulus=draw(st.integers(2, 6)),
        n_vars=draw(st.integers(most, 9)),
        length=2 * most + operands + 2 + draw(st.integers(0, 7)),
        max_assignments=most,
        banned_first=draw(st.sampled_from(["", "a"])),
        banned_second="b",
        operands=operands,
        hops=draw(st.integers(0, most - 1)),
        rebinding=draw(st.sampled_from([0.0, 0.3, 1.0])),
        random_padding=draw(st.booleans()),
    )
    assume(task.hops or task.rebinding)
    try:
        return Config(task=task).task
    except ConfigError:
        assume(False)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(task=tasks_with_chains(), seed=st.integers(0, 2**63 - 1), step=st.integers(0, 2**31), data=st.data())
def test_any_task_with_chains_gives_the_plain_samplers_rows(task, seed, step, data):
    seen = pair_split(task, seed)
    evalset = data.draw(st.sampled_from([None, *all_sets(task)]))
    try:
        sampler = Sampler([task], seen[None], [seed], evalset)
    except EmptySetError:
        assume(False)
    tuples = pairs_of_kind(task, {tuple(v) for v in seen.nonzero().tolist()}, evalset.pair if evalset else "seen")
    choices = operand_choices(task, evalset)
    expected = [plain_sequence(task, tuples, choices, seed, step, b, not evalset, evalset) for b in range(12)]
    for batch in (sampler.sample(step, 12), sampler._sample_in_tensors(step, 12)):
        assert [*zip(batch.tokens[0].tolist(), batch.labels[0].tolist(), strict=True)] == expected


@pytest.mark.parametrize("task", [HOPS, TWICE, BOTH], ids=["hops", "rebinding", "both"])
def test_roles_follow_links_to_the_number_that_counts(task):
    tokens = Sampler([task], pair_split(task, 0)[None], [2]).sample(3, 600).tokens[0]
    found, positions = roles(task, tokens), Positions(task, tokens)
    variables = positions.mask("variables")
    for b, row in enumerate(tokens.tolist()):
        pairs, operands = read(task, row)
        values, _ = run_program(pairs)
        starts = [i for i in range(task.prefix) if variables[b, i]]
        assert len(starts) == len(pairs)
        for j, x in enumerate(operands):
            at, own = int(found.value_positions[b, j]), int(found.variable_positions[b, j])
            assert row[at] == (x if isinstance(x, int) else values[x])
            if isinstance(x, int):
                assert (at, own) == (task.prefix + 1 + j, -1)
            else:
                assert row[own] == row[task.prefix + 1 + j] and row[own] not in [row[i] for i in starts if i > own]
    assert torch.equal(tokens.gather(-1, found.value_positions), found.values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c=5, b=c, b+3=?", 8),
        ("c=5, b=c, c=7, b+3=?", 8),  # b keeps the value that c had
        ("c=5, c=7, c+3=?", 10),
        ("c=5, b=1, b=c, a=b, a+b=?", 10),
    ],
)
def test_text_with_links_and_rebinding(text, expected):
    tokens = parse(text, BOTH)
    assert answer(tokens, BOTH) == expected
    assert render(tokens, BOTH) == text and parse(render_tokens(tokens, BOTH), BOTH) == tokens
    assert int(roles(BOTH, torch.tensor([tokens])).values.sum()) % 11 == expected


def test_assignments_are_what_variables_are_in_the_end():
    tokens = parse("c=5, b=c, c=7, b+3=?", BOTH)
    a = BOTH.modulus + 3
    assert assignments(tokens, BOTH) == {a + 2: 7, a + 1: 5}


@pytest.mark.parametrize(
    ("task", "text", "said"),
    [
        (
            HOPS,
            "c=5, b=c, a=b, d=a, d+1=?",
            "column 18: expected a number from 0 to 10 or a variable assigned",
        ),
        (HOPS, "b=c, c=5, b+1=?", "column 3: expected a number from 0 to 10, got 'c'"),
        (HOPS, "c=5, c=c, c+1=?", "column 6: expected a variable that is not assigned yet, got 'c'"),
        (BOTH, "c=5, c=c, c+1=?", "column 8: expected a number from 0 to 10, got 'c'"),
        (
            BOTH,
            "a=1, a=2, a=3, a=4, a=5, a=6, a=7, a+1=?",
            "column 31: expected the addition after at most 6",
        ),
        (TWICE, "c=5, b=c, b+3=?", "column 8: expected a number from 0 to 10, got 'c'"),
    ],
)
def test_what_is_wrong_is_named(task, text, said):
    with pytest.raises(ParseError) as caught:
        parse(text, task)
    assert said in str(caught.value)
