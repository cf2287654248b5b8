"""The data of the page: its tasks with their sequences, and the training, the measures and the claims of networks.

A page opened from disk may load scripts but not read files, so all data are in scripts.
"""

from __future__ import annotations

import dataclasses
import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.colors import to_hex
from scipy.special import expit
from torch import Tensor

from assignadd import palette
from assignadd.config import Config, ConfigError
from assignadd.dynamics.curves import LASTING, Spike
from assignadd.dynamics.phases import (
    ADDITION_SET,
    ADDITION_THRESHOLD,
    BINDING_SET,
    BINDING_THRESHOLD,
    THRESHOLD,
    Curves,
    Phases,
)
from assignadd.dynamics.trajectory import checkpoints_around, followed, phases_of, trajectory_of
from assignadd.interventions.apply import reference_sequences, shuffled
from assignadd.ledger.claim import Record, find
from assignadd.measures.accuracies import Accuracy
from assignadd.measures.columns import MEASURES, Measure, column_label
from assignadd.model.accuracy import Exam
from assignadd.model.forward import answer_logits
from assignadd.model.stack import Stack
from assignadd.network import Network
from assignadd.paper.ledger import ledger
from assignadd.sweeps.population import Populations
from assignadd.task.arithmetic import answer_of
from assignadd.task.evalsets import ALL_SETS, EVAL_SETS, VARIABLES, EvalSet
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import EmptySetError, Sampler
from assignadd.task.text import render, render_tokens
from assignadd.task.vocabulary import Vocabulary

# Settings of a task that the page carries as they are, and reads.
CARRIED_SETTINGS = ("modulus", "n_vars", "length", "max_assignments", "banned_first", "banned_second")
# Settings that the page does not need: they decide its seen pairs, answers and sequences, which it carries.
SETTINGS_OF_DATA = ("seen_fraction", "one_var_ratio", "two_var_ratio", "operation", "table")
# How many colours of a continuous scale the page has; it mixes those between them.
STOPS = 9
# The colours that the page uses, by their names in `palette`.
HUES = ("BLUE", "VERMILION", "GREEN", "ORANGE", "PURPLE", "SKY")


def _paper_columns() -> dict[str, tuple[Measure, str]]:
    """By name of a column: the paper's measure that it is of, and its colour (that of its number of variables)."""
    columns = {}
    for measure in MEASURES:
        if measure.paper:
            for n in VARIABLES:  # a measure without {n_vars} in its name has the same column for each
                colour = palette.BY_VARS[n] if "{n_vars}" in measure.name else measure.colour
                columns[measure.name.format(n_vars=n)] = (measure, colour)
    return columns


MEASURED = _paper_columns()
# The sets whose accuracies the slider and the small chart of each seed (the wall) show.
WALL_SETS = (ADDITION_SET, BINDING_SET, "2-var train")


def require_shown(config: Config) -> None:
    """Raises a ConfigError for a task with a setting that the page does not read and that is not at its default."""
    for field in dataclasses.fields(config.task):
        value = getattr(config.task, field.name)
        if field.name not in (*CARRIED_SETTINGS, *SETTINGS_OF_DATA) and value != field.default:
            raise ConfigError(f"task.{field.name}", value, f"{field.default!r}: the page can show no other")


def task_data(config: Config) -> dict[str, Any]:
    """What the page needs to read and answer a prompt: settings of the task, the operator, the answer to every pair."""
    task = config.task
    vocabulary = Vocabulary(task)
    numbers = torch.arange(task.modulus)
    answers = answer_of(task, (numbers[:, None], numbers))  # (N, N): for each pair of values
    settings = {name: getattr(task, name) for name in CARRIED_SETTINGS}
    return settings | {"operator": vocabulary.name(vocabulary.plus), "answers": whole_numbers(answers)}


def whole_numbers(values: Tensor) -> str:
    """Small whole numbers as text for the page: row by row, two bytes each, the lower first, in base 64."""
    return b64encode(values.contiguous().to(torch.int16).numpy().astype("<i2").tobytes()).decode()


