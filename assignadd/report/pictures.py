"""A figure drawn and saved beside its data; put on the page from its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from assignadd.claims.evidence import Evidence
from assignadd.figures.kinds import FigureKind
from assignadd.figures.style import figure, save
from assignadd.report.page import Page

SUFFIXES = (".npz", ".svg", ".png")
CAPTION = ".txt"


def draw_picture(kind: FigureKind, models: Sequence[Evidence], folder: Path) -> None:
    """Of the first model, or of all where the figure compares them; files go to `folder`/figures, the caption among them."""
    stem = _stem(kind, folder)
    data = kind.data(models)
    with figure(kind.width, kind.height) as made:
        kind.draw(data, made)
        save(made, stem)
    stem.with_suffix(CAPTION).write_text(kind.caption(data), encoding="utf-8")
    np.savez(stem.with_suffix(".npz"), **data.arrays())  # type: ignore[arg-type]  # the stub takes arrays for a flag


def add_picture(page: Page, kind: FigureKind, folder: Path, command: str) -> None:
    """The figure as it was drawn into `folder`."""
    files = [f"figures/{kind.label}{suffix}" for suffix in SUFFIXES]
    stem = _stem(kind, folder)
    look_for = stem.with_suffix(CAPTION).read_text(encoding="utf-8")
    page.picture(kind.label, kind.title, look_for, stem.with_suffix(".svg"), files, f"made by `{command}`")


def _stem(kind: FigureKind, folder: Path) -> Path:
    return folder / "figures" / kind.label
