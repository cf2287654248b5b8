"""Errors that a user can cause and correct. Commands print their message as one line and end with their exit code."""

from __future__ import annotations

from collections.abc import Iterable

# The most characters of a line about an error.
LONGEST_LINE = 1000


def printable(text: str) -> str:
    """The text with control characters, and bytes that are not UTF-8, as escapes: a terminal would obey them."""
    shown = ""
    for letter in text:
        shown += letter if letter.isprintable() else letter.encode("unicode_escape", "backslashreplace").decode()
    return shown


def shortened(text: str, most: int) -> str:
    """The text, with dots instead of its middle if it has more than `most` characters."""
    if len(text) <= most:
        return text
    n_first = most * 2 // 3
    n_last = most // 3 - len("...")
    return f"{text[:n_first]}...{text[-n_last:]}"


def did_you_mean(name: object, names: Iterable[object]) -> str:
    """The words `; did you mean NAME?` with the most similar of the names; empty where none is similar."""
    from difflib import get_close_matches  # a mistake may take the time to import it

    close = get_close_matches(str(name), [str(known) for known in names], 1)
    return f"; did you mean {close[0]}?" if close else ""


def one_of(name: object, names: Iterable[object]) -> str:
    """The words with which an error lists the accepted `names`, and suggests the most similar to a wrong `name`."""
    names = list(names)
    return f"one of {', '.join(map(str, names))}{did_you_mean(name, names)}"


class UserError(Exception):
    """An error that a user can correct; anything else is a bug and keeps its traceback."""

    exit_code = 2


class ConfigError(UserError, ValueError):
    """A setting that is not accepted: the message has its dotted name, its value, and what is accepted."""

    def __init__(self, name: str, value: object, accepted: str):
        super().__init__(f"{name} = {shortened(repr(value), 200)}: expected {accepted}")


class UsageError(UserError):
    """A command line that is not accepted."""


class DestinationError(UserError):
    """A file or folder that is not written to, because it holds what this command did not write."""


class RunError(UserError, RuntimeError):
    """A problem with a run folder: the message has the file or run, what is wrong with it, and what to do."""

    exit_code = 1


class RunBusy(RunError):
    """Another process is writing the run."""
