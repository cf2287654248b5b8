"""Every figure, in the order of the report."""

from __future__ import annotations

from dataclasses import dataclass

from assignadd.claims.judge import NO_POPULATION
from assignadd.claims.theory import study
from assignadd.figures.absent import Absent, or_absent
from assignadd.figures.catalogue import MECHANISM
from assignadd.figures.causes import CAUSES
from assignadd.figures.census import census_caption, census_data, draw_census
from assignadd.figures.census_doubles import census_doubles_caption, census_doubles_data, draw_census_doubles
from assignadd.figures.early import draw_early, early_caption, early_data
from assignadd.figures.generalization_combined import draw_generalization, generalization_caption, generalization_data
from assignadd.figures.kinds import Data, FigureKind, Models
from assignadd.figures.late import draw_late, late_caption, late_data
from assignadd.figures.onsets import draw_onsets, onsets_data
from assignadd.figures.progress_measures import (
    draw_progress_measures,
    progress_measures_caption,
    progress_measures_data,
)
from assignadd.figures.scaling import draw_scaling, scaling_data
from assignadd.figures.theory import (
    draw_theory_attention,
    draw_theory_beta,
    draw_theory_remainder,
    theory_attention_data,
    theory_beta_data,
    theory_remainder_data,
)
from assignadd.figures.theory_real_gradient import draw_theory_real_gradient, theory_real_gradient_data
from assignadd.figures.variables import draw_variables, variables_caption, variables_data
from assignadd.sweeps.population import Populations

DYNAMICS = (
    FigureKind(
        "progress_measures",
        "Progress measures and phases",
        progress_measures_caption,
        lambda models: progress_measures_data(models[0].trajectory, models[0].phases),
        draw_progress_measures,
        height=4.4,
    ),
    FigureKind(
        "onsets",
        "What comes when",
        "Each mark is when a curve reached its level (the number behind its name) and stayed there for 1,000 steps; it came within the "
        "line, given the noise of evaluation and the time between checkpoints. Dashes are the ends of the phases.",
        lambda models: onsets_data(models[0]),
        draw_onsets,
        height=4.9,
    ),
    FigureKind(
        "early", "Across the first spike", early_caption, lambda models: early_data(models[0]), draw_early, height=5.3
    ),
    FigureKind(
        "late", "The variable that comes last", late_caption, lambda models: late_data(models[0]), draw_late, height=4.6
    ),
    FigureKind(
        "variables",
        "Every variable in every slot",
        variables_caption,
        lambda models: variables_data(models[0].trajectory, models[0].phases, models[0].config.task),
        draw_variables,
        height=4.0,
    ),
)

SCALING = FigureKind(
    "scaling",
    "What many models cost",
    "Time of a training step per model on one NVIDIA H200, one setting changed at a time from the paper's and 128 models. From 64 "
    "models on a stack fills the device; the rise between N = 59 and 113 is that of the tiles in which the kernels work.",
    lambda _: scaling_data(),
    draw_scaling,
    height=4.2,
)


def population_figures(populations: Populations) -> tuple[FigureKind, ...]:
    """The figures about many seeds, of these populations."""
    return (
        FigureKind(
            "census",
            "A census of seeds",
            census_caption,
            lambda _: census_data(populations) if populations.seeds else Absent(NO_POPULATION),
            or_absent(draw_census),
            height=5.2,
        ),
        FigureKind(
            "census_doubles",
            "Held-out pairs in every seed",
            census_doubles_caption,
            lambda _: census_doubles_data(populations) if populations.seeds else Absent(NO_POPULATION),
            or_absent(draw_census_doubles),
            height=3.2,
        ),
        FigureKind(
            "generalization_combined",
            "How much data generalisation needs",
            generalization_caption,
            lambda _: (
                generalization_data(populations)
                if populations.two_var and populations.fraction
                else Absent(NO_POPULATION)
            ),
            or_absent(draw_generalization),
            height=3.2,
        ),
        SCALING,
    )


def _real_gradient(models: Models) -> Data:
    first = models[0]
    if first.theory_gradient is None:
        return Absent(f"seed {first.seed}: no checkpoints to hold against the theory")
    return theory_real_gradient_data(first.theory_gradient, f"{first.name}, seed {first.seed}")


THEORY = (
    FigureKind(
        "theory_beta",
        "The theorem and its step against beta",
        "The paper leaves beta free; the shaded values meet the theorem's conditions within the factor given. Above, look for where the "
        "remainder is smaller than the memory (below the line at 1), and how large the other displayed term is. Below, look for the beta "
        "at which the stated step reaches accuracy 1, and whether they are shaded. The balancing step goes along the same gradient until "
        "assignment and second operand get equal attention.",
        lambda _: theory_beta_data(study().scan),
        draw_theory_beta,
        height=3.9,
        width=6.6,
    ),
    FigureKind(
        "theory_remainder",
        "The theorem's remainder",
        "At beta = log T. Left, every setting of the grid: does the remainder stay below a constant times the bound, and what does it "
        "follow? Right, where the remainder is smaller than the memory it is a remainder of; the star is the paper's own experiment.",
        lambda _: theory_remainder_data(study().grid, study().at),
        draw_theory_remainder,
        height=3.5,
        width=6.6,
    ),
    FigureKind(
        "theory_attention",
        "What one gradient step leads to at beta = log T",
        "(a) Which step lengths add n + m (shaded), and whether the stated one is among them. (b) Accuracy with several assignments in "
        "context, after steps of different length. (c) What further steps do to the memory and to the spurious term, on data with several "
        "assignments and with one.",
        lambda _: theory_attention_data(study().step),
        draw_theory_attention,
        height=2.5,
        width=7.0,
    ),
    FigureKind(
        "theory_real_gradient",
        "The theory's direction in real training",
        "Cosine of the real gradient, and of the real change of QK2, with the direction that the theorem predicts. Look before the first "
        "spike: is it above the band of permuted variables, and how far from 1?",
        _real_gradient,
        or_absent(draw_theory_real_gradient),
        height=4.4,
    ),
)


@dataclass(frozen=True)
class Section:
    heading: str
    kinds: tuple[FigureKind, ...]
    of_one_model: bool
    """Whether its figures show one trained network, or things that no run of the user's goes into."""


def sections(populations: Populations) -> tuple[Section, ...]:
    """The report's figures; those about many seeds are of these populations."""
    return (
        Section("The mechanism", MECHANISM, True),
        Section("Causes", CAUSES, True),
        Section("Training dynamics", DYNAMICS, True),
        Section("Populations of seeds", population_figures(populations), False),
        Section("The theory", THEORY, True),
    )
