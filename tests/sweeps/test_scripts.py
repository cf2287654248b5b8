"""A sweep in two processes from a script that has no guard, from a notebook, and from standard input."""

import subprocess
import sys

import pytest

from assignadd.config import ConfigError
from assignadd.measures.own import own_measure
from assignadd.sweeps import engine
from assignadd.sweeps.engine import run_local, run_sweep
from assignadd.sweeps.final_tests import SweepObserver
from assignadd.sweeps.plan import Machines, Sweep, grid, jobs_of
from tests.sweeps.small import CONFIG, SWEEP, stores

SCRIPT = """
print("the script runs")
from pathlib import Path
from assignadd.sweeps.engine import run_sweep
from assignadd.study.study import FinalMeasures
from assignadd.sweeps.plan import Machines, Sweep, grid
from tests.sweeps.small import CONFIG
from functools import partial

def size(stack):
    return stack.W_E.square().mean((1, 2))

observe = partial(FinalMeasures, size) if {observe} else None
sweep = Sweep("s", CONFIG, grid({{"seen_fraction": (0.5,)}}, (0, 1)), observe)
{anew}
table = run_sweep(sweep, Path({out!r}), Machines(cores=2, most_together=1)).collect()
print(len(table), "size (final)" in table.columns)
"""
ANEW = "from assignadd.sweeps import engine; engine.can_fork = lambda: False"


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The files of the sweep without a measure, from one process."""
    out = tmp_path_factory.mktemp("here")
    run_sweep(Sweep("s", CONFIG, grid({"seen_fraction": (0.5,)}, (0, 1))), out, Machines(most_together=1))
    return stores(out)


# Where processes are forked, it is all the same to them how the first one was started.
@pytest.mark.parametrize(("how", "anew"), [("stdin", ""), ("script", ANEW), ("exec", ANEW)], ids=str)
def test_it_needs_no_guard_and_processes_that_begin_anew_make_the_same_files(tmp_path, expected, how, anew):
    text = SCRIPT.format(out=str(tmp_path / "out"), observe=not anew, anew=anew)
    file = tmp_path / "plain.py"
    file.write_text(text)
    code = f"exec(open({str(file)!r}).read(), {{'__name__': '__main__'}})"
    words = {"script": [str(file)], "stdin": ["-"], "exec": ["-c", code]}[how]
    done = subprocess.run([sys.executable, *words], input=text, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, f"the script runs\n6 {not anew}\n"), done.stderr
    assert not anew or stores(tmp_path / "out") == expected


def test_a_function_that_another_process_cannot_load_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "can_fork", lambda: False)

    def size(stack):
        """Defined in a function, where no other process finds it."""
        return stack.W_E.square().mean((1, 2))

    observer = own_measure(size, CONFIG, SWEEP.cells[0], SweepObserver)
    jobs = jobs_of(Sweep("s", CONFIG, SWEEP.cells[:2], observer), tmp_path, Machines(most_together=1))
    with pytest.raises(ConfigError, match="functions of a file of their own") as caught:
        run_local(jobs, "cpu", 2)
    assert "\n" not in str(caught.value)
