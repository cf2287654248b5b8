"""`make chaos`: every promise tried many times, and a table of what held, kept in docs/reliability.md.

python -m tests.chaos                                  every promise, all trials
python -m tests.chaos --share 0.1 --only damaged       a tenth of the trials of one promise
python -m tests.chaos --only killed-train --trial 17   one trial again
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.chaos import commands, inputs, saves

PROMISES = {p.name: p for module in (saves, inputs, commands) for p in module.PROMISES}
PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
TEXT = """# Reliability: promises, and how often they held

Written by `make chaos`. Every trial is a function of its number: `python -m tests.chaos --only PROMISE --trial N`
repeats one. A few trials of most promises are part of `make test`; a full `make chaos` has as many as the column
"of" says, and `--share` or `--only` run fewer. Each row is of the commit that it names; "Linux aarch64, 2 cores" is an
ARM Neoverse-N1 that did other work at the same time. Not covered here: Ray (`make test-ray`) and CUDA
(`tests/training/test_cuda.py`, where there is a GPU).

{head}
"""
HEAD = "| promise | trials | held | of | commit | machine |\n|---|---|---|---|---|---|"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--only", choices=PROMISES, action="append", help="a promise; may be repeated")
    parser.add_argument("--trial", type=int, help="one trial of it")
    parser.add_argument("--share", type=float, default=1.0, help="of the trials")
    parser.add_argument("--write", action="store_true", help="write docs/reliability.md")
    args = parser.parse_args()
    if args.trial is not None:
        (name,) = args.only
        problem = PROMISES[name].try_once(args.trial)
        print(problem or "held")
        return int(problem is not None)
    names = args.only or list(PROMISES)
    if len(names) > 1:  # each in a fresh process: trials fork, and a fork does not survive another library's threads
        flags = ["--share", str(args.share), *(["--write"] if args.write else [])]
        command = [sys.executable, "-m", "tests.chaos", *flags, "--only"]
        return max(subprocess.run([*command, name]).returncode for name in names)
    (name,), start = names, time.monotonic()
    promise = PROMISES[name]
    trials = math.ceil(promise.full * args.share)
    problems = {n: problem for n in range(trials) if (problem := promise.try_once(n))}
    row = f"| {promise.says} (`{name}`) | {trials} | {trials - len(problems)} | {promise.full} | {_here()} |"
    print(f"{row} {time.monotonic() - start:.0f} s", flush=True)
    for number, problem in problems.items():
        print(f"--- {name} --trial {number}\n{problem}", flush=True)
    if args.write:
        write_row(name, row)
    return int(bool(problems))


def write_row(name: str, row: str) -> None:
    """Puts a row into the page, in the place of the promise's earlier one; the others stay."""
    before = PAGE.read_text() if PAGE.exists() else ""
    rows = {found[1]: found[0] for found in re.finditer(r"^\| .*\(`([\w-]+)`\) \|.*$", before, re.MULTILINE)} | {
        name: row
    }
    PAGE.write_text(TEXT.format(head="\n".join([HEAD, *(rows[name] for name in PROMISES if name in rows)])))


def _here() -> str:
    """The commit and the machine."""
    git = ["git", "-C", str(PAGE.parent), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip() or "unknown"
    return f"{commit} | {platform.system()} {platform.machine()}, {os.cpu_count()} cores"


if __name__ == "__main__":
    sys.exit(main())
