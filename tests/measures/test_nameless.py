"""The task without names: groups, allowed answers and rearranged sequences, against plain Python."""

from itertools import permutations

import pytest
import torch

from assignadd.config import PRESETS
from assignadd.measures.nameless import name_groups, nameless_accuracy, nameless_answers, rearranged, with_other_names
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.task.text import parse, render
from assignadd.task.vocabulary import Vocabulary

TASK = PRESETS["paper"].task
SEEN = pair_split(TASK, 3)
RESTRICTED = "abgh"


def letters(group):
    return "".join(Vocabulary(TASK).name(int(token)) for token in group)


def assignments(text):
    return dict(part.split("=") for part in text.split(", ")[:-1])


def plain_answers(text):
    """The allowed answers of a typed sequence, one way after the other."""
    values, operands = assignments(text), text.split(", ")[-1].removesuffix("=?").split("+")
    variables = [x for x in operands if x in values]
    usable = [v for v in values if set(variables) & set(RESTRICTED) or v not in RESTRICTED]
    ways = []
    for chosen in permutations(usable, len(variables)):
        meant = iter(chosen)
        ways.append(tuple(int(values[next(meant)] if x in values else x) for x in operands))
    seen = [way for way in ways if bool(SEEN[way])] or ways
    return {sum(way) % 59 for way in seen}


def test_groups_are_by_banned_slots():
    assert [letters(group) for group in name_groups(TASK)] == ["cdefijkl", "ab", "gh"]


@pytest.mark.parametrize("evalset", [s for s in EVAL_SETS if s.n_vars], ids=lambda s: s.name)
def test_allowed_answers(evalset):
    tokens = Sampler([TASK], SEEN[None], [0], evalset).sample(0, 60).tokens[0]
    found = nameless_answers(TASK, SEEN, tokens)
    for row, answers in zip(tokens.tolist(), found, strict=True):
        assert set(answers.nonzero()[:, 0].tolist()) == plain_answers(render(row, TASK)), render(row, TASK)


def test_the_accuracy_of_a_guess_is_one_in_the_number_of_allowed_answers():
    evalset = next(s for s in EVAL_SETS if s.name == "1-var train")
    batch = Sampler([TASK], SEEN[None], [1], evalset).sample(0, 2000)
    options = [plain_answers(render(row, TASK)) for row in batch.tokens[0].tolist()]
    assert all(int(label) in own for label, own in zip(batch.labels[0], options, strict=True))
    mean = sum(1 / len(own) for own in options) / len(options)
    assert nameless_accuracy(TASK, evalset, 3) == pytest.approx(mean, abs=0.025)


def test_other_names_are_of_the_same_group_and_never_the_same():
    tokens = torch.tensor([parse("c=1, d=2, g=3, d+4=?", TASK), parse("a=1, b=2, c=3, c+b=?", TASK)]).repeat(50, 1)
    found = with_other_names(TASK, tokens, torch.Generator().manual_seed(0))
    assert (found[:, :13] == tokens[:, :13]).all() and (found[::2, 14] == 4).all()
    names = [letters(column) for column in (found[::2, 13], found[1::2, 13], found[1::2, 14])]
    assert set(names[0]) <= set("cefijkl") and set(names[1]) <= set("defijkl") and set(names[2]) == {"a"}
    assert len(set(names[0])) > 3


def test_rearranged_sequences_keep_places_and_the_values_of_each_group():
    evalset = next(s for s in EVAL_SETS if s.name == "2-var train")
    tokens = Sampler([TASK], SEEN[None], [0], evalset).sample(0, 200).tokens[0]
    found, first = rearranged(TASK, tokens, torch.Generator().manual_seed(0)), Vocabulary(TASK).first_variable
    kinds = [(t >= first).long() + 2 * (t < TASK.modulus) for t in (tokens, found)]
    assert torch.equal(*kinds) and not torch.equal(tokens, found)
    moved = 0
    for before, after in zip(tokens.tolist(), found.tolist(), strict=True):
        texts = [render(row, TASK) for row in (before, after)]
        sorted_values = [sorted((_group(v), n) for v, n in assignments(text).items()) for text in texts]
        assert sorted_values[0] == sorted_values[1]
        assert [_group(Vocabulary(TASK).name(t)) for t in before[13:15]] == [
            _group(Vocabulary(TASK).name(t)) for t in after[13:15]
        ]
        moved += list(assignments(texts[0]).values()) != list(assignments(texts[1]).values())
    assert moved > 100


def _group(letter):
    return next(i for i, group in enumerate(name_groups(TASK)) if letter in letters(group))
