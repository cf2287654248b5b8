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

from assignadd import __version__
from assignadd.config.errors import LONGEST_LINE, UsageError, UserError, did_you_mean, printable, shortened
from assignadd.lazy import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

# A command, or a command and its action: the module and the class of its arguments, and what it does.
COMMANDS = {
    "ask": ("ask:Ask", "give one prompt to a trained model: answer, runner-up, attention"),
    "ask show": ("ask:Show", "print sequences of a task as a model sees them"),
    "intervene": ("intervene:Intervene", "change something inside a trained model: before, after"),
    "intervene interchange": ("intervene:Interchange", "exchange parts of activations between prompts"),
    "explore": ("report:Explore", "write an interactive page of trained models"),
    "measure": ("measure:Accuracies", "accuracies, phases and curves of trained models"),
    "measure phases": ("measure:Phases", "when each skill was learned, spikes, onsets"),
    "measure curves": ("measure:Curves", "every progress measure at every checkpoint"),
    "claims": ("claims:Claims", "test every claim of the paper: value, interval, verdict"),
    "theory": ("theory:Theory", "check the paper's theory: theorem, proof, gradient step, training"),
    "report": ("report:Report", "write one page with the claims and every figure"),
    "reproduce": ("report:Reproduce", "train what is missing, evaluate, write the reproduction page"),
    "train": ("train:Train", "train models, one per seed, into a run folder; or go on"),
    "train zoom": ("train:Zoom", "train a part of a run again, with more checkpoints"),
    "sweep": ("sweep:Sweep", "train a grid of settings times seeds, write one table"),
    "study": ("study:Study", "train the networks of a study, or show what came out"),
    "runs": ("runs:List", "list, show, verify, import and publish runs; shipped tables"),
    "runs list": ("runs:List", "list the runs in a folder"),
    "runs show": ("runs:Show", "the settings and the last accuracies of a run"),
    "runs verify": ("runs:Verify", "check every committed byte of a run"),
    "runs import": ("runs:Import", "convert TransformerLens 2.x state dicts to a run"),
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
    for stream in ("stdout", "stderr"):  # closed by the caller
        if getattr(sys, stream) is None:
            setattr(sys, stream, Path(os.devnull).open("w"))  # noqa: SIM115 (open to the end)
    with _interrupts() as interrupted:
        return _guarded(list(sys.argv[1:] if argv is None else argv), interrupted)


def _guarded(arguments: list[str], interrupted: list[int]) -> int:
    """The exit code of a command; what a user can cause is one line on stderr."""
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except UserError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # whatever read our output has ended, as `head` does
        _drop_output()
        return 1
    except MemoryError:
        return _fail("out of memory")
    except OSError as error:  # a file or folder that cannot be read or written
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        _drop_output()
        return _fail(f"{error.filename or 'the system'}: {error.strerror or error}")
    except Exception as error:
        if interrupted:
            return 128 + signal.SIGINT
        if isinstance(error, RuntimeError) and ("allocate" in str(error) or "out of memory" in str(error)):
            return _fail(f"out of memory ({str(error).splitlines()[0]})")
        raise


def _fail(message: str, code: int = 1) -> int:
    """Prints one line of bounded length, and returns the exit code."""
    print(f"assignadd: {shortened(printable(' '.join(message.split())), LONGEST_LINE)}", file=sys.stderr)
    return code


def _drop_output() -> None:
    """What is still to be printed goes nowhere: nobody reads it, or it cannot be written."""
    with suppress(OSError, ValueError):  # a stream without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """A list that is empty until Ctrl-C is pressed: an import that is interrupted may hide the exception."""
    heard: list[int] = []

    def hear(signum: int, frame: FrameType | None) -> None:
        heard.append(signum)
        sys.unraisablehook = lambda _: None
        raise KeyboardInterrupt

    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler and current_thread() is main_thread()
    if ours:
        signal.signal(signal.SIGINT, hear)
    try:
        yield heard
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _dispatch(words: list[str]) -> int:
    """Runs the command of a command line and returns its exit code."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0
    if words[0] == "--version":
        print(__version__)
        return 0
    command, rest = _command(words)
    from assignadd.cli import arguments
    from assignadd.cli.screen import Output, Printing, print_output

    args: Any = arguments.read(command_class(command), rest, command, _actions_text(command))
    if isinstance(args, Printing) and args.json and args.csv:
        raise UsageError("--json and --csv exclude each other")
    output = args.main()
    if isinstance(output, Output):
        print_output(output, args)
        return output.code
    return 0


def _command(words: list[str]) -> tuple[str, list[str]]:
    """The command that the first words name, and the words after it."""
    name, *rest = words
    if name not in COMMANDS:
        names = [known for known in COMMANDS if " " not in known]
        homes = {action: f"{known} {action}" for known in names for action in actions(known)}
        meant = f"; did you mean {homes[name]}?" if name in homes else did_you_mean(name, names)
        raise UsageError(f"no command {name!r}{meant or '; one of ' + ', '.join(names)}")
    if rest and f"{name} {rest[0]}" in COMMANDS:
        return f"{name} {rest[0]}", rest[1:]
    if rest and not rest[0].startswith("-") and actions(name):
        # Of `runs` the next word is always an action; of other commands it may be a run or a prompt.
        meant = did_you_mean(rest[0], actions(name))
        if name == "runs" or (meant and not Path(rest[0]).exists() and not Path("runs", rest[0]).exists()):
            one_of_them = "; one of " + ", ".join(actions(name))
            raise UsageError(f"no action {rest[0]!r} of {name}{meant or one_of_them}")
    return name, rest


def actions(command: str) -> dict[str, str]:
    """The actions of a command, and what each does."""
    return {name.partition(" ")[2]: what for name, (_, what) in COMMANDS.items() if name.startswith(f"{command} ")}


def command_class(command: str) -> type:
    """The class that has the arguments of a command as its fields, and runs it."""
    module, _, name = COMMANDS[command][0].partition(":")
    return getattr(import_module(f"assignadd.cli.{module}"), name)


def _usage() -> str:
    lines = [
        "usage: assignadd COMMAND [OPTIONS]",
        "",
        'Reproduce, question and extend "Assign and Add: A Mechanistic Study of',
        'Compositional Arithmetic".',
    ]
    for group, names in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {name:<10} {COMMANDS[name][1]}" for name in names)]
    lines += [
        "",
        'Start with `assignadd ask "c=1, b=17, a=42, b+19=?"`, or with',
        "`assignadd reproduce --preset tiny`, which trains for two minutes.",
        "`assignadd COMMAND --help` lists the options of a command.",
    ]
    return "\n".join(lines)


def _actions_text(command: str) -> str:
    """The lines below the options of a command that name its actions."""
    lines = [f"  {command} {name:<12} {what}" for name, what in actions(command).items()]
    return "\n".join(["actions:", *lines]) if lines else ""