def package_tables() -> dict[str, Any]:
    """The data that are the same for all networks: evaluation sets, measures, the rules of the package, and colours."""
    measures = []
    for column, (measure, colour) in MEASURED.items():
        names = {"name": column, "family": measure.family, "title": measure.label, "label": column_label(column)}
        measures.append(names | {"unit": measure.unit, "colour": colour})
    rules = {
        "binding_set": BINDING_SET, "binding_level": BINDING_THRESHOLD, "lasting": LASTING, "wall": WALL_SETS,
        "levels": {"addition": ADDITION_THRESHOLD, "binding": THRESHOLD, "refinement": THRESHOLD},
    }  # fmt: skip
    sets = []
    for evalset in ALL_SETS:
        sets.append({"name": evalset.name, "label": evalset.label, "colour": palette.BY_VARS[evalset.n_vars]})
    return {
        "sets": sets,
        "measures": measures,
        "rules": rules,
        "palette": {name.lower(): getattr(palette, name) for name in HUES},
        "scales": {"shares": _scale(palette.SHARES), "signed": _scale(palette.SIGNED)},
    }


def _scale(colour_map: str) -> list[str]:
    """Colours at equal distances from one end of a colour map of matplotlib to the other."""
    return [to_hex(colormaps[colour_map](i / (STOPS - 1))) for i in range(STOPS)]


EXAM_SEQUENCES = 512  # of all sets together, in the exam that the page gives
SEARCHED = 400  # sequences of every evaluation set in which a wrong answer is looked for
# The example of the paper's section 3, where the task has these letters and numbers.
PAPER = "c=1, b=17, a=42, b+19=?"


def exam_data(config: Config, seen: Tensor) -> dict[str, Any]:
    """The exam that the page gives to a network: the first sequences of every evaluation set, 512 in all.

    "sets" has for each set its name, and where its sequences begin and end in the exam. A task may have no sequences of
    some sets: the others then have more.
    """
    one_of_each = Exam([config], seen[None], EVAL_SETS, 1)  # a sequence of each set that has any
    n_sets = len(one_of_each.names)
    n_per_set = math.ceil(EXAM_SEQUENCES / n_sets)
    exam = Exam([config], seen[None], EVAL_SETS, n_per_set)
    bounds = [min(i * n_per_set, EXAM_SEQUENCES) for i in range(n_sets + 1)]  # between sets; the last may be cut
    return {
        "tokens": whole_numbers(exam.tokens[0, :EXAM_SEQUENCES]),
        "labels": whole_numbers(exam.labels[0, :EXAM_SEQUENCES]),
        "sets": list(zip(exam.names, bounds[:-1], bounds[1:], strict=True)),
    }


def reference_data(config: Config) -> dict[str, Any]:
    """The sequences from which interventions take values, as in `assignadd intervene`, and the order of resampling."""
    tokens = reference_sequences(config)
    return {"tokens": whole_numbers(tokens), "order": shuffled(len(tokens)).tolist()}


# Kinds of prompts that the page suggests, by their labels.
KINDS = {
    "one variable": EvalSet("", 1),
    "two variables": EvalSet("", 2),
    "held-out pair": EvalSet("", 2, pair="held_out"),
    "banned slot": EvalSet("", 1, n_banned=1),
    "both slots banned": EvalSet("", 2, n_banned=2),
    "numbers only": EvalSet("", 0, pair="held_out"),
}


