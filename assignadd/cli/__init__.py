"""The commands. This file alone answers `assignadd --help`; a command imports what it needs when it is called."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType

from assignadd import TYPE_CHECKING, __version__
from assignadd.config.errors import LONGEST_LINE, UsageError, UserError, did_you_mean, printable, shortened

if TYPE_CHECKING:
    from typing import Any

# By name (a command, or a command and its action): "module:class" of its arguments in this package, and what it does.
COMMANDS = {
    "ask": ("ask:Ask", "give one prompt to a trained model: answer, runner-up, attention"),
    "ask show": ("ask:Show", "print sequences of a task as a model sees them"),
    "intervene": ("intervene:Intervene", "change something inside a trained model: before, after"),
    "intervene interchange": ("intervene:Interchange", "exchange parts of activations between prompts"),
    "explore": ("explore:Explore", "write an interactive page of trained models"),
    "measure": ("measure:Accuracies", "accuracies, phases and curves of trained models"),
    "measure phases": ("measure:Phases", "when each skill was learned, spikes, onsets"),
    "measure curves": ("measure:Curves", "every progress measure at every checkpoint"),
    "claims": ("claims:Claims", "test every claim of the paper: value, interval, verdict"),
    "theory": ("theory:Theory", "check the paper's theory: theorem, proof, gradient step, training"),
    "report": ("report:Report", "write one page with the claims and every figure"),
    "reproduce": ("report:Reproduce", "train what is missing, evaluate, write the reproduction page"),
    "train": ("train:Train", "train models, one per seed, into a run folder; or go on"),
    "sweep": ("sweep:Sweep", "train a grid of settings times seeds, write one table"),
    "study": ("study:Study", "train the networks of a study, or show what came out"),
    "runs": ("runs:List", "list, show, verify, import and publish runs; shipped tables"),
    "runs list": ("runs:List", "list the runs in a folder"),
    "runs show": ("runs:Show", "the settings and the last accuracies of a run"),
    "runs verify": ("runs:Verify", "check every committed byte of a run"),
    "runs import": ("runs:Import", "convert state dicts of TransformerLens 2 or 3 to a run"),
    "runs publish": ("runs:Publish", "publish a run on the Hugging Face Hub"),
    "runs tables": ("runs:Tables", "the tables that come with the package"),
    "bench": ("bench:Bench", "time the training step, the sampler and the evaluation"),
}
GROUPS = {
    "Question a trained network": ("ask", "intervene", "explore"),
    "Measure and judge": ("measure", "claims", "theory", "report"),
    "Train": ("reproduce", "train", "sweep", "study"),
    "Files and machine": ("runs", "bench"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0 done, 1 it failed, 2 bad input, 128 + n stopped by signal n."""
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # a stream that was closed before Python started
            setattr(sys, stream, Path(os.devnull).open("w"))  # noqa: SIM115 (open to the end)
        with suppress(AttributeError):  # a notebook replaces the stream by another class without this method
            getattr(sys, stream).reconfigure(errors="backslashreplace")  # where the terminal's encoding lacks a letter
    words = list(sys.argv[1:] if argv is None else argv)
    with _listening_for_ctrl_c() as interrupts:
        return _exit_code(words, interrupts)


def _exit_code(words: list[str], interrupts: list[int]) -> int:
    """Runs the command of a command line and returns its exit code; an error that a user can cause is one line.

    `interrupts` is empty until Ctrl-C is pressed; from then on every error counts as the interruption.
    """
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except UserError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except MemoryError:
        return _fail("out of memory")
    except OSError as error:  # a file or folder that cannot be read or written
        _drop_output()
        is_reader_gone = isinstance(error, BrokenPipeError)  # whatever read our output has ended, as `head` does
        return 1 if is_reader_gone else _fail(f"{error.filename or 'the system'}: {error.strerror or error}")
    except Exception as error:
        if interrupts:
            return 128 + signal.SIGINT
        # torch raises a RuntimeError, not a MemoryError, when memory is short.
        if isinstance(error, RuntimeError) and ("allocate" in str(error) or "out of memory" in str(error)):
            return _fail(f"out of memory ({str(error).splitlines()[0]})")
        raise


