"""Settings as JSON: strict on the way in, canonical on the way out.

An unknown key, a key given twice or a wrong type is a ConfigError that names the dotted field; ranges and combinations
are `config.validate`'s, the same for JSON as for flags and Python. A field that is left out has its default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from assignadd.config import PER_MODEL, SETTINGS, SHORT_NAMES, Config, ConfigError, Member, with_settings
from assignadd.config.task import OPERATIONS, named_operation
from assignadd.runs.files import MOST_SETTINGS, read_input

DEFAULTS = Config()
SECTIONS = list(vars(DEFAULTS))


def read_config(path: Path, base: Config) -> Config:
    """The settings of a user's file, or of a run's `config.json`; what it leaves out is as in `base`.

    A file that `task.operation` names is read here, from the working directory.
    """
    try:
        data = read_input(path, MOST_SETTINGS)
    except OSError as error:
        raise ConfigError("config", str(path), f"a file that can be read ({error.strerror})") from error
    values = parse(data, path.name)
    if isinstance(values, dict) and values.keys() == {"config", "models"}:
        values = values["config"]
    return with_settings(base, exact_settings(with_operation(_by_dotted_name(values))))


def config_from(values: Any) -> Config:
    """The configuration of parsed JSON, `{"optim": {"lr": 0.001}, ...}`; what it leaves out has its default."""
    return with_settings(DEFAULTS, exact_settings(_by_dotted_name(values)))


def exact_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """JSON values by dotted names, each as the type that the setting has in Python.

    A value of another type is left unchanged: `config.validate` refuses it in the words of the setting.
    """
    exact = dict(settings)
    for name in settings.keys() & SETTINGS.keys():
        with suppress(msgspec.ValidationError, UnicodeEncodeError):
            exact[name] = msgspec.convert(settings[name], SETTINGS[name].type)
    return exact


def with_operation(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted names; a file of answers that `task.operation` names is read into `task.table`.

    A configuration thus has the answers themselves; the file is not read again. N rows make `task.modulus` N, unless
    the settings have it.
    """
    operation = settings.get("task.operation")
    if not isinstance(operation, str) or named_operation(operation):
        return dict(settings)
    rows = read_table(Path(operation))
    table = tuple(answer for row in rows for answer in row)
    return {"task.modulus": len(rows), "task.table": table, **settings, "task.operation": "table"}


def read_table(path: Path) -> list[list[int]]:
    """The rows of a file of answers: entry (x, y) is the answer for first operand x and second operand y."""
    try:
        text = read_input(path, MOST_SETTINGS).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "this one is not text"
        accepted = f"{OPERATIONS}, or a file with N rows of N answers ({reason})"
        raise ConfigError("task.operation", str(path), accepted) from error
    try:
        rows = json.loads(text) if text.lstrip().startswith("[") else _rows_of_text(text)
        N = len(rows)
        is_table = N >= 2 and all(isinstance(row, list) and len(row) == N for row in rows)
        is_table = is_table and all(type(answer) is int and 0 <= answer < N for row in rows for answer in row)
    except (ValueError, RecursionError):
        is_table = False
    if not is_table:
        expected = "a table with as many rows as columns of whole numbers from 0 to N - 1, by spaces, commas or as JSON"
        raise ConfigError("task.operation", str(path), expected)
    return rows


def _rows_of_text(text: str) -> list[list[int]]:
    """The numbers in each line that is not empty, which spaces, commas or semicolons separate."""
    lines = [line.strip(",; ") for line in text.splitlines() if line.strip()]
    return [[int(word) for word in re.split(r"[,;\s]+", line)] for line in lines]


