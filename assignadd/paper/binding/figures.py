"""Figures of section 5.2: sequences as the network reads them (`token-seqs`), where both layers attend in one
(`attention`), and the scores of both layers, read off the weights (`qk0`, `qk0pos_and_qk1`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from assignadd import palette
from assignadd.config import Task
from assignadd.config.task import LETTERS
from assignadd.figure.record import FigureData, FigureRecord, on_axes
from assignadd.figure.style import SMALLEST, bar, box, box_cells, box_legend, draw_heat, name_ticks, thinned
from assignadd.measures.scores import EXCLUDED, admissible, qk1_positions, qk1_table, qk2_ov1_var_scores
from assignadd.model.architecture import SECOND_LAYER, needs
from assignadd.model.stack import Stack
from assignadd.model.transformer import Transformer
from assignadd.palette import INK, ORANGE, RED, YELLOW
from assignadd.task import examples
from assignadd.task.positions import operand_slots, roles
from assignadd.task.text import answer
from assignadd.task.vocabulary import Vocabulary

# How many times as wide as a number every other embedding is drawn: numbers are many and alike, the rest has names.
WIDE = 5
BELOW: Any = {"location": "bottom", "pad": 0.03, "aspect": 25}  # where colour bars stand
# Rows, columns, colour (the paper's) and name of each outlined block.
OUTLINES = (
    ("numbers", "variables", palette.PURPLE, "number to variable"),
    ("prefix", "variables", ORANGE, "position before + to variable"),
    ("positions", "positions", RED, "position to position"),
    ("=", "operands", "black", "= to operand positions"),
)


@dataclass(frozen=True)
class TokenSeqsData(FigureData):
    tokens: np.ndarray  # (rows, T): words
    answers: np.ndarray  # (rows,)


def token_seqs_data(task: Task) -> TokenSeqsData:
    """The sequences of the paper that this task has, and their answers."""
    fitted = [examples.fitted(text, task) for text in examples.TOKEN_SEQS]
    sequences = [tokens for tokens in fitted if tokens is not None]
    return TokenSeqsData(
        tokens=np.array([examples.names(tokens, task) for tokens in sequences]),
        answers=np.array([answer(tokens, task) for tokens in sequences]),
    )


def draw_token_seqs(data: TokenSeqsData, axes: Axes) -> None:
    """Draws a row of boxed tokens for each sequence, with its answer at the end."""
    n_rows, T = data.tokens.shape
    distance = 1.25  # from a row to the next; a box is 1 wide and 1 high
    words = np.column_stack([data.tokens, data.answers.astype(str)])  # (rows, T + 1)
    for (row, column), word in np.ndenumerate(words):
        top = distance * row
        face = palette.ANSWER if column == T else "white"
        axes.add_patch(Rectangle((column, top), 1, 1, facecolor=face, edgecolor=INK, linewidth=0.6))
        look: Any = {"color": palette.GREY, "fontsize": SMALLEST} if word == "PAD" else {"color": INK, "fontsize": 8.5}
        axes.text(column + 0.5, top + 0.52, word, ha="center", va="center", **look)
    axes.set(xlim=(-0.05, T + 1.05), ylim=(distance * n_rows - 0.2, -0.05), xticks=np.arange(T + 1) + 0.5, yticks=[])
    axes.set_xticklabels([*map(str, range(T)), "answer"], fontsize=SMALLEST, color=INK)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=1)
    axes.grid(False)
    axes.spines[:].set_visible(False)


@dataclass(frozen=True)
class AttentionData(FigureData):
    tokens: list[str]
    titles: list[str]  # of both panels
    patterns: np.ndarray  # (2, T, T): layer 1 and the last, query, key; NaN where the key is ahead of the query
    # The edges that the paper expects, masks over query and key, (T, T) each:
    to_operands: np.ndarray  # from `=` to the operands, in layer 1
    to_previous: np.ndarray  # from assigned numbers to the token before them, in layer 1
    to_values: np.ndarray  # from `=` to the values of the operands, in the last layer


@needs(SECOND_LAYER)
@torch.no_grad()
def attention_data(stack: Stack, text: str = examples.ATTENTION) -> AttentionData:
    """Attention of the first model in layer 1 and in the last layer, on the paper's sequence or a similar one.

    Of several heads, the one with the most attention on the expected edges.
    """
    task, model = stack.config.task, stack.config.model
    sequence = examples.fitted(text, task)
    assert sequence is not None, "every task has sums with one variable"
    tokens = torch.tensor([sequence])
    role = roles(task, tokens)
    numbers = role.assigned[0].nonzero()[:, 0].numpy()
    to_operands, to_previous, to_values = np.zeros((3, len(sequence), len(sequence)), dtype=bool)
    to_operands[-1, list(operand_slots(task))] = True
    to_previous[numbers, numbers - 1] = True
    to_values[-1, role.value_positions[0].numpy()] = True
    expected = {1: to_operands | to_previous, model.n_layers: to_values}  # by layer
    hooks = [f"blocks.{layer - 1}.attn.hook_pattern" for layer in expected]  # hooks count from 0
    _, cache = Transformer.from_stack(stack, 0).run_with_cache(tokens.to(stack.flat.device), names_filter=hooks)
    titles, patterns = [], []
    for (layer, edges), hook in zip(expected.items(), hooks, strict=True):
        by_head = cache[hook][0].numpy(force=True)  # (heads, T, T)
        best_head = int((by_head * edges).sum((1, 2)).argmax())
        titles.append(f"layer {layer}, head {best_head}" if model.n_heads > 1 else f"layer {layer}")
        patterns.append(by_head[best_head])
    shown = np.stack(patterns)  # (2, T, T)
    shown[:, *np.triu_indices(len(sequence), 1)] = np.nan  # keys after the query
    return AttentionData(examples.names(sequence, task), titles, shown, to_operands, to_previous, to_values)


def draw_attention(data: AttentionData, figure: Figure) -> None:
    """Draws both patterns with boxes around the expected edges."""
    axes = figure.subplots(1, 2, sharey=True)
    for title, ax, pattern in zip(data.titles, axes, data.patterns, strict=True):
        image = draw_pattern(ax, pattern, data.tokens)
        ax.set_title(title)
    axes[0].set_ylabel("attending (query)")
    box_cells(axes[0], data.to_operands, ORANGE)
    box_cells(axes[0], data.to_previous, RED)
    box_cells(axes[1], data.to_values, YELLOW)
    bar(image, list(axes), "attention")
    box_legend(figure, ((ORANGE, "= to operands"), (RED, "number to its variable"), (YELLOW, "= to values")), columns=3)


def draw_pattern(ax: Axes, pattern: np.ndarray, tokens: list[str]) -> AxesImage:
    """Draws an attention pattern, (T, T), with the tokens along both axes and thin lines between cells."""
    image = draw_heat(ax, pattern, palette.SHARES, (0, 1))
    name_ticks(ax, tokens, tokens)
    ax.tick_params(axis="x", rotation=90)
    edges = np.arange(len(tokens) + 1) - 0.5
    ax.set_xticks(edges, minor=True)
    ax.set_yticks(edges, minor=True)
    ax.grid(True, which="minor", color=palette.GRID, linewidth=0.4)
    ax.tick_params(which="minor", length=0)
    ax.set(xlabel="attended to (key)", aspect="equal")
    return image


@dataclass(frozen=True)
class QK0Data(FigureData):
    """The layer-1 scores of one model, and the sizes that say which rows are which."""

    scores: np.ndarray  # (C, C): query, key; in the order numbers, +, =, PAD, variables, positions
    modulus: int
    n_vars: int
    prefix: int

    def rows(self, group: str) -> tuple[int, int]:
        """First and last row of a group of embeddings."""
        vocabulary = Vocabulary(Task(modulus=self.modulus, n_vars=self.n_vars))
        first_position = vocabulary.size  # positions follow the tokens
        plus = first_position + self.prefix  # the operands follow `+`, which follows the prefix
        return {
            "numbers": (0, self.modulus - 1),
            "=": (vocabulary.equals, vocabulary.equals),
            "variables": (vocabulary.first_variable, first_position - 1),
            "positions": (first_position, len(self.scores) - 1),
            "prefix": (first_position, plus - 1),
            "operands": (plus + 1, plus + 2),
        }[group]


def qk0_data(stack: Stack) -> QK0Data:
    """The scores of layer 1 between all embeddings of the first model."""
    task = stack.config.task
    scores = qk1_table(stack.models(0))[0].numpy(force=True)
    return QK0Data(scores, task.modulus, task.n_vars, task.prefix)


def draw_qk0(data: QK0Data, figure: Figure) -> None:
    """Draws the scores between all embeddings, with an outline around each block of `OUTLINES`."""
    ax = figure.add_subplot()
    widths = np.where(np.arange(len(data.scores)) < data.modulus, 1, WIDE)
    starts = np.concatenate([[0], widths.cumsum()])  # where each row is drawn, and the end of the last one
    largest = float(np.quantile(np.abs(data.scores), 0.998))  # a few extreme scores would leave the rest white
    limits = (-largest, largest) if largest else None
    image = draw_heat(ax, data.scores.repeat(widths, 0).repeat(widths, 1), limits=limits)
    ax.set_aspect("equal")
    bar(image, ax, "attention score", extend="both")

    def span(group: str) -> tuple[float, float]:
        """The first and the last cell of a group of embeddings, as drawn."""
        first, last = data.rows(group)
        return float(starts[first]), float(starts[last + 1] - 1)

    for rows, columns, color, _ in OUTLINES:
        box(ax, span(rows), span(columns), color, width=1.5)
    box_legend(figure, [(color, label) for *_, color, label in OUTLINES], columns=2)
    _name_embeddings(ax, data, starts)


def _name_embeddings(ax: Axes, data: QK0Data, starts: np.ndarray) -> None:
    """Writes names along both axes: of every tenth number, of other embeddings, and of the groups.

    `starts` is where each row is drawn and where the last one ends, (C + 1,).
    """
    first_position, last_position = data.rows("positions")
    T = last_position - first_position + 1
    tokens = [*map(str, range(data.modulus)), "+", "=", "PAD", *LETTERS[: data.n_vars]]
    names = [*tokens, *map(str, range(T))]  # of all rows
    shown_positions = thinned(T, 12)
    named_rows = [  # pairs: a row that is named, and the number of rows to the next one
        *((number, 10) for number in range(0, data.modulus, 10)),
        *((token, 1) for token in range(data.modulus, len(tokens))),
        *((first_position + t, shown_positions.step) for t in shown_positions),
    ]
    middles = (starts[:-1] + starts[1:] - 1) / 2  # of each row, as drawn
    ticks = [middles[row] for row, _ in named_rows]
    labels = [names[row] for row, _ in named_rows]
    ax.set_yticks(ticks, labels, fontsize=SMALLEST)
    ax.set_xticks(ticks, labels, fontsize=SMALLEST)
    for (row, apart), label in zip(named_rows, ax.get_xticklabels(), strict=True):
        # On the horizontal axis a name with more letters than rows to the next name would run into it.
        label.set_rotation(90 if len(names[row]) > apart else 0)
    for group in ("numbers", "variables", "positions"):
        first, last = data.rows(group)
        middle = (starts[first] + starts[last + 1] - 1) / 2
        ax.text(middle, 1.01, group, transform=ax.get_xaxis_transform(), ha="center", va="bottom")
        ax.text(-0.06, middle, group, transform=ax.get_yaxis_transform(), ha="right", va="center", rotation=90)
    for edge in (data.modulus, data.rows("variables")[0], first_position):  # lines between the groups
        ax.axhline(starts[edge] - 0.5, color=palette.RULE, linewidth=0.5)
        ax.axvline(starts[edge] - 0.5, color=palette.RULE, linewidth=0.5)
    ax.set_xlabel("attended to (key)")
    ax.set_ylabel("attending (query)", labelpad=18)


@dataclass(frozen=True)
class QK0PosAndQK1Data(FigureData):
    positions: np.ndarray  # (prefix, prefix): P_i QK1 P_j
    admissible: np.ndarray  # (prefix, prefix): where a variable can stand, seen from a number at i
    variables: np.ndarray  # (V, V): scores of copied variables
    letters: list[str]

    @property
    def compared(self) -> np.ndarray:
        """The scores of the admissible keys, -inf for others, (prefix, prefix)."""
        return np.where(self.admissible, self.positions, -np.inf)


def qk0pos_and_qk1_data(stack: Stack) -> QK0PosAndQK1Data:
    """The first model's scores between positions in layer 1, and between copied variables in layer 2.

    The keys that are compared for position i are the positions before it without i - 2.
    """
    model = stack.models(0)
    positions = qk1_positions(model)[0].numpy(force=True)
    variables = qk2_ov1_var_scores(model)[0].numpy(force=True)
    is_compared = admissible(len(positions), EXCLUDED).numpy()
    return QK0PosAndQK1Data(positions, is_compared, variables, list(stack.config.task.variables))


def qk0pos_and_qk1_caption(data: QK0PosAndQK1Data) -> str:
    """The number of rows in which the expected cell has the highest score, in words."""
    rows = np.flatnonzero(data.admissible.any(1))  # those that have a key at all
    previous_wins = int((data.compared.argmax(1)[rows] == rows - 1).sum())
    return (
        f"Here the position before wins in {previous_wins} of {len(rows)} rows of (a), and "
        f"{n_matching(data.variables)} of {len(data.letters)} variables of (b) match themselves best."
    )


def n_matching(scores: np.ndarray) -> int:
    """How many variables have their best score, (V, V), with themselves."""
    return int((scores.argmax(1) == np.arange(len(scores))).sum())


def draw_qk0pos_and_qk1(data: QK0PosAndQK1Data, figure: Figure) -> None:
    """Draws the scores between positions on the left, and those between copied variables on the right."""
    left, right = figure.subplots(1, 2)
    _draw_positions(data, left)
    image = draw_variable_scores(right, data.variables, data.letters)
    right.set_title("(b) copied variables, layer 2")
    right.set_ylabel("variable held by = (query)")
    bar(image, right, "score under QK$_2$", **BELOW)


def draw_variable_scores(
    ax: Axes, scores: np.ndarray, letters: list[str], limits: tuple[float, float] | None = None
) -> AxesImage:
    """Draws the QK2 scores between copied variables, (V, V)."""
    image = draw_heat(ax, scores, limits=limits)
    name_ticks(ax, letters, letters)
    ax.set(xlabel="variable held by a number (key)", aspect="equal")
    return image


def _draw_positions(data: QK0PosAndQK1Data, ax: Axes) -> None:
    """Draws the scores between positions: excluded keys hatched, the best of each row in a red box."""
    scores = data.positions[data.admissible]
    shown = np.where(data.admissible, data.positions, np.nan)
    image = draw_heat(ax, shown, palette.POSITIONS, (float(scores.min()), float(scores.max())))
    hatched: Any = {"facecolor": palette.PALE, "edgecolor": palette.HATCH, "hatch": "////", "linewidth": 0}
    is_causal = np.tri(len(shown), dtype=bool)
    for row, column in np.argwhere(is_causal & ~data.admissible):
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **hatched))
    names = [str(i) for i in range(len(shown))]
    name_ticks(ax, names, names)
    box_cells(ax, data.admissible & (data.compared == data.compared.max(1, keepdims=True)), RED)
    ax.set_title("(a) positions, layer 1")
    ax.set(xlabel="position attended to, $j$ (key)", ylabel="position of a number, $i$ (query)", aspect="equal")
    bar(image, ax, "score under QK$_1$", **BELOW)


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
    lambda s: attention_data(s.model.stack), draw_attention, height=3.1,
)  # fmt: skip
QK0_FIGURE = FigureRecord(
    "qk0", "Layer-1 scores between all embeddings",
    "Green blocks in the purple and orange outlines mean that numbers, and the positions before +, attend to "
    "variables. By the paper, scores within the red outline grow to the right below its diagonal. The small "
    "outline shows how much `=` attends to the operand slots.",
    lambda s: qk0_data(s.model.stack), draw_qk0, height=5.3,
)  # fmt: skip
QK0POS_AND_QK1_FIGURE = FigureRecord(
    "qk0pos_and_qk1", "Previous-token head and variable matching",
    "(a) Without what cannot be a variable (hatched: the number itself and two back), is the highest score of each "
    "row (red box) one step left of the diagonal? (b) A dark green diagonal means that each variable finds itself "
    "alone.",
    lambda s: qk0pos_and_qk1_data(s.model.stack), draw_qk0pos_and_qk1, height=3.4,
    found=qk0pos_and_qk1_caption,
)  # fmt: skip
