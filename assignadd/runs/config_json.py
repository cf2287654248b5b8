"""Settings as JSON: strict on the way in, canonical on the way out.

An unknown key, a key given twice or a wrong type is a ConfigError; ranges and combinations are `config.validate`'s, the
same for JSON as for flags and Python. A field that is left out has its default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assignadd.config import (
    MOST_MODELS,
    PER_MODEL,
    SETTINGS,
    SHORT_NAMES,
    Config,
    ConfigError,
    Member,
    Model,
    Task,
    check_members,
    with_settings,
)
from assignadd.config.task import OPERATIONS, named_operation
from assignadd.runs.files import MOST_SETTINGS, read_input
from assignadd.user_file import registered

if TYPE_CHECKING:  # without torch until a task or a network of the user's is there
    from assignadd.model.own import Factory
    from assignadd.task.own import OwnTask

    TaskOfUser = OwnTask | str | Path | None
    NetworkOfUser = Factory | str | Path | None

DEFAULTS = Config()


def read_config(path: Path, base: Config) -> Config:
    """The settings of a user's file, or of a run's `config.json`; what it leaves out is as in `base`.

    A file that `task.operation` names is read here, from the working directory.
    """
    try:
        data = read_input(path, MOST_SETTINGS)
    except OSError as error:
        raise ConfigError("config", str(path), f"a file that can be read ({error.strerror})") from error
    values = parse(data, path.name)
    if isinstance(values, dict) and values.keys() == {"config", "models"}:  # of a run
        values = values["config"]
    return with_settings(base, with_declared_types(with_operation(_by_dotted_name(values))))


def with_files(config: Config, task: TaskOfUser = None, network: NetworkOfUser = None) -> Config:
    """The configuration with this task and this network of the user's instead of its own, where they are given.

    Raises a UserError if the configuration has a task or a network of the user's that this process has not loaded.
    """
    from assignadd.model.own import register_network
    from assignadd.task.own import register_task

    if task is not None:
        config = replace(config, task=Task(file=register_task(task)))
    if network is not None:
        config = replace(config, model=Model(file=register_network(network, config.task)))
    for file in (config.task.file, config.model.file):
        if file is not None:
            registered(file)  # which raises the error
    return config


def config_from(values: Any) -> Config:
    """The configuration of parsed JSON, `{"optim": {"lr": 0.001}, ...}`; what it leaves out has its default."""
    return with_settings(DEFAULTS, with_declared_types(_by_dotted_name(values)))


def with_declared_types(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, by dotted names, each value of the type that its setting declares: a list as a tuple, 1 as 1.0.

    A value that cannot be of that type is left unchanged: `config.validate` refuses it in the words of the setting.
    """
    converted = dict(settings)
    for name in settings.keys() & SETTINGS.keys():
        with suppress(msgspec.ValidationError, UnicodeEncodeError):
            converted[name] = msgspec.convert(settings[name], SETTINGS[name].type)
    return converted


