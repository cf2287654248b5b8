"""The figures of trained networks: the mechanism, its causes, and training."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from assignadd.claims.evidence import Evidence
from assignadd.figures import (
    accuracies,
    answer,
    attention,
    circuit,
    first_spike,
    fourier,
    interchange,
    late_variable,
    pairs,
    progress,
    scores,
    variables,
)
from assignadd.figures.cues import CUES_FIGURE
from assignadd.figures.record import Data, FigureRecord, on_axes
from assignadd.measures.fourier import context_preactivations


def _preactivations(model: Evidence) -> Tensor:
    return context_preactivations(model.stack, [model.config], model.seen[None])


def _held_out(data: Callable[..., Data], models: list[Evidence]) -> Data:
    return data([m.seed for m in models], [m.accuracies for m in models], [m.learned_binding for m in models])


ACCURACIES = FigureRecord(
    "accuracies", "Accuracies by evaluation set",
    "Are sums of literals (blue) learned before sums with variables, and do these come in jumps? Colour is the number "
    "of variables in the sum; dashed lines are pairs held out from training, dotted lines are variables in slots "
    "where training never put them.",
    lambda s: accuracies.accuracies_data(s.model.rows), on_axes(accuracies.draw_accuracies), height=3.2, width=6.4,
    found=accuracies.accuracies_caption,
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
        "Are the boxed cells the darkest of their rows? By the paper, in layer 1 each assigned number attends to the "
        "variable before it (red) and `=` to the two operands (orange); in the last layer `=` attends to the two "
        "numbers to be added (yellow). Of several heads, the one that attends most to the boxed cells is shown.",
        lambda s: attention.attention_data(s.model.stack), attention.draw_attention, height=3.1,
        found=attention.attention_caption,
    ),
    FigureRecord(
        "cosine_sim_combined", "One representation for literals and variables",
        "(a) If literals and variables are represented alike, sequences of different type have nearly the same vector "
        "at `=` when they add the same two numbers (blue near 1), and unrelated ones when they do not. (b) If that "
        "vector is OV2(a) + OV2(b) of the two numbers, blue is near 1, about half is left with one of the numbers from "
        "another sequence, and nothing with both.",
        lambda s: answer.cosine_sim_of(s.model), answer.draw_cosine_sim, height=3.6, width=6.4,
        found=answer.cosine_sim_caption,
    ),
    FigureRecord(
        "probes", "Where the answer can be read",
        "If the MLP does the addition, a linear probe for the sum is at chance before its activation function and near "
        "1 after it. Diamonds are the same probes with shuffled labels.",
        lambda s: answer.probes_data(s.model.probes, s.model.config.task.modulus), on_axes(answer.draw_probes),
        height=2.6, found=answer.probes_caption,
    ),
    FigureRecord(
        "preacts", "The neuron that is most nearly a Fourier feature",
        "Does the preactivation over all pairs of operands (left, mean over contexts as in training) look like a sum "
        "of two cosines of one frequency (right, same colours)? This is the best neuron; the next figure has all of "
        "them.",
        lambda s: fourier.preacts_data(_preactivations(s.model), s.model.waves), fourier.draw_preacts, height=2.9,
        found=fourier.preacts_caption,
    ),
    FigureRecord(
        "fourier_shares", "All neurons as Fourier features",
        "Above, the power of all preactivations by frequency. Below, each dot is a neuron: its height is the share of "
        "its variance that a wave of one frequency explains.",
        lambda s: fourier.fourier_shares_data(s.model.stack, s.model.waves), fourier.draw_fourier_shares, height=3.6,
        found=fourier.fourier_shares_caption,
    ),
    FigureRecord(
        "spectra", "Frequencies of the input and of the output",
        "Do the frequencies that the neurons use (blue) also carry the embedding of the numbers, above, and the "
        "effect of each neuron on the logits of the answers, below? Random weights give every frequency an equal "
        "share (dashed line).",
        lambda s: fourier.spectra_data(s.model.stack), fourier.draw_spectra, height=2.9, found=fourier.spectra_caption,
    ),
    FigureRecord(
        "qk0", "Layer-1 scores between all embeddings",
        "Green blocks in the purple and orange outlines mean that numbers, and the positions before +, attend to "
        "variables. By the paper, scores within the red outline grow to the right below its diagonal. The small "
        "outline shows how much `=` attends to the operand slots.",
        lambda s: scores.qk0_data(s.model.stack), scores.draw_qk0, height=5.3, found=scores.qk0_caption,
    ),
    FigureRecord(
        "qk0pos_and_qk1", "Previous-token head and variable matching",
        "(a) Without what cannot be a variable (hatched: the number itself and two back), is the highest score of each "
        "row (red box) one step left of the diagonal? (b) A dark green diagonal means that each variable finds itself "
        "alone.",
        lambda s: scores.qk0pos_and_qk1_data(s.model.stack), scores.draw_qk0pos_and_qk1, height=3.4,
        found=scores.qk0pos_and_qk1_caption,
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
        ), on_axes(accuracies.draw_doubly_held_out), height=3.2, width=6.4, found=accuracies.doubly_held_out_caption,
    ),
)  # fmt: skip
CAUSES = (
    FigureRecord(
        "circuit", "The whole circuit, path by path",
        "How much accuracy on sums with one variable is lost when a single path carries its mean over tokens of the "
        "same role. The wider an arrow, the more is lost; effects below .03 are not drawn, and embeddings without "
        "a drawn path are pale.",
        lambda s: circuit.circuit_data(s.model.causal.paths, s.model.causal.direct_logits),
        on_axes(circuit.draw_circuit), height=4.4, width=7.0, found=circuit.circuit_caption,
    ),
    FigureRecord(
        "interchange", "Where the program's variables are held",
        "(a) An activation is taken from another prompt: the share of pairs of prompts whose answer becomes what the "
        "program says, 1 where the activation holds the variable, about 0 where it does not (the controls). `query "
        "and tag` also exchanges layer 1's output at the second operand slot. (b) to (d) By the numbers of variables "
        "in both prompts: off the diagonal, operands of one kind replace operands of another.",
        lambda s: interchange.interchange_data(s.model.causal.interchange, s.model.causal.untrained),
        interchange.draw_interchange, height=4.8, width=6.4, found=interchange.interchange_caption,
    ),
    FigureRecord(
        "circuit_only", "The circuit alone",
        "Accuracy with the parts of section 5 and nothing else, and with blocks of QK2 added that find literal "
        "operands: those of section 7, requested by the last position alone or by the token `=` and its position "
        "(=), and what numbers that layer 1 copies into `=` request. Below, with one circuit reduced to its named "
        "part, and with one part removed. A pale cell in the first two groups lacks something that the network uses; "
        "a dark row in the last group is a part that it can do without.",
        lambda s: circuit.circuit_only_data(s.model.causal.circuit_alone), on_axes(circuit.draw_circuit_only),
        height=6.6, width=6.4, found=circuit.circuit_only_caption,
    ),
    FigureRecord(
        "causes_over_time", "When the causes appear",
        "Interchange accuracies (above) and the paper's measures in the same colours (below). A measure that rises "
        "before its cause reads something that the network does not use yet.",
        lambda s: interchange.causes_over_time_data(s.model.causal.over_time, s.model.trajectory, s.model.phases),
        interchange.draw_causes_over_time, height=4.4, width=6.4, found=interchange.causes_over_time_caption,
        along_training=True,
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
        along_training=True,
    ),
    FigureRecord(
        "onsets", "What is learned when",
        "Each mark is when a curve reached its level (the number after its name) and stayed there for 1,000 steps; "
        "the line is what the noise of evaluation and the time between checkpoints leave open. Dashed lines are the "
        "ends of the phases.",
        lambda s: progress.onsets_data(s.model), progress.draw_onsets, height=4.9, width=6.4,
        found=progress.onsets_caption,
    ),
    FigureRecord(
        "early", "Across the first spike",
        "Above, the boxed cells are layer 1's attention from `=` to the two operands. Below, a dark diagonal means "
        "that each variable finds itself; `match` counts variables whose best score is with themselves.",
        lambda s: first_spike.early_data(s.model), first_spike.draw_early, height=5.3, found=first_spike.early_caption,
        along_training=True,
    ),
    FigureRecord(
        "late", "The variable that comes last",
        "The orange curve is the last variable that the network learned to look up, in its slot. Look whether the "
        "score of `=` for it is lower than for the others (a), whether the term of the QK2 score with its value is "
        "negative (d), and whether both rise before or with its accuracy (b).",
        lambda s: late_variable.late_data(s.model), late_variable.draw_late, height=4.6,
        found=late_variable.late_caption,
        along_training=True,
    ),
    FigureRecord(
        "variables", "Every variable in every slot",
        "Each row is a variable in a slot. A light bar that continues after (a) is a variable not yet looked up "
        "there; a red cross marks a variable that training never put in that slot.",
        lambda s: variables.variables_data(s.model.trajectory, s.model.phases, s.model.config.task),
        variables.draw_variables, height=4.0, found=variables.variables_caption,
        along_training=True,
    ),
)  # fmt: skip
