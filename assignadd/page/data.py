"""The data of the page: its tasks with their sequences, and the training, the measures and the claims of networks.

A page opened from disk may load scripts but not read files, so each checkpoint is a script that passes one string to
the page. It needs only the products QK and OV of each head, the paper's own letters and a quarter smaller than
the factors; they are in half precision.
"""

from __future__ import annotations

import dataclasses
import json
import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.colors import to_hex
from torch import Tensor

from assignadd import palette
from assignadd.config import Config, ConfigError
from assignadd.config.errors import RunError
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
from assignadd.dynamics.trajectory import (
    CHUNK,
    Listener,
    checkpoints_around,
    followed,
    phases_of,
    read_measures,
    run_trajectory,
)
from assignadd.interventions.apply import reference_sequences, shuffled
from assignadd.ledger.claim import find
from assignadd.measures.accuracies import Accuracy
from assignadd.measures.columns import COLUMNS, ProgressMeasures, circuit_columns, column_label
from assignadd.measures.probes import probe_l1_var_from_num
from assignadd.model.accuracy import Exam
from assignadd.model.circuits import OV, QK
from assignadd.model.forward import answer_logits
from assignadd.model.stack import Stack
from assignadd.network import Network
from assignadd.palette import BLUE, GREEN
from assignadd.paper.generalisation.population_figures import NEVER, SKILLS, TWO_VAR, ZERO_VAR, census_data
from assignadd.paper.generalisation.seeds import SWEEPS, sweep_threshold
from assignadd.paper.ledger import ledger
from assignadd.runs.folder import Run
from assignadd.stats import median_interval, wilson
from assignadd.sweeps.population import Populations
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
    settings = {name: getattr(task, name) for name in FIELDS}
    return settings | {"operator": vocabulary.name(vocabulary.plus), "answers": whole_numbers(answers)}


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
    texts = {"from the paper": PAPER} if is_paper else {}
    for i, (label, evalset) in enumerate(wanted):
        with suppress(EmptySetError):
            sampler = Sampler([task], seen[None], [config.seed.data or 0], evalset)
            tokens = sampler.sample(EvalSteps.EXPLORER_EXAMPLES[i], 1).tokens[0]
            texts[label] = render(tokens[0].tolist(), task)
    wrong = wrong_answer(config, seen, stack)
    if wrong is not None:
        texts["answered wrong"] = wrong
    return [{"label": label, "text": text} for label, text in texts.items()]


def wrong_answer(
    config: Config, seen: Tensor, stack: Stack, sets: Sequence[EvalSet] = ALL_SETS, later: Stack | None = None
) -> str | None:
    """The prompt of these sets that the network gets wrong by the most (and `later`, if given, gets right)."""
    searched = Exam([config], seen[None], sets, SEARCHED)
    labels = searched.labels[0]
    logits = answer_logits(stack, searched.tokens)[0]
    margin = logits.amax(1) - logits.gather(1, labels[:, None])[:, 0]
    if later is not None:
        is_wrong_later = answer_logits(later, searched.tokens)[0].argmax(1) != labels
        margin[is_wrong_later] = 0
    worst = int(margin.argmax())
    if margin[worst] <= 0:
        return None
    return render_tokens(searched.tokens[0, worst].tolist(), config.task)


# Training: checkpoints, accuracies, measures and phases, and the claims of the story.

# How the slider's length is shared out: to the logarithm of the step, to the step, and to each spike.
LOGARITHMIC, LINEAR, PER_SPIKE = 1.0, 1.0, 0.5
# A spike's surroundings, as a share of all steps.
SPIKE_WIDTH = 0.015


def chosen_steps(steps: Sequence[int], spikes: Sequence[Spike], most: int) -> list[int]:
    """At most `most` of the steps: the ends, both sides of each spike, then the farthest from those chosen so far.

    Distance is taken along a scale that stretches the early steps and the spikes.
    """
    if len(steps) <= most:
        return list(steps)
    last = max(steps)

    def place(step: int) -> float:
        jumps = (1 / (1 + math.exp(-(step - (s.before + s.after) / 2) / (SPIKE_WIDTH * last))) for s in spikes)
        return LOGARITHMIC * math.log1p(step) / math.log1p(last) + LINEAR * step / last + PER_SPIKE * sum(jumps)

    chosen = {min(steps), last}
    for spike in spikes:
        chosen.update(checkpoints_around(steps, spike))
    chosen = set(sorted(chosen)[: max(most, 2)])
    places = {step: place(step) for step in steps}
    distance = {step: min(abs(places[step] - places[other]) for other in chosen) for step in steps}
    while len(chosen) < most:
        farthest = max(steps, key=lambda step: (distance[step], -step))
        chosen.add(farthest)
        distance = {step: min(d, abs(places[step] - places[farthest])) for step, d in distance.items()}
    return sorted(chosen)


