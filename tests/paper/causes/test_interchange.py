"""Interchange accuracies on models with known answers, and compared with patches of the reference transformer."""

import pytest
import torch

from assignadd.interventions.apply import apply
from assignadd.interventions.specification import Replace
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import initial_stack
from assignadd.paper.causes.interchange import (
    ELSEWHERE,
    EXCHANGES,
    Interchange,
    answers_after,
    prompts,
    query_pairs,
    tag_pairs,
    value_pairs,
)
from assignadd.task.evalsets import count_banned
from assignadd.task.positions import answers
from assignadd.task.text import answer, assignments, operand_values, render_tokens
from tests.interventions.small import CONFIG, HANDMADE, SEEN, TASK, random_stack

INTERCHANGE = Interchange(CONFIG, SEEN, 900)
BASE, SOURCE = prompts(CONFIG, SEEN, 270)
PREFIX, FIRST_VARIABLE = TASK.prefix, TASK.modulus + 3


def kinds(row):
    return [token >= FIRST_VARIABLE for token in row[PREFIX + 1 : PREFIX + 3]]


def test_prompts_have_equally_many_of_each_pair_of_types():
    types = [(sum(kinds(b)), sum(kinds(s))) for b, s in zip(BASE.tolist(), SOURCE.tolist(), strict=True)]
    assert {t: types.count(t) for t in types} == {(i, j): 30 for i in range(3) for j in range(3)}
    assert (BASE != SOURCE).any(1).all()


def rows_of(pairs):
    """Base, source and answer of each pair."""
    return zip(pairs.base.tolist(), pairs.source.tolist(), pairs.answer.tolist(), strict=True)


def test_tag_pairs_move_variables_to_the_next_assignment():
    pairs = tag_pairs(TASK, BASE)
    for base, source, said in rows_of(pairs):
        own, other = assignments(base, TASK), assignments(source, TASK)
        first, *rest = own
        assert list(other) == [*rest, first]  # the letters, moved by one assignment
        bound = dict(zip(other, own.values(), strict=True))  # the source's letters on the base's numbers
        expected = sum(bound.get(x, x) for x in base[PREFIX + 1 : PREFIX + 3]) % TASK.modulus
        assert said == expected != answer(base, TASK)
    numbers = (pairs.base < TASK.modulus) & (torch.arange(TASK.length) < PREFIX)
    # The source has values of its own: 10 of 11 differ.
    assert (pairs.base != pairs.source)[numbers].float().mean() > 0.8
    assert {sum(kinds(base)) for base in pairs.base.tolist()} == {1, 2}


def test_query_pairs_have_other_assigned_variables_as_operands():
    pairs = query_pairs(TASK, BASE, BASE.roll(1, 0))
    assert len(pairs.base) > 60
    for base, source, said in rows_of(pairs):
        assert kinds(base) == kinds(source) != [False, False]
        asked, own, operands = source[PREFIX + 1 : PREFIX + 3], assignments(base, TASK), base[PREFIX + 1 : PREFIX + 3]
        looked_up = [
            own[a] if is_variable else o for a, o, is_variable in zip(asked, operands, kinds(base), strict=True)
        ]
        assert said == sum(looked_up) % TASK.modulus != answer(base, TASK)
        assert all(a != o for a, o, is_variable in zip(asked, operands, kinds(base), strict=True) if is_variable)
        letters = [a - FIRST_VARIABLE if is_variable else -1 for a, is_variable in zip(asked, kinds(base), strict=True)]
        assert count_banned(TASK, *letters) == 0
        answer(source, TASK)  # a prompt: what it asks for it assigns


def test_value_pairs_take_values_from_the_source():
    for operands in ((True, False), (False, True), (True, True)):
        expected = []
        for base, source in zip(BASE.tolist(), SOURCE.tolist(), strict=True):
            own, other = operand_values(base, TASK), operand_values(source, TASK)
            total = sum(o if taken else b for b, o, taken in zip(own, other, operands, strict=True)) % TASK.modulus
            if total != answer(base, TASK):
                expected.append((base, source, total))
        assert list(rows_of(value_pairs(TASK, BASE, SOURCE, operands))) == expected


