"""Every figure of the report, by section and in its order, and the claims that belong to each section."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assignadd.claims.addition import ADDITION
from assignadd.claims.causes import CAUSES as CAUSAL_CLAIMS
from assignadd.claims.generalisation import GENERALISATION
from assignadd.claims.ledger import DYNAMICS as DYNAMIC_CLAIMS
from assignadd.claims.mechanism import MECHANISM as MECHANISM_CLAIMS
from assignadd.claims.population import POPULATION
from assignadd.claims.record import Claim, Record
from assignadd.claims.statements import LABEL as THEORY_LABEL
from assignadd.figures.accuracies import DOUBLY_HELD_OUT_FIGURE, HELD_OUT_CLASSES_FIGURE
from assignadd.figures.answer import COSINE_SIM_FIGURE, PROBES_FIGURE
from assignadd.figures.attention import ATTENTION_FIGURE, TOKEN_SEQS_FIGURE
from assignadd.figures.binding import COMPOSITION_FIGURE, CUES_FIGURE, WITHOUT_NAMES_FIGURE
from assignadd.figures.census import CENSUS_DOUBLES_FIGURE, CENSUS_FIGURE
from assignadd.figures.circuit import CIRCUIT_FIGURE, CIRCUIT_ONLY_FIGURE
from assignadd.figures.fourier import FOURIER_SHARES_FIGURE, PREACTS_FIGURE, SPECTRA_FIGURE
from assignadd.figures.interchange import CAUSES_OVER_TIME_FIGURE, INTERCHANGE_FIGURE
from assignadd.figures.pairs_and_variables import PAIRS_FIGURE, VARIABLES_FIGURE
from assignadd.figures.progress import ONSETS_FIGURE, PROGRESS_MEASURES_FIGURE
from assignadd.figures.record import FigureRecord
from assignadd.figures.scores import QK0_FIGURE, QK0POS_AND_QK1_FIGURE
from assignadd.figures.spikes import EARLY_FIGURE, LATE_FIGURE
from assignadd.figures.sweeps import GENERALIZATION_FIGURE, SCALING_FIGURE
from assignadd.figures.theory import THEORY_ATTENTION_FIGURE, THEORY_BETA_FIGURE, THEORY_REMAINDER_FIGURE
from assignadd.figures.theory_real_gradient import THEORY_REAL_GRADIENT_FIGURE


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
CAUSES = (CIRCUIT_FIGURE, INTERCHANGE_FIGURE, CIRCUIT_ONLY_FIGURE, CAUSES_OVER_TIME_FIGURE, CUES_FIGURE)
DYNAMICS = (PROGRESS_MEASURES_FIGURE, ONSETS_FIGURE, EARLY_FIGURE, LATE_FIGURE, VARIABLES_FIGURE)
POPULATIONS = (
    CENSUS_FIGURE, CENSUS_DOUBLES_FIGURE, WITHOUT_NAMES_FIGURE, COMPOSITION_FIGURE, GENERALIZATION_FIGURE,
    SCALING_FIGURE,
)  # fmt: skip
THEORY = (THEORY_BETA_FIGURE, THEORY_REMAINDER_FIGURE, THEORY_ATTENTION_FIGURE, THEORY_REAL_GRADIENT_FIGURE)
_CAUSAL = {claim.id for claim in CAUSAL_CLAIMS}  # one of which is about the theorem too
SECTIONS = (
    Section("The mechanism", MECHANISM, has=_one_of(*GENERALISATION, *ADDITION, *MECHANISM_CLAIMS)),
    Section("Causes", CAUSES, has=_one_of(*CAUSAL_CLAIMS)),
    Section("Training dynamics", DYNAMICS, has=_one_of(*DYNAMIC_CLAIMS)),
    Section("Populations of seeds", POPULATIONS, of_one_model=False, has=_one_of(*POPULATION)),
    Section("The theory", THEORY, has=lambda record: record.label == THEORY_LABEL and record.id not in _CAUSAL),
)
