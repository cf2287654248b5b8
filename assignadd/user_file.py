"""Python that a user names on the command line: a file, or a folder with study.py. Nothing else is ever executed.

A folder is loaded as a package, so that its files can import each other (`from .votes import votes`).
"""

from __future__ import annotations

import re
import sys
import traceback
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from assignadd.config import UserError

FILE = "study.py"


def user_module(path: Path) -> ModuleType:
    """The module of a file of Python, or of study.py in a folder, which is executed."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file() or file.suffix != ".py":
        raise UserError(f"{path}: expected a file of Python, or a folder with {FILE}")
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
        raise UserError(with_line(error, file)) from error
    finally:
        sys.dont_write_bytecode = not writes_bytecode
    return module


def with_line(error: BaseException, file: Path) -> str:
    """What went wrong in a user's file, with its line: `mine.py, line 3: ZeroDivisionError: division by zero`."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).name == file.name
    ]
    line = getattr(error, "lineno", None) or (lines or [None])[-1]
    where = f"{file}, line {line}" if line else str(file)
    return f"{where}: {type(error).__name__}: {error}"
