"""Public names that are imported when they are first used, so that a package is cheap to import."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than the rest of this file
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def lazily(package: str, homes: dict[str, tuple[str, ...]]) -> tuple[list[str], Callable[[str], Any]]:
    """`__all__` and `__getattr__` of a package, from the names that each module has."""
    home = {name: module for module, names in homes.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home[name]), name)

    return sorted(home), __getattr__
