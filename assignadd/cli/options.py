"""The options that several commands share, and checks of the values that they take."""

from __future__ import annotations

import os
import re
from dataclasses import MISSING, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignadd.cli.screen import note
from assignadd.config import MOST_MODELS as MOST_MODELS
from assignadd.config import PRESETS, Config, ConfigError, Task
from assignadd.config.errors import UsageError, one_of

if TYPE_CHECKING:
    from assignadd.runs.folder import Run

# Runs of the package: the one for commands without a run, and one network at several steps of its training.
SHIPPED = "census-six"
TRAJECTORY = "small-trajectory"
NO_RUN_GIVEN = f"no run given: this is {SHIPPED}, which comes with the package; `assignadd train` makes your own"
WITHOUT_NUMBA = "Numba is not installed: training on a CPU is faster after pip install 'assignadd[fast]'"


def positional(default: Any = MISSING) -> Any:
    """A field whose value is typed without a name; it is required unless it has a default."""
    return field(default=default, metadata={"positional": True})


@dataclass(frozen=True, kw_only=True)
class FromPreset:
    """The options of a command that starts from a preset."""

    preset: str = "paper"
    """The settings to start from: paper, authors, tiny or smoke."""
    config: Path | None = None
    """A JSON file of settings that replace the preset's, such as the config.json of a run."""


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """The run that a command is about."""

    run: str = positional()
    """A run folder, its name under runs/, or hf://OWNER/NAME of a published run."""


@dataclass(frozen=True, kw_only=True)
class OneModel:
    """The model that a command questions."""

    run: str | None = positional(None)
    """A run folder, its name under runs/, or hf://OWNER/NAME. If None, the newest run, or census-six of the package."""
    step: int | None = None
    """The checkpoint. If None, the last one."""
    seed: int | None = None
    """Which model of the run. If None, its first."""


@dataclass(frozen=True, kw_only=True)
class ManyRuns:
    """The runs that a command is about, and which of their models."""

    runs: tuple[str, ...] = positional()
    """Run folders, their names under runs/, or hf://OWNER/NAME of published runs."""
    seeds: str | None = None
    """Only the models with these seeds, such as 0, 0..3 or 0,4,7."""

    @property
    def wanted_seeds(self) -> list[int] | None:
        """The seeds of --seeds; None for all models."""
        return parse_seeds(self.seeds) if self.seeds else None


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """How many threads or processes a command uses."""

    threads: int | None = None
    """CPU threads, or processes that work side by side with one thread each. If None, one for each core."""

    @property
    def cores(self) -> int:
        """The number of threads or processes: every core that this process may use unless --threads is given."""
        if self.threads is not None:
            return within("threads", self.threads, 1, 1024)
        if hasattr(os, "sched_getaffinity"):  # not on macOS
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class OnDevice(Parallel):
    """Where a command trains."""

    device: str = "auto"
    """auto, cpu or cuda."""


@dataclass(frozen=True, kw_only=True)
class OwnFiles:
    """A task and a network of the user's own, in files that are executed."""

    task_: Path | None = None
    """A file of Python with TASK, a task of your own (docs/train_your_own.md)."""
    network: Path | None = None
    """A file of Python with NETWORK, a network of your own (docs/train_your_own.md)."""


@dataclass(frozen=True, kw_only=True)
class Measuring(Parallel):
    """How much a command measures."""

    n: int = 20_000
    """Sequences per evaluation set and per type of sequence; some measures take the same time whatever n is."""


def base_config(preset: str, file: Path | None = None) -> Config:
    """The configuration that settings start from: a preset, in which a JSON file may replace settings."""
    if preset not in PRESETS:
        raise ConfigError("preset", preset, one_of(preset, PRESETS))
    if file is None:
        return PRESETS[preset]
    from assignadd.runs.config_json import read_config

    return read_config(file, PRESETS[preset])


def run_or_newest(name: str | None) -> Run:
    """The run of this name; without a name the newest under runs/, or the package's where runs/ has none."""
    from assignadd.runs.folder import newest_run, open_run

    return open_run(name) if name else newest_run("runs") or shipped_run()


def read_prompt(text: str, task: Task) -> list[int]:
    """The tokens of a prompt as people type it; two numbers alone get an assignment, which a note on stderr shows."""
    from assignadd.task.text import parse, with_assignment

    completed = with_assignment(text, task)  # None if the prompt has an assignment
    if completed is None:
        return parse(text, task)
    note(f"read as {completed}: every sequence has an assignment")
    return parse(completed, task)


def shipped_run() -> Run:
    """The run of the package for commands that are given none; a note on stderr says so, and how to train another."""
    from assignadd.runs.folder import Run, shipped

    note(NO_RUN_GIVEN)
    return Run.open(shipped(SHIPPED))


def parse_seeds(text: str, most: int = MOST_MODELS) -> list[int]:
    """The seeds, at most `most`, that a text such as `3`, `0..31`, `0,4,7` or `0..3,7` names, in its order."""
    accepted = f"whole numbers and ranges such as 0, 0..31 or 0,4,7 (at most {most})"
    seeds: list[int] = []
    for words in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,18})\s*(?:\.\.\s*([0-9]{1,18})\s*)?", words)
        if match is None:
            raise ConfigError("seeds", text, accepted)
        first = int(match[1])
        last = int(match[2] or match[1])  # a number alone is a range of one
        n_of_range = last - first + 1
        if last < first or len(seeds) + n_of_range > most:  # before a long range is written out
            raise ConfigError("seeds", text, accepted)
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise ConfigError("seeds", text, "every seed once")
    return seeds


def resolve_device(device: str, engine: str = "local") -> str:
    """The device to work on, cpu or cuda; `auto` is cuda if this machine has it. Raises an error for any other.

    With the engine ray, cuda is the cluster's. A note on stderr tells if the compiler for a CPU is missing.
    """
    if engine not in ("local", "ray"):
        raise ConfigError("engine", engine, one_of(engine, ("local", "ray")))
    if device not in ("auto", "cpu", "cuda"):
        raise ConfigError("device", device, "auto, cpu or cuda")
    if device == "cuda" and engine == "ray":  # this machine may have none
        return device
    if device != "cpu":
        import torch

        if torch.cuda.is_available():
            return "cuda"
        if device == "cuda":
            raise UsageError("device = 'cuda': this machine has no CUDA device that torch can use; pass --device cpu")
    if find_spec("numba") is None:
        note(WITHOUT_NUMBA)
    return "cpu"


def within(name: str, n: int, least: int = 1, most: int = 1_000_000) -> int:
    """The number `n`; an error if it is not from `least` to `most`. `name` is the option that it comes from."""
    if not least <= n <= most:
        raise ConfigError(name, n, f"a whole number from {least} to {most}")
    return n
