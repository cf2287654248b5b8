"""assignadd: how a small transformer learns to look variables up and add them.

`import assignadd` is cheap; torch is imported when a name that needs it is first used. Nothing else is imported here:
this file is read before a command can answer Ctrl-C.
"""

import os
import sys

# `python -m assignadd` looks for every module in the working folder first, where json.py may be anybody's. (So does
# `from __future__ import`, which this file therefore does without.) A checkout that is not installed is still looked
# into, last: that is where the processes of a sweep find the package.
if sys.argv[:1] == ["-m"] and "-m assignadd" in " ".join(sys.orig_argv) and not sys.flags.safe_path:
    if sys.path[0] == os.path.dirname(os.path.dirname(__file__)):
        sys.path.append(sys.path[0])
    if sys.path[0] == os.getcwd():
        del sys.path[0]

__version__ = "0.2.0"

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than the rest of this file
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from assignadd.api import evaluate as evaluate
    from assignadd.api import load as load
    from assignadd.api import load_stack as load_stack
    from assignadd.api import measure as measure
    from assignadd.api import metrics as metrics
    from assignadd.api import open_run as open_run
    from assignadd.api import table as table
    from assignadd.api import train as train
    from assignadd.config import PRESETS as PRESETS
    from assignadd.config import Config as Config
    from assignadd.paper.ledger import claims as claims
    from assignadd.runs.transformer_lens import from_transformer_lens as from_transformer_lens
    from assignadd.runs.transformer_lens import to_transformer_lens as to_transformer_lens
    from assignadd.task.text import parse as parse
    from assignadd.task.text import render as render


def lazily(package: str, homes: "dict[str, tuple[str, ...]]") -> "tuple[list[str], Callable[[str], Any]]":
    """`__all__` and `__getattr__` for the `__init__` of a package that is cheap to import.

    `homes` has the public names that each module defines. Python calls a module's `__getattr__` for a name that it does
    not find there: that is when the module that defines it is imported.
    """
    module_of = {name: module for module, names in homes.items() for name in names}

    def __getattr__(name: str) -> "Any":
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(module_of[name]), name)

    return sorted(module_of), __getattr__


__all__, __getattr__ = lazily(
    __name__,
    {
        "assignadd.api": (
            "evaluate", "load", "load_stack", "measure", "metrics", "open_run", "table", "train",
        ),
        "assignadd.paper.ledger": ("claims",),
        "assignadd.config": ("PRESETS", "Config"),
        "assignadd.runs.transformer_lens": ("from_transformer_lens", "to_transformer_lens"),
        "assignadd.task.text": ("parse", "render"),
    },
)  # fmt: skip
