"""Roles against the tokens themselves, read one by one."""

import pytest
import torch

from assignadd.config import ConfigError
from assignadd.task.positions import ROLES, Positions
from assignadd.task.text import parse
from tests.interventions.small import TASK, tokens

BATCH = tokens(40)[0]
PREFIX, PAD, FIRST_VARIABLE = TASK.prefix, TASK.modulus + 2, TASK.modulus + 3


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
    positions = Positions(TASK, BATCH)
    for role in ROLES:
        mask = positions.mask(role)
        for row, own in zip(BATCH.tolist(), mask, strict=True):
            assert set(own.nonzero().flatten().tolist()) == by_hand(row)[role], (role, row)


def test_a_documented_prompt():
    row = parse("d 3 . c 7 . + c 4 =", TASK)
    positions = Positions(TASK, torch.tensor([row]))
    assert positions.any_of(("first_value", "distractors", 2, "2"))[0].nonzero().flatten().tolist() == [1, 2, 4]
    assert positions.any_of(None).all() and not positions.any_of(("second_variable",)).any()
    with pytest.raises(ConfigError, match="position = 10: expected 0 to 9"):
        positions.mask(10)
