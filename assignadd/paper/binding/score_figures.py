"""Figures `qk0` and `qk0pos_and_qk1`: the scores of both layers, read off the weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from assignadd.config import Task
from assignadd.config.task import LETTERS
from assignadd.figure.record import FigureData, FigureRecord
from assignadd.figure.style import SMALLEST, bar, box, box_legend, cells, draw_heat, name_ticks, thinned
from assignadd.measures.scores import EXCLUDED, admissible, qk1_positions, qk1_table, qk2_ov1_var_scores
from assignadd.model.stack import Stack
from assignadd.palette import HATCH, ORANGE, PALE, POSITIONS, PURPLE, RED, RULE
from assignadd.task.vocabulary import Vocabulary

# How many times as wide as a number every other embedding is drawn: numbers are many and alike, the rest has names.
WIDE = 3
BELOW: Any = {"location": "bottom", "pad": 0.03, "aspect": 25}  # where colour bars stand
# Rows, columns, colour (the paper's) and name of each outlined block.
OUTLINES = (
    ("numbers", "variables", PURPLE, "number to variable"),
    ("prefix", "variables", ORANGE, "position before + to variable"),
    ("positions", "positions", RED, "position to position"),
    ("=", "operands", "black", "= to operand positions"),
)


@dataclass(frozen=True)
class QK0Data(FigureData):
    scores: np.ndarray  # (C, C): rows ask, columns answer; numbers, +, =, PAD, variables, positions
    modulus: int
    n_vars: int
    prefix: int

    def rows(self, group: str) -> tuple[int, int]:
        """First and last row of a group of embeddings."""
        vocabulary = Vocabulary(Task(modulus=self.modulus, n_vars=self.n_vars))
        v, p, equals = vocabulary.first_variable, vocabulary.size, vocabulary.equals
        return {
            "numbers": (0, self.modulus - 1),
            "=": (equals, equals),
            "variables": (v, p - 1),
            "positions": (p, len(self.scores) - 1),
            "prefix": (p, p + self.prefix - 1),
            "operands": (p + self.prefix + 1, p + self.prefix + 2),
        }[group]


def qk0_data(stack: Stack) -> QK0Data:
    """The layer-1 scores between all embeddings of the first model."""
    task = stack.config.task
    return QK0Data(qk1_table(stack.models(0))[0].detach().cpu().numpy(), task.modulus, task.n_vars, task.prefix)


def qk0_caption(data: QK0Data) -> str:
    """The mean score in each outline that has tokens as keys, and that of the same rows with other tokens."""

    def part(group: str) -> slice:
        first, last = data.rows(group)
        return slice(first, last + 1)

    tokens = np.arange(len(data.scores)) < data.rows("positions")[0]
    tokens[part("variables")] = False
    means = [
        f"{words} {data.scores[part(rows), part('variables')].mean():.1f} to variables and "
        f"{data.scores[part(rows), tokens].mean():.1f} to other tokens"
        for rows, words in (("numbers", "numbers"), ("prefix", "positions before +"))
    ]
    equals, operands = part("="), part("operands")
    others = np.delete(data.scores[equals, part("positions")], np.r_[operands] - data.rows("positions")[0], axis=1)
    return (
        f"Mean scores here: {'; '.join(means)}; `=` {data.scores[equals, operands].mean():.1f} to the positions of the "
        f"operands and {others.mean():.1f} to other positions."
    ).replace(" -", " \u2212")


def draw_qk0(data: QK0Data, made: Figure) -> None:
    ax = made.add_subplot()
    widths = np.where(np.arange(len(data.scores)) < data.modulus, 1, WIDE)
    starts = np.concatenate([[0], widths.cumsum()])
    most = float(np.quantile(np.abs(data.scores), 0.998))  # a few extreme scores would leave the rest white
    limits = (-most, most) if most else None
    image = draw_heat(ax, data.scores.repeat(widths, 0).repeat(widths, 1), limits=limits)
    ax.set_aspect("equal")
    bar(image, ax, "attention score", extend="both")

    def span(group: str) -> tuple[float, float]:
        first, last = data.rows(group)
        return float(starts[first]), float(starts[last + 1] - 1)

    for rows, columns, color, _ in OUTLINES:
        box(ax, span(rows), span(columns), color, 1.5)
    box_legend(made, [(color, label) for *_, color, label in OUTLINES], columns=2)
    _name_embeddings(ax, data, starts)


def _name_embeddings(ax: Axes, data: QK0Data, starts: np.ndarray) -> None:
    """Names every tenth number, every other embedding, and the groups."""
    T = len(data.scores) - data.rows("positions")[0]
    names = [*map(str, range(data.modulus)), "+", "=", "PAD", *LETTERS[: data.n_vars], *map(str, range(T))]
    named = [
        *range(0, data.modulus, 10),
        *range(data.modulus, len(names) - T),
        *(len(names) - T + t for t in thinned(T, 12)),
    ]
    ticks, labels = [(starts[row] + starts[row + 1] - 1) / 2 for row in named], [names[row] for row in named]
    ax.set_yticks(ticks, labels, fontsize=SMALLEST)
    ax.set_xticks(ticks, labels, fontsize=SMALLEST)
    for row, label in zip(named, ax.get_xticklabels(), strict=True):
        label.set_rotation(90 if row >= data.modulus and len(names[row]) > 1 else 0)
    for group in ("numbers", "variables", "positions"):
        first, last = data.rows(group)
        middle = (starts[first] + starts[last + 1] - 1) / 2
        ax.text(middle, 1.01, group, transform=ax.get_xaxis_transform(), ha="center", va="bottom")
        ax.text(-0.06, middle, group, transform=ax.get_yaxis_transform(), ha="right", va="center", rotation=90)
    for edge in (data.modulus, data.rows("variables")[0], data.rows("positions")[0]):
        for rule in (ax.axhline, ax.axvline):
            rule(starts[edge] - 0.5, color=RULE, linewidth=0.5)
    ax.set_xlabel("attended to (key)")
    ax.set_ylabel("attending (query)", labelpad=18)


@dataclass(frozen=True)
class QK0PosAndQK1Data(FigureData):
    positions: np.ndarray  # (prefix, prefix): P_i QK1 P_j
    admissible: np.ndarray  # (prefix, prefix): where a variable can stand, seen from a number at i
    variables: np.ndarray  # (V, V)
    letters: list[str]


def qk0pos_and_qk1_data(stack: Stack) -> QK0PosAndQK1Data:
    """The scores of the first model between positions (layer 1) and between copied variables (layer 2)."""
    one = stack.models(0)
    positions, variables = (
        scores[0].detach().cpu().numpy() for scores in (qk1_positions(one), qk2_ov1_var_scores(one))
    )
    kept = admissible(len(positions), EXCLUDED).numpy()
    return QK0PosAndQK1Data(positions, kept, variables, list(stack.config.task.variables))


def qk0pos_and_qk1_caption(data: QK0PosAndQK1Data) -> str:
    """In how many rows the expected cell has the highest score, in words."""
    rows = np.flatnonzero(data.admissible.any(1))
    best = np.where(data.admissible, data.positions, -np.inf).argmax(1)
    matches = int((data.variables.argmax(1) == np.arange(len(data.letters))).sum())
    return (
        f"Here the position before wins in {int((best[rows] == rows - 1).sum())} of {len(rows)} rows of (a), and "
        f"{matches} of {len(data.letters)} variables of (b) match themselves best."
    )


def draw_qk0pos_and_qk1(data: QK0PosAndQK1Data, made: Figure) -> None:
    left, right = made.subplots(1, 2)
    _draw_positions(data, left)
    image = draw_heat(right, data.variables)
    name_ticks(right, data.letters, data.letters)
    right.set_title("(b) copied variables, layer 2")
    right.set(xlabel="variable held by a number (key)", ylabel="variable held by = (query)", aspect="equal")
    bar(image, right, "score under QK$_2$", **BELOW)


def _draw_positions(data: QK0PosAndQK1Data, ax: Axes) -> None:
    scores = np.where(data.admissible, data.positions, np.nan)
    image = draw_heat(ax, scores, POSITIONS, (float(np.nanmin(scores)), float(np.nanmax(scores))))
    for row, column in np.argwhere(~data.admissible & np.tri(len(scores), dtype=bool)):
        ax.add_patch(
            Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=PALE, edgecolor=HATCH, hatch="////", linewidth=0)
        )
    names = [str(i) for i in range(len(scores))]
    name_ticks(ax, names, names)
    best = np.where(data.admissible, data.positions, -np.inf)
    cells(ax, data.admissible & (best == best.max(1, keepdims=True)), RED)
    ax.set_title("(a) positions, layer 1")
    ax.set(xlabel="position attended to, $j$ (key)", ylabel="position of a number, $i$ (query)", aspect="equal")
    bar(image, ax, "score under QK$_1$", **BELOW)


QK0_FIGURE = FigureRecord(
    "qk0", "Layer-1 scores between all embeddings",
    "Green blocks in the purple and orange outlines mean that numbers, and the positions before +, attend to "
    "variables. By the paper, scores within the red outline grow to the right below its diagonal. The small "
    "outline shows how much `=` attends to the operand slots.",
    lambda s: qk0_data(s.model.stack), draw_qk0, height=5.3, found=qk0_caption,
)  # fmt: skip
QK0POS_AND_QK1_FIGURE = FigureRecord(
    "qk0pos_and_qk1", "Previous-token head and variable matching",
    "(a) Without what cannot be a variable (hatched: the number itself and two back), is the highest score of each "
    "row (red box) one step left of the diagonal? (b) A dark green diagonal means that each variable finds itself "
    "alone.",
    lambda s: qk0pos_and_qk1_data(s.model.stack), draw_qk0pos_and_qk1, height=3.4,
    found=qk0pos_and_qk1_caption,
)  # fmt: skip
