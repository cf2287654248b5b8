"""Every figure of the report, in its order; those of many seeds and of the theory are defined here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assignadd.claims.addition import ADDITION
from assignadd.claims.alignment import ALIGNMENT
from assignadd.claims.causes import CAUSES as CAUSAL_CLAIMS
from assignadd.claims.composition import COMPOSITION
from assignadd.claims.cues import CUES
from assignadd.claims.generalisation import GENERALISATION
from assignadd.claims.ledger import DYNAMICS as DYNAMIC_CLAIMS
from assignadd.claims.mechanism import MECHANISM as MECHANISM_CLAIMS
from assignadd.claims.nameless import STUCK, STUCK_SEEDS
from assignadd.claims.operand_attention import OPERAND_ATTENTION
from assignadd.claims.population import POPULATION
from assignadd.claims.record import NO_POPULATION, Claim, Record
from assignadd.claims.studies import of_a_study
from assignadd.claims.theory import LABEL as THEORY_LABEL
from assignadd.claims.theory import PAPER_THEORY as PAPER
from assignadd.figures import census, sweeps, theory
from assignadd.figures.nameless import NAMELESS_FIGURES
from assignadd.figures.record import Absent, FigureRecord
from assignadd.figures.studies import STUDY_FIGURES
from assignadd.figures.theory_real_gradient import (
    draw_theory_real_gradient,
    real_gradient_of,
    theory_real_gradient_caption,
)
from assignadd.figures.trained_networks import ACCURACIES as ACCURACIES
from assignadd.figures.trained_networks import CAUSES, DYNAMICS, MECHANISM


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


POPULATIONS = (
    FigureRecord(
        "census", "A census of seeds",
        "(a) How many seeds learn each skill. (b) When each seed learned it. (c) The accuracies at the end. (d) "
        "Which variable comes last, in the seeds that bind and in which one comes after the first spike.",
        lambda s: census.census_data(s.populations) if s.populations.seeds else Absent(NO_POPULATION),
        census.draw_census, height=5.2, width=7.2, found=census.census_caption,
    ),
    FigureRecord(
        "census_doubles", "Held-out pairs in every seed",
        "Every dot is a seed at the end of training, every tick the median of its group. Look for the class of "
        "held-out pairs on which the two groups differ most in sums of literals, which need no binding.",
        lambda s: census.census_doubles_data(s.populations) if s.populations.seeds else Absent(NO_POPULATION),
        census.draw_census_doubles, height=3.2, found=census.census_doubles_caption,
    ),
    *NAMELESS_FIGURES,
    FigureRecord(
        "generalization_combined", "How much data generalisation needs",
        "Test accuracy against the share of pairs and of two-variable sequences in training. Every dot is a network. "
        "Lines are medians over seeds; the dashed ones show the parts of the two-variable test. The vertical line is "
        "where half of the seeds that can succeed do, among those that bind, with its interval.",
        lambda s: sweeps.generalization_data(s.populations) if s.populations.two_var and s.populations.fraction
        else Absent(NO_POPULATION), sweeps.draw_generalization, height=3.2, found=sweeps.generalization_caption,
    ),
    FigureRecord(
        "scaling", "What many models cost",
        "Time of a training step per model on one NVIDIA H200, with one setting changed at a time from the paper's "
        "and 128 models.",
        lambda _: sweeps.scaling_data(), sweeps.draw_scaling, height=4.2, found=sweeps.scaling_caption,
    ),
)  # fmt: skip
THEORY = (
    FigureRecord(
        "theory_beta", "The theorem and its step against beta",
        "The paper leaves beta free; the shaded values meet the theorem's conditions within the factor given. Above, "
        "look for where the remainder is smaller than the memory (below the line at 1), and how large the other "
        "displayed term is. Below, look for the beta at which the stated step reaches accuracy 1, and whether they "
        "are shaded. The balancing step goes along the same gradient until assignment and second operand get equal "
        "attention.",
        lambda _: theory.theory_beta_data(PAPER.study.scan), theory.draw_theory_beta, height=3.9, width=6.6,
    ),
    FigureRecord(
        "theory_remainder", "The theorem's remainder",
        "At beta = log T. Left, every setting of the grid: does the remainder stay below a constant times the bound, "
        "and what does it follow? Right, where the remainder is smaller than the memory; the star is the paper's own "
        "experiment.",
        lambda _: theory.theory_remainder_data(PAPER.study.grid, PAPER.study.at), theory.draw_theory_remainder,
        height=3.5, width=6.6,
    ),
    FigureRecord(
        "theory_attention", "What one gradient step leads to at beta = log T",
        "(a) Which step lengths add n + m (shaded), and whether the stated one is among them. (b) Accuracy with "
        "several assignments in context, after steps of different length. (c) What further steps do to the memory "
        "and to the spurious term, on data with several assignments and with one.",
        lambda _: theory.theory_attention_data(PAPER.study.step), theory.draw_theory_attention, height=2.5, width=7.0,
    ),
    FigureRecord(
        "theory_real_gradient", "The theory's direction in real training",
        "Cosine of the real gradient, and of the real change of QK2, with the direction that the theorem predicts. "
        "Look before the first spike: is it above the band of permuted variables, and how far from 1?",
        lambda s: real_gradient_of(s.model), draw_theory_real_gradient, height=4.4, found=theory_real_gradient_caption,
    ),
)  # fmt: skip
SECTIONS = (
    Section("The mechanism", MECHANISM, has=_one_of(*GENERALISATION, *ADDITION, *MECHANISM_CLAIMS)),
    Section("Causes", CAUSES, has=_one_of(*OPERAND_ATTENTION, *CAUSAL_CLAIMS, *ALIGNMENT, *CUES, *STUCK)),
    Section("Training dynamics", DYNAMICS, has=_one_of(*DYNAMIC_CLAIMS)),
    Section(
        "Populations of seeds", POPULATIONS, of_one_model=False, has=_one_of(*POPULATION, *COMPOSITION, *STUCK_SEEDS)
    ),
    *([Section("Studies of ours", STUDY_FIGURES, of_one_model=False, has=of_a_study)] if STUDY_FIGURES else []),
    Section("The theory", THEORY, has=lambda record: record.label == THEORY_LABEL),
)
