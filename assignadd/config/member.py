"""One model of a stack or of a sweep: its seed, and the settings in which it differs from the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from assignadd.config.errors import ConfigError

C = TypeVar("C")
# The names of the first version, which stand in its runs, tables and sweep files.
SHORT_NAMES = {
    "lr": "optim.lr",
    "weight_decay": "optim.weight_decay",
    "seen_fraction": "task.seen_fraction",
    "one_var_ratio": "task.one_var_ratio",
    "two_var_ratio": "task.two_var_ratio",
}


@dataclass(frozen=True, init=False)
class Member:
    """One model: its seed, and its own values of settings, as pairs of a dotted name and a value."""

    seed: int
    own: tuple[tuple[str, Any], ...]

    def __init__(self, seed: int, own: Mapping[str, Any] | None = None, **short: Any):
        """`Member(0, lr=0.001)` is short for `Member(0, {"optim.lr": 0.001})`; None is the value of the others."""
        given = {SHORT_NAMES.get(name, name): value for name, value in {**(own or {}), **short}.items()}
        object.__setattr__(self, "seed", seed)
        object.__setattr__(self, "own", tuple(sorted((n, v) for n, v in given.items() if v is not None)))

    def __repr__(self) -> str:
        """The seed and settings, those of the first version always: names of run folders are made from this text."""
        own: dict[str, Any] = {"seed": self.seed, **dict.fromkeys(SHORT_NAMES)}
        short = {dotted: name for name, dotted in SHORT_NAMES.items()}
        own |= {short.get(name, name): value for name, value in self.own}
        return f"Member({', '.join(f'{name}={value!r}' for name, value in own.items())})"

    def config(self, base: C) -> C:
        """The configuration of this model alone, its three seeds filled in."""
        if not 0 <= self.seed < 2**63:
            raise ConfigError("seeds", self.seed, "a whole number from 0 to 2^63 - 1")
        found: Any = with_settings(base, dict(self.own))
        missing = {f.name: self.seed for f in dataclasses.fields(found.seed) if getattr(found.seed, f.name) is None}
        return dataclasses.replace(found, seed=dataclasses.replace(found.seed, **missing))

    def in_stack(self, base: C) -> tuple[C, Member]:
        """The configuration of the stack that this model can be trained in, and this model as a member of it."""
        own, may_differ = dict(self.own), own_in_a_stack(base)
        shared = {name: own.pop(name) for name in tuple(own) if name not in may_differ}
        return with_settings(base, shared), Member(self.seed, own)


def own_in_a_stack(config: Any) -> list[str]:
    """The dotted names of the settings in which models of one stack may differ."""
    return [
        f"{section.name}.{f.name}"
        for section in dataclasses.fields(config)
        for f in dataclasses.fields(getattr(config, section.name))
        if f.metadata.get("own")
    ]


def with_settings(config: C, settings: Mapping[str, Any]) -> C:
    """The configuration with other values of some fields, which are given by their dotted names."""
    changes: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        section, _, field = name.partition(".")
        if not hasattr(getattr(config, section, None), field or "-"):
            raise ConfigError(name, value, "the dotted name of a setting, such as optim.lr or model.n_heads")
        changes.setdefault(section, {})[field] = value
    sections = {s: dataclasses.replace(getattr(config, s), **values) for s, values in changes.items()}
    return dataclasses.replace(config, **sections)  # type: ignore[type-var]
