"""The sections of the report: every figure in its order, and which claims belong to each; a user's files add one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from assignadd.config import ConfigError
from assignadd.figure.record import FigureRecord
from assignadd.ledger.claim import Claim, Record
from assignadd.paper.addition.claims import ADDITION
from assignadd.paper.addition.figures import (
    COSINE_SIM_FIGURE,
    FOURIER_SHARES_FIGURE,
    PREACTS_FIGURE,
    PROBES_FIGURE,
)
from assignadd.paper.binding.claims import MECHANISM as MECHANISM_CLAIMS
from assignadd.paper.binding.figures import ATTENTION_FIGURE, QK0_FIGURE, QK0POS_AND_QK1_FIGURE, TOKEN_SEQS_FIGURE
from assignadd.paper.causes.claims import CAUSES as CAUSAL_CLAIMS
from assignadd.paper.causes.figures import CIRCUIT_FIGURE, CIRCUIT_ONLY_FIGURE, INTERCHANGE_FIGURE
from assignadd.paper.dynamics.figures import EARLY_FIGURE, LATE_FIGURE, PROGRESS_MEASURES_FIGURE
from assignadd.paper.generalisation.claims import GENERALISATION
from assignadd.paper.generalisation.figures import CENSUS_FIGURE, GENERALIZATION_FIGURE
from assignadd.paper.generalisation.seeds import POPULATION
from assignadd.paper.ledger import DYNAMICS as DYNAMIC_CLAIMS
from assignadd.paper.theory.claims import LABEL as THEORY_LABEL
from assignadd.paper.theory.figures import (
    THEORY_BETA_FIGURE,
    THEORY_REAL_GRADIENT_FIGURE,
)


@dataclass(frozen=True)
class Section:
    """A section of the page: its figures, and which of the records of claims belong to it."""

    heading: str
    figures: tuple[FigureRecord, ...]
    of_one_model: bool = True
    """Whether its figures show one trained network, and not many seeds."""
    has: Callable[[Record], bool] = lambda record: False
    """Whether the record of a claim belongs to it."""


def _one_of(*claims: Claim) -> Callable[[Record], bool]:
    """Whether a record is that of one of these claims, as a function of the record."""
    ids = {claim.id for claim in claims}
    return lambda record: record.id in ids


MECHANISM = (
    TOKEN_SEQS_FIGURE, ATTENTION_FIGURE, COSINE_SIM_FIGURE, PROBES_FIGURE, PREACTS_FIGURE, FOURIER_SHARES_FIGURE,
    QK0_FIGURE, QK0POS_AND_QK1_FIGURE,
)  # fmt: skip
CAUSES = (CIRCUIT_FIGURE, INTERCHANGE_FIGURE, CIRCUIT_ONLY_FIGURE)
DYNAMICS = (PROGRESS_MEASURES_FIGURE, EARLY_FIGURE, LATE_FIGURE)
POPULATIONS = (CENSUS_FIGURE, GENERALIZATION_FIGURE)
THEORY = (THEORY_BETA_FIGURE, THEORY_REAL_GRADIENT_FIGURE)
_CAUSAL = {claim.id for claim in CAUSAL_CLAIMS}  # one of which is about the theorem too
SECTIONS = (
    Section("The mechanism", MECHANISM, has=_one_of(*GENERALISATION, *ADDITION, *MECHANISM_CLAIMS)),
    Section("Causes", CAUSES, has=_one_of(*CAUSAL_CLAIMS)),
    Section("Training dynamics", DYNAMICS, has=_one_of(*DYNAMIC_CLAIMS)),
    Section("Populations of seeds", POPULATIONS, of_one_model=False, has=_one_of(*POPULATION)),
    Section("The theory", THEORY, has=lambda record: record.label == THEORY_LABEL and record.id not in _CAUSAL),
)


@dataclass(frozen=True)
class OwnSection(Section):
    """What a user's files add at the end: a figure that fails is a panel that says so, and the others are drawn."""

    files: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        known = {record.label for section in SECTIONS for record in section.figures}
        for record in self.figures:
            if record.label in known or not re.fullmatch(r"(?!accuracies)[A-Za-z0-9][\w-]*", record.label):
                expected = "letters, digits, - and _, and no label that the report has already"
                raise ConfigError("label", record.label, expected)
            known.add(record.label)


def own_section(files: Sequence[Path], claims: Sequence[Claim], figures: Sequence[FigureRecord]) -> OwnSection:
    """The section of these claims and figures of a user's files."""
    heading = f"From {', '.join(file.name for file in files)}"
    return OwnSection(heading, tuple(figures), has=_one_of(*claims), files=tuple(Path(file.name) for file in files))
