"""A report of a run that was really trained, whose name tries to become markup."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from assignadd.api import train
from assignadd.config import PRESETS
from assignadd.network import Network, networks_of
from assignadd.runs.folder import open_run
from tests.report.records import RECORDS
from tests.report.writing import EVERY_SECTION, TWO_FIGURES, with_sections, write_report


@dataclass(frozen=True)
class Report:
    networks: list[Network]
    folder: Path

    @property
    def index(self) -> Path:
        return self.folder / "index.html"


@pytest.fixture(scope="session")
def report(tmp_path_factory) -> Report:
    folder = tmp_path_factory.mktemp("report")
    run = folder / "<img src=x onerror=alert(4)>"
    train(PRESETS["smoke"], (0, 1), run, threads=1)
    made = Report(networks_of(open_run(run), n=50)[0], folder / "out")
    with with_sections(EVERY_SECTION):
        write_report(made.folder, made.networks, RECORDS, f"assignadd report '{run.name}'")
    return made


@pytest.fixture(scope="session")
def short_report(report, tmp_path_factory) -> Report:
    """The same page with two of the figures, which a browser opens sooner."""
    made = Report(report.networks, tmp_path_factory.mktemp("short") / "out")
    with with_sections(TWO_FIGURES):
        write_report(made.folder, made.networks, RECORDS, "assignadd report x")
    return made
