"""From a command line to a command: a dataclass whose fields are its arguments and options.

A field `n_seeds` is the option --n-seeds; a `positional()` one is given without its name; `out` is also -o. The text
below a field is its help. argparse splits the words; every mistake is one line that says what is accepted.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from assignadd.cli.options import base_config
from assignadd.config import Config, ConfigError, accepted, with_settings
from assignadd.config.errors import UsageError, did_you_mean, one_of
from assignadd.config.task import named_operation

T = TypeVar("T")


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
    def types(self) -> set[Any]:
        """The types that one value may have, such as int and NoneType, or the words of a Literal."""
        parts = [self.kind, *get_args(self.kind)]
        return {t for part in parts for t in (part, *get_args(part))}

    @property
    def metavar(self) -> str:
        """What stands for the value in a synopsis."""
        if self.positional:
            return self.name.upper().removesuffix("S") if self.takes_many else self.name.upper()
        if get_origin(self.kind) is Literal:
            return "{" + ",".join(get_args(self.kind)) + "}"
        return "N" if int in self.types else "X" if float in self.types else self.name.rpartition(".")[2].upper()

    @property
    def synopsis(self) -> str:
        """The argument in the line of usage: RUN, [RUN] or RUN...; an option with its value."""
        if not self.positional:
            return f"{self.flags[-1]} {self.metavar}"
        shown = self.metavar + "..." * self.takes_many
        return shown if self.required else f"[{shown}]"

    def value(self, words: str | list[str]) -> Any:
        """The value of the field's type for a word, or for the words of a tuple; ranges are checked later."""
        return tuple(map(self._of_one_word, words)) if isinstance(words, list) else self._of_one_word(words)

    def _of_one_word(self, word: str) -> Any:
        if word == "None" and NoneType in self.types:
            return None
        if Path in self.types:
            return Path(word)
        if str in self.types or word in self.types:
            return word
        if get_origin(self.kind) is Literal:
            raise ConfigError(self.name, word, one_of(word, get_args(self.kind)))
        try:
            return int(word) if int in self.types else float(word)
        except ValueError:
            section, _, name = self.name.rpartition(".")
            kind = "a whole number" if int in self.types else "a number"
            raise ConfigError(self.name, word, accepted(section, name) or kind) from None


def arguments_of(kind: type, section: str = "", with_help: bool = False) -> Iterator[Argument]:
    """The arguments of a command's dataclass, those that it shares with others last.

    A field that holds settings stands for all of them.
    """
    hints, texts = get_type_hints(kind), _texts(kind) if with_help else {}
    by_name = {f.name: f for f in fields(kind)}
    own_first = dict.fromkeys(name for base in kind.__mro__ for name in inspect.get_annotations(base))
    for f in [by_name[name] for name in own_first if name in by_name]:
        hint = hints[f.name]
        if "typed" in f.metadata or "from_file" in f.metadata:
            continue
        if is_dataclass(hint):
            yield from arguments_of(hint, "" if hint is Config else f"{f.name}.", with_help)  # type: ignore[arg-type]
        else:
            default = f.default if f.default_factory is MISSING else f.default_factory()
            yield Argument(section + f.name, hint, default, "positional" in f.metadata, texts.get(f.name, ""))


def _texts(kind: type) -> dict[str, str]:
    """The text below each field in the source of a dataclass and of its bases."""
    texts = {}
    for base in reversed(kind.__mro__[:-1]):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for node, below in pairwise(definition.body):
            match node, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text)):
                    texts[name] = " ".join(text.split())
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
    paragraphs = (inspect.getdoc(kind) or "").split("\n\n")
    parser = _Parser(
        usage=" ".join(["assignadd", prog, *words, *required, "[OPTIONS]"]),
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
    """Adds an argument to a parser; a bool has two flags, of which the help lists the one that changes something."""
    unset = argument.default in (MISSING, None, (), "") or argument.kind is bool
    shown = "" if unset else f" (default: {argument.default})"
    text = (argument.help + shown).replace("%", "%%")
    if argument.positional:
        group.add_argument(argument.name, metavar=argument.metavar, nargs=argument.nargs, help=text)
    elif argument.kind is bool:
        section, dot, last = argument.flags[0].removeprefix("--").rpartition(".")
        for flag, value in ((f"--{section}{dot}{last}", True), (f"--{section}{dot}no-{last}", False)):
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
    hyphenated = [re.sub("^--[^=]*", lambda name: name[0].replace("_", "-"), word) for word in arguments]
    parsed, unknown = parser.parse_known_intermixed_args(hyphenated)
    known = {argument.name: argument for argument in arguments_of(kind)}
    for word in unknown:
        if word.startswith("-"):
            raise UsageError(_unknown_option(word.partition("=")[0], list(known.values()), prog))
        raise UsageError(f"unexpected argument {word!r}; {' '.join(parser.format_usage().split())}")
    values = {name: word if isinstance(word, bool) else known[name].value(word) for name, word in vars(parsed).items()}
    settings = {name: values.pop(name) for name in list(values) if "." in name}
    for f in fields(kind):  # type: ignore[arg-type]
        if "typed" in f.metadata:
            values[f.name] = shlex.join(["assignadd", *prog.split(), *arguments])
        elif f.name in ("settings", "task"):
            config = _config(values, settings)
            values[f.name] = config if f.name == "settings" else config.task
    return kind(**values)


def _config(values: dict[str, Any], settings: dict[str, Any]) -> Config:
    """The configuration of --preset and --config with the settings that are given."""
    base = base_config(values.get("preset", "paper"), values.get("config"))
    if not named_operation(settings.get("task.operation", "add")):
        from assignadd.runs.config_json import with_operation

        settings = with_operation(settings)
    return with_settings(base, settings)


def _unknown_option(name: str, known: Sequence[Argument], prog: str) -> str:
    """What is wrong with an option that does not exist, and which one was probably meant."""
    for argument in known:
        if argument.positional and name in argument.flags:
            word = argument.metavar
            return f"unknown option {name}; {word} is given without it: assignadd {prog} ... {word}"
    flags = [flag for argument in known if not argument.positional for flag in argument.flags]
    settings = [flag for flag in flags if flag.rpartition(".")[2] == name.lstrip("-")]  # --optim.steps for --steps
    meant = f"; did you mean {settings[0]}?" if settings else did_you_mean(name, flags)
    return f"unknown option {name}{meant or f'; `assignadd {prog} --help` lists the options'}"