def examples(config: Config, seen: Tensor, stack: Stack) -> list[dict[str, str]]:
    """Prompts that the page suggests, one of every kind and one that the network gets wrong: a label and a text each.

    The one that the network gets wrong is written as tokens ("b 17 . b + 19 ="): its answer may depend on the padding.
    """
    task = config.task
    texts: dict[str, str] = {}  # by label
    if task.modulus == 59 and task.length == 16 and task.n_vars >= 3:
        texts["from the paper"] = PAPER
    for i, (label, evalset) in enumerate(KINDS.items()):
        with suppress(EmptySetError):  # the task may have no such sequences
            sampler = Sampler([task], seen[None], [config.seed.data or 0], evalset)
            # The step decides the random numbers: each kind has its own.
            sampled = sampler.sample(EvalSteps.EXPLORER_EXAMPLES[i], 1).tokens  # (1, 1, T)
            texts[label] = render(sampled[0, 0].tolist(), task)
    wrong = wrong_answer(config, seen, stack)
    if wrong is not None:
        texts["answered wrong"] = wrong
    return [{"label": label, "text": text} for label, text in texts.items()]


def wrong_answer(
    config: Config, seen: Tensor, stack: Stack, sets: Sequence[EvalSet] = ALL_SETS, later: Stack | None = None
) -> str | None:
    """The prompt of these sets that the network gets wrong by the most, as tokens; None if all answers are right.

    With `later`, the same network at a later step, only prompts are considered that it gets right then.
    """
    exam = Exam([config], seen[None], sets, SEARCHED)
    labels = exam.labels[0]  # (sequences,)
    logits = answer_logits(stack, exam.tokens)[0]  # (sequences, N)
    label_logits = logits.gather(1, labels[:, None])[:, 0]  # (sequences,), those of the right answers
    excess = logits.amax(1) - label_logits  # (sequences,), 0 where the network's answer is right
    if later is not None:
        is_wrong_later = answer_logits(later, exam.tokens)[0].argmax(1) != labels
        excess[is_wrong_later] = 0
    worst = int(excess.argmax())
    return render_tokens(exam.tokens[0, worst].tolist(), config.task) if excess[worst] > 0 else None


# Training: checkpoints, accuracies, measures and phases, and the claims of the story.

# Checkpoints are evenly spread along a scale: the sum of the logarithm of the step and of the step itself, each from 0
# to 1 over training, and of a rise by PER_SPIKE at each spike, over about this share of all steps.
PER_SPIKE, SPIKE_WIDTH = 0.5, 0.015


def chosen_steps(steps: Sequence[int], spikes: Sequence[Spike], most: int) -> list[int]:
    """At most `most` (2 or more) of these steps, in order: the first, the last, both sides of each spike, and others.

    The others are chosen one by one, each the farthest from those chosen before, along a scale that stretches the early
    steps and the spikes. Where `most` is too small for both sides of every spike, the last of them are left out.
    """
    if len(steps) <= most:
        return list(steps)
    last = steps[-1]
    every_step = np.array(steps)
    places = np.log1p(every_step) / math.log1p(last) + every_step / last  # of each step on that scale
    for spike in spikes:
        from_middle = (every_step - (spike.before + spike.after) / 2) / (SPIKE_WIDTH * last)
        places += PER_SPIKE * expit(from_middle)  # a rise by PER_SPIKE
    sides = [step for spike in spikes for step in checkpoints_around(steps, spike)]
    first_chosen = dict.fromkeys([steps[0], last, *sides])  # a step may be beside both spikes
    chosen = [steps.index(step) for step in list(first_chosen)[:most]]
    while len(chosen) < most:
        distances = abs(places[:, None] - places[chosen]).min(1)  # of each step to the nearest one that is chosen
        chosen.append(int(distances.argmax()))
    return [steps[i] for i in sorted(chosen)]


# Decimals of the numbers on the page.
DIGITS = 4
# The claims that the story quotes, by id, with the section that does (an id of web/src/story/sections.ts).
STORY_CLAIMS = {
    "over-98-1-var-add-restricted": "can", "over-98-2-var-add-restricted": "can",
    "attn-l1-num-to-prev": "names", "attn-l1-equal-to-operands": "names",
    "attn-l2-equal-to-values": "fetch", "qk2-identity": "fetch",
    "ov-mlp-99.94": "add", "fourier-best-neuron": "add", "fourier-best-neuron:median": "add",
    "over-98-1-var-var-restricted": "new",
    "addition-first-held-out": "when", "first-spike": "when", "binding-before-refinement": "when",
    "every-seed-binds": "always", "every-seed-adds": "always",
    "held-out-pairs-99.4:doubles": "unseen",
}  # fmt: skip


