"""Every figure of the report, by section and in its order, and the claims that belong to each section."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assignadd.figure.record import FigureRecord
from assignadd.ledger.claim import Claim, Record
from assignadd.paper.addition.claims import ADDITION
from assignadd.paper.addition.figures import (
    COSINE_SIM_FIGURE,
    FOURIER_SHARES_FIGURE,
    PREACTS_FIGURE,
    PROBES_FIGURE,
    SPECTRA_FIGURE,
)
from assignadd.paper.binding.claims import MECHANISM as MECHANISM_CLAIMS
from assignadd.paper.binding.figures import ATTENTION_FIGURE, QK0_FIGURE, QK0POS_AND_QK1_FIGURE, TOKEN_SEQS_FIGURE
from assignadd.paper.causes.claims import CAUSES as CAUSAL_CLAIMS
from assignadd.paper.causes.figures import CIRCUIT_FIGURE, CIRCUIT_ONLY_FIGURE
from assignadd.paper.causes.interchange_figures import CAUSES_OVER_TIME_FIGURE, INTERCHANGE_FIGURE
from assignadd.paper.dynamics.figures import ONSETS_FIGURE, PROGRESS_MEASURES_FIGURE, VARIABLES_FIGURE
from assignadd.paper.dynamics.spike_figures import EARLY_FIGURE, LATE_FIGURE
from assignadd.paper.generalisation.claims import GENERALISATION
from assignadd.paper.generalisation.figures import DOUBLY_HELD_OUT_FIGURE, HELD_OUT_CLASSES_FIGURE, PAIRS_FIGURE
from assignadd.paper.generalisation.population_figures import CENSUS_FIGURE, GENERALIZATION_FIGURE
from assignadd.paper.generalisation.seeds import POPULATION
from assignadd.paper.ledger import DYNAMICS as DYNAMIC_CLAIMS
from assignadd.paper.theory.claims import LABEL as THEORY_LABEL
from assignadd.paper.theory.figures import (
    THEORY_ATTENTION_FIGURE,
    THEORY_BETA_FIGURE,
    THEORY_REAL_GRADIENT_FIGURE,
    THEORY_REMAINDER_FIGURE,
)


@dataclass(frozen=True)
class Section:
    heading: str
    figures: tuple[FigureRecord, ...]
    of_one_model: bool = True
    """Whether its figures show one trained network, and not many seeds."""
    has: Callable[[Record], bool] = lambda record: False
    """Whether a line of the ledger belongs to it."""


def _one_of(*claims: Claim) -> Callable[[Record], bool]:
    ids = {claim.id for claim in claims}
    return lambda record: record.id in ids


MECHANISM = (
    TOKEN_SEQS_FIGURE, ATTENTION_FIGURE, COSINE_SIM_FIGURE, PROBES_FIGURE, PREACTS_FIGURE, FOURIER_SHARES_FIGURE,
    SPECTRA_FIGURE, QK0_FIGURE, QK0POS_AND_QK1_FIGURE, PAIRS_FIGURE, HELD_OUT_CLASSES_FIGURE, DOUBLY_HELD_OUT_FIGURE,
)  # fmt: skip
CAUSES = (CIRCUIT_FIGURE, INTERCHANGE_FIGURE, CIRCUIT_ONLY_FIGURE, CAUSES_OVER_TIME_FIGURE)
DYNAMICS = (PROGRESS_MEASURES_FIGURE, ONSETS_FIGURE, EARLY_FIGURE, LATE_FIGURE, VARIABLES_FIGURE)
POPULATIONS = (CENSUS_FIGURE, GENERALIZATION_FIGURE)
THEORY = (THEORY_BETA_FIGURE, THEORY_REMAINDER_FIGURE, THEORY_ATTENTION_FIGURE, THEORY_REAL_GRADIENT_FIGURE)
_CAUSAL = {claim.id for claim in CAUSAL_CLAIMS}  # one of which is about the theorem too
SECTIONS = (
    Section("The mechanism", MECHANISM, has=_one_of(*GENERALISATION, *ADDITION, *MECHANISM_CLAIMS)),
    Section("Causes", CAUSES, has=_one_of(*CAUSAL_CLAIMS)),
    Section("Training dynamics", DYNAMICS, has=_one_of(*DYNAMIC_CLAIMS)),
    Section("Populations of seeds", POPULATIONS, of_one_model=False, has=_one_of(*POPULATION)),
    Section("The theory", THEORY, has=lambda record: record.label == THEORY_LABEL and record.id not in _CAUSAL),
)
