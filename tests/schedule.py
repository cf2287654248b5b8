"""Which tests one process runs one after another with `--dist loadfile`, and which come first."""

import pytest

# Files that share what takes long to make: the interactive page; the report; the numbers of the theory.
TOGETHER = (
    ("tests/page/",),
    (
        "tests/report/",
        "tests/cli/test_mechanism.py",
        "tests/cli/test_reproduce.py",
        "tests/test_readme.py",
    ),
    ("tests/paper/theory/", "tests/cli/test_theory.py"),
)
# Half a minute or so each: first, so that no process is left alone with one at the end.
FIRST = (
    *TOGETHER[1],
    *TOGETHER[0],
    "tests/sweeps/test_cluster.py",
    "tests/sweeps/test_local.py",
    "tests/test_own_tasks.py",
    "tests/sweeps/test_scripts.py",
    "tests/test_binding.py",
    "tests/paper/test_ledger.py",
    "tests/test_article.py",
    "tests/training/test_loop.py",
)


def scope(nodeid: str) -> str:
    """Tests of the same scope run in the same process."""
    return next((group[0] for group in TOGETHER if nodeid.startswith(group)), nodeid.split("::", 1)[0])


def place(nodeid: str) -> int:
    """Where a test comes in the order, those of equal places as they were."""
    return next((i for i, start in enumerate(FIRST) if nodeid.startswith(start)), len(FIRST))


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: place(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return scope(nodeid)

    return Scheduling(config, log)
