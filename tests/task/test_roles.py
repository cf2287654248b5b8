"""Roles, compared with a plain reading of each sequence."""

import pytest
import torch

from assignadd.config import PRESETS, ConfigError
from assignadd.task.evalsets import EVAL_SETS, any_sums
from assignadd.task.positions import ROLES, Positions, as_in_training, operand_slots, roles, with_values
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.task.text import answer, assignments, operand_values, parse
from assignadd.task.vocabulary import Vocabulary
from tests.interventions.small import TASK as SMALL_TASK
from tests.interventions.small import tokens as small_tokens

TASK = PRESETS["paper"].task
TOKENS = torch.cat([Sampler([TASK], pair_split(TASK, 0)[None], [0], s).sample(7, 40).tokens for s in EVAL_SETS], 1)
BATCH = small_tokens(40)[0]
PREFIX, PAD, FIRST_VARIABLE = SMALL_TASK.prefix, SMALL_TASK.modulus + 2, SMALL_TASK.modulus + 3


def rows(tokens):
    return tokens[0].tolist()


def test_roles_equal_a_plain_reading():
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


def test_sequences_that_training_could_contain():
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


def by_hand(row: list[int]) -> dict[str, set[int]]:
    variables = {i for i in range(PREFIX) if row[i] >= FIRST_VARIABLE}
    found = {
        "equals": {9},
        "plus": {6},
        "first": {7},
        "second": {8},
        "variables": variables,
        "assigned": {i + 1 for i in variables},
    }
    for name, slot in (("first", 7), ("second", 8)):
        own = {i for i in variables if row[i] == row[slot]}
        found[f"{name}_variable"], found[f"{name}_value"] = own, {i + 1 for i in own} or {slot}
    found["distractors"] = found["assigned"] - found["first_value"] - found["second_value"]
    return found | {"pads": {i for i in range(10) if row[i] == PAD}}


def test_every_role_of_every_sequence():
    positions = Positions(SMALL_TASK, BATCH)
    for role in ROLES:
        mask = positions.mask(role)
        for row, own in zip(BATCH.tolist(), mask, strict=True):
            assert set(own.nonzero().flatten().tolist()) == by_hand(row)[role], (role, row)


def test_a_documented_prompt():
    row = parse("d 3 . c 7 . + c 4 =", SMALL_TASK)
    positions = Positions(SMALL_TASK, torch.tensor([row]))
    assert positions.any_of(("first_value", "distractors", 2, "2"))[0].nonzero().flatten().tolist() == [1, 2, 4]
    assert positions.any_of(None).all() and not positions.any_of(("second_variable",)).any()
    with pytest.raises(ConfigError, match="position = 10: expected 0 to 9"):
        positions.mask(10)
