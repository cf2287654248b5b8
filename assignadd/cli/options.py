"""From a command line to a command: a dataclass whose fields are its arguments and options.

A field `n_seeds` is the option --n-seeds; a `positional()` one is given without its name; `out` is also -o. The text
below a field is its help. argparse splits the words; every mistake is one line that says what is accepted.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from assignadd.cli.screen import note
from assignadd.config import PRESETS, Config, ConfigError, accepted, with_settings
from assignadd.config.errors import UsageError, did_you_mean, one_of
from assignadd.config.task import named_operation

if TYPE_CHECKING:
    from assignadd.runs.folder import Run

T = TypeVar("T")
MOST_MODELS = 4096
# The run of the package that answers where none is given; its first model is seed 0 of the census, which binds.
SHIPPED = "census-six"
TRAJECTORY = "small-trajectory"  # of the package too: one network at several moments of its training


def positional(default: Any = MISSING) -> Any:
    """A field that is given without its name; without a default it must be given."""
    return field(default=default, metadata={"positional": True})


def as_typed() -> Any:
    """A field that is the whole command line, for the record of how a file was made."""
    return field(default="", metadata={"typed": True})


@dataclass(frozen=True, kw_only=True)
class FromPreset:
    """The options of a command that starts from a preset."""

    preset: str = "paper"
    """The settings to start from: paper, authors, tiny or smoke."""
    config: Path | None = None
    """A JSON file of settings that replace the preset's, such as the config.json of a run."""

    @property
    def base(self) -> Config:
        return base_config(self.preset, self.config)


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """The run that a command is about."""

    run: str = positional()
    """A run folder, or its name under runs/."""


@dataclass(frozen=True, kw_only=True)
class OneModel:
    """The model that a command questions."""

    run: str | None = positional(None)
    """A run folder, or its name under runs/. If None, the newest run, or census-six of the package."""
    step: int | None = None
    """The checkpoint. If None, the last one."""
    seed: int | None = None
    """Which model of the run. If None, its first."""


@dataclass(frozen=True, kw_only=True)
class ManyRuns:
    """The runs that a command is about, and which of their models."""

    runs: tuple[str, ...] = positional()
    """Run folders, or their names under runs/."""
    seeds: str | None = None
    """Only the models with these seeds, such as 0, 0..3 or 0,4,7."""

    @property
    def wanted_seeds(self) -> list[int] | None:
        return parse_seeds(self.seeds) if self.seeds else None


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """How many threads or processes a command uses."""

    threads: int | None = None
    """CPU threads, or processes that work side by side with one thread each. If None, one for each core."""

    @property
    def cores(self) -> int:
        return resolve_threads(self.threads)


@dataclass(frozen=True, kw_only=True)
class OnDevice(Parallel):
    """Where a command trains."""

    device: str = "auto"
    """auto, cpu or cuda."""

    @property
    def resolved_device(self) -> str:
        return resolve_device(self.device)


@dataclass(frozen=True, kw_only=True)
class Measuring(Parallel):
    """How much a command measures."""

    n: int = 20_000
    """Sequences per evaluation set and per type of sequence; some measures take the same time whatever n is."""


@dataclass(frozen=True)
class Argument:
    """A field of a command's dataclass, or a setting such as task.n_vars."""

    name: str
    kind: Any
    default: Any
    positional: bool
    help: str = ""

    @property
    def flags(self) -> list[str]:
        """The flags that set the field; those of a bool set it to true."""
        named = "--" + self.name.rstrip("_").replace("_", "-")  # `with_`, as `with` is a word of Python
        return ["-o", named] if self.name == "out" else [named]

    @property
    def takes_many(self) -> bool:
        return get_origin(self.kind) is tuple

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def nargs(self) -> Literal["+", "*", "?"] | None:
        """How many words argparse gives to it; None for one."""
        optional = self.positional and not self.required
        if self.takes_many:
            return "*" if optional else "+"
        return "?" if optional else None

    @property
    def types(self) -> tuple[Any, ...]:
        """The types that one value may have: (int, NoneType) for `int | None`, the choices of a Literal."""
        parts = get_args(self.kind) if get_origin(self.kind) in (tuple, UnionType, Union) else (self.kind,)
        return tuple(t for part in parts if part is not ... for t in (get_args(part) or (part,)))

    @property
    def metavar(self) -> str:
        """What stands for the value in a synopsis."""
        if self.positional:
            return self.name.upper().removesuffix("S") if self.takes_many else self.name.upper()
        if get_origin(self.kind) is Literal:
            return "{" + ",".join(self.types) + "}"
        return "N" if int in self.types else "X" if float in self.types else self.name.rpartition(".")[2].upper()

    @property
    def synopsis(self) -> str:
        """The argument in the line of usage: RUN, [RUN] or RUN...; an option with its value."""
        if not self.positional:
            return f"{self.flags[-1]} {self.metavar}"
        shown = self.metavar + "..." * self.takes_many
        return shown if self.required else f"[{shown}]"

    def value(self, text: str) -> Any:
        """The value of the field's type for a word; ranges are checked later."""
        if NoneType in self.types and text == "None":
            return None
        if Path in self.types:
            return Path(text)
        if str in self.types or text in self.types:
            return text
        number = int if int in self.types else float
        try:
            if number in self.types:
                return number(text)
        except ValueError:
            pass
        section, _, name = self.name.rpartition(".")
        words = "a whole number" if int in self.types else "a number" if float in self.types else ""
        raise ConfigError(self.name, text, accepted(section, name) or words or one_of(text, self.types))


