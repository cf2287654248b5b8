"""Odd surroundings of a command: clocks, limits, languages, masks, closed streams, moved folders, other threads."""

from __future__ import annotations

import io
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import polars

from assignadd.runs.folder import Run
from tests.chaos.inputs import refuses_in_a_line
from tests.chaos.promise import Promise
from tests.runs.kill import in_child

ROOT = Path(__file__).parents[2]
TRAIN = "{python} -m assignadd train --preset smoke --optim.steps 40 --device cpu --threads {threads} --out {out}"
# A line of bash each. Python's own module `time` is changed where clocks jump: by hours, at every look, to and fro.
SURROUNDINGS = {
    "clocks": "export PYTHONPATH=$PWD/clocks:$PYTHONPATH; {train}",
    "a small limit of file sizes": "(ulimit -f {blocks}; {train}) || true; {train}",
    "locale C": "export LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0; {train} && {python} -m assignadd runs show {out}",
    "umask 000": "umask 000; {train}",
    "umask 077": "umask 077; {train}",
    "closed output": "{train} >&-",
    "closed error": "{train} 2>&-",
    "all closed": "{train} <&- >&- 2>&-",
    "no home": "unset HOME XDG_CACHE_HOME; {train}",
    "a home that is not there": "export HOME=/nonexistent; {train}",
    "no variables at all": "env -i PATH=$PATH PYTHONPATH=$PYTHONPATH OMP_NUM_THREADS=1 {train}",
}
CLOCKS = """
import time, itertools
real, jumps = time.time, itertools.cycle((0, 7200, -86400, 3e8, -1e9))
time.time = lambda: real() + next(jumps)
"""


def bash(line: str, folder: Path, out: str, threads: int = 1, blocks: int = 8) -> subprocess.CompletedProcess[str]:
    words = {"python": sys.executable, "out": out, "threads": threads, "blocks": blocks}
    line = line.format(train=TRAIN.format(**words), **words)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True)
    assert "Traceback" not in done.stderr and len(done.stderr) < 2000, done.stderr
    return done


def bytes_of(run: Path) -> dict[str, bytes]:
    """What a run has but for clocks."""
    assert Run.open(run).verify() == []
    files = [path for path in run.rglob("*") if path.is_file() and path.name not in ("manifest.json", "lock")]
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


def surrounded(rng: random.Random, folder: Path) -> None:
    (folder / "clocks").mkdir()
    (folder / "clocks" / "sitecustomize.py").write_text(CLOCKS)
    name = rng.choice(list(SURROUNDINGS))
    done = bash(SURROUNDINGS[name], folder, out="r\u00fcn", blocks=rng.randint(1, 60))
    assert done.returncode == 0, (name, done.stderr)
    bash("{train}", folder, out="plain")
    assert bytes_of(folder / "r\u00fcn") == bytes_of(folder / "plain"), name


def moved(rng: random.Random, folder: Path) -> None:
    """A folder that is moved or copied while it trains: one line or a whole run, and then the same files."""
    run, elsewhere = folder / "run", folder / "elsewhere"
    words = TRAIN.format(python=sys.executable, threads=1, out=run).split()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (run / "checkpoints").exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(rng.uniform(0, 0.5))
    is_moved = rng.random() < 0.5
    if is_moved:
        run.rename(elsewhere)
    else:
        in_child(lambda: shutil.copytree(run, elsewhere))  # files may go while they are copied: as with `cp`
    said = process.communicate()[1]
    assert "Traceback" not in said and said.count("\n") <= 1, said
    for path in (run, elsewhere):
        # What a copy has of two moments is refused by name. Where the run was, a save may just have made a folder anew.
        code = bash("{train}", folder, out=str(path)).returncode
        assert code == 0 or (code in (1, 2) and is_moved == (path == run)), (code, is_moved, path)
        if code == 0:
            bash("{train}", folder, out="plain")
            assert bytes_of(path) == bytes_of(folder / "plain")


def other_threads(rng: random.Random, folder: Path) -> None:
    """A run that goes on with another number of threads says that its last bits may differ."""
    process = "{python} - <<'END'\nfrom tests.chaos.surroundings import stopped\nstopped('run')\nEND"
    bash(process, folder, out="run")
    assert not Run.open(folder / "run").finished
    done = bash("{train}", folder, out="run", threads=rng.randint(2, 4))
    assert done.returncode == 0 and "the last bits may differ" in done.stdout + done.stderr
    assert Run.open(folder / "run").finished and Run.open(folder / "run").verify() == []


def stopped(out: str) -> None:
    """Trains as `TRAIN` does, with one thread, until a signal at its first steps."""
    import signal

    from assignadd.cli import main
    from assignadd.training.trainer import Trainer

    advance = Trainer.advance

    def interrupted(trainer: Trainer, steps: int) -> None:
        advance(trainer, steps)
        os.kill(os.getpid(), signal.SIGTERM)

    Trainer.advance = interrupted  # type: ignore[method-assign]
    main(TRAIN.format(python="", threads=1, out=out).split()[2:])


def bomb(rng: random.Random, folder: Path) -> None:
    """A small or large file of settings that would become millions of rows."""
    kind = rng.choice(("rows.csv", "columns.csv", "grid.json", "rows.json", "text.csv", "table.parquet"))
    file = folder / kind
    if kind == "rows.csv":
        file.write_bytes(b"lr\n" + b"0.1\n" * 10_000_000)
    elif kind == "columns.csv":
        file.write_text(",".join(f"a{i}" for i in range(200_000)) + "\n" + ",".join("1" * 200_000))
    elif kind == "grid.json":
        names = ("optim.lr", "optim.eps", "optim.beta1", "optim.beta2", "seed.init", "seed.data", "seed.split")
        file.write_text(json.dumps(dict.fromkeys(names, [0.1] * 1000)))
    elif kind == "rows.json":
        file.write_bytes(b"[" + b'{"lr":1},' * 10_000_000 + b'{"lr":1}]')
    elif kind == "text.csv":
        file.write_bytes(b"optim.lr\n" + b"9" * 50_000_000)
    else:
        buffer = io.BytesIO()
        polars.DataFrame({"lr": [0.1]}).write_parquet(buffer)
        file.write_bytes(buffer.getvalue() * 1000)

    def tried() -> None:
        from assignadd.cli.arguments import read
        from assignadd.cli.sweep import Sweep

        resource.setrlimit(resource.RLIMIT_CPU, (40, 40))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        words = [str(file), "--preset", "smoke", "--dry-run", "--device", "cpu", "--out", str(folder / "out")]
        assert refuses_in_a_line(lambda: read(Sweep, words, "sweep").main()) is None
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 4_000_000, f"{grown:,} kilobytes"

    outcome = in_child(tried)
    assert outcome.error is None and not outcome.killed, (kind, outcome)


PROMISES = (
    Promise("surroundings", "jumping clocks, limits, locale C, umasks, closed streams, no home: the same bytes",
            surrounded, 44, 0),
    Promise("moved", "a run that is moved or copied while it trains: one line, and no half of anything is read",
            moved, 20, 0),
    Promise("other-threads", "a run that goes on with other threads says that bits may differ", other_threads, 5, 0),
    Promise("sweep-bombs", "a file of millions of settings is refused in a line, in 40 s and 4 GB", bomb, 12, 0),
)  # fmt: skip
