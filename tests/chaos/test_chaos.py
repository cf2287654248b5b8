"""A few trials of every promise; `make chaos` has many."""

import pytest

from tests.chaos.__main__ import PROMISES


@pytest.mark.parametrize(("name", "number"), [(p.name, n) for p in PROMISES.values() for n in range(p.quick)])
def test_a_promise_is_kept(name, number, unchecked):
    problem = PROMISES[name].try_once(number)
    assert problem is None, f"python -m tests.chaos --only {name} --trial {number}\n{problem}"
