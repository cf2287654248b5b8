"""Roles against the plain reading of a sequence, token by token."""

import torch

from assignadd.config import PRESETS
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.roles import operand_slots, roles, with_values
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.task.text import answer, assignments, operand_values
from assignadd.task.vocabulary import Vocabulary

TASK = PRESETS["paper"].task
TOKENS = torch.cat([Sampler([TASK], pair_split(TASK, 0)[None], [0], s).sample(7, 40).tokens for s in EVAL_SETS], -1)


def columns(tokens):
    return tokens[0].T.tolist()


def test_roles_are_those_a_reader_sees():
    found, vocabulary = roles(TASK, TOKENS), Vocabulary(TASK)
    for b, tokens in enumerate(columns(TOKENS)):
        assert tuple(found.values[0, :, b].tolist()) == operand_values(tokens, TASK)
        for slot, position, literal in zip((13, 14), found.value_positions[0, :, b].tolist(), found.is_variable[0, :, b], strict=True):
            assert bool(literal) == vocabulary.is_variable(tokens[slot])
            assert position == slot if tokens[slot] < 59 else tokens[position - 1] == tokens[slot] and position < 12
        assert [tokens[i] for i in found.assigned[0, :, b].nonzero().flatten()] == list(assignments(tokens, TASK).values())
    assert operand_slots(TASK) == (13, 14)


def test_with_values_changes_the_sum_and_nothing_else():
    values = torch.stack([torch.arange(TOKENS.shape[-1]) % 59, torch.arange(TOKENS.shape[-1]) * 7 % 59])
    changed = with_values(TASK, TOKENS, values)
    for before, after, n, m in zip(columns(TOKENS), columns(changed), *values.tolist(), strict=True):
        assert operand_values(after, TASK) == (n, m) and answer(after, TASK) == (n + m) % 59
        assert sum(x != y for x, y in zip(before, after, strict=True)) <= 2
        assert list(assignments(before, TASK)) == list(assignments(after, TASK))
