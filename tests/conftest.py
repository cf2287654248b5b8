"""Shapes checked in every signature; the paper's own checkpoints as one run, and a browser, where they are at hand."""

from pathlib import Path

from jaxtyping import install_import_hook

import tests.shapes  # noqa: F401  (the hook below names it)

PACKAGE = Path(__file__).parents[1] / "assignadd"
NUMERICAL = (
    "task", "model", "training", "measures", "dynamics", "interventions", "paper/addition", "paper/causes",
    "paper/theory", "benchmark",
)  # fmt: skip
COMPILED = (
    "blas",
    "numba_heads",
    "numba_heads_functions",
    "numba_step",
    "numba_functions",
    "numba_vectors",
    "cuda_attention",
    "triton_gpu",
    "triton_attention",
    "numba_sampler",
    "triton_sampler",
)  # whose functions are not Python's

# Checks the shapes and types in every signature of the numerical packages while the tests run; users pay nothing.
install_import_hook(
    [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for name in NUMERICAL
        for path in (PACKAGE / name).rglob("[!_]*.py")
        if path.stem not in COMPILED and not path.stem.endswith(("claims", "figures"))
    ],
    "tests.shapes.check",
)

import os
import shutil
from collections import Counter

import jaxtyping
import pytest
import torch

from assignadd.config import PRESETS
from assignadd.runs.transformer_lens import import_state_dicts
from tests.reference import REFERENCE
from tests.report.writing import TWO_FIGURES, with_sections
from tests.schedule import pytest_collection_modifyitems, pytest_xdist_make_scheduler  # noqa: F401 (hooks)
from tests.skips import remedy

LEFT_OUT = pytest.StashKey[set[str]]()


def pytest_deselected(items):
    slow = {item.nodeid for item in items if item.get_closest_marker("slow")}
    items[0].config.stash.setdefault(LEFT_OUT, set()).update(slow)


def pytest_sessionfinish(session):
    """With several processes, each tells what it left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = sorted(session.config.stash.get(LEFT_OUT, set()))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    node.config.stash.setdefault(LEFT_OUT, set()).update(getattr(node, "workeroutput", {}).get("left out", ()))


def pytest_terminal_summary(terminalreporter):
    """Lists what was skipped or left out, why, and what would run it."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[reason.removeprefix("Skipped: ")] += 1
    left_out = terminalreporter.config.stash.get(LEFT_OUT, set())
    if reasons or left_out:
        terminalreporter.section("skipped")
    for reason, n in reasons.most_common():
        terminalreporter.line(f"{n} skipped: {reason}. To run: {remedy(reason) or 'nothing, it does not apply'}")
    if left_out:
        terminalreporter.line(f"{len(left_out)} left out: a minute or more each. To run: make test-slow")


@pytest.fixture
def unchecked(monkeypatch):
    """No checks of signatures, for a test that passes wrong types to see the function's own error."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(scope="session")
def paper_run(tmp_path_factory):
    """All eleven checkpoints as a trajectory, the last at step 40,000."""
    if not REFERENCE.is_dir():
        pytest.skip(f"no reference checkpoints at {REFERENCE.name}/ beside the checkout")
    torch.set_num_threads(1)
    return import_state_dicts(
        sorted(REFERENCE.glob("*.pth")), PRESETS["authors"], tmp_path_factory.mktemp("paper") / "run"
    )


@pytest.fixture
def few_figures():
    """Reports with two of the figures; gives their labels."""
    with with_sections(TWO_FIGURES) as labels:
        yield labels


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all pages: the one on this machine, or that which CHROMIUM names."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="the dev extra's playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        pytest.skip("no Chromium on this machine; `make test` installs it where it is root and has apt")
    with sync_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield made
        made.close()
