"""What the page knows of the task."""

from __future__ import annotations

import dataclasses
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib import colormaps
from matplotlib.colors import to_hex
from torch import Tensor

from assignadd import palette
from assignadd.config import Config, ConfigError, Task
from assignadd.dynamics.binding import BINDING_SET, BINDING_THRESHOLD
from assignadd.dynamics.onsets import LASTING
from assignadd.dynamics.phases import ADDITION_SET, ADDITION_THRESHOLD, THRESHOLD
from assignadd.explorer.tables import whole_numbers
from assignadd.interventions.apply import reference_sequences
from assignadd.interventions.edits import shuffled
from assignadd.measures.columns import COLUMNS, column_label
from assignadd.model.accuracy import Exam
from assignadd.model.forward import answer_logits
from assignadd.model.stack import Stack
from assignadd.task.arithmetic import answer_of
from assignadd.task.evalsets import ALL_SETS, EVAL_SETS, VARIABLES, EvalSet
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import EmptySetError, Sampler
from assignadd.task.text import render, render_tokens
from assignadd.task.vocabulary import Vocabulary

FIELDS = ("modulus", "n_vars", "length", "max_assignments", "banned_first", "banned_second")
# Settings that only decide what the page carries as data: seen pairs, answers, sequences.
IN_DATA = ("seen_fraction", "one_var_ratio", "two_var_ratio", "operation", "table")
STOPS = 9
HUES = ("BLUE", "VERMILION", "GREEN", "ORANGE", "PURPLE", "SKY")
# The columns of the paper's seven measures, and the curves that the slider and the small charts of every seed show.
MEASURED = tuple(dict.fromkeys(m.name.format(n_vars=n) for m in COLUMNS if m.paper for n in VARIABLES))
WALL_SETS = (ADDITION_SET, BINDING_SET, "2-var train")


def require_shown(config: Config) -> None:
    """An error that names the setting of a task that the page cannot show: one it does not read, with another value."""
    for field in dataclasses.fields(config.task):
        value = getattr(config.task, field.name)
        if field.name not in (*FIELDS, *IN_DATA) and value != field.default:
            raise ConfigError(f"task.{field.name}", value, f"{field.default!r}: the page can show no other")


def task_data(config: Config) -> dict[str, Any]:
    """What the page must know to read and answer a prompt of a task."""
    task, vocabulary = config.task, Vocabulary(config.task)
    own = {"operator": vocabulary.name(vocabulary.plus), "answers": whole_numbers(answers(task))}
    return {name: getattr(task, name) for name in FIELDS} | own


def answers(task: Task) -> Tensor:
    """The answer for each pair of values, (N, N)."""
    n = torch.arange(task.modulus)
    return answer_of(task, (n[:, None], n))


def whole_numbers(values: Tensor) -> str:
    """Small whole numbers, row by row, two bytes each."""
    return b64encode(values.contiguous().to(torch.int16).numpy().astype("<i2").tobytes()).decode()


def sets_data() -> list[dict[str, Any]]:
    """Name, label and colour of every evaluation set."""
    return [{"name": s.name, "label": s.label, "colour": palette.BY_VARS[s.n_vars]} for s in ALL_SETS]


def measures_table() -> list[dict[str, Any]]:
    """Name, label, unit, family and colour of every measured column that the page draws, in the table's order."""
    return [
        {"name": column, "family": m.family, "title": m.label, "label": column_label(column), "unit": m.unit}
        | {"colour": palette.BY_VARS[int(fields["n_vars"])] if fields else m.colour}
        for m in COLUMNS
        for column in m.columns(MEASURED)
        for fields in [m.fields(column)]
    ]


def rules_data() -> dict[str, Any]:
    """The rules by which the package decides that a network binds and that a skill has come."""
    return {
        "binding_set": BINDING_SET, "binding_level": BINDING_THRESHOLD, "lasting": LASTING, "wall": WALL_SETS,
        "levels": {"addition": ADDITION_THRESHOLD, "binding": THRESHOLD, "refinement": THRESHOLD},
    }  # fmt: skip


def palette_data() -> dict[str, str]:
    """The hues of the figures, by name."""
    return {name.lower(): getattr(palette, name) for name in HUES}


