"""Compiled code, kept for the next start, and checked before it is read.

Numba's own cache takes what a damaged index or a kill between two of its writes leaves. Here a file counts only if it
begins with the sha256 of its content and of everything it was made from. Anything else is compiled again and written
anew. A file `.numba_config.yaml` in the working folder, which can lead Numba's own cache elsewhere, has no effect.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import sys
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


def with_stored_code(function: Callable[..., Any], sources: Iterable[Path], note: str = "", **options: Any) -> Any:
    """The function, which Numba compiles at its first call, unless the code compiled from the same `sources` is stored.

    `note` is printed on stderr before the function is compiled, unless it is empty. `options` are those of `njit`.
    """
    jit: Any = njit  # whose declared types lack some options
    result = jit(**options)(function)
    folder = None if IN_PYTHON else _folder(Path(function.__code__.co_filename).parent)
    if folder is not None:
        # Numba asks this object for compiled code before it compiles, and hands it what it has compiled.
        result._cache = CodeCache(function, folder, _stamp(tuple(sources)), note)
    return result


class CodeCache(FunctionCache):
    """The compiled forms of one function, each in a file of its own: a digest and Numba's pickle."""

    def __init__(self, function: Callable[..., Any], folder: Path, stamp: str, note: str):
        """`stamp` is the hash of the source files; `note` is printed before the function is compiled, unless empty."""
        self._py_func = function  # the base class has this name too, and the next one
        self._cache_path = folder
        self._stamp = stamp
        self._note = note

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The stored form for a signature; None, for Numba to compile it, if no whole file has one."""
        target_context.refresh()  # as Numba's own cache does: stored code may call what Numba has registered since
        path, made_from = self._place(sig, target_context.codegen())
        with suppress(Exception):  # no such file, or written by another installation: the function can be compiled
            data = path.read_bytes()
            content = data[DIGEST:]  # Numba's pickle
            if data[:DIGEST] == _digest(made_from, content):
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
            path.write_bytes(_digest(made_from, content) + content)
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
        return self._cache_path / f"{name}.{suffix}.compiled", made_from


@cache
def _folder(beside: Path) -> Path | None:
    """The folder for code compiled from files in `beside`; None, and a line on stderr, if no folder can keep it."""
    # In a folder for all programs, each installation of the package has a subfolder of this name.
    name = f"assignadd_{hashlib.sha256(str(beside).encode()).hexdigest()[:16]}"
    places = [beside / "__pycache__", Path(AppDirs(appname="numba", appauthor=False).user_cache_dir) / name]
    if wanted := os.environ.get("NUMBA_CACHE_DIR"):
        places.insert(0, Path(os.path.abspath(wanted)) / name)
    for place in places:
        # Without a home folder the user's cache directory is a relative path, which would depend on the working folder.
        if place.is_absolute():
            with suppress(OSError):
                place.mkdir(parents=True, exist_ok=True)
                if os.access(place, os.W_OK | os.X_OK):
                    return place
    _say(f"code is compiled at every start, as none of these can be written: {', '.join(map(str, places))}")
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


def _digest(made_from: bytes, content: bytes) -> bytes:
    """The sha256 of compiled code and of all that it was made from, with which its file begins."""
    return hashlib.sha256(hashlib.sha256(made_from).digest() + content).digest()
