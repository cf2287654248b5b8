"""Figure `attention`: where both layers look in one sequence, with boxes where the mechanism says they should."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assignadd.figures.arrays import FigureData
from assignadd.figures.heat import bar, box_legend, cells, draw_heat, name_ticks
from assignadd.model.stack import Stack
from assignadd.model.transformer import Transformer
from assignadd.palette import GRID, ORANGE, RED, SHARES, YELLOW
from assignadd.task import examples
from assignadd.task.roles import operand_slots, roles


@dataclass(frozen=True)
class AttentionData(FigureData):
    tokens: list[str]
    patterns: np.ndarray  # (2, T, T): layer, query, key; NaN where the key is ahead of the query
    to_operands: np.ndarray  # (T, T): the expected edges, layer 1
    to_previous: np.ndarray
    to_values: np.ndarray  # layer 2


@torch.no_grad()
def attention_data(stack: Stack, text: str = examples.ATTENTION) -> AttentionData:
    """Of the first model and its first head, on the paper's sequence or its like."""
    task = stack.config.task
    sequence = examples.fitted(text, task)
    if sequence is None:
        raise ValueError(f"{text!r} does not fit this task")
    tokens = torch.tensor(sequence)
    hooks = [f"blocks.{layer}.attn.hook_pattern" for layer in (0, 1)]
    cache = Transformer.from_stack(stack, 0).run_with_cache(tokens[None].to(stack.flat.device), names_filter=hooks)[1]
    patterns = np.stack([cache[hook][0, 0].cpu().numpy() for hook in hooks])  # (2, T, T)
    patterns[:, *np.triu_indices(len(tokens), 1)] = np.nan
    role = roles(task, tokens[:, None])
    numbers = role.assigned[:, 0].nonzero()[:, 0].tolist()
    return AttentionData(
        examples.names(sequence, task),
        patterns,
        _edges(len(tokens), [(-1, slot) for slot in operand_slots(task)]),
        _edges(len(tokens), [(number, number - 1) for number in numbers]),
        _edges(len(tokens), [(-1, value) for value in role.value_positions[:, 0].tolist()]),
    )


def _edges(T: int, pairs: list[tuple[int, int]]) -> np.ndarray:
    edges = np.zeros((T, T), dtype=bool)
    for query, key in pairs:
        edges[query, key] = True
    return edges


def draw_attention(data: AttentionData, made: Figure) -> None:
    axes = made.subplots(1, 2, sharey=True)
    for layer, (ax, pattern) in enumerate(zip(axes, data.patterns, strict=True), 1):
        image = draw_heat(ax, pattern, SHARES, (0, 1))
        _frame(ax, data.tokens)
        ax.set_title(f"layer {layer}")
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


def _frame(ax: Axes, tokens: list[str]) -> None:
    """Tokens along both axes, faint lines between cells."""
    name_ticks(ax, tokens, tokens)
    ax.tick_params(axis="x", rotation=90)
    edges = np.arange(len(tokens) + 1) - 0.5
    ax.set_xticks(edges, minor=True)
    ax.set_yticks(edges, minor=True)
    ax.grid(True, which="minor", color=GRID, linewidth=0.4)
    ax.tick_params(which="minor", length=0)
    ax.set_aspect("equal")
