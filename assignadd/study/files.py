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
from assignadd.user_file import FILE, user_module

if TYPE_CHECKING:
    from types import ModuleType

# Where a project keeps its studies: `assignadd study` lists them.
FINDINGS = Path("findings")


def study_folders(root: Path = FINDINGS) -> list[Path]:
    """The folders of studies under `root`, in alphabetical order."""
    return sorted(path.parent for path in root.glob(f"*/{FILE}"))


def studies_in(path: Path, module: ModuleType | None = None) -> dict[str, Study]:
    """The studies of a file or folder, by name."""
    module = module or user_module(path)
    named = getattr(module, "STUDIES", None) or [getattr(module, "STUDY", None)]
    if not all(isinstance(study, Study) for study in named):
        raise UserError(f"{path}: expected STUDY = assignadd.study.Study(...), or STUDIES, a tuple of them")
    return {study.name: study for study in named}


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
    """Draws figure.svg of a file of studies and returns its path.

    By the file's function `draw` where all networks of all its studies are there, else the figure of each study.
    """
    from assignadd.figure.style import figure, save
    from assignadd.study.figures import draw_studies, figure_size

    stated = getattr(module, "STUDIES", None) or [module.STUDY]
    is_complete = len(tables) == len(stated) and all(t.frame.height == t.study.n_models for t in tables.values())
    if is_complete and hasattr(module, "draw"):
        draw, size = module.draw, getattr(module, "SIZE", (7.0, 3.0))
    else:
        draw, size = draw_studies, figure_size([table.study for table in tables.values()])
    folder.mkdir(parents=True, exist_ok=True)
    with figure(*size) as made:
        draw(tables, made)
        save(made, folder / "figure", png=False)
    return folder / "figure.svg"


@dataclass(frozen=True)
class ObserverInFile:
    """The observer of a study in a file, for a process that has not loaded that file."""

    path: Path
    study: str

    def __call__(self, configs: Sequence[Config], seen: Tensor) -> Observe:
        observer = _studies(self.path)[self.study].observer
        assert observer is not None
        return observer(configs, seen)


@lru_cache(maxsize=16)
def _studies(path: Path) -> dict[str, Study]:
    return studies_in(path)


def run_study(
    study: Study, sweep: Sweep, out: Path, command: str, report: Report, path: Path | None = None, **how: Any
) -> StudyTable:
    """Trains what is missing under `out`, and writes and returns the table; `how` is for `run_sweep`.

    `path` is the file or folder of the study, from which other processes load its measures.
    """
    if path is not None and sweep.observe is not None:
        sweep = replace(sweep, observe=ObserverInFile(path.resolve(), study.name))
    curves = run_sweep(sweep, out, report=report, command=command, **how)
    about = json.loads(read_regular(out, Path(TABLE).with_suffix(".json").name, most=MOST_SETTINGS))
    about |= {"study": study.name, "cells": {cell.label: dict(cell.settings) for cell in study.cells}}
    write_results(study_frame(study, sweep, curves), about, table_file(study, out))
    return read_study(study, out)