def arguments_of(kind: type, section: str = "", with_help: bool = False) -> Iterator[Argument]:
    """The arguments of a command's dataclass, those that it shares with others last.

    A field that holds settings stands for all of them.
    """
    hints, texts = get_type_hints(kind), _texts(kind) if with_help else {}
    by_name = {f.name: f for f in fields(kind)}
    own_first = dict.fromkeys(name for base in kind.__mro__ for name in inspect.get_annotations(base))
    for f in [by_name[name] for name in own_first if name in by_name]:
        hint = hints[f.name]
        if "typed" in f.metadata:
            continue
        if is_dataclass(hint):
            yield from arguments_of(hint, "" if hint is Config else f"{f.name}.", with_help)  # type: ignore[arg-type]
        else:
            default = f.default if f.default_factory is MISSING else f.default_factory()
            name = section + f.name
            yield Argument(name, hint, default, "positional" in f.metadata, texts.get(f.name, ""))


def _texts(kind: type) -> dict[str, str]:
    """The text below each field in the source of a dataclass and of its bases."""
    texts = {}
    for base in reversed(kind.__mro__[:-1]):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = definition.body  # type: ignore[attr-defined]
        for node, below in pairwise(body):
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                texts[node.target.id] = " ".join(str(below.value.value).split())  # type: ignore[union-attr]
    return texts


class _Parser(argparse.ArgumentParser):
    """A parser that raises a UsageError of one line for a mistake."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; {' '.join(self.format_usage().split())}")


def parser_of(kind: type, prog: str, more: str = "", with_help: bool = False) -> argparse.ArgumentParser:
    """The parser of a command; `more` is printed below its options."""
    known = list(arguments_of(kind, with_help=with_help))
    words = [a.synopsis for a in known if a.positional]
    required = [a.synopsis for a in known if a.required and not a.positional]
    usage = " ".join(["assignadd", prog, *words, *required, "[OPTIONS]"])
    paragraphs = (inspect.getdoc(kind) or "").split("\n\n")
    parser = _Parser(
        usage=usage,
        description="\n\n".join(textwrap.fill(paragraph, 79) for paragraph in paragraphs),
        epilog=more,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sections: dict[str, Any] = {}
    for argument in known:
        section = argument.name.rpartition(".")[0]
        if section and section not in sections:
            sections[section] = parser.add_argument_group(f"settings of {section}")
        _add(sections.get(section, parser), argument)
    return parser


def _add(group: Any, argument: Argument) -> None:
    unset = argument.default in (MISSING, None, (), "") or argument.kind is bool
    shown = "" if unset else f" (default: {argument.default})"
    text = (argument.help + shown).replace("%", "%%")
    if argument.positional:
        group.add_argument(argument.name, metavar=argument.metavar, nargs=argument.nargs, help=text)
    elif argument.kind is bool:
        *section, last = argument.flags[0].removeprefix("--").split(".")
        negated = "--" + ".".join([*section, f"no-{last}"])
        for flag, value in ((argument.flags[0], True), (negated, False)):
            shown_help = text if value != argument.default else argparse.SUPPRESS
            group.add_argument(flag, dest=argument.name, action="store_const", const=value, help=shown_help)
    else:
        named = {"dest": argument.name, "required": argument.required}
        group.add_argument(*argument.flags, metavar=argument.metavar, nargs=argument.nargs, help=text, **named)


def read(kind: type[T], arguments: Sequence[str], prog: str, more: str = "") -> T:
    """An instance of a command's dataclass from its arguments; `--help` prints the options and exits."""
    with_help = not {"-h", "--help"}.isdisjoint(arguments)
    parser = parser_of(kind, prog, more, with_help)
    # An option may be written with underscores, as the field is: --n_seeds.
    words = [re.sub("^--[^=]*", lambda name: name[0].replace("_", "-"), word) for word in arguments]
    parsed, unknown = parser.parse_known_intermixed_args(words)
    known = {argument.name: argument for argument in arguments_of(kind)}
    for word in unknown:
        if word.startswith("-"):
            raise UsageError(_unknown_option(word.partition("=")[0], list(known.values()), prog))
        raise UsageError(f"unexpected argument {word!r}; {' '.join(parser.format_usage().split())}")
    values = {name: _value(known[name], words) for name, words in vars(parsed).items()}
    settings = {name: values.pop(name) for name in list(values) if "." in name}
    for f in fields(kind):  # type: ignore[arg-type]
        if "typed" in f.metadata:
            values[f.name] = shlex.join(["assignadd", *prog.split(), *arguments])
        elif f.name in ("settings", "task"):
            base = base_config(values.get("preset", "paper"), values.get("config"))
            if not named_operation(settings.get("task.operation", "add")):
                from assignadd.runs.config_json import with_operation

                settings = with_operation(settings)
            config = with_settings(base, settings)
            values[f.name] = config if f.name == "settings" else config.task
    return kind(**values)


