"""A figure drawn, saved beside its data, and put on the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from assignadd.claims.evidence import Evidence
from assignadd.figures.kinds import FigureKind
from assignadd.figures.style import figure, save
from assignadd.report.page import Page

SUFFIXES = (".npz", ".svg", ".png")


def add_picture(page: Page, kind: FigureKind, models: Sequence[Evidence], folder: Path, command: str) -> None:
    """Of the first model, or of all where the figure compares them; files go to `folder`/figures."""
    stem = folder / "figures" / kind.label
    data = kind.data(models)
    with figure(kind.width, kind.height) as made:
        kind.draw(data, made)
        save(made, stem)
    np.savez(stem.with_suffix(".npz"), **data.arrays())  # type: ignore[arg-type]  # the stub takes arrays for a flag
    files = [f"figures/{kind.label}{suffix}" for suffix in SUFFIXES]
    page.picture(kind.label, kind.title, kind.look_for, stem.with_suffix(".svg"), files, f"made by `{command}`")
