"""From a command line to a configuration: tyro reads the flags off the dataclasses, and its complaints become one line."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

import tyro

from assignadd.config import PRESETS, Config, ConfigError, accepted
from assignadd.errors import UsageError

T = TypeVar("T")
MOST_MODELS = 4096


def read(kind: type[T], arguments: Sequence[str], prog: str, default: T | None = None) -> T:
    """An instance of a command's dataclass from its flags; `--help` prints and exits."""
    complaints = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaints):
            if default is None:
                return tyro.cli(kind, args=list(arguments), prog=f"assignadd {prog}")
            return tyro.cli(kind, args=list(arguments), prog=f"assignadd {prog}", default=default)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise _explained(complaints.getvalue(), arguments) from None


def base_config(arguments: Sequence[str]) -> Config:
    """The configuration that the flags start from: a preset, or a JSON file on top of one."""
    preset = _value_of("--preset", arguments) or "paper"
    if preset not in PRESETS:
        raise ConfigError("preset", preset, "one of " + ", ".join(PRESETS))
    file = _value_of("--config", arguments)
    if file is None:
        return PRESETS[preset]
    from assignadd.runs.documents import read_config

    return read_config(Path(file), PRESETS[preset])


def parse_seeds(text: str) -> list[int]:
    """`3`, `0..31`, `0,4,7` and mixtures of them."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,18})\s*(?:\.\.\s*(\d{1,18})\s*)?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first or len(seeds) + last - first >= MOST_MODELS:
            raise ConfigError(
                "seeds", text, f"whole numbers and ranges such as 0, 0..31 or 0,4,7 (at most {MOST_MODELS})"
            )
        seeds.extend(range(first, last + 1))
    if len(set(seeds)) < len(seeds):
        raise ConfigError("seeds", text, "every seed once")
    return seeds


def resolve_device(device: str) -> str:
    if device not in ("auto", "cpu", "cuda"):
        raise ConfigError("device", device, "auto, cpu or cuda")
    if device == "cpu":
        return device
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if device == "cuda":
        raise UsageError("device = 'cuda': this machine has no CUDA device that torch can use; pass --device cpu")
    return "cpu"


def resolve_threads(threads: int | None) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads is None:
        return cores
    if not 1 <= threads <= 1024:
        raise ConfigError("threads", threads, "a whole number from 1 to 1024")
    return threads


def check_seed(name: str, seed: int | None) -> int | None:
    if seed is not None and not 0 <= seed < 2**63:
        raise ConfigError(name, seed, "a whole number from 0 to 2^63 - 1")
    return seed


def check_count(name: str, n: int) -> int:
    if not 1 <= n <= 1_000_000:
        raise ConfigError(name, n, "a whole number from 1 to 1000000")
    return n


def _value_of(flag: str, arguments: Sequence[str]) -> str | None:
    """A flag's last value, as tyro takes it; dashes and underscores are one."""
    value = None
    for argument, following in zip_longest(arguments, arguments[1:]):
        name, equals, inline = argument.partition("=")
        if name.replace("_", "-") == flag:
            value = inline if equals else following
    return value


def _explained(box: str, arguments: Sequence[str]) -> Exception:
    """One line from tyro's boxed message; where a configuration field is at fault, in the words of the configuration.

    The text is read because tyro has no public hook for errors: its `_errors` module is private and may change in any release.
    """
    _, *inside = [line.strip("│╭╮╰╯─ ") for line in box.splitlines()] or [""]  # the first line is the title
    text = " ".join(line for line in inside if line.strip("-") and "full helptext" not in line)
    flag = re.search(r"--([a-z0-9_-]+)\.([a-z0-9_-]+)", text)
    if flag and not text.startswith("Unrecognized"):
        section, name = flag[1], flag[2].replace("-", "_")
        if words := accepted(section, name):
            return ConfigError(
                f"{section}.{name}", _value_of(f"--{section}.{flag[2].replace('_', '-')}", arguments), words
            )
    if unknown := re.match(r"Unrecognized options: (\S+?),? ", text + " "):
        close = re.search(r"Perhaps you meant: (--\S+)", text)
        return UsageError(
            f"unknown option {unknown[1]}; " + (f"did you mean {close[1]}?" if close else "--help lists the options")
        )
    return UsageError(text[:1].lower() + text[1:] or "the command line was not understood; --help lists the options")
