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
from assignadd.config.errors import LONGEST_LINE, UsageError, UserError, printable, shortened

COMMANDS = {
    "reproduce": "train what is missing, evaluate, and write the reproduction page",
    "train": "train models, one per seed, into a run folder, or continue an interrupted run",
    "eval": "accuracy on every evaluation set, with confidence intervals",
    "claims": "test every claim of the paper on trained models: value, interval, verdict",
    "report": "write one page with the claims and every figure for trained runs",
    "measure": "write every progress measure at every checkpoint to a Parquet table",
    "phases": "when each skill was learned, both spikes, the last variable, the onset of every curve",
    "zoom": "train a part of a run again with checkpoints closer together",
    "explore": "write an interactive page of trained models",
    "ask": "give one prompt to a trained model: answer, runner-up, attention",
    "intervene": "change something inside a trained model: answer and accuracy before and after",
    "interchange": "exchange parts of activations between prompts: where each variable of the program is held",
    "show": "print sequences of the task as the model sees them",
    "sweep": "train many models, a grid of settings times seeds, and write one table of results",
    "study": "train the networks of a study in a file or folder, yours or ours, and show what came out",
    "results": "list and explain the tables that come with the package, or write one as CSV",
    "runs": "list, show and verify run folders",
    "import": "convert TransformerLens 2.x state dicts to a run",
    "publish": "publish a run on the Hugging Face Hub, or write the folder for it",
    "theory": "check the paper's theory: theorem, proof, gradient step, and real training",
    "bench": "time the training step, the sampler and the evaluation, beside lower bounds",
}
# Where a command is not `main` in the module of its name: the module and the function.
ELSEWHERE = {
    "eval": ("measure", "eval_main"),
    "import": ("runs", "import_main"),
    "publish": ("runs", "publish_main"),
    "reproduce": ("report", "reproduce_main"),
    "show": ("ask", "show_main"),
    "zoom": ("train", "zoom_main"),
}

USAGE = """\
usage: assignadd COMMAND [OPTIONS]

Reproduce, question and extend "Assign and Add: A Mechanistic Study of Compositional Arithmetic".

commands:
{commands}

Start with `assignadd reproduce` (or `assignadd reproduce --preset tiny`, two minutes).
`assignadd COMMAND --help` lists a command's options."""


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
        code = _dispatch(arguments) or 0
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


def _dispatch(arguments: list[str]) -> int | None:
    """Runs a command; a number that it returns is the exit code."""
    name, *rest = arguments or ["--help"]
    if name in ("-h", "--help", "help"):
        print(USAGE.format(commands="\n".join(f"  {name:<11} {what}" for name, what in COMMANDS.items())))
        return None
    if name == "--version":
        print(__version__)
        return None
    if name not in COMMANDS:
        from difflib import get_close_matches

        close = get_close_matches(name, COMMANDS, 1)
        raise UsageError(
            f"no command {name!r}; " + (f"did you mean {close[0]!r}?" if close else "one of " + ", ".join(COMMANDS))
        )
    module, function = ELSEWHERE.get(name, (name, "main"))
    return getattr(import_module(f"assignadd.cli.{module}"), function)(rest)
