"""Studies in files: how the studies of a folder with study.py, or of a single file, are read, run and drawn.

The file holds `STUDY`, or `STUDIES`, a tuple of them, and may hold `draw(tables, figure)` with `SIZE` in inches, for a
figure of its own. The table of a study is NAME.parquet beside it, with its provenance in NAME.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from assignadd.config import Config, UserError
from assignadd.config.errors import RunError
from assignadd.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, dark_figure_rules
from assignadd.runs.files import claim_file, folder_inside
from assignadd.study.study import Study
from assignadd.study.table import ONSETS, StudyTable, study_frame
from assignadd.sweeps.engine import Report, run_sweep
from assignadd.sweeps.plan import Machines, Sweep
from assignadd.sweeps.results import read_provenance, read_results, write_results
from assignadd.training.trainer import Observe
from assignadd.user_file import user_module

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.figure import Figure, FigureBase


def studies_in(path: Path, module: ModuleType | None = None) -> dict[str, Study]:
    """The studies of a file or folder, by name; `module` is that file if it is loaded already."""
    studies = _studies_of(module or user_module(path))
    if not all(isinstance(study, Study) for study in studies):
        raise UserError(f"{path}: expected STUDY = assignadd.study.Study(...), or STUDIES, a tuple of them")
    return {study.name: study for study in studies}


def _studies_of(module: ModuleType) -> Sequence[Any]:
    """The STUDIES of a file, or else its STUDY alone, or [None] where it has neither; their types are not checked."""
    return getattr(module, "STUDIES", None) or [getattr(module, "STUDY", None)]


def table_file(study: Study, folder: Path) -> Path:
    """The file of a study's table in a folder."""
    return folder / f"{study.name}.parquet"


def read_study(study: Study, folder: Path) -> StudyTable:
    """The table of a study in a folder; a UserError if there is none that can be read."""
    try:
        return StudyTable(study, *read_results(table_file(study, folder)))
    except (OSError, RunError) as error:
        raise UserError(f"no table of the study {study.name} in {folder}: {error}") from error


loaded_studies = lru_cache(maxsize=16)(studies_in)  # loads each file once


def observe_in_file(path: Path, study: str, configs: Sequence[Config], seen: Tensor) -> Observe:
    """The function that measures models of these configurations for the study of this name in the file `path`.

    Processes of a sweep call this: each loads the file itself, once.
    """
    observer = loaded_studies(path)[study].observer
    assert observer is not None, "run_study asks only where the study has an observer"
    return observer(configs, seen)


def run_study(
    study: Study,
    sweep: Sweep,
    out: Path,
    machines: Machines = Machines(),  # noqa: B008 (frozen)
    report: Report = lambda job, step: None,
    command: str = "",
    path: Path | None = None,
) -> StudyTable:
    """The table of a study, written into `out` once all networks of `sweep` (some or all of the study's) are trained.

    `path` is the file or folder of the study, from which other processes load its measures.
    """
    if path is not None and sweep.observe is not None:
        sweep = replace(sweep, observe=partial(observe_in_file, path.resolve(), study.name))
    sweep_table = run_sweep(sweep, out, machines, report, command).collect()
    provenance = read_provenance(out)
    provenance |= {"study": study.name, "cells": {cell.label: dict(cell.settings) for cell in study.cells}}
    write_results(study_frame(study, sweep, sweep_table).lazy(), provenance, table_file(study, out))
    return read_study(study, out)


def save_figure(module: ModuleType, tables: Mapping[str, StudyTable], folder: Path) -> Path:
    """Draws figure.svg into a folder from the tables of a file of studies, and returns its path.

    The file's function `draw` draws it where all networks of all its studies are there, otherwise `draw_studies`.
    """
    from assignadd.figure.style import figure, save

    has_every_network = all(table.frame.height == table.study.n_models for table in tables.values())
    has_every_study = len(tables) == len(_studies_of(module))
    if hasattr(module, "draw") and has_every_network and has_every_study:
        draw, size = module.draw, getattr(module, "SIZE", (7.0, 3.0))
    else:
        draw, size = draw_studies, (7.0, sum(_height(table) for table in tables.values()))  # inches
    folder = folder_inside(folder.parent, folder.name)  # is made; a link is refused
    file = folder / "figure.svg"
    claim_file(file, lambda data: dark_figure_rules().encode() in data)  # every figure of ours has these rules
    with figure(*size) as fig:
        draw(tables, fig)
        save(fig, folder / "figure", png=False)
    return file


COLORS = {
    "adds": BLUE, "binds": VERMILION, "refines": GREEN, "follows 1 link": PURPLE, "follows 2 links": ORANGE,
    "learned": ORANGE,
}  # fmt: skip
# The outcomes whose onsets `ONSETS` has, in its order.
SKILLS = ("adds", "binds", "refines")
# The distance of the lines of two outcomes within a cell; the rows of two cells have the distance 1.
LINE = 0.22


def _height(table: StudyTable) -> float:
    """The height in inches of the figure of a study: axes, legend and a row per cell."""
    return 1.1 + 0.27 * len(table.study.cells)


def draw_studies(tables: Mapping[str, StudyTable], fig: Figure) -> None:
    """Draws the figure of each study, one above the other."""
    heights = [_height(table) for table in tables.values()]
    parts = fig.subfigures(len(tables), squeeze=False, height_ratios=heights)[:, 0]  # (studies,): one column
    for part, table in zip(parts, tables.values(), strict=True):
        draw_study(table, part)


def draw_study(table: StudyTable, fig: FigureBase) -> None:
    """Draws a row per cell: the shares of the outcomes, and the steps from which each network has each skill."""
    from assignadd.figure.style import draw_intervals

    left, right = fig.subplots(1, 2, sharey=True)
    outcomes = table.study.outcomes
    for i, outcome in enumerate(outcomes):
        shares = {cell: table.share(cell, outcome) for cell in table.cells}
        shift = LINE * (i - (len(outcomes) - 1) / 2)
        label = table.study.column_meanings.get(outcome, outcome)
        draw_intervals(left, shares, COLORS.get(outcome, GREY), label, shift)
    left.set(xlim=(-0.03, 1.03), xlabel="share of networks\n(95 % interval)")
    for i, (skill, onset) in enumerate(zip(SKILLS, ONSETS, strict=True)):
        if skill not in outcomes:  # the legend would not explain its colour
            continue
        for row, cell in enumerate(table.cells):
            steps = table.values(cell, onset)
            height = row + LINE * (i - 1)  # the second skill is in the middle
            right.plot(steps, np.full(len(steps), height), "|", color=COLORS[skill], markersize=4, alpha=0.8)
    last_step = int(table.provenance["steps"])
    right.set(xlim=(0, last_step * 1.02), xlabel="step from which the skill lasts\n(a mark per network)")
    if outcomes:
        fig.legend(loc="outside upper center", ncols=len(outcomes))
