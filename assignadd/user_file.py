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
    """The module of a file of Python, or of study.py in a folder, which is executed.

    An error that the file raises becomes a UserError, a line with the file's name.
    """
    file = path / FILE if path.is_dir() else path
    if not file.is_file() or file.suffix != ".py":
        raise UserError(f"{path}: expected a file of Python, or a folder with {FILE}")
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
        raise UserError(with_line(error, file)) from error
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


def with_line(error: BaseException, *files: Path) -> str:
    """What went wrong in one of a user's files, and where: `mine.py, line 3: ZeroDivisionError: division by zero`."""
    by_name = {file.name: file for file in files}
    frames = [(Path(frame.filename).name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    name, line = next((frame for frame in frames[::-1] if frame[0] in by_name), (files[0].name, None))
    line = getattr(error, "lineno", None) or line
    where = f"{by_name[name]}, line {line}" if line else str(by_name[name])
    return f"{where}: {type(error).__name__}: {error}"
