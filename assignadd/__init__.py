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

    from assignadd.api import evaluate as evaluate
    from assignadd.api import ledger as ledger
    from assignadd.api import load as load
    from assignadd.api import load_stack as load_stack
    from assignadd.api import measure as measure
    from assignadd.api import metrics as metrics
    from assignadd.api import onsets as onsets
    from assignadd.api import open_run as open_run
    from assignadd.api import phases as phases
    from assignadd.api import table as table
    from assignadd.api import train as train
    from assignadd.config import PRESETS as PRESETS
    from assignadd.config import Config as Config
    from assignadd.config import ConfigError as ConfigError
    from assignadd.config import Member as Member
    from assignadd.runs.transformer_lens import from_transformer_lens as from_transformer_lens
    from assignadd.runs.transformer_lens import to_transformer_lens as to_transformer_lens
    from assignadd.task.text import parse as parse
    from assignadd.task.text import render as render

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
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'assignadd' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
