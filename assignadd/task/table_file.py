"""Reading an operation from a file: a table with N rows of N answers, as plain text, CSV or a JSON list of lists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from assignadd.config import ConfigError
from assignadd.task_settings import named_operation

ACCEPTED = "add, subtract, multiply, dihedral, 'affine P Q', or a file with N rows of N answers"


def operation_settings(operation: str) -> dict[str, Any]:
    """The settings of the task that an operation stands for: itself, or the table and the modulus of the file it names.

    A configuration thus has the answers themselves; the file is not read again.
    """
    if named_operation(operation):
        return {"operation": operation}
    rows = read_table(Path(operation))
    return {"operation": "table", "table": tuple(x for row in rows for x in row), "modulus": len(rows)}


def read_table(path: Path) -> list[list[int]]:
    """The rows of a file of answers: entry (x, y) is the answer for first operand x and second operand y."""
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError("task.operation", str(path), f"{ACCEPTED} ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError("task.operation", str(path), f"{ACCEPTED} (this one is not text)") from error
    try:
        if text.lstrip().startswith("["):
            rows = json.loads(text)
        else:
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            rows = [[int(x) for x in re.split(r"[,;\s]+", line.strip(",; "))] for line in lines]
        wrong = any(not isinstance(row, list) or len(row) != len(rows) for row in rows)
        wrong = wrong or any(type(x) is not int or not 0 <= x < len(rows) for row in rows for x in row)
    except (ValueError, RecursionError):
        rows, wrong = [], True
    if wrong or len(rows) < 2:
        expected = "a table with as many rows as columns of whole numbers from 0 to N - 1, by spaces, commas or as JSON"
        raise ConfigError("task.operation", str(path), expected)
    return rows
