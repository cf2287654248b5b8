"""The figures of the trained network: accuracies, and the mechanism behind them (paper, sections 4 and 5)."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from assignadd.claims.evidence import Evidence
from assignadd.figures.accuracies import accuracies_data, draw_accuracies
from assignadd.figures.arrays import FigureData
from assignadd.figures.attention import attention_data, draw_attention
from assignadd.figures.cosine_sim import cosine_sim_data, draw_cosine_sim
from assignadd.figures.held_out import (
    doubly_held_out_data,
    draw_doubly_held_out,
    draw_held_out_classes,
    held_out_classes_caption,
    held_out_classes_data,
)
from assignadd.figures.kinds import FigureKind, Models, on_axes
from assignadd.figures.pairs import draw_pairs, pairs_caption, pairs_data
from assignadd.figures.preacts import draw_fourier_shares, draw_preacts, fourier_shares_data, preacts_data
from assignadd.figures.probes import draw_probes, probes_data
from assignadd.figures.qk0 import draw_qk0, qk0_data
from assignadd.figures.qk0pos_and_qk1 import draw_qk0pos_and_qk1, qk0pos_and_qk1_data
from assignadd.figures.spectra import draw_spectra, spectra_data
from assignadd.figures.token_seqs import draw_token_seqs, token_seqs_data
from assignadd.measures.fourier import context_preactivations


def _of_each(data: Callable[..., FigureData]) -> Callable[[Models], FigureData]:
    return lambda models: data(
        [m.seed for m in models], [m.accuracies for m in models], [m.learned_binding for m in models]
    )


def _preactivations(model: Evidence) -> Tensor:
    return context_preactivations(model.stack, [model.config], model.seen[None])


ACCURACIES = FigureKind(
    "accuracies",
    "Accuracies by evaluation set",
    "Sums of literals (blue) are learned first, sums with variables later and in jumps. Colour is the number of variables in the sum; "
    "dashes are sums held out from training, dots are variables in slots where training never put them.",
    lambda models: accuracies_data(models[0].rows),
    on_axes(draw_accuracies),
    height=3.2,
)
MECHANISM: tuple[FigureKind, ...] = (
    FigureKind(
        "token-seqs",
        "Sequences as the network reads them",
        "Assignments (a variable, then its number) stand anywhere between padding; then come `+` and the two operands. The network never "
        "sees the tinted answer.",
        lambda models: token_seqs_data(models[0].config.task),
        on_axes(draw_token_seqs),
        height=1.05,
    ),
    FigureKind(
        "attention",
        "Attention patterns on one sequence",
        "The boxed cells should be the dark ones of their rows. In layer 1 each assigned number looks at the variable before it (red) and "
        "`=` at the two operands (orange); in layer 2 `=` looks at the two numbers to be added (yellow).",
        lambda models: attention_data(models[0].stack),
        draw_attention,
        height=3.1,
    ),
    FigureKind(
        "cosine_sim_combined",
        "One representation for literals and variables",
        "(a) Sequences of different type hold nearly the same vector at `=` when they add the same two numbers (blue near 1), and "
        "unrelated ones when they do not. (b) That vector is nearly OV2(a) + OV2(b) of the two numbers; with one of them taken from "
        "another sequence about half of it is left, with both nothing.",
        lambda models: cosine_sim_data(models[0].across_types, models[0].on_template, models[0].against_ov2),
        draw_cosine_sim,
        height=3.6,
    ),
    FigureKind(
        "probes",
        "Where the answer can be read off",
        "A linear probe for the sum is at chance everywhere before the ReLU and nearly perfect behind it: the MLP does the addition. "
        "Diamonds are the same probes with shuffled labels, which must stay at chance.",
        lambda models: probes_data(models[0].probes, models[0].config.task.modulus),
        on_axes(draw_probes),
        height=2.6,
    ),
    FigureKind(
        "preacts",
        "The neuron that is most nearly a Fourier feature",
        "The preactivation over all pairs of operands (left, mean over contexts of the training law) should look like a sum of two cosines "
        "of one frequency (right, same colours). This is the best neuron; the next figure has all of them.",
        lambda models: preacts_data(_preactivations(models[0]), models[0].waves),
        draw_preacts,
        height=2.7,
    ),
    FigureKind(
        "fourier_shares",
        "All neurons as Fourier features",
        "Above, the power of all preactivations lies on a few frequencies. Below, each dot is a neuron: its height is how much of it is a "
        "wave of one frequency. Many are, but by no means all.",
        lambda models: fourier_shares_data(models[0].stack, models[0].waves),
        draw_fourier_shares,
        height=3.6,
    ),
    FigureKind(
        "spectra",
        "Frequencies that go in and come out",
        "The frequencies that the neurons use (blue) should also carry the embedding of the numbers, above, and what each neuron does to "
        "the logits of the answers, below. Random weights give every frequency an equal share (dashes).",
        lambda models: spectra_data(models[0].stack),
        draw_spectra,
        height=2.9,
    ),
    FigureKind(
        "qk0",
        "Layer-1 scores between all embeddings",
        "Green blocks in the purple and orange outlines mean that numbers, and the positions before +, look for variables. Within the red "
        "outline, below its diagonal, scores grow to the right. The black outline is how much `=` looks for the operand slots.",
        lambda models: qk0_data(models[0].stack),
        draw_qk0,
        height=5.3,
    ),
    FigureKind(
        "qk0pos_and_qk1",
        "Previous-token head and variable matching",
        "(a) With what cannot be a variable left out (hatched: the number itself and two back), each row's highest score (red box) should "
        "be one step left of the diagonal. (b) A dark green diagonal means that each variable finds itself and no other.",
        lambda models: qk0pos_and_qk1_data(models[0].stack),
        draw_qk0pos_and_qk1,
        height=3.4,
    ),
    FigureKind(
        "pairs",
        "Every pair of numbers",
        pairs_caption,
        lambda models: pairs_data(models[0].pair_accuracy, models[0].seen),
        draw_pairs,
        height=5.3,
    ),
    FigureKind(
        "held_out_classes",
        "Three classes of held-out pairs",
        held_out_classes_caption,
        _of_each(held_out_classes_data),
        draw_held_out_classes,
        height=2.8,
    ),
    FigureKind(
        "doubly_held_out",
        "Held out twice: the pair and the slot",
        "Red is a held-out sum whose variables also stand in banned slots. If the two skills compose, it does not fall far behind blue "
        "(only the sum is new) and orange (only the slot is new). Networks that have not learned to bind variables are left out if any "
        "has.",
        lambda models: _of_each(doubly_held_out_data)([m for m in models if m.learned_binding] or models),
        on_axes(draw_doubly_held_out),
        height=3.2,
    ),
)