def circuits(stack: Stack) -> dict[str, Tensor]:
    """The matrices of a stack of one model, by the page's names and in the page's order, each (rows, columns)."""
    by_layer = {f"{name}{layer}": f(stack, layer)[0] for layer in (1, 2) for name, f in (("QK", QK), ("OV", OV))}
    mlp = {"W_in": stack["blocks.1.mlp.W_in"][0], "W_out": stack["blocks.1.mlp.W_out"][0]}
    return {"W_E": stack.W_E[0], "W_pos": stack.W_pos[0], **by_layer, **mlp, "W_U": stack.W_U[0]}


def shapes(stack: Stack) -> list[tuple[str, int, int]]:
    """What the page needs to cut the string into matrices again."""
    return [(name, *matrix.shape) for name, matrix in circuits(stack).items()]


def script(key: str, step: int, stack: Stack) -> str:
    """The script of one checkpoint: all matrices in a row, as float16."""
    flat = torch.cat([matrix.flatten() for matrix in circuits(stack).values()]).half()
    if not bool(flat.isfinite().all()):
        raise RunError("weights that are not finite, or too large for half precision, cannot be shown")
    data = b64encode(flat.numpy().astype("<f2").tobytes()).decode()
    return f"assignadd.weights({json.dumps(key)},{step},{json.dumps(data)});\n"


DIGITS = 4
# The claims that the story quotes, by id, with the section that does (an id of web/src/story/sections.ts); none of them
# needs a whole trajectory measured.
STORY_CLAIMS = {
    "over-98-2-var-add-restricted": "can",
    "attn-l1-num-to-prev": "names",
    "attn-l1-equal-to-operands": "names",
    "attn-l2-equal-to-values": "fetch",
    "qk2-identity": "fetch",
    "ov-mlp-99.94": "add",
    "fourier-best-neuron:median": "add",
    "new-positions-99.6": "new",
    "addition-first-held-out": "when",
    "first-spike": "when",
    "binding-before-refinement": "when",
    "every-seed-binds": "always",
    "every-seed-adds": "always",
    "held-out-pairs-99.4:doubles": "unseen",
}


def accuracies_data(accuracies: Mapping[str, Accuracy]) -> dict[str, list[float]]:
    """Accuracy, the ends of its 95 % interval and the number of sequences, for every set that the task has."""
    return {
        name: [round(v, DIGITS) for v in (a.accuracy, a.interval.low, a.interval.high)] + [a.n]
        for name, a in accuracies.items()
    }


def curves_data(curves: Curves) -> dict[str, Any]:
    """The accuracies along training, as the page reads them."""
    return {
        "steps": curves.steps.tolist(),
        "n": curves.n,
        "values": {name: _rounded(v) for name, v in curves.accuracy.items()},
    }


def thinned(curves: Curves, sets: Sequence[str], most: int = 80) -> dict[str, Any]:
    """A few curves at few steps, for the wall of all seeds."""
    # Denser early, as the page's axis is.
    at = np.unique((np.linspace(0, 1, most) ** 2 * (len(curves.steps) - 1)).round().astype(int))
    chosen = {name: _rounded(curves.accuracy[name][at], 3) for name in sets if name in curves.accuracy}
    return {"steps": curves.steps[at].tolist(), "values": chosen}


def straddled(phases: Phases, steps: Sequence[int]) -> dict[str, Spike]:
    """The spikes that have a checkpoint on either side."""
    spikes = {"first": phases.first_spike, "second": phases.second_spike}
    return {name: s for name, s in spikes.items() if s is not None and steps[0] <= s.before and s.after <= steps[-1]}


def phases_data(network: Network, spikes: Mapping[str, Spike]) -> dict[str, Any]:
    """When each skill came, and the spikes with the checkpoints on either side."""
    onsets = {name: getattr(phases_of(network), name) for name in ("addition", "binding", "refinement")}
    came = {name: onset.step if onset else None for name, onset in onsets.items()}
    return {
        "onsets": came if followed(network) else dict.fromkeys(onsets),
        "spikes": [
            {"name": name, **dataclasses.asdict(spike), "checkpoints": checkpoints_around(network.steps, spike)}
            for name, spike in spikes.items()
        ],
    }


def measures_data(
    run: Run, model: int, steps: Sequence[int], listener: Listener = lambda done, total: None
) -> dict[str, Any]:
    """The progress measures of the checkpoints that are exported; of all where they are stored beside the run."""
    columns = run_trajectory(run, model) if read_measures(run) is not None else _measured(run, model, steps, listener)
    return {
        "steps": columns["step"].tolist(),
        "values": {name: _rounded(columns[name]) for name in MEASURED if name in columns},
    }


