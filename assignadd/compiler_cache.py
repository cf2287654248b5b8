"""Compiled code, kept for the next start in files that this user alone can write, and checked before it is read.

Numba keeps compiled code as pickles, which can run code when they are read. Here a file counts only if its folder and
the file itself belong to this user and nobody else can write to them, and if it carries the sha256 of its content and
of everything it was made from. Anything else is compiled again and written anew. A file `.numba_config.yaml` in the
working folder, which can lead Numba's own cache elsewhere, has no effect.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import stat
import sys
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba import config, njit
from numba.core.caching import FunctionCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps, loads
from numba.misc.appdirs import AppDirs

IN_PYTHON = bool(vars(config)["DISABLE_JIT"])  # the user has switched the compiler off, by NUMBA_DISABLE_JIT=1
DIGEST = 32  # bytes of a sha256
MOST_BYTES = 64 << 20  # of a file; a large function has one or two million
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# Flags of os.open, as far as this system has them: a link is an error, a pipe is not waited for, Windows reads bytes.
FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


def with_stored_code(function: Callable[..., Any], sources: Iterable[Path], note: str = "", **options: Any) -> Any:
    """The function, which Numba compiles at its first call, unless the code compiled from the same `sources` is stored.

    `note` is printed on stderr before the function is compiled, unless it is empty. `options` are those of `njit`.
    """
    jit: Any = njit  # whose declared types lack some options
    result = jit(**options)(function)
    if not IN_PYTHON:
        folder = _folder(Path(function.__code__.co_filename).parent)
        if folder is not None:
            # Numba asks this object for compiled code before it compiles, and hands it what it has compiled.
            result._cache = CodeCache(function, folder, _stamp(tuple(sources)), note)
    return result


class CodeCache(FunctionCache):
    """The compiled forms of one function, each in a file of its own: a digest and Numba's pickle."""

    def __init__(self, function: Callable[..., Any], folder: Path, stamp: str, note: str):
        """`stamp` is the hash of the source files; `note` is printed before the function is compiled, unless empty.

        The base class is not initialised, as that makes files of its own: its `_index_key` needs `_py_func` alone.
        """
        self._py_func = function
        self._folder = folder
        self._stamp = stamp
        self._note = note

    @property
    def cache_path(self) -> str:
        return str(self._folder)

    def flush(self) -> None:
        """Nothing: files whose digest does not fit are not read."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The stored form for a signature; None, for Numba to compile it, if no file has one that can be trusted."""
        target_context.refresh()  # as Numba's own cache does: stored code may call what Numba has registered since
        path, made_from = self._place(sig, target_context.codegen())
        data = _read(path) or b""  # a digest, and Numba's pickle after it
        digest = data[:DIGEST]
        content = data[DIGEST:]
        if digest == _digest(made_from, content):
            with suppress(Exception):  # written by another installation, perhaps: the function can be compiled
                return CompileResult._rebuild(target_context, *loads(content))
        if self._note:  # Numba compiles now, which may take a while
            _say(self._note)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Writes the compiled form for a signature; where that fails, a line on stderr says so, once."""
        # Numba cannot store every form with lifted loops, and none with addresses that are valid in this process alone.
        if data.lifted or data.library.has_dynamic_globals:
            return
        path, made_from = self._place(sig, data.codegen)
        content = dumps(data._reduce())
        try:
            _write(path, _digest(made_from, content) + content)
        except OSError as error:
            _say(f"compiled code is not kept for the next start: {path.parent}: {error.strerror or error}")

    def _place(self, sig: Any, codegen: Any) -> tuple[Path, bytes]:
        """The file for a signature on this processor; and, as bytes, all that the compiled code depends on."""
        key = self._index_key(sig, codegen)  # the signature, the processor, the function's bytecode
        signature_and_processor = key[:2]
        code = self._py_func.__code__
        name = f"{Path(code.co_filename).stem}.{self._py_func.__qualname__}-{code.co_firstlineno}"
        # Forms with one suffix replace each other; forms for other signatures, processors or Pythons are kept beside.
        suffix = hashlib.sha256(repr((sys.version_info[:2], signature_and_processor)).encode()).hexdigest()[:16]
        versions = (sys.version, numba.__version__, llvmlite.__version__)
        made_from = repr((versions, self._stamp, name, key)).encode()
        return self._folder / f"{name}.{suffix}.compiled", made_from


def problem(folder: Path) -> str | None:
    """Why compiled code is not read from a folder; None where it is. A folder that is missing is made, if possible."""
    try:
        # Python's bytecode may be read by all; what is in a folder of ours is of no use to others.
        os.makedirs(folder, 0o755 if folder.name == "__pycache__" else 0o700, exist_ok=True)
        status = os.lstat(folder)
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISDIR(status.st_mode):
        return "not a folder"
    if _others_can_write(status):
        return "other users can write to it"
    return None if os.access(folder, os.W_OK | os.X_OK) else "it cannot be written"


@cache
def _folder(beside: Path) -> Path | None:
    """The folder for code compiled from files in `beside`; None, and a line on stderr, if no folder can keep it."""
    # In a folder for all programs, each installation of the package has a subfolder of this name.
    name = f"assignadd_{hashlib.sha256(str(beside).encode()).hexdigest()[:16]}"
    places = [beside / "__pycache__", Path(AppDirs(appname="numba", appauthor=False).user_cache_dir) / name]
    if wanted := os.environ.get("NUMBA_CACHE_DIR"):
        places.insert(0, Path(os.path.abspath(wanted)) / name)
    problems = []
    for place in places:
        # Without a home folder the user's cache directory is a relative path, which would depend on the working folder.
        reason = problem(place) if place.is_absolute() else "there is no home folder"
        if reason is None:
            return place
        problems.append(f"{place}: {reason}")
    _say(f"code is compiled at every start, as no folder can keep it ({'; '.join(problems)})")
    return None


@cache
def _stamp(sources: tuple[Path, ...]) -> str:
    """A hash of source files."""
    hashes = [hashlib.sha256(path.read_bytes()).digest() for path in sources]
    return hashlib.sha256(b"".join(hashes)).hexdigest()


@cache
def _say(line: str) -> None:
    """Prints a line on stderr, the same line only once; a process that another one of ours started prints nothing."""
    if multiprocessing.parent_process() is None and sys.stderr is not None:
        print(f"assignadd: {' '.join(line.split())}", file=sys.stderr)


def _others_can_write(status: os.stat_result) -> bool:
    """Whether a file or a folder belongs to another user, or other users have the right to write to it."""
    return hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or bool(status.st_mode & OTHERS_WRITE))


def _digest(made_from: bytes, content: bytes) -> bytes:
    """The sha256 of compiled code and of all that it was made from, with which its file begins."""
    return hashlib.sha256(hashlib.sha256(made_from).digest() + content).digest()


def _read(path: Path) -> bytes | None:
    """The bytes of a regular file of this user that nobody else can write to; None where there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | FLAGS)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            fits = stat.S_ISREG(status.st_mode) and status.st_size <= MOST_BYTES and not _others_can_write(status)
            return file.read(MOST_BYTES) if fits else None
    except OSError:
        return None


def _write(path: Path, data: bytes) -> None:
    """Writes a file by one rename: another process reads the earlier file or this one, and never a part."""
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}.tmp")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | FLAGS, 0o600)  # for this user alone
        with open(fd, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