def accuracies_data(accuracies: Mapping[str, Accuracy]) -> dict[str, list[float]]:
    """By evaluation set, four numbers: the accuracy, the ends of its 95 % interval, the number of sequences."""
    numbers = {}
    for name, accuracy in accuracies.items():
        interval = accuracy.interval
        of_set = (accuracy.accuracy, interval.low, interval.high, accuracy.n)
        numbers[name] = [round(value, DIGITS) for value in of_set]
    return numbers


def curves_data(curves: Curves) -> dict[str, Any]:
    """The accuracies along training by evaluation set, each on `n` sequences, as the page reads them."""
    values = {name: _rounded(accuracy) for name, accuracy in curves.accuracy.items()}
    return {"steps": curves.steps.tolist(), "n": curves.n, "values": values}


def curves_in_brief(curves: Curves) -> dict[str, Any]:
    """The accuracies on a few sets at 80 steps or fewer, for the small charts of all seeds, the wall."""
    last = len(curves.steps) - 1  # the index of the last evaluation
    # Of the evaluations that are shown; the square makes more of them early.
    indices = np.unique((np.linspace(0, 1, 80) ** 2 * last).round().astype(int))
    values = {name: _rounded(curves.accuracy[name][indices], 3) for name in WALL_SETS if name in curves.accuracy}
    return {"steps": curves.steps[indices].tolist(), "values": values}


def spikes_with_checkpoints(phases: Phases, steps: Sequence[int]) -> dict[str, Spike]:
    """The spikes with a checkpoint on either side, by the names "first" and "second"; `steps` are the checkpoints'."""
    spikes = {}
    for name, spike in (("first", phases.first_spike), ("second", phases.second_spike)):
        if spike is not None and steps[0] <= spike.before and spike.after <= steps[-1]:
            spikes[name] = spike
    return spikes


def phases_data(network: Network, spikes: Mapping[str, Spike]) -> dict[str, Any]:
    """The step at which each skill came, and the spikes with the checkpoints on either side, as the page reads them."""
    phases = phases_of(network)
    onsets = {"addition": phases.addition, "binding": phases.binding, "refinement": phases.refinement}
    has_steps = followed(network)  # a single evaluation says what was learned, and not when
    steps = {name: onset.step if onset is not None and has_steps else None for name, onset in onsets.items()}
    documents = []
    for name, spike in spikes.items():
        beside = checkpoints_around(network.steps, spike)
        documents.append({"name": name, **dataclasses.asdict(spike), "checkpoints": beside})
    return {"onsets": steps, "spikes": documents}


def measures_data(network: Network) -> dict[str, Any]:
    """The progress measures of a network at every checkpoint, as the page reads them."""
    columns = trajectory_of(network)
    return {
        "steps": columns["step"].tolist(),
        "values": {name: _rounded(columns[name]) for name in MEASURED if name in columns},
    }


def story_records(network: Network, command: str, populations: Populations) -> list[dict[str, Any]]:
    """The records of the claims that the story quotes and that have a value, each with the section that quotes it."""
    records: dict[str, list[Record]] = {}  # of each claim, by its id
    documents = []
    for id, section in STORY_CLAIMS.items():
        claim = id.partition(":")[0]  # an id may be that of a reading, CLAIM:READING
        if claim not in records:
            records[claim] = ledger([network], command, claim, populations=populations)
        record = find(records[claim], id)
        if record is not None and record.value is not None:
            documents.append(dataclasses.asdict(record) | {"section": section})
    return documents


def _rounded(values: np.ndarray, digits: int = DIGITS) -> list[float | None]:
    """The numbers as JSON has them: rounded, and None for NaN."""
    return [None if np.isnan(value) else round(float(value), digits) for value in values]