def story_records(network: Network, command: str, populations: Populations) -> list[dict[str, Any]]:
    """A record for each claim of the story that can be tested: on this network, or on the population of seeds."""
    asked = dict.fromkeys(id.partition(":")[0] for id in STORY_CLAIMS)
    records = [r for id in asked for r in ledger([network], command, id, populations=populations)]
    told = [find(records, id) for id in STORY_CLAIMS]
    return [
        dataclasses.asdict(r) | {"section": STORY_CLAIMS[r.id]} for r in told if r is not None and r.value is not None
    ]


def _measured(run: Run, model: int, steps: Sequence[int], listener: Listener) -> dict[str, np.ndarray]:
    progress = ProgressMeasures([run.configs[model]], run.seen[model : model + 1])
    parts: list[dict[str, np.ndarray]] = []
    for start in range(0, len(steps), CHUNK):
        listener(start, len(steps))
        stack = run.trajectory(steps[start : start + CHUNK], model)
        columns = circuit_columns(stack) | progress.routing(stack)
        columns["probe_l1_var_from_num"] = probe_l1_var_from_num(stack, progress.probed)
        parts.append({name: columns[name].float().numpy() for name in MEASURED if name in columns})
    listener(len(steps), len(steps))
    return {"step": np.array(steps), **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]}}


def _rounded(values: np.ndarray, digits: int = DIGITS) -> list[float | None]:
    return [None if np.isnan(v) else round(float(v), digits) for v in values]


# Many seeds: how many bind, when each skill comes, how much data it needs (section 4).

# For each sweep: its panel's title, the axis, the final test that is drawn, and the colour.
PANELS = {
    "fraction": ("Pairs of numbers in training", "share of all pairs in training, f", ZERO_VAR, BLUE),
    "two_var": ("Sums of two variables in training", "two-variable sums for each literal one, r", TWO_VAR, GREEN),
}
TESTS = {ZERO_VAR: "literal sums held out from training", TWO_VAR: "two-variable sums not seen in training"}


def population_data(populations: Populations) -> dict[str, Any] | None:
    """The census and the sweeps that there are; None without any."""
    census = _census(populations) if populations.census else None
    sweeps = [_sweep(populations, name) for name in PANELS if populations.there(name)]
    return {"census": census, "sweeps": sweeps} if census or sweeps else None


def _census(populations: Populations) -> dict[str, Any]:
    data = census_data(populations)
    n, bind = len(data.binds), int(data.binds.sum())
    interval = wilson(bind, n)
    skills = [
        {"name": name, "colour": colour, "steps": sorted(int(s) for s in onsets if s != NEVER)}
        for (name, colour, _), onsets in zip(SKILLS, data.onsets, strict=True)
    ]
    doubles = {
        name: _median([s.final("0-var doubles") for s in populations.seeds if s.binds == binding])
        for name, binding in (("binding", True), ("others", False))
        if all(s.has("0-var doubles") for s in populations.seeds)
    }
    return {
        "name": data.name, "n": n, "bind": bind, "low": interval.low, "high": interval.high, "steps": data.steps,
        "skills": skills, "doubles": doubles,
    }  # fmt: skip


def _sweep(populations: Populations, name: str) -> dict[str, Any]:
    """One sweep: the final accuracies of its seeds at each setting, and the setting at which half of them succeed."""
    title, axis, test, colour = PANELS[name]
    population = getattr(populations, name)
    settings, accuracy = population.finals(SWEEPS[name], test)
    binds = population.binds(SWEEPS[name])
    threshold = sweep_threshold(populations, name, test, binding=True)
    return {
        "name": population.name, "title": title, "axis": axis, "test": TESTS[test], "colour": colour,
        "steps": int(population.table["step"].to_numpy().max()),
        "settings": settings.round(DIGITS).tolist(),
        "accuracies": [[round(float(v), DIGITS) for v in row if np.isfinite(v)] for row in accuracy],
        "medians": [_median(row[np.isfinite(row)].tolist()) for row in accuracy],
        "binding": [[int(row.sum()), len(row)] for row in binds],
        "threshold": threshold and [threshold.value, threshold.low, threshold.high],
    }  # fmt: skip


def _median(values: list[float]) -> list[float]:
    """The median with the ends of its 95 % interval; the median three times where there are too few values for one."""
    if not values:
        return []
    median, interval = median_interval(values)
    low, high = (interval.low, interval.high) if interval else (median, median)
    return [round(float(v), DIGITS) for v in (median, low, high)]