def scales_data() -> dict[str, list[str]]:
    """The colours of heat maps from the least to the largest value: of shares, and of scores of either sign."""
    names = {"shares": palette.SHARES, "signed": palette.SIGNED}
    return {key: [to_hex(colormaps[name](i / (STOPS - 1))) for i in range(STOPS)] for key, name in names.items()}


def distinct(items: Sequence[Any]) -> list[Any]:
    """The items without repetition, in their order."""
    return [item for i, item in enumerate(items) if item not in items[:i]]


EXAM = 512
# Where a wrong answer is looked for: so many sequences of every evaluation set.
SEARCHED = 400
# The example of the paper's section 3, where the task has these letters and numbers.
PAPER = "c=1, b=17, a=42, b+19=?"


@dataclass(frozen=True)
class Example:
    """A prompt to begin with: what it shows, and its text (in the token form where the padding matters)."""

    label: str
    text: str


def exam(config: Config, seen: Tensor) -> dict[str, Any]:
    """The first sequences of every evaluation set in training, as many of each, 512 in all."""
    made = Exam([config], seen[None], EVAL_SETS, -(-EXAM // len(EVAL_SETS)))
    per_set = -(-EXAM // len(made.names))
    if per_set != made.n:
        made = Exam([config], seen[None], EVAL_SETS, per_set)
    sets = [[name, min(i * per_set, EXAM), min((i + 1) * per_set, EXAM)] for i, name in enumerate(made.names)]
    return {
        "tokens": whole_numbers(made.tokens[0, :EXAM]),
        "labels": whole_numbers(made.labels[0, :EXAM]),
        "sets": sets,
    }


def reference(config: Config) -> dict[str, Any]:
    """The reference of the package's interventions: training sequences, and the order in which they are resampled."""
    tokens = reference_sequences(config)
    return {"tokens": whole_numbers(tokens), "order": shuffled(len(tokens)).tolist()}


def examples(config: Config, seen: Tensor, one: Stack) -> list[Example]:
    """Prompts of every kind, and one that the network gets wrong."""
    wanted = (
        ("one variable", EvalSet("", 1)),
        ("two variables", EvalSet("", 2)),
        ("held-out pair", EvalSet("", 2, pair="held_out")),
        ("banned slot", EvalSet("", 1, n_banned=1)),
        ("both slots banned", EvalSet("", 2, n_banned=2)),
        ("numbers only", EvalSet("", 0, pair="held_out")),
    )
    found = [Example("from the paper", PAPER)] if _is_paper(config) else []
    for i, (label, evalset) in enumerate(wanted):
        tokens = _sample(config, seen, evalset, EvalSteps.EXPLORER_EXAMPLES[i], 1)
        if tokens is not None:
            found.append(Example(label, render(tokens[0].tolist(), config.task)))
    wrong = wrong_answer(config, seen, one)
    return found if wrong is None else [*found, Example("answered wrong", wrong)]


def wrong_answer(
    config: Config, seen: Tensor, one: Stack, sets: Sequence[EvalSet] = ALL_SETS, later: Stack | None = None
) -> str | None:
    """The prompt of these sets that the network gets wrong by the most (and `later`, if given, gets right)."""
    made = Exam([config], seen[None], sets, SEARCHED)
    logits, labels = answer_logits(one, made.tokens)[0], made.labels[0]
    margin = logits.amax(1) - logits.gather(1, labels[:, None])[:, 0]
    if later is not None:
        margin[answer_logits(later, made.tokens)[0].argmax(1) != labels] = 0
    worst = int(margin.argmax())
    return render_tokens(made.tokens[0, worst].tolist(), config.task) if float(margin[worst]) > 0 else None


def _is_paper(config: Config) -> bool:
    return config.task.modulus == 59 and config.task.length == 16 and config.task.n_vars >= 3


def _sample(config: Config, seen: Tensor, evalset: EvalSet, step: int, n: int) -> Tensor | None:
    try:
        return Sampler([config.task], seen[None], [config.seed.data or 0], evalset).sample(step, n).tokens[0]
    except EmptySetError:
        return None