def _value(argument: Argument, words: Any) -> Any:
    if isinstance(words, list):
        return tuple(argument.value(word) for word in words)
    return words if isinstance(words, bool) else argument.value(words)


def _unknown_option(name: str, known: Sequence[Argument], prog: str) -> str:
    for argument in known:
        if argument.positional and name in argument.flags:
            word = argument.metavar
            return f"unknown option {name}; {word} is given without it: assignadd {prog} ... {word}"
    flags = [flag for argument in known if not argument.positional for flag in argument.flags]
    settings = [flag for flag in flags if flag.rpartition(".")[2] == name.lstrip("-")]  # --optim.steps for --steps
    meant = f"; did you mean {settings[0]}?" if settings else did_you_mean(name, flags)
    return f"unknown option {name}{meant or f'; `assignadd {prog} --help` lists the options'}"


def base_config(preset: str, file: Path | None = None) -> Config:
    """The configuration that settings start from: a preset, or a JSON file on top of one."""
    if preset not in PRESETS:
        raise ConfigError("preset", preset, one_of(preset, PRESETS))
    if file is None:
        return PRESETS[preset]
    from assignadd.runs.config_json import read_config

    return read_config(file, PRESETS[preset])


def run_or_newest(name: str | None) -> Run:
    """The run of this name; without a name the newest under runs/, or one of the package's where there is none."""
    from assignadd.runs.folder import newest_run, open_run

    if name:
        return open_run(name)
    return newest_run("runs") or shipped_run()


def shipped_run() -> Run:
    """The run of the package that answers where none is given; a line on stderr says so, and how to train another."""
    from assignadd.runs.folder import Run, shipped

    note(f"no run given: this is {SHIPPED}, which comes with the package; `assignadd train` makes your own")
    return Run.open(shipped(SHIPPED))


def parse_seeds(text: str) -> list[int]:
    """The seeds of `3`, `0..31`, `0,4,7` and mixtures of them."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,18})\s*(?:\.\.\s*([0-9]{1,18})\s*)?", part)
        first = int(match[1]) if match else 0
        last = int(match[2] or match[1]) if match else -1
        if last < first or len(seeds) + last - first >= MOST_MODELS:
            raise ConfigError(
                "seeds", text, f"whole numbers and ranges such as 0, 0..31 or 0,4,7 (at most {MOST_MODELS})"
            )
        seeds.extend(range(first, last + 1))
    if len(set(seeds)) < len(seeds):
        raise ConfigError("seeds", text, "every seed once")
    return seeds


def resolve_device(device: str, engine: str = "local") -> str:
    """The device to work on; on a Ray cluster it is the workers', which this machine need not have."""
    if engine not in ("local", "ray"):
        raise ConfigError("engine", engine, one_of(engine, ("local", "ray")))
    if device not in ("auto", "cpu", "cuda"):
        raise ConfigError("device", device, "auto, cpu or cuda")
    if device == "cpu" or (device == "cuda" and engine == "ray"):
        return device
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if device == "cuda":
        raise UsageError("device = 'cuda': this machine has no CUDA device that torch can use; pass --device cpu")
    return "cpu"


def resolve_threads(threads: int | None) -> int:
    """The number of threads or processes: every core that this process may use unless a number is given."""
    if threads is not None:
        return within("threads", threads, 1, 1024)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
