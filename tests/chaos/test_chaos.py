"""A few trials of every promise; `make chaos` has many."""

import re

import pytest

from tests.chaos.__main__ import PROMISES
from tests.chaos.page import PAGE


@pytest.mark.parametrize(("name", "number"), [(p.name, n) for p in PROMISES.values() for n in range(p.quick)])
def test_a_promise_is_kept(name, number, unchecked):
    problem = PROMISES[name].try_once(number)
    assert problem is None, f"python -m tests.chaos --only {name} --trial {number}\n{problem}"


def test_each_row_of_the_page_is_a_promise_that_is_still_made():
    rows = re.findall(r"^\| (.+) \(`([\w-]+)`\) \| \d+ \| \d+ \| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    assert len(rows) > 25
    for says, name, full in rows:
        assert (says, int(full)) == (PROMISES[name].says, PROMISES[name].full), name
