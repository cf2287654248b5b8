"""Every figure of the report, in its order: title, what to look for, data and drawing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from assignadd.claims.evidence import Evidence
from assignadd.claims.record import NO_POPULATION
from assignadd.claims.theory import PAPER_THEORY as PAPER
from assignadd.figures import (
    accuracies,
    answer,
    attention,
    census,
    circuit,
    first_spike,
    fourier,
    interchange,
    late_variable,
    pairs,
    progress,
    scores,
    sweeps,
    theory,
    variables,
)
from assignadd.figures.cues import CUES_FIGURE
from assignadd.figures.nameless import NAMELESS_FIGURES
from assignadd.figures.record import Absent, Data, FigureRecord, on_axes
from assignadd.figures.studies import STUDY_FIGURES
from assignadd.figures.theory_real_gradient import draw_theory_real_gradient, real_gradient_of
from assignadd.measures.fourier import context_preactivations


@dataclass(frozen=True)
class Section:
    heading: str
    figures: tuple[FigureRecord, ...]
    of_one_model: bool = True
    """Whether its figures show one trained network, and not many seeds."""


def _preactivations(model: Evidence) -> Tensor:
    return context_preactivations(model.stack, [model.config], model.seen[None])


def _held_out(data: Callable[..., Data], models: list[Evidence]) -> Data:
    return data([m.seed for m in models], [m.accuracies for m in models], [m.learned_binding for m in models])


ACCURACIES = FigureRecord(
    "accuracies", "Accuracies by evaluation set",
    "Sums of literals (blue) are learned first, sums with variables later and in jumps. Colour is the number of "
    "variables in the sum; dashed lines are pairs held out from training, dotted lines are variables in slots where "
    "training never put them.",
    lambda s: accuracies.accuracies_data(s.model.rows), on_axes(accuracies.draw_accuracies), height=3.2, width=6.4,
)  # fmt: skip
MECHANISM = (
    FigureRecord(
        "token-seqs", "Sequences as the network reads them",
        "Assignments (a variable, then its number) may stand anywhere between padding; then follow `+` and the two "
        "operands. The network never sees the answer, on a blue background.",
        lambda s: attention.token_seqs_data(s.model.config.task), on_axes(attention.draw_token_seqs), height=1.05,
    ),
    FigureRecord(
        "attention", "Attention patterns on one sequence",
        "The boxed cells should be the darkest of their rows. In layer 1 each assigned number attends to the "
        "variable before it (red) and `=` to the two operands (orange); in the last layer `=` attends to the two "
        "numbers to be added (yellow). Of several heads, the one that attends most to the boxed cells is shown.",
        lambda s: attention.attention_data(s.model.stack), attention.draw_attention, height=3.1,
    ),
    FigureRecord(
        "cosine_sim_combined", "One representation for literals and variables",
        "(a) Sequences of different type have nearly the same vector at `=` when they add the same two numbers (blue "
        "near 1), and unrelated vectors when they do not. (b) That vector is nearly OV2(a) + OV2(b) of the two "
        "numbers; with one of them taken from another sequence about half of it is left, with both nothing.",
        lambda s: answer.cosine_sim_of(s.model), answer.draw_cosine_sim, height=3.6, width=6.4,
        found=answer.cosine_sim_caption,
    ),
    FigureRecord(
        "probes", "Where the answer can be read",
        "If the MLP does the addition, a linear probe for the sum is at chance everywhere before its activation "
        "function and nearly perfect after it. Diamonds are the same probes with shuffled labels: chance.",
        lambda s: answer.probes_data(s.model.probes, s.model.config.task.modulus), on_axes(answer.draw_probes),
        height=2.6,
    ),
    FigureRecord(
        "preacts", "The neuron that is most nearly a Fourier feature",
        "The preactivation over all pairs of operands (left, mean over contexts as in training) should look like a "
        "sum of two cosines of one frequency (right, same colours). This is the best neuron; the next figure has all "
        "of them.",
        lambda s: fourier.preacts_data(_preactivations(s.model), s.model.waves), fourier.draw_preacts, height=2.7,
    ),
    FigureRecord(
        "fourier_shares", "All neurons as Fourier features",
        "Above, the power of all preactivations lies on a few frequencies. Below, each dot is a neuron: its height "
        "is the share of its variance that a wave of one frequency explains. Many are such waves, but by no means "
        "all.",
        lambda s: fourier.fourier_shares_data(s.model.stack, s.model.waves), fourier.draw_fourier_shares, height=3.6,
    ),
    FigureRecord(
        "spectra", "Frequencies of the input and of the output",
        "The frequencies that the neurons use (blue) should also carry the embedding of the numbers, above, and the "
        "effect of each neuron on the logits of the answers, below. Random weights give every frequency an equal "
        "share (dashed line).",
        lambda s: fourier.spectra_data(s.model.stack), fourier.draw_spectra, height=2.9,
    ),
    FigureRecord(
        "qk0", "Layer-1 scores between all embeddings",
        "Green blocks in the purple and orange outlines mean that numbers, and the positions before +, attend to "
        "variables. Within the red outline, below its diagonal, scores grow to the right. The black outline is how "
        "much `=` attends to the operand slots.",
        lambda s: scores.qk0_data(s.model.stack), scores.draw_qk0, height=5.3,
    ),
    FigureRecord(
        "qk0pos_and_qk1", "Previous-token head and variable matching",
        "(a) Without what cannot be a variable (hatched: the number itself and two back), the highest score of each "
        "row (red box) should be one step left of the diagonal. (b) A dark green diagonal means that each variable "
        "finds itself alone.",
        lambda s: scores.qk0pos_and_qk1_data(s.model.stack), scores.draw_qk0pos_and_qk1, height=3.4,
    ),
    FigureRecord(
        "pairs", "Every pair of numbers",
        "Look for the dark cells: are they on the diagonal (doubles n + n), in outlined cells (held-out pairs), or "
        "anywhere?",
        lambda s: pairs.pairs_data(s.model.pair_accuracy, s.model.seen), pairs.draw_pairs, height=5.3,
        found=pairs.pairs_caption,
    ),
    FigureRecord(
        "held_out_classes", "Three classes of held-out pairs",
        "Look for the class of held-out pairs whose accuracy is below that of the seen pairs. Each dot is a network, "
        "hollow if it has not learned to bind variables. Intervals are over sequences for seen pairs and over pairs "
        "for the classes of held-out pairs.",
        lambda s: _held_out(accuracies.held_out_classes_data, list(s.models)), accuracies.draw_held_out_classes,
        height=2.8, found=accuracies.held_out_classes_caption,
    ),
    FigureRecord(
        "doubly_held_out", "Held out twice: the pair and the slot",
        "Red is a held-out pair whose variables also stand in banned slots. If the two skills combine, its accuracy "
        "is not far below blue (only the pair is new) and orange (only the slot is new). Networks that have not "
        "learned to bind variables are left out if any has.",
        lambda s: _held_out(
            accuracies.doubly_held_out_data, [m for m in s.models if m.learned_binding] or list(s.models)
        ), on_axes(accuracies.draw_doubly_held_out), height=3.2, width=6.4,
    ),
)  # fmt: skip
CAUSES = (
    FigureRecord(
        "circuit", "The whole circuit, path by path",
        "How much accuracy on sums with one variable is lost when a single path carries its mean over tokens of the "
        "same role. The wider an arrow, the more is lost; effects below .03 are not drawn, and boxes without a drawn "
        "path are pale.",
        lambda s: circuit.circuit_data(s.model.causal.paths, s.model.causal.direct_logits),
        on_axes(circuit.draw_circuit), height=4.4, width=7.0,
    ),
    FigureRecord(
        "interchange", "Where the program's variables are held",
        "(a) An activation is taken from another prompt: the share of pairs of prompts whose answer becomes what the "
        "program says, 1 where the activation holds the variable, about 0 where it does not (the controls). `query "
        "and tag` also exchanges layer 1's output at the second operand slot. (b) to (d) By the numbers of variables "
        "in both prompts: off the diagonal, operands of one kind replace operands of another.",
        lambda s: interchange.interchange_data(s.model.causal.interchange, s.model.causal.untrained),
        interchange.draw_interchange, height=4.8, width=6.4,
    ),
    FigureRecord(
        "circuit_only", "The circuit alone",
        "Accuracy with the parts of section 5 and nothing else, and with blocks of QK2 added that find literal "
        "operands: those of section 7, requested by the last position alone or by the token `=` and its position "
        "(=), and what numbers that layer 1 copies into `=` request. Below, with one circuit reduced to its named "
        "part, and with one part removed. A pale cell in the first two groups lacks something that the network uses; "
        "a dark row in the last group is a part that it can do without.",
        lambda s: circuit.circuit_only_data(s.model.causal.circuit_alone), on_axes(circuit.draw_circuit_only),
        height=6.6, width=6.4,
    ),
    FigureRecord(
        "causes_over_time", "When the causes appear",
        "Interchange accuracies (above) and the paper's measures in the same colours (below). A measure that rises "
        "before its cause reads something that the network does not use yet.",
        lambda s: interchange.causes_over_time_data(s.model.causal.over_time, s.model.trajectory, s.model.phases),
        interchange.draw_causes_over_time, height=4.4, width=6.4,
    ),
    CUES_FIGURE,
)  # fmt: skip
DYNAMICS = (
    FigureRecord(
        "progress_measures", "Progress measures and phases",
        "Above, measures of adding and of copying a variable into its number; below, of routing. Look whether those "
        "above are complete before those below rise, and whether that rise is a jump at (a). Thin lines are "
        "other layers and variants: without the two rows that cannot fail, and a probe trained for only four steps, "
        "whose rise is partly the probe's own.",
        lambda s: progress.progress_measures_data(s.model.trajectory, s.model.phases), progress.draw_progress_measures,
        height=4.4, found=progress.progress_measures_caption,
    ),
    FigureRecord(
        "onsets", "What is learned when",
        "Each mark is when a curve reached its level (the number after its name) and stayed there for 1,000 steps; "
        "the line is what the noise of evaluation and the time between checkpoints leave open. Dashed lines are the "
        "ends of the phases.",
        lambda s: progress.onsets_data(s.model), progress.draw_onsets, height=4.9, width=6.4,
    ),
    FigureRecord(
        "early", "Across the first spike",
        "Above, the boxed cells are layer 1's attention from `=` to the two operands. Below, a dark diagonal means "
        "that each variable finds itself; `match` counts variables whose best score is with themselves.",
        lambda s: first_spike.early_data(s.model), first_spike.draw_early, height=5.3, found=first_spike.early_caption,
    ),
    FigureRecord(
        "late", "The variable that comes last",
        "The orange curve is the last variable that the network learned to look up, in its slot. Look whether the "
        "score of `=` for it is lower than for the others (a), whether the term of the QK2 score with its value is "
        "negative (d), and whether both rise before or with its accuracy (b).",
        lambda s: late_variable.late_data(s.model), late_variable.draw_late, height=4.6,
        found=late_variable.late_caption,
    ),
    FigureRecord(
        "variables", "Every variable in every slot",
        "Each row is a variable in a slot. A light bar that continues after (a) is a variable not yet looked up "
        "there; a red cross marks a variable that training never put in that slot.",
        lambda s: variables.variables_data(s.model.trajectory, s.model.phases, s.model.config.task),
        variables.draw_variables, height=4.0, found=variables.variables_caption,
    ),
)  # fmt: skip
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
        "and 128 models. From 64 models on a stack uses the whole device; the rise between N = 59 and 113 comes from "
        "the tiles of the kernels.",
        lambda _: sweeps.scaling_data(), sweeps.draw_scaling, height=4.2,
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
        lambda s: real_gradient_of(s.model), draw_theory_real_gradient, height=4.4,
    ),
)  # fmt: skip
SECTIONS = (
    Section("The mechanism", MECHANISM),
    Section("Causes", CAUSES),
    Section("Training dynamics", DYNAMICS),
    Section("Populations of seeds", POPULATIONS, of_one_model=False),
    *([Section("Studies of ours", STUDY_FIGURES, of_one_model=False)] if STUDY_FIGURES else []),
    Section("The theory", THEORY),
)  # fmt: skip
