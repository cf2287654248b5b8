"""The package's tables as the page reads them: tasks with their answers, evaluation sets, measures, colours."""

from __future__ import annotations

import dataclasses
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import torch
from matplotlib import colormaps
from matplotlib.colors import to_hex
from torch import Tensor

from assignadd import palette
from assignadd.config import Config, ConfigError, Task
from assignadd.dynamics.curves import LASTING
from assignadd.dynamics.phases import ADDITION_SET, ADDITION_THRESHOLD, BINDING_SET, BINDING_THRESHOLD, THRESHOLD
from assignadd.measures.columns import COLUMNS, column_label
from assignadd.task.arithmetic import answer_of
from assignadd.task.evalsets import ALL_SETS, VARIABLES
from assignadd.task.vocabulary import Vocabulary

FIELDS = ("modulus", "n_vars", "length", "max_assignments", "banned_first", "banned_second")
# Settings that only decide what the page carries as data: seen pairs, answers, sequences.
IN_DATA = ("seen_fraction", "one_var_ratio", "two_var_ratio", "operation", "table")
STOPS = 9
HUES = ("BLUE", "VERMILION", "GREEN", "ORANGE", "PURPLE", "SKY")
# The columns of the paper's seven measures, and the curves that the slider and the small charts of every seed show.
MEASURED = tuple(dict.fromkeys(m.name.format(n_vars=n) for m in COLUMNS if m.paper for n in VARIABLES))
WALL_SETS = (ADDITION_SET, BINDING_SET, "2-var train")


def require_shown(config: Config) -> None:
    """An error that names the setting of a task that the page cannot show: one it does not read, with another value."""
    for field in dataclasses.fields(config.task):
        value = getattr(config.task, field.name)
        if field.name not in (*FIELDS, *IN_DATA) and value != field.default:
            raise ConfigError(f"task.{field.name}", value, f"{field.default!r}: the page can show no other")


def task_data(config: Config) -> dict[str, Any]:
    """What the page must know to read and answer a prompt of a task."""
    task, vocabulary = config.task, Vocabulary(config.task)
    own = {"operator": vocabulary.name(vocabulary.plus), "answers": whole_numbers(answers(task))}
    return {name: getattr(task, name) for name in FIELDS} | own


def answers(task: Task) -> Tensor:
    """The answer for each pair of values, (N, N)."""
    n = torch.arange(task.modulus)
    return answer_of(task, (n[:, None], n))


def whole_numbers(values: Tensor) -> str:
    """Small whole numbers, row by row, two bytes each."""
    return b64encode(values.contiguous().to(torch.int16).numpy().astype("<i2").tobytes()).decode()


def sets_data() -> list[dict[str, Any]]:
    """Name, label and colour of every evaluation set."""
    return [{"name": s.name, "label": s.label, "colour": palette.BY_VARS[s.n_vars]} for s in ALL_SETS]


def measures_table() -> list[dict[str, Any]]:
    """Name, label, unit, family and colour of every measured column that the page draws, in the table's order."""
    return [
        {"name": column, "family": m.family, "title": m.label, "label": column_label(column), "unit": m.unit}
        | {"colour": palette.BY_VARS[int(fields["n_vars"])] if fields else m.colour}
        for m in COLUMNS
        for column in m.columns(MEASURED)
        for fields in [m.fields(column)]
    ]


def rules_data() -> dict[str, Any]:
    """The rules by which the package decides that a network binds and that a skill has come."""
    return {
        "binding_set": BINDING_SET, "binding_level": BINDING_THRESHOLD, "lasting": LASTING, "wall": WALL_SETS,
        "levels": {"addition": ADDITION_THRESHOLD, "binding": THRESHOLD, "refinement": THRESHOLD},
    }  # fmt: skip


def palette_data() -> dict[str, str]:
    """The hues of the figures, by name."""
    return {name.lower(): getattr(palette, name) for name in HUES}


def scales_data() -> dict[str, list[str]]:
    """The colours of heat maps from the least to the largest value: of shares, and of scores of either sign."""
    names = {"shares": palette.SHARES, "signed": palette.SIGNED}
    return {key: [to_hex(colormaps[name](i / (STOPS - 1))) for i in range(STOPS)] for key, name in names.items()}


def distinct(items: Sequence[Any]) -> list[Any]:
    """The items without repetition, in their order."""
    return [item for i, item in enumerate(items) if item not in items[:i]]
