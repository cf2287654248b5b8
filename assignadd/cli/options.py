"""From a command line to settings.

Tyro reads the flags off a command's dataclass; what it would reject is rejected here first, in one line.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, is_dataclass, replace
from difflib import get_close_matches
from itertools import zip_longest
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import tyro

from assignadd.cli.screen import note
from assignadd.config import PRESETS, Config, ConfigError, accepted
from assignadd.config.errors import UsageError
from assignadd.config.task import named_operation

if TYPE_CHECKING:
    from assignadd.model.stack import Stack
    from assignadd.runs.folder import Run

T = TypeVar("T")
MOST_MODELS = 4096
# The run of the package that answers where none is given; its first model is seed 0 of the census, which binds.
SHIPPED = "census-six"
TRAJECTORY = "small-trajectory"  # of the package too: one network at several moments of its training


def read(kind: type[T], arguments: Sequence[str], prog: str, default: T | None = None) -> T:
    """An instance of a command's dataclass from its arguments; `--help` prints the options and exits.

    What tyro would reject is rejected by `_check` first: tyro's own messages are boxes of several lines.
    """
    wants_help = not {"-h", "--help"}.isdisjoint(arguments)
    if not wants_help:
        _check(kind, arguments, prog)
    try:
        given: dict[str, Any] = {} if default is None else {"default": default}
        return tyro.cli(kind, args=list(arguments), prog=f"assignadd {prog}", console_outputs=wants_help, **given)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UsageError(f"the arguments were not understood; `assignadd {prog} --help` lists the options") from None


def base_config(arguments: Sequence[str]) -> Config:
    """The configuration that the flags start from: a preset, or a JSON file on top of one."""
    preset = _value_of("--preset", arguments) or "paper"
    if preset not in PRESETS:
        raise ConfigError("preset", preset, "one of " + ", ".join(PRESETS))
    file = _value_of("--config", arguments)
    base = PRESETS[preset]
    if file is not None:
        from assignadd.runs.config_json import read_config

        base = read_config(Path(file), base)
    operation = _value_of("--task.operation", arguments)
    if operation is None or named_operation(operation):
        return base
    from assignadd.task.arithmetic import operation_settings

    return replace(base, task=replace(base.task, **operation_settings(operation)))


def without_files(arguments: Sequence[str]) -> list[str]:
    """The arguments with `table` for a file that `--task.operation` names; its table is in the `base_config`."""
    found = list(arguments)
    for i, argument in enumerate(found):
        name, equals, value = argument.partition("=")
        if name.replace("_", "-") == "--task.operation" and equals and not named_operation(value):
            found[i] = "--task.operation=table"
        elif i and found[i - 1].replace("_", "-") == "--task.operation" and not named_operation(argument):
            found[i] = "table"
    return found


def run_or_newest(name: str | None) -> Run:
    """The run of this name; without a name the newest under runs/, or one of the package's where there is none."""
    from assignadd.runs.folder import newest_run, open_run

    if name:
        return open_run(name)
    run, passed_over = newest_run("runs")
    note(*passed_over)
    return run or shipped_run()


def shipped_run() -> Run:
    """The run of the package that answers where none is given; a line on stderr says so, and how to train another."""
    from assignadd.runs.folder import Run, shipped

    note(f"no run given: this is {SHIPPED}, which comes with the package; `assignadd train` makes your own")
    return Run.open(shipped(SHIPPED))


def model_at(run: Run, index: int, step: int | None) -> tuple[int, Stack]:
    """The step and the weights of one model, as `Run.model_at`; notes on damaged checkpoints go to stderr."""
    at, one, notes = run.model_at(step, index)
    note(*notes)
    return at, one


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
    return within("threads", threads, 1, 1024)


def check_seed(name: str, seed: int | None) -> int | None:
    if seed is not None and not 0 <= seed < 2**63:
        raise ConfigError(name, seed, "a whole number from 0 to 2^63 - 1")
    return seed


def within(name: str, n: int, least: int, most: int) -> int:
    """The number, or an error where it is out of this range."""
    if not least <= n <= most:
        raise ConfigError(name, n, f"a whole number from {least} to {most}")
    return n


def check_count(name: str, n: int) -> int:
    return within(name, n, 1, 1_000_000)


def _value_of(flag: str, arguments: Sequence[str]) -> str | None:
    """A flag's last value, as tyro takes it; dashes and underscores are one."""
    value = None
    for argument, following in zip_longest(arguments, arguments[1:]):
        name, equals, inline = argument.partition("=")
        if name.replace("_", "-") == flag:
            value = inline if equals else following
    return value


