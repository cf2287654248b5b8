"""Settings as JSON: strict on the way in, canonical on the way out.

An unknown key, a key given twice, a missing field or a wrong type is a ConfigError that names the dotted field; ranges
and combinations are `config.validate`'s, the same for JSON as for flags and Python.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from assignadd.config import Config, ConfigError, Member
from assignadd.config.member import SHORT_NAMES, own_in_a_stack
from assignadd.runs.files import read_input
from assignadd.task.arithmetic import operation_settings

DEFAULTS = Config()


def read_config(path: Path, base: Config) -> Config:
    """The settings of a user's file, or of a run's `config.json`; what it leaves out is as in `base`.

    A file that `task.operation` names is read here, from the working directory.
    """
    try:
        data = read_input(path, MOST_BYTES)
    except OSError as error:
        raise ConfigError("config", str(path), f"a file that can be read ({error.strerror})") from error
    values = parse(data, path.name)
    if isinstance(values, dict) and values.keys() == {"config", "models"}:
        values = values["config"]
    task = values.get("task") if isinstance(values, dict) else None
    if isinstance(task, dict) and isinstance(task.get("operation"), str):
        found = operation_settings(task["operation"]) | {n: x for n, x in task.items() if n != "operation"}
        # The reader below takes lists, as JSON has them.
        values = values | {"task": {n: list(x) if isinstance(x, tuple) else x for n, x in found.items()}}
    return config_from(values, base)


# Settings of thousands of models take less.
MOST_BYTES = 16 << 20
# The types of the fields of a dataclass; cached, as a sweep reads thousands of settings.
types_of = functools.cache(get_type_hints)
# Fields that are left out of a run's document at their defaults, and those that runs of an earlier version do not have;
# their defaults say what was done then.
LEFT_OUT = tuple(
    f"{section.name}.{field.name}"
    for section in dataclasses.fields(Config)
    for field in dataclasses.fields(getattr(DEFAULTS, section.name))
    if field.metadata.get("since", 1) > 1
)
ADDED_LATER = ("record.measure_every", "record.final_sequences", "start", *LEFT_OUT)
OWN_IN_A_STACK = own_in_a_stack(DEFAULTS)


def run_document(config: Config, members: Sequence[Member]) -> bytes:
    """The `config.json` of a run: every field, the same bytes for the same settings.

    Fields that were added after the first version are left out at their defaults, so that a document has the bytes, and
    hence the hash, that it had before there were these fields.
    """
    for member in members:
        member.config(config)  # refuses what JSON cannot say, such as a NaN
    # Through the reader and back, so that a whole number given for a float (lr=1) is written as the float it means.
    exact, own = read_run_document(msgspec.json.encode({"config": config, "models": _flat(members)}))
    written = {"config": msgspec.to_builtins(exact), "models": _flat(own)}
    for section, name in (dotted.split(".") for dotted in LEFT_OUT):
        if getattr(getattr(exact, section), name) == getattr(getattr(DEFAULTS, section), name):
            del written["config"][section][name]
    written["config"] = {section: values for section, values in written["config"].items() if values}
    document = msgspec.json.encode(written)
    return msgspec.json.format(document, indent=2) + b"\n"


def _flat(members: Sequence[Member]) -> list[dict[str, Any]]:
    return [{"seed": member.seed, **dict(member.own)} for member in members]


def read_run_document(data: bytes) -> tuple[Config, tuple[Member, ...]]:
    """The settings of a run and its models."""
    given = _fields("run", parse(data, "config.json"), ["config", "models"], complete=True)
    config = config_from(given["config"])
    if not isinstance(given["models"], list) or not given["models"]:
        raise ConfigError("models", given["models"], "a list of at least one model")
    return config, tuple(_member(f"models[{i}]", m, config) for i, m in enumerate(given["models"]))


def first_difference(one: bytes, other: bytes) -> tuple[str, Any, Any] | None:
    """The first dotted field in which two `config.json` differ, with both values."""
    ours, theirs = (dict(_leaves(parse(document, "config.json"), "")) for document in (one, other))
    for name in [*ours, *theirs]:
        if name not in ours or name not in theirs or ours[name] != theirs[name]:
            return name.removeprefix("config."), ours.get(name), theirs.get(name)
    return None


def parse(data: bytes, name: str) -> Any:
    """JSON without repeated keys, NaN or infinities."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise ConfigError(key, value, f"each key once in {name}")
            found[key] = value
        return found

    def refuse(constant: str) -> None:
        raise ConfigError(name, constant, "finite numbers")

    try:
        return json.loads(data.decode(), object_pairs_hook=unique, parse_constant=refuse)
    except json.JSONDecodeError as error:
        where, found = f"{name} line {error.lineno} column {error.colno}", error.doc[error.pos : error.pos + 12]
        raise ConfigError(where, found, f"JSON ({error.msg[:1].lower()}{error.msg[1:]})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(name, data[error.start : error.start + 4], "JSON in UTF-8") from error
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets thousands deep
        raise ConfigError(name, data[:12], f"JSON of a reasonable size ({error})") from error


def config_from(values: Any, base: Config | None = None) -> Config:
    """A configuration from parsed JSON; without a `base` to complete it, every field must be there."""
    known = types_of(Config)
    given = _fields("config", values, list(known), complete=base is None)
    sections = {name: _section(known[name], name, value, base and getattr(base, name)) for name, value in given.items()}
    return Config(**sections) if base is None else dataclasses.replace(base, **sections)


def _section(kind: type, name: str, values: Any, base: Any) -> Any:
    hints = types_of(kind)
    given = _fields(name, values, list(hints), complete=base is None)
    exact = {field: _exact(f"{name}.{field}", hints[field], value) for field, value in given.items()}
    return kind(**exact) if base is None else dataclasses.replace(base, **exact)


def _member(name: str, values: Any, config: Config) -> Member:
    """A model's seed and own settings; the first version's names, null where the stack's value counts, are read too."""
    if not isinstance(values, dict):
        raise ConfigError(name, values, "an object with a seed and settings")
    given: dict[str, Any] = {SHORT_NAMES.get(field, field): value for field, value in values.items() if field != "seed"}
    seed = values.get("seed")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ConfigError(f"{name}.seed", seed, "a whole seed")
    for field, value in given.items():
        if field not in OWN_IN_A_STACK:
            raise ConfigError(
                f"{name}.{field}", value, "a setting of one model of a stack: " + ", ".join(OWN_IN_A_STACK)
            )
    member = Member(seed, {field: exact_value(field, value) for field, value in given.items()})
    member.config(config)  # the model's own settings are checked as a whole configuration
    return member


def exact_value(name: str, value: Any) -> Any:
    """A JSON value as the type that the setting with this dotted name has in Python."""
    section, _, field = name.partition(".")
    hint = types_of(types_of(Config).get(section, Config)).get(field)
    return value if value is None else _exact(name, hint, value)


def _fields(name: str, values: Any, known: list[str], complete: bool) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise ConfigError(name, values, "an object with fields among " + ", ".join(known))
    prefix = "" if name in ("config", "run") else f"{name}."
    for key, value in values.items():
        if key not in known:
            raise ConfigError(prefix + key, value, f"a field of {name}: " + ", ".join(known))
    for key in known:
        if complete and key not in values and prefix + key not in ADDED_LATER:
            raise ConfigError(prefix + key, None, "every field of a run's settings to be there")
    return values


def _exact(name: str, hint: Any, value: Any) -> Any:
    """A JSON value as the type the field has in Python; anything else is left for `config.validate` to refuse."""
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise ConfigError(name, value, "a list")
        return tuple(value)
    if hint is float or float in get_args(hint):
        return float(value) if type(value) is int and abs(value) < 1 << 53 else value
    return value


def _leaves(values: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(values, dict):
        for key, value in values.items():
            yield from _leaves(value, f"{name}.{key}" if name else key)
    elif name == "models":
        yield "number of models", len(values)
        for i, value in enumerate(values):
            yield from _leaves(value, f"{name}[{i}]")
    else:
        yield name, values
