"""Figure `token-seqs`: sequences as the network reads them, the answer (which it does not see) behind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from assignadd.config import Task
from assignadd.figures.arrays import FigureData
from assignadd.figures.style import SMALLEST
from assignadd.palette import ANSWER, GREY, INK
from assignadd.task import examples
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
