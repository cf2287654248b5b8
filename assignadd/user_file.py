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
    """The module of a file of Python, or of study.py in a folder, which is executed.

    An error that the file raises becomes a UserError, a line with the file's name.
    """
    file = path / FILE if path.is_dir() else path
    if not file.is_file() or file.suffix != ".py":
        raise UserError(f"{path}: expected a file of Python, or a folder with {FILE}")
    if file.stat().st_size > MOST_BYTES:
        raise UserError(f"{file}: expected a file of Python of at most {MOST_BYTES:,} bytes")
    name = f"{_package_of(file.parent.resolve())}.{file.stem}"
    spec = spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    wrote_no_bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # nothing is written beside the user's files
    try:
        spec.loader.exec_module(module)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{file}: {type(error).__name__}: {error}") from error
    finally:
        sys.dont_write_bytecode = wrote_no_bytecode
    return module


def _package_of(folder: Path) -> str:
    """The name of the package that stands for a folder of the user's, which is made when it is first asked for.

    Its name comes from the whole path, so that two folders of the same name are two packages.
    """
    package = re.sub(r"\W", "_", f"assignadd_files_{folder}")
    if package not in sys.modules:
        spec = ModuleSpec(package, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]  # where Python looks for the other files of the folder
        sys.modules[package] = module_from_spec(spec)
    return package
