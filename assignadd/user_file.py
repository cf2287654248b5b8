"""Python that a user names on the command line: a file, or a folder with study.py. Nothing else is ever executed.

A folder is loaded as a package, so that its files can import each other (`from .votes import votes`).
"""

from __future__ import annotations

import re
import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from assignadd.config import UserError

FILE = "study.py"
MOST_BYTES = 4 << 20


def user_module(path: Path) -> ModuleType:
    """The module of a file of Python, or of study.py in a folder, which is executed."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file() or file.suffix != ".py":
        raise UserError(f"{path}: expected a file of Python, or a folder with {FILE}")
    if file.stat().st_size > MOST_BYTES:
        raise UserError(f"{file}: expected a file of Python of at most {MOST_BYTES:,} bytes")
    folder = file.parent.resolve()
    package = re.sub(r"\W", "_", f"assignadd_files_{folder}")
    if package not in sys.modules:
        spec = ModuleSpec(package, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        sys.modules[package] = module_from_spec(spec)
    name = f"{package}.{file.stem}"
    described = spec_from_file_location(name, file)
    assert described is not None and described.loader is not None
    module = module_from_spec(described)
    sys.modules[name] = module
    writes_bytecode = not sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # nothing is written beside the user's files
    try:
        described.loader.exec_module(module)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{file}: {type(error).__name__}: {error}") from error
    finally:
        sys.dont_write_bytecode = not writes_bytecode
    return module
