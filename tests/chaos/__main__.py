"""`make chaos`: every promise tried many times, and a table of what held, kept in docs/reliability.md.

python -m tests.chaos                                  every promise, all trials
python -m tests.chaos --share 0.1 --only damaged       a tenth of the trials of one promise
python -m tests.chaos --only killed-train --trial 17   one trial again
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import subprocess
import sys
import time

from tests.chaos import commands, inputs, saves
from tests.chaos.page import here, write_row

PROMISES = {p.name: p for module in (saves, inputs, commands) for p in module.PROMISES}


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
    names = [name for name in args.only or PROMISES if _can_be_tried(name)]
    if len(names) > 1:  # each in a fresh process: trials fork, and a fork does not survive another library's threads
        flags = ["--share", str(args.share), *(["--write"] if args.write else [])]
        command = [sys.executable, "-m", "tests.chaos", *flags, "--only"]
        return max(subprocess.run([*command, name]).returncode for name in names)
    if not names:
        return 1
    (name,), start, made_by = names, time.monotonic(), here()
    promise = PROMISES[name]
    trials = math.ceil(promise.full * args.share)
    problems = {n: problem for n in range(trials) if (problem := promise.try_once(n))}
    row = f"| {promise.says} (`{name}`) | {trials} | {trials - len(problems)} | {promise.full} | {made_by} |"
    print(f"{row} {time.monotonic() - start:.0f} s", flush=True)
    for number, problem in problems.items():
        print(f"--- {name} --trial {number}\n{problem}", flush=True)
    if args.write:
        write_row(name, row, PROMISES)
    return int(bool(problems))


def _can_be_tried(name: str) -> bool:
    needed = PROMISES[name].needs
    found = needed is None or importlib.util.find_spec(needed) is not None
    if not found:
        print(f"{name} is not tried: {needed} is not installed")
    return found


if __name__ == "__main__":
    sys.exit(main())
