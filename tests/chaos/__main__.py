"""`make chaos`: every promise tried many times, and a table of what held, kept in docs/reliability.md.

python -m tests.chaos                                  every promise, all trials
python -m tests.chaos --jobs 16                        the same on sixteen cores
python -m tests.chaos --share 0.1 --only damaged       a tenth of the trials of one promise
python -m tests.chaos --only killed-train --trial 17   one trial again
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import subprocess
import sys
import time

from tests.chaos import commands, forged, hub, inputs, outputs, saves, surroundings
from tests.chaos.page import here, write_row

PROMISES = {
    p.name: p for module in (saves, inputs, forged, hub, commands, outputs, surroundings) for p in module.PROMISES
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--only", choices=PROMISES, action="append", help="a promise; may be repeated")
    parser.add_argument("--trial", type=int, help="one trial of it")
    parser.add_argument("--share", type=float, default=1.0, help="of the trials")
    parser.add_argument("--jobs", type=int, default=1, help="processes that try at the same time")
    parser.add_argument("--part", type=int, help="of the jobs: the trials of one promise that it tries, as JSON")
    parser.add_argument("--write", action="store_true", help="write docs/reliability.md")
    args = parser.parse_args()
    if args.trial is not None:
        (name,) = args.only
        problem = PROMISES[name].try_once(args.trial)
        print(problem or "held")
        return int(problem is not None)
    if args.part is not None:
        (name,) = args.only
        numbers = range(args.part, _trials(name, args.share), args.jobs)
        print(json.dumps({n: problem for n in numbers if (problem := PROMISES[name].try_once(n))}))
        return 0
    made_by, broken = here(), False
    for name in filter(_can_be_tried, args.only or PROMISES):
        start, trials = time.monotonic(), _trials(name, args.share)
        problems = _in_processes(name, args.share, args.jobs)
        says, full = PROMISES[name].says, PROMISES[name].full
        row = f"| {says} (`{name}`) | {trials} | {trials - len(problems)} | {full} | {made_by} |"
        print(f"{row} {time.monotonic() - start:.0f} s", flush=True)
        for number, problem in problems.items():
            print(f"--- {name} --trial {number}\n{problem}", flush=True)
        if args.write:
            write_row(name, row, PROMISES)
        broken |= bool(problems)
    return int(broken)


def _trials(name: str, share: float) -> int:
    return math.ceil(PROMISES[name].full * share)


def _in_processes(name: str, share: float, jobs: int) -> dict[str, str]:
    """What went wrong, by the number of the trial.

    Trials are made in fresh processes: they fork, and a fork does not survive another library's threads.
    """
    command = [
        sys.executable,
        "-m",
        "tests.chaos",
        "--only",
        name,
        "--share",
        str(share),
        "--jobs",
        str(jobs),
        "--part",
    ]
    parts = [subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, text=True) for i in range(jobs)]
    problems: dict[str, str] = {}
    for part in parts:
        said = part.communicate()[0]
        if part.returncode:
            raise SystemExit(f"trials of {name} could not be made\n{said}")
        problems |= json.loads(said.splitlines()[-1])
    return problems


def _can_be_tried(name: str) -> bool:
    needed = PROMISES[name].needs
    found = needed is None or importlib.util.find_spec(needed) is not None
    if not found:
        print(f"{name} is not tried: {needed} is not installed")
    return found


if __name__ == "__main__":
    sys.exit(main())
