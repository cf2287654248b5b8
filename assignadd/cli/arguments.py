"""From a command line to a command: a dataclass whose fields are its arguments and options.

A field `n_seeds` is the option --n-seeds; `out` is also -o; the value of a `positional()` field is typed without a
name. The text below a field is its help. argparse splits the words; every mistake is one line that says what is
accepted.
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
from assignadd.config import RULES, Config, ConfigError, with_settings
from assignadd.config.errors import UsageError, did_you_mean
from assignadd.config.task import named_operation

T = TypeVar("T")


@dataclass(frozen=True)
class Argument:
    """A field of a command's dataclass, or a setting such as task.n_vars."""

    name: str
    """The name of the field; of a setting, its dotted name."""
    kind: Any
    """The type of its values, such as `int | None`."""
    default: Any
    """The value if the user gives none; MISSING if the user has to give one."""
    positional: bool
    help: str = ""

    @property
    def flags(self) -> list[str]:
        """The flags that set the field; for a bool, those that set it to true."""
        named = "--" + self.name.rstrip("_").replace("_", "-")  # `with_`, as `with` is a word of Python
        return ["-o", named] if self.name == "out" else [named]

    @property
    def takes_many(self) -> bool:
        """Whether the value is a tuple, of one word or several."""
        return get_origin(self.kind) is tuple

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def kind_parts(self) -> set[Any]:
        """The types that the field's type is made of; for a Literal its words too."""
        parts = [self.kind, *get_args(self.kind)]
        return {inner for part in parts for inner in (part, *get_args(part))}

    @property
    def metavar(self) -> str:
        """The placeholder of the value in the usage and the help, such as RUN, N or {a,b}."""
        if self.positional:
            name = self.name.upper()
            return name.removesuffix("S") if self.takes_many else name  # RUN... for the field `runs`
        if get_origin(self.kind) is Literal:
            return "{" + ",".join(get_args(self.kind)) + "}"
        if int in self.kind_parts:
            return "N"
        return "X" if float in self.kind_parts else self.name.rpartition(".")[2].rstrip("_").upper()

    @property
    def synopsis(self) -> str:
        """The argument in the line of usage: RUN, [RUN] or RUN...; an option with its value."""
        if not self.positional:
            return f"{self.flags[-1]} {self.metavar}"
        words = f"{self.metavar}..." if self.takes_many else self.metavar
        return words if self.required else f"[{words}]"

    def value(self, words: str | list[str]) -> Any:
        """The value of the field that one word stands for, or a tuple for a list of words; ranges are checked later."""
        if isinstance(words, list):
            return tuple(map(self.value, words))
        if words == "None" and NoneType in self.kind_parts:
            return None
        if Path in self.kind_parts:
            return Path(words)
        if str in self.kind_parts or get_origin(self.kind) is Literal:
            return words
        try:
            return int(words) if int in self.kind_parts else float(words)
        except ValueError:
            number = "a whole number" if int in self.kind_parts else "a number"
            accepted = RULES[self.name].words if self.name in RULES else number
            raise ConfigError(self.name, words, accepted) from None


def arguments_of(kind: type, section: str = "", with_help: bool = False) -> Iterator[Argument]:
    """The arguments of a command's dataclass: its own fields first, then those that it inherits.

    A field that is itself a dataclass of settings stands for all of them: `task` for task.modulus and so on. `section`
    is what these names begin with, such as "task.". Help texts are read from the source, which takes time.
    """
    types = get_type_hints(kind)
    help_texts = _help_texts(kind) if with_help else {}
    by_name = {field.name: field for field in fields(kind)}
    names = [name for base in kind.__mro__ for name in inspect.get_annotations(base)]  # of the class itself first
    for name in dict.fromkeys(names):  # each once
        field = by_name[name]
        # No options: `typed` is the whole command line, and some fields describe a file of the user's.
        if name == "typed" or field.metadata.get("from_file"):
            continue
        if is_dataclass(types[name]):
            # The settings of a whole configuration are named by its sections, task.n_vars, without a name before them.
            inner_section = "" if types[name] is Config else f"{name}."
            yield from arguments_of(types[name], inner_section, with_help)
        else:
            default = field.default if field.default_factory is MISSING else field.default_factory()
            positional = "positional" in field.metadata
            yield Argument(section + name, types[name], default, positional, help_texts.get(name, ""))


def _help_texts(kind: type) -> dict[str, str]:
    """The string below each field in the source of a dataclass and of its bases, by the name of the field."""
    texts = {}
    for base in reversed(kind.__mro__[:-1]):  # all but `object`; a class replaces the text of its base
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for node, below in pairwise(definition.body):
            match node, below:
                # `name: type` with a string as the next statement
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text)):
                    texts[name] = " ".join(text.split())
    return texts


