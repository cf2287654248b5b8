"""What the page knows of tasks: their answers, evaluation sets, measures and colours, and the sequences it carries."""

from __future__ import annotations

import dataclasses
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from matplotlib import colormaps
from matplotlib.colors import to_hex
from torch import Tensor

from assignadd import palette
from assignadd.config import Config, ConfigError
from assignadd.dynamics.curves import LASTING
from assignadd.dynamics.phases import ADDITION_SET, ADDITION_THRESHOLD, BINDING_SET, BINDING_THRESHOLD, THRESHOLD
from assignadd.interventions.apply import reference_sequences, shuffled
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
    n = torch.arange(task.modulus)
    answers = answer_of(task, (n[:, None], n))  # (N, N): for each pair of values
    own = {"operator": vocabulary.name(vocabulary.plus), "answers": whole_numbers(answers)}
    return {name: getattr(task, name) for name in FIELDS} | own


def whole_numbers(values: Tensor) -> str:
    """Small whole numbers, row by row, two bytes each."""
    return b64encode(values.contiguous().to(torch.int16).numpy().astype("<i2").tobytes()).decode()


def package_tables() -> dict[str, Any]:
    """Evaluation sets, the measured columns that the page draws, the rules by which the package decides, and colours.

    The scales are those of heat maps, of shares and of scores of either sign, from the least to the largest value.
    """
    measures = [
        {"name": column, "family": m.family, "title": m.label, "label": column_label(column), "unit": m.unit}
        | {"colour": palette.BY_VARS[int(fields["n_vars"])] if fields else m.colour}
        for m in COLUMNS
        for column in m.columns(MEASURED)
        for fields in [m.fields(column)]
    ]
    rules = {
        "binding_set": BINDING_SET, "binding_level": BINDING_THRESHOLD, "lasting": LASTING, "wall": WALL_SETS,
        "levels": {"addition": ADDITION_THRESHOLD, "binding": THRESHOLD, "refinement": THRESHOLD},
    }  # fmt: skip
    maps = {"shares": palette.SHARES, "signed": palette.SIGNED}
    return {
        "sets": [{"name": s.name, "label": s.label, "colour": palette.BY_VARS[s.n_vars]} for s in ALL_SETS],
        "measures": measures,
        "rules": rules,
        "palette": {name.lower(): getattr(palette, name) for name in HUES},
        "scales": {k: [to_hex(colormaps[name](i / (STOPS - 1))) for i in range(STOPS)] for k, name in maps.items()},
    }


EXAM = 512
# Where a wrong answer is looked for: so many sequences of every evaluation set.
SEARCHED = 400
# The example of the paper's section 3, where the task has these letters and numbers.
PAPER = "c=1, b=17, a=42, b+19=?"


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


def examples(config: Config, seen: Tensor, stack: Stack) -> list[dict[str, str]]:
    """Prompts to begin with, of every kind and one that the network gets wrong: what each shows, and its text.

    The text is in the token form where the padding matters.
    """
    wanted = (
        ("one variable", EvalSet("", 1)),
        ("two variables", EvalSet("", 2)),
        ("held-out pair", EvalSet("", 2, pair="held_out")),
        ("banned slot", EvalSet("", 1, n_banned=1)),
        ("both slots banned", EvalSet("", 2, n_banned=2)),
        ("numbers only", EvalSet("", 0, pair="held_out")),
    )
    task = config.task
    is_paper = task.modulus == 59 and task.length == 16 and task.n_vars >= 3
    found = {"from the paper": PAPER} if is_paper else {}
    for i, (label, evalset) in enumerate(wanted):
        with suppress(EmptySetError):
            sampler = Sampler([task], seen[None], [config.seed.data or 0], evalset)
            tokens = sampler.sample(EvalSteps.EXPLORER_EXAMPLES[i], 1).tokens[0]
            found[label] = render(tokens[0].tolist(), task)
    wrong = wrong_answer(config, seen, stack)
    if wrong is not None:
        found["answered wrong"] = wrong
    return [{"label": label, "text": text} for label, text in found.items()]


def wrong_answer(
    config: Config, seen: Tensor, stack: Stack, sets: Sequence[EvalSet] = ALL_SETS, later: Stack | None = None
) -> str | None:
    """The prompt of these sets that the network gets wrong by the most (and `later`, if given, gets right)."""
    made = Exam([config], seen[None], sets, SEARCHED)
    logits, labels = answer_logits(stack, made.tokens)[0], made.labels[0]
    margin = logits.amax(1) - logits.gather(1, labels[:, None])[:, 0]
    if later is not None:
        margin[answer_logits(later, made.tokens)[0].argmax(1) != labels] = 0
    worst = int(margin.argmax())
    return render_tokens(made.tokens[0, worst].tolist(), config.task) if float(margin[worst]) > 0 else None