def run_document(config: Config, members: Sequence[Member]) -> bytes:
    """The `config.json` of a run: the same bytes for the same settings.

    Fields that were added after the first version are left out at their defaults, so that a document has the bytes, and
    hence the hash, that it had before there were these fields.
    """
    for member in members:
        member.config(config)  # refuses what JSON cannot say, such as a NaN
    # A whole number given for a float (lr=1) is written as the float it means.
    exact = config_from(msgspec.to_builtins(config))
    written = msgspec.to_builtins(exact)
    for name, field in SETTINGS.items():
        section, _, key = name.partition(".")
        if field.metadata.get("added_later") and attrgetter(name)(exact) == field.default:
            del written[section][key]
    document = {
        "config": {section: values for section, values in written.items() if values},
        "models": [{"seed": member.seed, **exact_settings(dict(member.settings))} for member in members],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def read_run_document(data: bytes) -> tuple[Config, tuple[Member, ...]]:
    """The settings of a run and its models."""
    document = parse(data, "config.json")
    if not isinstance(document, dict) or document.keys() != {"config", "models"}:
        raise ConfigError("run", document, "an object with the fields config, models")
    config, models = config_from(document["config"]), document["models"]
    if not isinstance(models, list) or not models:
        raise ConfigError("models", models, "a list of at least one model")
    return config, tuple(_member(f"models[{i}]", model, config) for i, model in enumerate(models))


Settings = tuple[Config, Sequence[Member]]


def first_difference(run: Settings, other: Settings) -> tuple[str, Any, Any] | None:
    """The first setting in which two runs differ, with both values: a dotted name, or that of a model's setting."""
    fields, other_fields = _fields(run), _fields(other)
    for name in fields | other_fields:
        if fields.get(name) != other_fields.get(name):
            return name, fields.get(name), other_fields.get(name)
    return None


def _fields(run: Settings) -> dict[str, Any]:
    """All settings of a run by name, those of its models as models[0].seed."""
    config, members = run
    fields = {name: attrgetter(name)(config) for name in SETTINGS}
    fields["number of models"] = len(members)
    for i, member in enumerate(members):
        for name, value in {"seed": member.seed, **dict(member.settings)}.items():
            fields[f"models[{i}].{name}"] = value
    return fields


def parse(data: bytes, name: str) -> Any:
    """JSON without repeated keys, NaN or infinities."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in pairs:
            if key in values:
                raise ConfigError(key, value, f"each key once in {name}")
            values[key] = value
        return values

    def refuse(constant: str) -> None:
        raise ConfigError(name, constant, "finite numbers")

    try:
        return json.loads(data.decode(), object_pairs_hook=unique, parse_constant=refuse)
    except json.JSONDecodeError as error:
        place, text = f"{name} line {error.lineno} column {error.colno}", error.doc[error.pos : error.pos + 12]
        raise ConfigError(place, text, f"JSON ({error.msg[:1].lower()}{error.msg[1:]})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(name, data[error.start : error.start + 4], "JSON in UTF-8") from error
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets thousands deep
        raise ConfigError(name, data[:12], f"JSON of a reasonable size ({error})") from error


def _by_dotted_name(values: Any) -> dict[str, Any]:
    """`{"optim": {"lr": 1}}` as `{"optim.lr": 1}`."""
    settings = {}
    for section, fields in _object("config", values, SECTIONS).items():
        known = [name.partition(".")[2] for name in SETTINGS if name.partition(".")[0] == section]
        for field, value in _object(section, fields, known).items():
            settings[f"{section}.{field}"] = value
    return settings


def _object(name: str, values: Any, known: Sequence[str]) -> dict[str, Any]:
    """These values, or an error unless they are a JSON object with known keys."""
    if not isinstance(values, dict):
        raise ConfigError(name, values, "an object with fields among " + ", ".join(known))
    for key, value in values.items():
        if key not in known:
            dotted = key if name == "config" else f"{name}.{key}"
            raise ConfigError(dotted, value, f"a field of {name}: " + ", ".join(known))
    return values


def _member(name: str, values: Any, config: Config) -> Member:
    """A model's seed and settings; the first version's names, null where the stack's value counts, are read too."""
    if not isinstance(values, dict):
        raise ConfigError(name, values, "an object with a seed and settings")
    fields = {str(field): value for field, value in values.items() if field != "seed"}
    settings = {SHORT_NAMES.get(field, field): value for field, value in fields.items()}
    seed = values.get("seed")
    if type(seed) is not int:
        raise ConfigError(f"{name}.seed", seed, "a whole seed")
    for field, value in settings.items():
        if field not in PER_MODEL:
            raise ConfigError(f"{name}.{field}", value, "a setting of one model of a stack: " + ", ".join(PER_MODEL))
    member = Member(seed, exact_settings(settings))
    member.config(config)  # the model's settings are checked as a whole configuration
    return member