def test_on_the_hand_made_model_every_alignment_holds_and_controls_fail():
    whole, elsewhere = INTERCHANGE(HANDMADE), INTERCHANGE(HANDMADE, ELSEWHERE)
    assert list(whole) == list(elsewhere) == list(EXCHANGES)
    for name, outcome in whole.items():
        assert outcome.n > 240 and outcome.accuracy == 1.0, name
        # What hits at all is a few pairs in which a wrong answer is the program's by chance.
        assert elsewhere[name].accuracy < 0.12, name
    assert elsewhere["binding tag"].accuracy == elsewhere["first value"].accuracy == 0.0
    query = whole["operand query"]
    assert (query.base_vars == query.source_vars).all() and set(query.base_vars.tolist()) == {1, 2}


def test_an_outcome_on_some_of_its_pairs():
    outcome = INTERCHANGE(initial_stack(CONFIG, [0]), EXCHANGES)["operand query"]
    n_vars = [sum(kinds(row)) for row in INTERCHANGE.pairs["operand query"].base.tolist()]
    assert outcome.base_vars.tolist() == n_vars
    one, two = outcome.with_variables(1), outcome.with_variables(2)
    assert one.n + two.n == outcome.n and one.count + two.count == outcome.count and one.n == n_vars.count(1)
    assert outcome.where(outcome.hits).accuracy == 1.0


def test_an_untrained_network_is_at_chance():
    outcomes = [INTERCHANGE(initial_stack(CONFIG, [seed])) for seed in range(4)]
    for name in EXCHANGES:
        assert sum(of_model[name].accuracy for of_model in outcomes) / 4 == pytest.approx(1 / TASK.modulus, abs=0.05)


@pytest.mark.parametrize(
    ("weight", "lost", "still_right"),
    [
        ("blocks.0.attn.W_V", ("binding tag", "operand query"), ("sum",)),
        ("blocks.1.attn.W_V", ("values", "first value"), ()),
        ("blocks.1.mlp.W_out", ("sum", "values"), ()),
    ],
)
def test_accuracy_falls_where_the_network_is_broken(weight, lost, still_right):
    broken = HANDMADE.clone()
    broken[weight].zero_()
    outcomes = INTERCHANGE(broken)
    assert all(outcomes[name].accuracy < 0.3 for name in lost)
    for name in still_right:  # literals are still added
        assert outcomes[name].where(outcomes[name].source_vars == 0).accuracy == 1


PLACES = {
    "binding tag": ("blocks.0.hook_attn_out", ("assigned",)),
    "operand query": ("blocks.0.hook_attn_out", ("equals",)),
    "values": ("blocks.1.hook_attn_out", ("equals",)),
    "sum": ("blocks.1.hook_mlp_out", ("equals",)),
}


@pytest.mark.parametrize("name", PLACES)
def test_answers_equal_those_of_the_patched_reference_transformer(name):
    pairs, stack, (hook, positions) = Interchange(CONFIG, SEEN, 27).pairs[name], random_stack(1), PLACES[name]
    patched = [
        apply(stack, base[None, None], [Replace("patch", hook, positions, source=render_tokens(source, TASK))])
        for base, source in zip(pairs.base, pairs.source.tolist(), strict=True)
    ]
    expected = torch.cat(patched, 1)[0].argmax(-1)
    assert torch.equal(answers_after(LastLayer(stack), EXCHANGES[name], pairs), expected)
    assert (expected != answers(TASK, pairs.base)).any()


def test_the_papers_network(paper_run):
    interchange = Interchange(paper_run.configs[0], paper_run.seen[0], 900)
    first, last = (interchange(paper_run.checkpoint(step)) for step in (1001, 40_000))
    assert all(outcome.accuracy > 0.85 for outcome in last.values())
    assert first["binding tag"].accuracy < 0.3 < 0.5 < first["sum"].accuracy  # addition comes first
