"""The commands. This file alone answers `assignadd --help`; a command imports what it needs when it is called."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from assignadd import __version__
from assignadd.errors import UsageError, UserError

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
    "operands": "which operand slots `=` must attend to in layer 1: accuracy with its attention weights changed",
    "show": "print sequences of the task as the model sees them",
    "sweep": "train many models, a grid of settings times seeds, and write one table of results",
    "runs": "list, show and verify run folders",
    "import": "convert TransformerLens 2.x state dicts to a run",
    "publish": "publish a run on the Hugging Face Hub, or write the folder for it",
    "theory": "check the paper's theory: theorem, proof, gradient step, and real training",
    "bench": "time the training step, the sampler and the evaluation, beside lower bounds",
}
# Where a command is not `main` in the module of its name: the module and the function.
ELSEWHERE = {"eval": ("evaluate", "main"), "import": ("runs", "import_main"), "zoom": ("train", "zoom_main")}

USAGE = """\
usage: assignadd COMMAND [OPTIONS]

Reproduce, question and extend "Assign and Add: A Mechanistic Study of Compositional Arithmetic".

commands:
{commands}

Start with `assignadd reproduce` (or `assignadd reproduce --preset tiny`, two minutes).
`assignadd COMMAND --help` lists a command's options."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0 done, 1 it failed, 2 bad input, 128 + n stopped by signal n."""
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv)) or 0
        sys.stdout.flush()
        return code
    except UserError as error:
        print(f"assignadd: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # whatever read our output has ended, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # a file or folder that cannot be read or written
        print(f"assignadd: {error.filename or 'the system'}: {error.strerror or error}", file=sys.stderr)
        return 1


def _dispatch(arguments: list[str]) -> int | None:
    name, *rest = arguments or ["--help"]
    if name in ("-h", "--help", "help"):
        print(USAGE.format(commands="\n".join(f"  {name:<11} {what}" for name, what in COMMANDS.items())))
        return 0
    if name == "--version":
        print(__version__)
        return 0
    if name not in COMMANDS:
        from difflib import get_close_matches

        close = get_close_matches(name, COMMANDS, 1)
        raise UsageError(
            f"no command {name!r}; " + (f"did you mean {close[0]!r}?" if close else "one of " + ", ".join(COMMANDS))
        )
    module, function = ELSEWHERE.get(name, (name, "main"))
    return getattr(import_module(f"assignadd.cli.{module}"), function)(rest)
