"""The whole report in one call: pictures, then the page."""

from pathlib import Path

from assignadd.report.reproduction import draw_pictures, write_page
from assignadd.sweeps.population import NO_POPULATIONS


def write_report(folder: Path, evidences, records, command: str) -> Path:
    draw_pictures(folder, evidences, NO_POPULATIONS)
    return write_page(folder, evidences, records, command)
