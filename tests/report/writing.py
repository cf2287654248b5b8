"""The whole report in one call, pictures, then the page; and with fewer of the figures."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from assignadd.report import reproduction
from assignadd.report.reproduction import POPULATIONS, SECTIONS, Section, drawing_pictures, write_page
from assignadd.sweeps.population import NO_POPULATIONS
from tests.report.records import RECORDS


def write_report(folder: Path, networks, records, command: str) -> Path:
    with drawing_pictures(folder, networks, NO_POPULATIONS):
        pass
    return write_page(folder, networks, records, command)


@contextmanager
def with_sections(sections: Sequence[Section]) -> Iterator[list[str]]:
    """Reports have these sections; gives the labels of their figures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reproduction, "SECTIONS", sections)
        yield [figure.label for section in sections for figure in section.figures]


# Two figures stand in for all where a test asks for something else.
TWO_FIGURES = (replace(SECTIONS[0], figures=SECTIONS[0].figures[:2]),)
# Every section with its first figures, those that the records link to, and all of those that have no data
# without populations; tests/report/test_sections.py draws the others.
LINKED = {record.label for record in RECORDS}
EVERY_SECTION = tuple(
    section
    if section.figures == POPULATIONS
    else replace(
        section,
        figures=tuple(f for i, f in enumerate(section.figures) if i < 2 or f.label in LINKED),
    )
    for section in SECTIONS
)