def _fail(message: str, code: int = 1) -> int:
    """Prints an error on stderr as one line of bounded length, and returns the exit code `code`."""
    line = " ".join(message.split())
    print(f"assignadd: {shortened(printable(line), LONGEST_LINE)}", file=sys.stderr)
    return code


def _drop_output() -> None:
    """Discards output that cannot be printed: Python would try again when it ends, and print a second error."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError, ValueError):  # standard output may have no file descriptor, as in tests
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _listening_for_ctrl_c() -> Iterator[list[int]]:
    """A context in which Ctrl-C raises KeyboardInterrupt; yields a list that has the signal's number from then on.

    The list tells that Ctrl-C was pressed where an import turns the KeyboardInterrupt into another error.
    """
    interrupts: list[int] = []

    def on_interrupt(signum: int, frame: FrameType | None) -> None:
        interrupts.append(signum)
        sys.unraisablehook = lambda _: None  # objects that are deleted meanwhile print no errors
        raise KeyboardInterrupt

    # Only the main thread can set a handler, and a handler that the calling program has set is left alone.
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    replaces_handler = is_default and current_thread() is main_thread()
    if replaces_handler:
        signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield interrupts
    finally:
        if replaces_handler:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _dispatch(words: list[str]) -> int:
    """Runs the command that the words of a command line name, prints its output, and returns its exit code."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0
    if words[0] == "--version":
        print(__version__)
        return 0
    command, words_after = _command(words)
    from assignadd.cli import arguments
    from assignadd.cli.screen import Output, Printing, print_output

    lines = [f"  {command} {action:<12} {description}" for action, description in actions(command).items()]
    epilog = "\n".join(["actions:", *lines]) if lines else ""
    args: Any = arguments.read(command_class(command), words_after, command, epilog)
    if isinstance(args, Printing) and args.json and args.csv:
        raise UsageError("--json and --csv exclude each other")
    output = args.main()
    if not isinstance(output, Output):
        return 0
    print_output(output, args)
    return output.code


def _command(words: list[str]) -> tuple[str, list[str]]:
    """The key of COMMANDS that the first one or two words name, such as "runs list"; and the words after these."""
    name, *words_after = words
    if name not in COMMANDS:
        commands = [known for known in COMMANDS if " " not in known]
        # Somebody may type an action alone, such as `verify` for `runs verify`.
        meant = [f"{command} {name}" for command in commands if name in actions(command)]
        suggestion = f"; did you mean {meant[0]}?" if meant else did_you_mean(name, commands)
        expected = suggestion or f"; one of {', '.join(commands)}"
        raise UsageError(f"no command {name!r}{expected}")
    second = words_after[0] if words_after else ""
    if second in actions(name):
        return f"{name} {second}", words_after[1:]
    if second and not second.startswith("-"):
        suggestion = did_you_mean(second, actions(name))
        # After `runs` the second word is always an action; after other commands it may be a run or a prompt.
        if name == "runs" or (suggestion and not Path(second).exists() and not Path("runs", second).exists()):
            expected = suggestion or f"; one of {', '.join(actions(name))}"
            raise UsageError(f"no action {second!r} of {name}{expected}")
    return name, words_after


def actions(command: str) -> dict[str, str]:
    """The actions of a command and what each does, such as {"show": "print sequences ..."} for `ask`."""
    start = f"{command} "
    return {name.removeprefix(start): about for name, (_, about) in COMMANDS.items() if name.startswith(start)}


def command_class(command: str) -> type:
    """The class that has the arguments of a command as its fields, and runs it by `main`."""
    module, _, class_name = COMMANDS[command][0].partition(":")
    return getattr(import_module(f"assignadd.cli.{module}"), class_name)


def _usage() -> str:
    """The text of `assignadd --help`: every command in its group, with its description."""
    groups = ""
    for group, names in GROUPS.items():
        lines = [f"  {name:<10} {COMMANDS[name][1]}" for name in names]
        groups += "\n".join([f"\n{group}:", *lines]) + "\n"
    return f"""\
usage: assignadd COMMAND [OPTIONS]

Reproduce, question and extend "Assign and Add: A Mechanistic Study of
Compositional Arithmetic".
{groups}
Start with `assignadd ask "c=1, b=17, a=42, b+19=?"`, or with
`assignadd reproduce --preset tiny`, which trains for two minutes.
`assignadd COMMAND --help` lists the options of a command."""
