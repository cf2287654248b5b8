"""assignadd: how a small transformer learns to look variables up and add them.

`import assignadd` is cheap; torch is imported when a name that needs it is first used. Nothing else is imported here:
this file is read before a command can answer Ctrl-C.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than the rest of this file

__version__ = "0.2.0"

if TYPE_CHECKING:
    from typing import Any

    from assignadd.api import (
        evaluate,
        ledger,
        load,
        load_stack,
        measure,
        metrics,
        onsets,
        open_run,
        phases,
        table,
        train,
    )
    from assignadd.config import PRESETS, Config, ConfigError, Member
    from assignadd.runs.transformer_lens import from_transformer_lens, to_transformer_lens
    from assignadd.task.text import parse, render

_HOMES = {
    "assignadd.api": (
        "evaluate",
        "ledger",
        "load",
        "load_stack",
        "measure",
        "metrics",
        "onsets",
        "open_run",
        "phases",
        "table",
        "train",
    ),
    "assignadd.config": ("PRESETS", "Config", "ConfigError", "Member"),
    "assignadd.runs.transformer_lens": ("from_transformer_lens", "to_transformer_lens"),
    "assignadd.task.text": ("parse", "render"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "PRESETS",
    "Config",
    "ConfigError",
    "Member",
    "evaluate",
    "from_transformer_lens",
    "ledger",
    "load",
    "load_stack",
    "measure",
    "metrics",
    "onsets",
    "open_run",
    "parse",
    "phases",
    "render",
    "table",
    "to_transformer_lens",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'assignadd' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