@dataclass(frozen=True)
class _Argument:
    """A field of a command's dataclass: its dotted name, its type, and whether it is positional or must be given."""

    name: str
    kind: Any
    positional: bool = False
    required: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def types(self) -> tuple[Any, ...]:
        """The types that one value may have: (int, NoneType) for `int | None`, the choices of a Literal."""
        found = get_args(self.kind) if get_origin(self.kind) in (tuple, UnionType, Union) else (self.kind,)
        return tuple(t for part in found if part is not ... for t in (get_args(part) or (part,)))

    @property
    def takes_many(self) -> bool:
        return get_origin(self.kind) is tuple

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of the field, with `--no-` for a bool."""
        *section, last = self.name.replace("_", "-").split(".")
        lasts = (last, f"no-{last}") if self.kind is bool else (last,)
        return (*(f"--{'.'.join([*section, end])}" for end in lasts), *self.aliases)

    def check(self, value: str) -> None:
        """Raises a ConfigError for a value that is not of the field's type; ranges are checked later."""
        types = self.types
        if str in types or Path in types or (NoneType in types and value == "None"):
            return
        number = int if int in types else float
        if number in types:
            with contextlib.suppress(ValueError):
                number(value)
                return
        elif value in types:
            return
        section, _, name = self.name.rpartition(".")
        words = "a whole number" if int in types else "a number" if float in types else f"one of {', '.join(types)}"
        raise ConfigError(self.name, value, accepted(section, name) or words)


def _arguments(kind: Any, section: str = "") -> Iterator[_Argument]:
    """The arguments of a dataclass; those of a dataclass inside it carry its name, as in `task.n_vars`."""
    for field, hint in get_type_hints(kind, include_extras=True).items():
        of, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if is_dataclass(of):
            yield from _arguments(of, "" if of is Config else f"{field}.")
            continue
        own = kind.__dataclass_fields__[field]
        required = own.default is MISSING and own.default_factory is MISSING
        aliases = tuple(alias for mark in marks for alias in getattr(mark, "aliases", None) or ())
        # `tyro.conf.arg(name=...)` names a flag that is a keyword of Python, such as --with.
        name = next((mark.name for mark in marks if hasattr(mark, "aliases") and mark.name), field)
        yield _Argument(section + name, of, tyro.conf.Positional in marks, required, aliases)


def _check(kind: Any, arguments: Sequence[str], prog: str) -> None:
    """Raises an error of one line for an argument that is unknown, missing, without a value, or of another type."""
    known = list(_arguments(kind))
    flags = {flag: argument for argument in known if not argument.positional for flag in argument.flags}
    words, free, given = deque(arguments), [], set()
    while words:
        word = words.popleft()
        name, equals, inline = word.partition("=")
        if not re.match("--?[a-zA-Z]", word):
            free.append(word)
            continue
        if (argument := flags.get(name.replace("_", "-"))) is None:
            asked = name.replace("_", "-")
            ends = [flag for flag in flags if flag.rpartition(".")[2] == asked.lstrip("-")]  # --steps for --optim.steps
            close = ends or get_close_matches(asked, flags, 1)
            hint = f"did you mean {close[0]}?" if close else f"`assignadd {prog} --help` lists the options"
            raise UsageError(f"unknown option {name}; {hint}")
        given.add(argument.name)
        values = [inline] if equals else []
        while words and argument.kind is not bool and (argument.takes_many or not values) and words[0][:2] != "--":
            values.append(words.popleft())
        if bool(values) == (argument.kind is bool):
            raise UsageError(f"{name} takes no value" if values else f"{name} needs a value")
        for value in values:
            argument.check(value)
    for argument in known:
        if argument.positional:
            taken = free if argument.takes_many else free[:1]
            free = free[len(taken) :]
            for value in taken:
                argument.check(value)
            missing = not taken and argument.required
        else:
            missing = argument.required and argument.name not in given
        if missing:
            usage = " ".join(["assignadd", prog, *(_usage(a) for a in known if a.positional or a.required)])
            raise UsageError(f"{_usage(argument)} is missing; usage: {usage}")
    if free:
        raise UsageError(f"unexpected argument {free[0]!r}; `assignadd {prog} --help` lists the options")


def _usage(argument: _Argument) -> str:
    if not argument.positional:
        return f"{argument.flags[0]} {argument.types[0].__name__.upper()}"
    name = argument.name.upper()
    return f"{name.removesuffix('S')}..." if argument.takes_many else name if argument.required else f"[{name}]"
