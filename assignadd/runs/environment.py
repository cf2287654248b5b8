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
        """What may change the last bits of a number, against an earlier environment."""
        pairs = [(name, getattr(since, name), getattr(self, name)) for name in ("torch", "device", "threads", "commit")]
        return [f"{name} {before} -> {after}" for name, before, after in pairs if before != after]


def source_commit(folder: Path) -> tuple[str | None, bool | None]:
    """The commit checked out where `folder` is tracked, and whether its files differ from it."""
    if not _git(folder, "ls-files", "--", "."):
        # For example a copied tree, or a virtual environment inside somebody else's repository.
        named = os.environ.get("ASSIGNADD_COMMIT")
        return named, None if named else False
    status = _git(folder, "status", "--porcelain=v2", "--branch", "--", ".").splitlines()
    commits = [line.split()[-1] for line in status if line.startswith("# branch.oid ")]
    if not commits or commits[0] == "(initial)":
        return None, False
    return commits[0], any(not line.startswith("#") for line in status)


def _git(folder: Path, *arguments: str) -> str:
    """What a Git command prints in this folder; nothing where it fails."""
    # Git's own variables, set inside its hooks, would point it at another repository.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


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
        done = subprocess.run(["lscpu"], capture_output=True, text=True, timeout=20, env={"LC_ALL": "C"})
    except (OSError, subprocess.SubprocessError):
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in done.stdout.splitlines() if line.startswith("Model name:")]
    return names[0] if names else platform.processor() or platform.machine()
