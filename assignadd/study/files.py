"""Studies in files: a folder with study.py, or a single file, anybody's; their tables; and how one is run.

The file holds `STUDY`, or `STUDIES`, a tuple of them, and may hold `draw(tables, figure)` with `SIZE` in inches, for a
figure other than the one that every study has. The table of a study is NAME.parquet beside it, with its provenance in
NAME.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from assignadd.config import Config, UserError
from assignadd.config.errors import RunError
from assignadd.runs.files import MOST_SETTINGS, read_regular
from assignadd.study.study import Study
from assignadd.study.table import StudyTable, study_frame
from assignadd.sweeps.engine import run_sweep
from assignadd.sweeps.jobs import Report
from assignadd.sweeps.results import TABLE, read_results, write_results
from assignadd.sweeps.settings import Sweep
from assignadd.training.trainer import Observe
from assignadd.user_file import user_module

if TYPE_CHECKING:
    from types import ModuleType


def studies_in(path: Path, module: ModuleType | None = None) -> dict[str, Study]:
    """The studies of a file or folder, by name; `module` is the file where it is loaded already."""
    studies = _stated_in(module or user_module(path))
    if not all(isinstance(study, Study) for study in studies):
        raise UserError(f"{path}: expected STUDY = assignadd.study.Study(...), or STUDIES, a tuple of them")
    return {study.name: study for study in studies}


def _stated_in(module: ModuleType) -> Sequence[Any]:
    """What STUDIES of a file holds, otherwise its STUDY, otherwise None; nothing is checked."""
    return getattr(module, "STUDIES", None) or [getattr(module, "STUDY", None)]


def table_file(study: Study, folder: Path) -> Path:
    """The file of a study's table in a folder."""
    return folder / f"{study.name}.parquet"


def read_study(study: Study, folder: Path) -> StudyTable:
    """The table of a study in a folder."""
    try:
        return StudyTable(study, *read_results(table_file(study, folder)))
    except (OSError, RunError) as error:
        raise UserError(f"no table of the study {study.name} in {folder}: {error}") from error


def save_figure(module: ModuleType, tables: Mapping[str, StudyTable], folder: Path) -> Path:
    """The path of figure.svg, which is drawn into a folder from the tables of a file of studies.

    The file's function `draw` draws it where all networks of all its studies are there; otherwise it is the figure that
    every study has.
    """
    from assignadd.figure.style import figure, save
    from assignadd.study.figures import draw_studies, figure_size

    has_every_study = len(tables) == len(_stated_in(module))
    has_every_network = all(table.frame.height == table.study.n_models for table in tables.values())
    if has_every_study and has_every_network and hasattr(module, "draw"):
        draw = module.draw
        width, height = getattr(module, "SIZE", (7.0, 3.0))
    else:
        draw = draw_studies
        width, height = figure_size([table.study for table in tables.values()])
    folder.mkdir(parents=True, exist_ok=True)
    with figure(width, height) as fig:
        draw(tables, fig)
        save(fig, folder / "figure", png=False)
    return folder / "figure.svg"


@dataclass(frozen=True)
class ObserverInFile:
    """The observer of a study in a file, for a process that has not loaded that file and loads it when it measures."""

    path: Path
    study: str

    def __call__(self, configs: Sequence[Config], seen: Tensor) -> Observe:
        """What measures models of these configurations, which train on the pairs `seen`."""
        observer = _loaded_studies(self.path)[self.study].observer
        assert observer is not None, "run_study replaces an observer alone"
        return observer(configs, seen)


@lru_cache(maxsize=16)
def _loaded_studies(path: Path) -> dict[str, Study]:
    """As `studies_in`, but a file is loaded once."""
    return studies_in(path)


def run_study(
    study: Study, sweep: Sweep, out: Path, command: str, report: Report, path: Path | None = None, **how: Any
) -> StudyTable:
    """The table of a study, written into `out` once what is missing there is trained.

    `sweep` has the networks to train, all or some of the study's. `path` is the file or folder of the study, from which
    other processes load its measures. `how` is for `run_sweep`.
    """
    if path is not None and sweep.observe is not None:
        sweep = replace(sweep, observe=ObserverInFile(path.resolve(), study.name))
    sweep_table = run_sweep(sweep, out, report=report, command=command, **how)
    # How the sweep's table was made.
    about = json.loads(read_regular(out, Path(TABLE).with_suffix(".json").name, most=MOST_SETTINGS))
    about |= {"study": study.name, "cells": {cell.label: dict(cell.settings) for cell in study.cells}}
    write_results(study_frame(study, sweep, sweep_table), about, table_file(study, out))
    return read_study(study, out)