class _Parser(argparse.ArgumentParser):
    """A parser that raises a UsageError of one line for a mistake."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; {' '.join(self.format_usage().split())}")


def _parser(arguments: Sequence[Argument], about: str, command: str, epilog: str) -> _Parser:
    """The parser for the arguments of a command; `about` is printed above them in the help, `epilog` below."""
    positionals = [argument for argument in arguments if argument.positional]
    required_options = [argument for argument in arguments if argument.required and not argument.positional]
    synopses = [argument.synopsis for argument in (*positionals, *required_options)]
    parser = _Parser(
        usage=" ".join(["assignadd", command, *synopses, "[OPTIONS]"]),
        description="\n\n".join(textwrap.fill(paragraph, 79) for paragraph in about.split("\n\n")),
        epilog=epilog,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    groups: dict[str, Any] = {"": parser}  # of options in the help, by section of the settings
    for argument in arguments:
        section = argument.name.rpartition(".")[0]
        if section not in groups:
            groups[section] = parser.add_argument_group(f"settings of {section}")
        _add(argument, groups[section])
    return parser


def _add(argument: Argument, group: Any) -> None:
    """Adds an argument to a parser or a group. Of --x and --no-x the help lists the one that changes the default."""
    if argument.kind is bool:
        section, dot, name = argument.flags[0].removeprefix("--").rpartition(".")
        false_flag = f"--{section}{dot}no-{name}"  # --numerics.no-tf32
        for flag, value in ((argument.flags[0], True), (false_flag, False)):
            shown_help = argument.help if value != argument.default else argparse.SUPPRESS
            group.add_argument(flag, dest=argument.name, action="store_const", const=value, help=shown_help)
        return
    has_default = argument.default not in (MISSING, None, (), "")
    text = argument.help + (f" (default: {argument.default})" if has_default else "")
    shown = {"metavar": argument.metavar, "help": text.replace("%", "%%")}  # a single % is a placeholder of argparse
    if argument.positional:
        # How many words, in the notation of argparse, by (takes_many, required); None for exactly one.
        n_words = {(True, True): "+", (True, False): "*", (False, True): None, (False, False): "?"}
        group.add_argument(argument.name, nargs=n_words[argument.takes_many, argument.required], **shown)
    else:
        n_words_of_option = "+" if argument.takes_many else None
        group.add_argument(
            *argument.flags, dest=argument.name, required=argument.required, nargs=n_words_of_option, **shown
        )


def read(kind: type[T], words: Sequence[str], command: str, epilog: str = "") -> T:
    """An instance of a command's dataclass from the words after the command; `--help` prints the options and exits."""
    arguments = {
        argument.name: argument for argument in arguments_of(kind, with_help=bool({"-h", "--help"} & {*words}))
    }
    parser = _parser(list(arguments.values()), inspect.getdoc(kind) or "", command, epilog)
    # An option may be written with underscores, as the field is: --n_seeds.
    hyphenated = [re.sub("^--[^=]*", lambda match: match[0].replace("_", "-"), word) for word in words]
    parsed, unknown = parser.parse_known_intermixed_args(hyphenated)
    for word in unknown:
        if word.startswith("-"):
            raise UsageError(_unknown_option(word.partition("=")[0], list(arguments.values()), command))
        raise UsageError(f"unexpected argument {word!r}; {' '.join(parser.format_usage().split())}")
    values: dict[str, Any] = {}  # of the fields that an option or argument sets, by their names
    settings: dict[str, Any] = {}  # by dotted names, such as task.n_vars
    for name, words_or_flag in vars(parsed).items():
        is_flag = isinstance(words_or_flag, bool)
        target = settings if "." in name else values
        target[name] = words_or_flag if is_flag else arguments[name].value(words_or_flag)
    names = get_type_hints(kind)
    if "typed" in names:
        values["typed"] = shlex.join(["assignadd", *command.split(), *words])
    if "settings" in names:
        values["settings"] = _config(values, settings)
    if "task" in names:
        values["task"] = _config(values, settings).task
    return kind(**values)


def _config(values: dict[str, Any], settings: dict[str, Any]) -> Config:
    """The configuration that --preset and --config name, with single settings (by dotted names) on top of it."""
    base = base_config(values.get("preset", "paper"), values.get("config"))
    if not named_operation(settings.get("task.operation", "add")):  # a file with the table of an operation
        from assignadd.runs.config_json import with_operation

        settings = with_operation(settings)
    return with_settings(base, settings)


def _unknown_option(option: str, arguments: Sequence[Argument], command: str) -> str:
    """The error for an option that a command does not have; it names the option that was probably meant."""
    flags = [flag for argument in arguments if not argument.positional for flag in argument.flags]
    same_name = [flag for flag in flags if flag.rpartition(".")[2] == option.lstrip("-")]  # --optim.steps for --steps
    suggestion = f"; did you mean {same_name[0]}?" if same_name else did_you_mean(option, flags)
    advice = suggestion or f"; `assignadd {command} --help` lists the options"
    return f"unknown option {option}{advice}"
