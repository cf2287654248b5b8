"""A page from runs: the shipped bundle, an index, a file per model, a file per checkpoint.

index.html app.js app.css     the bundle, the same for every page
data/index.js                 tasks, models, their curves in brief, many seeds, the claims that the story quotes
data/m0.js                    one model: curves, measures, seen pairs, the exam, prompts to begin with
data/m0/00030000.js           one checkpoint's weights
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from assignadd import __version__
from assignadd.dynamics.curves import Spike
from assignadd.dynamics.phases import BINDING_SET
from assignadd.dynamics.trajectory import binds, checkpoints_around, curves_of, phases_of
from assignadd.measures.accuracies import accuracies_of
from assignadd.model.architecture import PAPER_NEEDS, require
from assignadd.network import Network
from assignadd.page import data
from assignadd.page.data import chosen_steps
from assignadd.page.folder import INDEX, PageFolder, circuits
from assignadd.page.population import population_data
from assignadd.sweeps.population import populations_for, read_population
from assignadd.task.evalsets import EVAL_SETS

FORMAT = 3  # the version of the data's format; the page refuses another one
Listener = Callable[[str], None]  # called with what is being done


def export(
    networks: Sequence[Network],
    out: Path,
    command: str,
    listener: Listener = lambda text: None,
    checkpoints: int = 60,
    ledger: bool = True,
    census: Path | None = None,
) -> Path:
    """Writes the page of these networks into `out`, and returns the path of its index.html.

    It has at most `checkpoints` of each network. With `ledger` it has the claims that the story quotes: their records
    say that `command` judges them. Those about many seeds are judged on the census in the folder `census`, or on the
    package's.
    """
    for network in networks:
        require(network.config, "the explorer page", *PAPER_NEEDS)
        data.require_shown(network.config)
    if census is not None:
        read_population(census)  # raises an error for a folder without a census before anything is measured
    folder = PageFolder(out)
    folder.write_bundle()
    models = []
    for i, network in enumerate(networks):
        listener(f"weights and measures of {network.name}, seed {network.seed}")
        models.append(_export_model(network, f"m{i}", folder, checkpoints))
    listener("measuring the claims of the story")
    index = _index(models, networks, command if ledger else None, census)
    folder.write(INDEX, f"assignadd.index({_json_in_string(index)});\n".encode())
    folder.remove_others()
    return out / "index.html"


def _index(
    models: list[dict[str, Any]], networks: Sequence[Network], command: str | None, census: Path | None
) -> dict[str, Any]:
    """The data that the page reads first: all models, the network of the story, and populations of its task."""
    tasks = [data.task_data(network.config) for network in networks]  # one for each network
    distinct_tasks = [task for i, task in enumerate(tasks) if task not in tasks[:i]]

    def suits_story(i: int) -> tuple[bool, bool, int, int]:
        """Larger for a network that suits the story better: it binds, has the first task, more spikes, comes first."""
        return models[i]["binds"], tasks[i] == tasks[0], len(models[i]["phases"]["spikes"]), -i

    i_story = max(range(len(models)), key=suits_story)
    populations = populations_for([networks[i_story].config], census)
    return {
        "format": FORMAT,
        "version": __version__,
        "tasks": distinct_tasks,
        "models": [model | {"task": distinct_tasks.index(task)} for model, task in zip(models, tasks, strict=True)],
        "story": models[i_story]["key"],
        "ledger": data.story_records(networks[i_story], command, populations) if command else [],
        "population": population_data(populations),
        **data.package_tables(),
    }


def _export_model(network: Network, key: str, folder: PageFolder, most_checkpoints: int) -> dict[str, Any]:
    """Writes the files of a network and returns what the index says about it; `key` is its name on the page."""
    spikes = data.spikes_with_checkpoints(phases_of(network), network.steps)
    steps = chosen_steps(network.steps, list(spikes.values()), most_checkpoints)
    for step in steps:
        folder.write_weights(key, step, network.stack_at(step).weights)
    is_seen = network.seen.flatten().tolist()  # for each pair of numbers, row by row of (N, N)
    model = {
        "curves": data.curves_data(curves_of(network)),
        "measures": data.measures_data(network),
        "seen": "".join("1" if pair_is_seen else "0" for pair_is_seen in is_seen),
        "exam": data.exam_data(network.config, network.seen),
        "reference": data.reference_data(network.config),
        "examples": data.examples(network.config, network.seen, network.stack),
    }
    folder.write(f"data/{key}.js", f"assignadd.model({json.dumps(key)},{_json_in_string(model)});\n".encode())
    return {
        "key": key, "run": network.name, "seed": network.seed, "steps": steps,
        "matrices": [(name, *matrix.shape) for name, matrix in circuits(network.stack.weights).items()],
        "binds": binds(network),
        "accuracies": data.accuracies_data(accuracies_of(network)),
        "phases": data.phases_data(network, spikes),
        "wall": data.curves_in_brief(curves_of(network)),
        "telling": _telling_prompts(network, spikes),
    }  # fmt: skip


def _telling_prompts(network: Network, spikes: Mapping[str, Spike]) -> dict[str, str | None]:
    """Prompts for the story; None where there is no such prompt.

    "first" and "second" are wrong before that spike and right after it: a sum with one variable, and one with a banned
    slot. "end" is a sum with one variable that is wrong at the end.
    """
    one_variable = [evalset for evalset in EVAL_SETS if evalset.name == BINDING_SET]
    with_banned_slots = [evalset for evalset in EVAL_SETS if evalset.n_banned]
    wrong_answer = partial(data.wrong_answer, network.config, network.seen)
    prompts: dict[str, str | None] = {"first": None, "second": None, "end": wrong_answer(network.stack, one_variable)}
    for name, spike in spikes.items():
        before, after = checkpoints_around(network.steps, spike)
        sets = one_variable if name == "first" else with_banned_slots
        prompts[name] = wrong_answer(network.stack_at(before), sets, later=network.stack_at(after))
    return prompts


def _json_in_string(value: Any) -> str:
    """A JavaScript expression for a value: JSON in a string literal, so that nothing in the data can run as code."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return f"JSON.parse({json.dumps(text)})"
