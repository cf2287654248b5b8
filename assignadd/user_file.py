"""Python that a user names on the command line: a file, or a folder with study.py. Nothing else is ever executed.

A folder is loaded as a package, so that its files can import each other (`from .votes import votes`).
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import traceback
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from assignadd.config import NetworkFile, TaskFile, UserError
from assignadd.config.errors import did_you_mean

FILE = "study.py"
MOST_BYTES = 4 << 20  # of a file


class Source(NamedTuple):
    """Where something of the user's is written: the name of the file, and its text."""

    name: str
    text: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text).hexdigest()


# The tasks and networks of the user's own that this process knows, and their sources.
_registered: dict[TaskFile | NetworkFile, tuple[Any, Source]] = {}


def register(file: TaskFile | NetworkFile, defined: Any, source: Source) -> None:
    """From now on `registered` returns what the user has defined and its source for this description."""
    _registered[file] = (defined, source)


def registered(file: TaskFile | NetworkFile) -> tuple[Any, Source]:
    """The task or network that `file` describes, and its source; a UserError if the user has not named it."""
    if file not in _registered:
        option = "task" if isinstance(file, TaskFile) else "network"
        how = f"name its file with --{option} {file.name}, in Python with {option}={file.name!r}"
        raise UserError(f"this needs the {option} {file!r}, which is not executed by itself: {how}")
    return _registered[file]


def user_object(defined: Any, name: str) -> tuple[Any, Source]:
    """What a user gives, and its source: an object, or a file that defines it by this name and is executed."""
    if not isinstance(defined, str | Path):
        return defined, source_of(defined)
    path = Path(defined)
    if not path.is_file() or path.suffix != ".py":
        raise UserError(f"{path}: expected a file of Python that defines {name}")
    module = user_module(path)
    if not hasattr(module, name):
        raise UserError(f"{path}: expected a line such as {name} = ...{did_you_mean(name, vars(module))}")
    return getattr(module, name), Source(path.name, path.read_bytes())


def source_of(defined: Any) -> Source:
    """The file that defines a class, a function, or the class of an object.

    A definition without a file, as in a notebook, has its own lines as the text.
    """
    definition = defined if isinstance(defined, type | FunctionType) else type(defined)
    name = definition.__name__
    with suppress(TypeError, OSError):
        path = Path(inspect.getsourcefile(definition) or "")  # reading "" raises an OSError
        return Source(path.name, path.read_bytes())
    try:
        return Source(f"{name}.py", inspect.getsource(definition).encode())
    except (TypeError, OSError) as error:
        raise UserError(f"{name}: expected a definition in a file, whose text the run keeps") from error


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
        raise UserError(with_line(error, file)) from error
    finally:
        sys.dont_write_bytecode = wrote_no_bytecode
    return module


def _package_of(folder: Path) -> str:
    """The name of the package that has the files of a user's folder as its modules; it is made if it is missing.

    The name is made from the whole path, so that two folders of the same name are two packages.
    """
    package = re.sub(r"\W", "_", f"assignadd_files_{folder}")
    if package not in sys.modules:
        spec = ModuleSpec(package, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]  # where Python looks for the other files of the folder
        sys.modules[package] = module_from_spec(spec)
    return package


def with_line(error: BaseException, *files: Path) -> str:
    """The message of an error with its place in a user's files: `mine.py, line 3: ZeroDivisionError: division by zero`.

    Without such a place it names the first of the files.
    """
    file = files[0]
    line: int | None = None
    files_by_name = {file.name: file for file in files}
    for frame in traceback.extract_tb(error.__traceback__):  # the last of these frames is nearest to the error
        name = Path(frame.filename).name
        if name in files_by_name:
            file = files_by_name[name]
            line = frame.lineno
    line = getattr(error, "lineno", None) or line  # a SyntaxError has the line itself, and no frame in the file
    where = f"{file}, line {line}" if line else str(file)
    return f"{where}: {type(error).__name__}: {error}"
