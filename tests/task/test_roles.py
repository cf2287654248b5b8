"""Roles against the plain reading of a sequence, token by token."""

import torch

from assignadd.config import PRESETS
from assignadd.task.evalsets import EVAL_SETS, any_sums
from assignadd.task.roles import as_in_training, operand_slots, roles, with_values
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.task.text import answer, assignments, operand_values
from assignadd.task.vocabulary import Vocabulary

TASK = PRESETS["paper"].task
TOKENS = torch.cat([Sampler([TASK], pair_split(TASK, 0)[None], [0], s).sample(7, 40).tokens for s in EVAL_SETS], 1)


def rows(tokens):
    return tokens[0].tolist()


def test_roles_are_those_a_reader_sees():
    found, vocabulary = roles(TASK, TOKENS), Vocabulary(TASK)
    for b, tokens in enumerate(rows(TOKENS)):
        assert tuple(found.values[0, b].tolist()) == operand_values(tokens, TASK)
        for slot, position, literal in zip(
            (13, 14), found.value_positions[0, b].tolist(), found.is_variable[0, b], strict=True
        ):
            assert bool(literal) == vocabulary.is_variable(tokens[slot])
            assert position == slot if tokens[slot] < 59 else tokens[position - 1] == tokens[slot] and position < 12
        assert [tokens[i] for i in found.assigned[0, b].nonzero().flatten()] == list(assignments(tokens, TASK).values())
    assert operand_slots(TASK) == (13, 14)


def test_with_values_changes_the_sum_and_nothing_else():
    each = torch.arange(TOKENS.shape[1])
    values = torch.stack([each % 59, each * 7 % 59], 1)
    changed = with_values(TASK, TOKENS, values)
    for before, after, (n, m) in zip(rows(TOKENS), rows(changed), values.tolist(), strict=True):
        assert operand_values(after, TASK) == (n, m) and answer(after, TASK) == (n + m) % 59
        assert sum(x != y for x, y in zip(before, after, strict=True)) <= 2
        assert list(assignments(before, TASK)) == list(assignments(after, TASK))


def test_what_training_could_show():
    seen = torch.stack([pair_split(TASK, i) for i in range(2)])
    for n_vars in (0, 1, 2):
        tokens = Sampler([TASK, TASK], seen, [0, 1], any_sums(n_vars)).sample(3, 300).tokens
        found = as_in_training(TASK, seen, tokens)
        for m in range(2):
            for row, allowed in zip(tokens[m].tolist(), found[m].tolist(), strict=True):
                letters = [Vocabulary(TASK).name(token) for token in row[13:15]]
                banned = letters[0] in ("a", "b") or letters[1] in ("g", "h")
                assert allowed == (bool(seen[m][operand_values(row, TASK)]) and not banned)
        assert 0.3 < found.float().mean() < 0.8
