"""All studies, by name, and how one is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from assignadd.config import ConfigError
from assignadd.studies.again import AGAIN
from assignadd.studies.architecture import ARCHITECTURE
from assignadd.studies.bursts import BURSTS_STUDY
from assignadd.studies.cues import CUES_STUDY
from assignadd.studies.cure import CURE_STUDY
from assignadd.studies.data import DATA
from assignadd.studies.doubles import DOUBLES
from assignadd.studies.doubles_causes import DOUBLES_CAUSES
from assignadd.studies.fate import FATE
from assignadd.studies.hops import HOPS_STUDY
from assignadd.studies.longer import LONGER
from assignadd.studies.mlp_width import MLP_WIDTH
from assignadd.studies.operands import OPERANDS
from assignadd.studies.operations import OPERATIONS_STUDY
from assignadd.studies.order import ORDER
from assignadd.studies.parts import PARTS_STUDY
from assignadd.studies.plateau import PLATEAU_STUDY
from assignadd.studies.rate import RATE
from assignadd.studies.reset import RESET_STUDY
from assignadd.studies.scale import SCALE
from assignadd.studies.size import SIZE
from assignadd.studies.small_weights import SMALL_WEIGHTS
from assignadd.studies.spikes import SPIKES_STUDY
from assignadd.studies.study import Study
from assignadd.studies.sudden import SUDDEN
from assignadd.studies.table import StudyTable, file_of, read_study, study_frame
from assignadd.studies.training import TRAINING
from assignadd.studies.transplant import TRANSPLANT
from assignadd.studies.when import WHEN
from assignadd.studies.window import WINDOW
from assignadd.sweeps.engine import Report, run_sweep
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
