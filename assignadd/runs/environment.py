"""The environment of a run: versions, device, threads and the commit of this package, but no name of the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import msgspec

from assignadd import __version__

PACKAGE = Path(__file__).resolve().parents[1]


class Environment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a process of a run computed with, as the manifest of the run records it."""

    python: str
    torch: str
    numpy: str
    assignadd: str | None
    device: str
    threads: int
    commit: str | None
    """The commit of this package's source; ASSIGNADD_COMMIT where git does not know it, as in a copy; or None."""
    dirty: bool | None
    """Whether the package differed from that commit; None where ASSIGNADD_COMMIT names it and nothing was compared."""

    @classmethod
    def here(cls, device: str, threads: int) -> Environment:
        """The environment of this process, which computes on this device."""
        import numpy
        import torch

        commit, dirty = source_commit(PACKAGE)
        return cls(
            python=platform.python_version(),
            torch=str(torch.__version__),
            numpy=numpy.__version__,
            assignadd=__version__,
            device=_device_name(device),
            threads=threads,
            commit=commit,
            dirty=dirty,
        )

    def changes(self, since: Environment) -> list[str]:
        """What differs from the environment `since` and may change the last bits of a number: "threads 1 -> 2"."""
        changes = []
        for name in ("torch", "device", "threads", "commit"):
            before, now = getattr(since, name), getattr(self, name)
            if before != now:
                changes.append(f"{name} {before} -> {now}")
        return changes


def source_commit(folder: Path) -> tuple[str | None, bool | None]:
    """The commit checked out where `folder` is tracked, and whether its files differ from it.

    Where Git does not track the folder, the commit is that of the variable ASSIGNADD_COMMIT, with which nothing was
    compared (None); without that variable there is no commit, and False.
    """
    is_tracked = _git(folder, "ls-files", "--", ".") != ""
    if not is_tracked:  # for example a copied tree, or a virtual environment inside somebody else's repository
        commit = os.environ.get("ASSIGNADD_COMMIT")
        return commit, None if commit else False
    status = _git(folder, "status", "--porcelain=v2", "--branch", "--", ".").splitlines()
    commits = [line.split()[-1] for line in status if line.startswith("# branch.oid ")]
    if not commits or commits[0] == "(initial)":  # a repository without commits
        return None, False
    changed_files = [line for line in status if not line.startswith("#")]
    return commits[0], bool(changed_files)


def _git(folder: Path, *arguments: str) -> str:
    """What a Git command prints in this folder; "" where it fails."""
    # Git's own variables, set inside its hooks, would point it at another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"  # `git status` shall write nothing
    command = ["git", *arguments]
    try:
        process = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return process.stdout


def _device_name(device: str) -> str:
    """The kind of a device and what it is, such as `cuda (NVIDIA H200)`."""
    import torch

    kind = torch.device(device).type
    if kind == "cuda":
        return f"cuda ({torch.cuda.get_device_name(device)})"
    # The instruction set decides how sums are ordered, hence the last bits.
    return f"{kind} ({platform.machine()}, {torch.backends.cpu.get_cpu_capability()})"


def cpu_model() -> str:
    """The model of this machine's processor, such as "Neoverse-N1"; its instruction set where none is known."""
    try:
        process = subprocess.run(["lscpu"], capture_output=True, text=True, timeout=20, env={"LC_ALL": "C"})
        lines = process.stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        lines = []
    for line in lines:
        if line.startswith("Model name:"):
            return line.removeprefix("Model name:").strip()
    return platform.processor() or platform.machine()
