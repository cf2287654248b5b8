"""All studies, by name, and how one is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from assignadd.config import ConfigError
from assignadd.studies.cues import CUES_STUDY
from assignadd.studies.data import DATA
from assignadd.studies.doubles import DOUBLES, LONGER, SMALL_WEIGHTS
from assignadd.studies.doubles_causes import DOUBLES_CAUSES, MLP_WIDTH
from assignadd.studies.fate import FATE
from assignadd.studies.frozen import AGAIN, ORDER, PARTS_STUDY, WINDOW
from assignadd.studies.rate import CURE_STUDY, RATE, WHEN
from assignadd.studies.replaced import PLATEAU_STUDY, RESET_STUDY, TRANSPLANT
from assignadd.studies.spikes import BURSTS_STUDY, SPIKES_STUDY, SUDDEN
from assignadd.studies.study import Study
from assignadd.studies.table import StudyTable, file_of, read_study, study_frame
from assignadd.studies.tasks import ARCHITECTURE, HOPS_STUDY, OPERANDS, OPERATIONS_STUDY, SIZE
from assignadd.studies.training import SCALE, TRAINING
from assignadd.sweeps.engine import run_sweep
from assignadd.sweeps.jobs import Report
from assignadd.sweeps.results import TABLE, claim_results, write_results
from assignadd.sweeps.settings import Sweep

ALL = (
    *(ARCHITECTURE, SIZE, OPERATIONS_STUDY, OPERANDS, HOPS_STUDY),  # the task and the network
    # Why some seeds do not bind.
    *(RATE, TRAINING, SCALE, WHEN, FATE, CURE_STUDY, DATA),
    *(PARTS_STUDY, ORDER, WINDOW, AGAIN, TRANSPLANT, PLATEAU_STUDY, RESET_STUDY),
    *(DOUBLES, SMALL_WEIGHTS, LONGER, DOUBLES_CAUSES, MLP_WIDTH),
    *(SPIKES_STUDY, BURSTS_STUDY, SUDDEN, CUES_STUDY),
)
STUDIES: dict[str, Study] = {study.name: study for study in ALL}


def study_named(name: str) -> Study:
    """The study of this name."""
    if name not in STUDIES:
        raise ConfigError("study", name, "one of " + ", ".join(STUDIES))
    return STUDIES[name]


def run_study(study: Study, sweep: Sweep, out: Path, command: str, report: Report, **how: Any) -> StudyTable:
    """Trains what is missing under `out`, and writes and returns the table; `how` is for `run_sweep`."""
    claim_results(out / file_of(study.name), "diverged")
    curves = run_sweep(sweep, out, report=report, command=command, **how)
    about = json.loads((out / TABLE).with_suffix(".json").read_text())
    about |= {"study": study.name, "cells": {cell.label: dict(cell.settings) for cell in study.cells}}
    write_results(study_frame(study, sweep, curves), about, out / file_of(study.name))
    return read_study(study, out)
