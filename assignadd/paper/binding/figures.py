"""Figures `token-seqs` and `attention`: sequences as the network reads them, and where both layers attend in one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from assignadd.config import Task
from assignadd.figure.record import FigureData, FigureRecord, on_axes
from assignadd.figure.style import SMALLEST, bar, box_legend, cells, draw_heat, name_ticks
from assignadd.model.architecture import SECOND_LAYER, needs
from assignadd.model.stack import Stack
from assignadd.model.transformer import Transformer
from assignadd.palette import ANSWER, GREY, GRID, INK, ORANGE, RED, SHARES, YELLOW
from assignadd.task import examples
from assignadd.task.positions import operand_slots, roles
from assignadd.task.text import answer


@dataclass(frozen=True)
class TokenSeqsData(FigureData):
    tokens: np.ndarray  # (rows, T) words
    answers: np.ndarray  # (rows,)


def token_seqs_data(task: Task) -> TokenSeqsData:
    fitted = [examples.fitted(text, task) for text in examples.TOKEN_SEQS]
    rows = [tokens for tokens in fitted if tokens is not None]
    return TokenSeqsData(
        np.array([examples.names(row, task) for row in rows]), np.array([answer(row, task) for row in rows])
    )


def draw_token_seqs(data: TokenSeqsData, axes: Axes) -> None:
    rows, T = data.tokens.shape
    for y, (words, result) in enumerate(zip(data.tokens, data.answers, strict=True)):
        for x, word in enumerate([*words, str(result)]):
            tint = ANSWER if x == T else "white"
            axes.add_patch(Rectangle((x, 1.25 * y), 1, 1, facecolor=tint, edgecolor=INK, linewidth=0.6))
            soft, size = word == "PAD", SMALLEST if word == "PAD" else 8.5
            axes.text(
                x + 0.5, 1.25 * y + 0.52, word, ha="center", va="center", fontsize=size, color=GREY if soft else INK
            )
    axes.set(xlim=(-0.05, T + 1.05), ylim=(1.25 * rows - 0.2, -0.05), xticks=np.arange(T + 1) + 0.5, yticks=[])
    axes.set_xticklabels([*map(str, range(T)), "answer"], fontsize=SMALLEST, color=INK)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=1)
    axes.grid(False)
    axes.spines[:].set_visible(False)


@dataclass(frozen=True)
class AttentionData(FigureData):
    tokens: list[str]
    titles: list[str]
    patterns: np.ndarray  # (2, T, T): layer 1 or the last, query, key; NaN where the key is ahead of the query
    to_operands: np.ndarray  # (T, T): the expected edges, layer 1
    to_previous: np.ndarray
    to_values: np.ndarray  # the last layer


@needs(SECOND_LAYER)
@torch.no_grad()
def attention_data(stack: Stack, text: str = examples.ATTENTION) -> AttentionData:
    """Attention of the first model in layer 1 and in the last layer, on the paper's sequence or a similar one.

    Of several heads, the one with the most attention on the expected edges.
    """
    task, model = stack.config.task, stack.config.model
    sequence = examples.fitted(text, task)
    if sequence is None:
        raise ValueError(f"{text!r} does not fit this task")
    tokens = torch.tensor(sequence)
    hooks = [f"blocks.{layer}.attn.hook_pattern" for layer in (0, model.n_layers - 1)]
    cache = Transformer.from_stack(stack, 0).run_with_cache(tokens[None].to(stack.flat.device), names_filter=hooks)[1]
    role = roles(task, tokens[None])
    numbers = role.assigned[0].nonzero()[:, 0].tolist()
    to_operands = _cells_of(len(tokens), [(-1, slot) for slot in operand_slots(task)])
    to_previous = _cells_of(len(tokens), [(number, number - 1) for number in numbers])
    to_values = _cells_of(len(tokens), [(-1, value) for value in role.value_positions[0].tolist()])
    titles, patterns = [], []
    for layer, hook, edges in zip((1, model.n_layers), hooks, (to_operands | to_previous, to_values), strict=True):
        heads = cache[hook][0].cpu().numpy()  # (heads, T, T)
        best = int((heads * edges).sum((1, 2)).argmax())
        titles.append(f"layer {layer}" + (f", head {best}" if model.n_heads > 1 else ""))
        patterns.append(heads[best])
    shown = np.stack(patterns)
    shown[:, *np.triu_indices(len(tokens), 1)] = np.nan
    return AttentionData(examples.names(sequence, task), titles, shown, to_operands, to_previous, to_values)


def attention_caption(data: AttentionData) -> str:
    """How many of the boxed cells are the darkest of their rows, and the weights of the cells in the row of `=`."""
    (first, last), parts = data.patterns, []
    numbers = np.argwhere(data.to_previous)
    darkest = sum(int(np.nanargmax(first[query]) == key) for query, key in numbers)
    parts.append(f"{darkest} of {len(numbers)} assigned numbers attend most to the variable before them")
    for title, pattern, edges in ((data.titles[0], first, data.to_operands), (data.titles[1], last, data.to_values)):
        weights = " and ".join(f"{pattern[-1, key]:.2f}" for key in np.flatnonzero(edges[-1]))
        best = int(np.where(edges[-1], -np.inf, pattern[-1]).argmax())
        most = f"at most {pattern[-1, best]:.2f} (to {data.tokens[best]}) elsewhere"
        parts.append(f"in {title} `=` gives its boxed cells {weights}, and {most}")
    return f"Here {'; '.join(parts)}."


def _cells_of(T: int, pairs: list[tuple[int, int]]) -> np.ndarray:
    edges = np.zeros((T, T), dtype=bool)
    for query, key in pairs:
        edges[query, key] = True
    return edges


def draw_attention(data: AttentionData, made: Figure) -> None:
    axes = made.subplots(1, 2, sharey=True)
    for title, ax, pattern in zip(data.titles, axes, data.patterns, strict=True):
        image = draw_heat(ax, pattern, SHARES, (0, 1))
        _name_tokens(ax, data.tokens)
        ax.set_title(title)
        ax.set_xlabel("attended to (key)")
    axes[0].set_ylabel("attending (query)")
    for ax, edges, color in (
        (axes[0], data.to_operands, ORANGE),
        (axes[0], data.to_previous, RED),
        (axes[1], data.to_values, YELLOW),
    ):
        cells(ax, edges, color)
    bar(image, list(axes), "attention")
    box_legend(made, ((ORANGE, "= to operands"), (RED, "number to its variable"), (YELLOW, "= to values")), columns=3)


def _name_tokens(ax: Axes, tokens: list[str]) -> None:
    """Writes the tokens along both axes and draws thin lines between cells."""
    name_ticks(ax, tokens, tokens)
    ax.tick_params(axis="x", rotation=90)
    edges = np.arange(len(tokens) + 1) - 0.5
    ax.set_xticks(edges, minor=True)
    ax.set_yticks(edges, minor=True)
    ax.grid(True, which="minor", color=GRID, linewidth=0.4)
    ax.tick_params(which="minor", length=0)
    ax.set_aspect("equal")


TOKEN_SEQS_FIGURE = FigureRecord(
    "token-seqs", "Sequences as the network reads them",
    "Assignments (a variable, then its number) may stand anywhere between padding; then follow `+` and the two "
    "operands. The network never sees the answer, on a blue background.",
    lambda s: token_seqs_data(s.model.config.task), on_axes(draw_token_seqs), height=1.05,
)  # fmt: skip
ATTENTION_FIGURE = FigureRecord(
    "attention", "Attention patterns on one sequence",
    "Are the boxed cells the darkest of their rows? By the paper, in layer 1 each assigned number attends to the "
    "variable before it (red) and `=` to the two operands (orange); in the last layer `=` attends to the two "
    "numbers to be added (yellow). Of several heads, the one that attends most to the boxed cells is shown.",
    lambda s: attention_data(s.model.stack), draw_attention, height=3.1, found=attention_caption,
)  # fmt: skip
