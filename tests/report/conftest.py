"""A report of a run that was really trained, whose name tries to become markup."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from assignadd.api import train
from assignadd.claims.evidence import Evidence, evidence
from assignadd.config import PRESETS
from assignadd.figures.registry import SECTIONS
from assignadd.report import reproduction
from assignadd.runs.folder import open_run
from tests.report.records import RECORDS
from tests.report.writing import write_report


@dataclass(frozen=True)
class Report:
    evidences: list[Evidence]
    folder: Path

    @property
    def index(self) -> Path:
        return self.folder / "index.html"


@pytest.fixture(scope="session")
def report(tmp_path_factory) -> Report:
    folder = tmp_path_factory.mktemp("report")
    run = folder / "<img src=x onerror=alert(4)>"
    train(PRESETS["smoke"], (0, 1), run, threads=1)
    made = Report(evidence(open_run(run), n=50)[0], folder / "out")
    write_report(made.folder, made.evidences, RECORDS, f"assignadd report '{run.name}'")
    return made


@contextmanager
def two_figures() -> Iterator[list[str]]:
    """Two figures stand in for all where a test asks for something else; gives their labels."""
    few = replace(SECTIONS[0], figures=SECTIONS[0].figures[:2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reproduction, "SECTIONS", [few])
        yield [figure.label for figure in few.figures]


@pytest.fixture
def few_figures() -> Iterator[list[str]]:
    with two_figures() as labels:
        yield labels


@pytest.fixture(scope="session")
def short_report(report, tmp_path_factory) -> Report:
    """The same page with two of the figures, which a browser opens sooner."""
    made = Report(report.evidences, tmp_path_factory.mktemp("short") / "out")
    with two_figures():
        write_report(made.folder, made.evidences, RECORDS, "assignadd report x")
    return made
