"""A few trials of every promise; `make chaos` has many."""

import re
import subprocess
import sys

import pytest

from tests.chaos.__main__ import PROMISES
from tests.chaos.page import PAGE


@pytest.mark.parametrize(("name", "number"), [(p.name, n) for p in PROMISES.values() for n in range(p.quick)])
def test_a_promise_is_kept(name, number, unchecked):
    problem = PROMISES[name].try_once(number)
    assert problem is None, f"python -m tests.chaos --only {name} --trial {number}\n{problem}"


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISES)
def test_a_promise_is_kept_a_tenth_as_often_as_by_make_chaos(name):
    command = [sys.executable, "-m", "tests.chaos", "--share", "0.1", "--only", name]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_each_row_of_the_page_is_a_promise_that_is_still_made():
    rows = re.findall(r"^\| (.+) \(`([\w-]+)`\) \| \d+ \| \d+ \| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    assert len(rows) > 25
    for says, name, full in rows:
        assert (says, int(full)) == (PROMISES[name].says, PROMISES[name].full), name
