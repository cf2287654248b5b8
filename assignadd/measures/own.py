"""A measure of the user's: a function whose columns training records beside ours, and what the run keeps about it.

The function takes a stack and returns a number for each model, as our measures do: a tensor (M,), which is the column
of the function's name, or a dict with such a tensor for each column. A measure that samples sequences takes
(stack, configs, seen).
"""

from __future__ import annotations

import hashlib
import inspect
import marshal
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from assignadd.config import SETTINGS, SHORT_NAMES, Config, ConfigError, Member
from assignadd.measures.columns import MEASURES, rounded
from assignadd.model.stack import Stack, initial_stack
from assignadd.runs.manifest import Observed
from assignadd.task.evalsets import LABELS
from assignadd.task.splits import splits_of
from assignadd.training.loop import is_measurement
from assignadd.training.trainer import Observe, Observer
from assignadd.user_file import user_module, user_object, with_line

Function = Callable[..., Any]
# The keys and columns of a run's metrics that are no measures.
FACTS = ("step", "model", "seed", "loss", "diverged_at", "accuracy", "measures", "tests", "run")
EXPECTED = "a function of a stack that returns a number for each model, (M,), or a dict of them"


def numbers_of(function: Function, stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, Any]]:
    """For each model of a stack, the numbers that a function of the user's returns, by column.

    A function with several parameters without defaults is called with (stack, configs, seen), any other with the stack
    alone. A function may also return such a list of dicts; for anything else this raises a ConfigError.
    """
    required = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    result = function(stack, configs, seen) if len(required) > 1 else function(stack)
    if isinstance(result, list) and all(isinstance(row, Mapping) for row in result) and len(result) == len(configs):
        return [dict(row) for row in result]
    name = getattr(function, "__name__", "")
    columns = dict(result) if isinstance(result, Mapping) else {name: result}
    for column, values in columns.items():
        numbers = values.tolist() if isinstance(values, Tensor) else values
        is_list = isinstance(numbers, list | tuple) and len(numbers) == len(stack)
        if not is_list or not all(isinstance(number, bool | int | float) for number in numbers):
            raise ConfigError("observe", name or function, EXPECTED)
        columns[column] = [rounded(float(number)) for number in numbers]
    return [{column: numbers[model] for column, numbers in columns.items()} for model in range(len(stack))]


@dataclass(frozen=True)
class OwnMeasure:
    """An observer that adds the columns of a user's function, at every evaluation, to those of another observer."""

    function: Function
    base: Observer | None
    observed: Observed
    path: Path | None = None
    """The file from which another process loads the function."""
    at_every_evaluation: ClassVar[bool] = True

    def __call__(self, configs: Sequence[Config], seen: Tensor) -> Observe:
        """The function (stack, step) that measures models of these configurations, trained on the pairs `seen`."""
        base = self.base(configs, seen) if self.base else None

        def rows_of_models(stack: Stack, step: int) -> list[dict[str, Any]]:
            """For each model, the columns of the other observer, where measures are due, and those of the function."""
            rows = base(stack, step) if base and is_measurement(stack.config, step) else [{} for _ in configs]
            # A copy: what the function does to the weights is not training.
            columns_of_user = numbers_of(self.function, stack.clone(), configs, seen)
            return [row | columns for row, columns in zip(rows, columns_of_user, strict=True)]

        return rows_of_models

    def __reduce__(self) -> tuple[Any, ...]:
        """How another process makes this again, a function and its arguments: from the user's file if there is one."""
        if self.path is None:
            return OwnMeasure, (self.function, self.base, self.observed)
        return _loaded, (self.path, self.function.__name__, self.base, self.observed)


def _loaded(path: Path, name: str, base: Observer | None, observed: Observed) -> OwnMeasure:
    """The observer in a process that has not loaded the user's file."""
    return OwnMeasure(getattr(user_module(path), name), base, observed, path)


def own_measure(
    function: Function, config: Config, member: Member, base: Observer | None, path: Path | None = None
) -> OwnMeasure:
    """An observer with the columns of this function after those of the observer `base`.

    The function is first called on two untrained models of this configuration and member, to see that it works.
    """
    name = getattr(function, "__name__", "")
    if not (name.isidentifier() and inspect.isfunction(inspect.unwrap(function))):
        raise ConfigError("observe", function, f"{EXPECTED}; it needs a name, which a lambda has not")
    path_of_source = Path(inspect.getsourcefile(function) or "")
    file = path_of_source if path_of_source.is_file() else None  # none in a notebook
    configs = [member.config(config)] * 2  # of one model alone, a single number would pass for a number of each model
    stack = initial_stack(config, [configs[0].seed.init or 0] * 2, [configs[0].model.init_scale] * 2)
    try:
        rows = numbers_of(function, stack, configs, splits_of(configs))
    except Exception as error:
        problem = with_line(error, file) if file else f"{type(error).__name__}: {error}"
        raise ConfigError("observe", name, f"{EXPECTED}; {problem}") from error
    observed = Observed(
        name=f"{file.name if file else '(notebook)'}:{name}",
        source=hashlib.sha256(_text(function)).hexdigest(),
        file=hashlib.sha256(file.read_bytes()).hexdigest() if file else None,
        columns=_meanings(function, list(rows[0])),
    )
    return OwnMeasure(function, base, observed, path)


def _text(function: Function) -> bytes:
    """The text of a function; its bytecode where Python has not stored the text, as for what was typed at a prompt."""
    try:
        return inspect.getsource(function).encode()
    except (OSError, TypeError):
        return marshal.dumps(inspect.unwrap(function).__code__, 2)  # version 2 writes equal code in the same way


def _meanings(function: Function, columns: Sequence[str]) -> dict[str, str]:
    """What each column means: as the function's mapping `columns` says, or else its docstring's first paragraph.

    A column without a meaning, and one that we have ourselves, is a ConfigError.
    """
    first_paragraph = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
    meanings = {column: getattr(function, "columns", {}).get(column) or first_paragraph for column in columns}
    for column, meaning in meanings.items():
        if _is_ours(column):
            raise ConfigError("observe", column, "a column that assignadd has not already: call yours by another name")
        if not meaning:
            raise ConfigError("observe", function.__name__, "a docstring that says what its columns mean")
    return meanings


def _is_ours(column: str) -> bool:
    """Whether a table of a run or of a sweep may have a column of this name."""
    is_named = column in (*FACTS, *LABELS, *SHORT_NAMES, *SETTINGS)
    is_accuracy = re.match(r"\d+-var\b|.*\((final|end)\)$", column) is not None
    return is_named or is_accuracy or any(measure.fields(column) is not None for measure in MEASURES)


def function_named(text: str) -> tuple[Function, Path]:
    """The function that FILE.py:NAME names, and the file, which is executed."""
    file, _, name = text.rpartition(":")
    if not file.endswith(".py") or not name:
        raise ConfigError("observe", text, "FILE.py:FUNCTION, such as mine.py:rank")
    function, _ = user_object(file, name)
    return function, Path(file).resolve()