def with_operation(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, by dotted names; if `task.operation` names a file of answers, with the answers as `task.table`.

    The operation is then `table`, and the number of rows is `task.modulus`, unless the settings have that.
    """
    operation = settings.get("task.operation")
    if not isinstance(operation, str) or named_operation(operation):
        return dict(settings)
    rows = read_table(Path(operation))
    answers = tuple(answer for row in rows for answer in row)
    from_file = {"task.modulus": len(rows), "task.table": answers}
    return from_file | dict(settings) | {"task.operation": "table"}


def read_table(path: Path) -> list[list[int]]:
    """The N rows of N answers in a file: rows[x][y] is the answer for first operand x and second operand y."""
    try:
        text = read_input(path, MOST_SETTINGS).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "this one is not text"
        accepted = f"{OPERATIONS}, or a file with N rows of N answers ({reason})"
        raise ConfigError("task.operation", str(path), accepted) from error
    words_of_lines = [re.findall(r"[^,;\s]+", line) for line in text.splitlines()]
    try:
        rows = [[int(word) for word in words] for words in words_of_lines if words]
    except ValueError:
        rows = []
    N = len(rows)
    all_fit = all(len(row) == N and 0 <= min(row) <= max(row) < N for row in rows)
    if N < 2 or not all_fit:
        expected = "a table with as many rows as columns of whole numbers from 0 to N - 1, by spaces or commas"
        raise ConfigError("task.operation", str(path), expected)
    return rows


def run_document(config: Config, members: Sequence[Member]) -> bytes:
    """The `config.json` of a run: the same bytes for the same settings.

    Fields that were added after the first version are left out at their defaults, so that a document has the bytes, and
    hence the hash, that it had before there were these fields.
    """
    check_members(config, members)  # refuses what JSON cannot have, such as a NaN
    # A whole number given for a float (lr=1) is written as the float it means.
    converted = config_from(msgspec.to_builtins(config))
    sections = msgspec.to_builtins(converted)
    for name, field in SETTINGS.items():
        section, _, key = name.partition(".")
        is_default = attrgetter(name)(converted) == field.default
        if field.metadata.get("added_later") and is_default:
            del sections[section][key]
    document = {
        "config": {section: values for section, values in sections.items() if values},
        "models": [{"seed": member.seed, **with_declared_types(dict(member.settings))} for member in members],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def read_run_document(data: bytes) -> tuple[Config, tuple[Member, ...]]:
    """The settings of a run and its models, from the bytes of its `config.json`."""
    document = parse(data, "config.json")
    if not isinstance(document, dict) or document.keys() != {"config", "models"}:
        raise ConfigError("run", document, "an object with the fields config, models")
    config = config_from(document["config"])
    models = document["models"]
    if not isinstance(models, list) or not 1 <= len(models) <= MOST_MODELS:
        raise ConfigError("models", models, f"a list of 1 to {MOST_MODELS} models")
    return config, tuple(_member(f"models[{i}]", model, config) for i, model in enumerate(models))


Settings = tuple[Config, Sequence[Member]]
"""The settings of a run: the configuration that its models share, and each model's seed and settings of its own."""


def first_difference(run: Settings, other: Settings) -> tuple[str, Any, Any] | None:
    """The first setting in which two runs differ, such as optim.lr or models[0].seed, and its value in each."""
    values, other_values = _values_by_name(run), _values_by_name(other)
    for name in values | other_values:
        value, other_value = values.get(name), other_values.get(name)  # None if a model does not have the setting
        if value != other_value:
            return name, value, other_value
    return None


def _values_by_name(run: Settings) -> dict[str, Any]:
    """All settings of a run by name: those that its models share, and each model's seed and its own settings."""
    config, members = run
    values = {name: attrgetter(name)(config) for name in SETTINGS} | {"number of models": len(members)}
    for i, member in enumerate(members):
        values[f"models[{i}].seed"] = member.seed
        values |= {f"models[{i}].{name}": value for name, value in member.settings}
    return values


def parse(data: bytes, name: str) -> Any:
    """The value in the bytes of the JSON file `name`; a ConfigError for other text, repeated keys and NaN."""

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """The object with these keys and values, as `json` calls it for each."""
        values: dict[str, Any] = {}
        for key, value in pairs:
            if key in values:
                raise ValueError(f"{key!r} is there twice")
            values[key] = value
        return values

    def refuse_constant(constant: str) -> None:  # NaN, Infinity or -Infinity
        raise ValueError(f"{constant} is no number of JSON")

    try:
        return json.loads(data.decode(), object_pairs_hook=object_of, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:  # among them bytes that are not UTF-8, and brackets thousands deep
        raise ConfigError(name, data[:12], f"JSON ({error})") from error


def _by_dotted_name(values: Any) -> dict[str, Any]:
    """Settings by their dotted names: `{"optim": {"lr": 1}}` becomes `{"optim.lr": 1}`."""
    sections = vars(DEFAULTS)  # task, model, optim, ...
    if not isinstance(values, dict):
        raise ConfigError("config", values, f"an object with fields among {', '.join(sections)}")
    settings: dict[str, Any] = {}
    for section, fields in values.items():
        if section not in sections or not isinstance(fields, dict):
            raise ConfigError(section, fields, f"objects with the names {', '.join(sections)}")
        settings |= {f"{section}.{field}": value for field, value in fields.items()}
    return settings


def _member(name: str, values: Any, config: Config) -> Member:
    """A model's seed and settings from an object of JSON, such as {"seed": 3, "optim.lr": 0.01}; errors call it `name`.

    Files of the first version have short names such as `lr`, and null for a value that all models share.
    """
    if not isinstance(values, dict) or type(values.get("seed")) is not int:
        raise ConfigError(name, values, "an object with a whole `seed`, and settings")
    settings = {SHORT_NAMES.get(str(field), str(field)): value for field, value in values.items() if field != "seed"}
    for field, value in settings.items():
        if field not in PER_MODEL:
            raise ConfigError(f"{name}.{field}", value, "a setting of one model of a stack: " + ", ".join(PER_MODEL))
    member = Member(values["seed"], with_declared_types(settings))
    member.config(config)  # the model's settings are checked as a whole configuration
    return member
