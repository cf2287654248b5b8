"""A page from runs: the shipped bundle, an index, a file per model, a file per checkpoint.

index.html app.js app.css     the bundle, the same for every page
data/index.js                 tasks, models, their curves in brief, many seeds, the claims that the story quotes
data/m0.js                    one model: curves, measures, seen pairs, the exam, prompts to begin with
data/m0/00030000.js           one checkpoint's weights
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from assignadd import __version__
from assignadd.dynamics.curves import Spike
from assignadd.dynamics.phases import BINDING_SET
from assignadd.dynamics.trajectory import binds, checkpoints_around, curves_of, phases_of
from assignadd.measures.accuracies import accuracies_of
from assignadd.model.architecture import PAPER_NEEDS, require
from assignadd.network import Network, networks_of
from assignadd.page import data
from assignadd.page.data import chosen_steps
from assignadd.runs import atomic
from assignadd.runs.files import claim_folder, folder_inside
from assignadd.runs.folder import Run
from assignadd.sweeps.population import populations_for, read_population
from assignadd.task.evalsets import EVAL_SETS, EvalSet

FORMAT = 3
PAGE = ("index.html", "app.js", "app.css")
INDEX = "data/index.js"
DATA = re.compile(r"m[0-9]+\.js|[0-9]{8,}\.js")
Listener = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Settings:
    checkpoints: int = 60
    """At most so many of each model."""
    ledger: bool = True
    """Whether to measure the claims that the story quotes."""
    n: int = 20_000
    """Sequences for each of these."""
    census: Path | None = None
    """The folder of a census of the same task, for the claims about all seeds. Default: the package's,
    if it has the same task."""


def export(
    runs: Sequence[Run],
    out: Path,
    settings: Settings,
    command: str,
    listener: Listener = lambda what, done, total: None,
) -> Path:
    """Writes the page and returns its address on disk."""
    for run in runs:
        require(run.config, "the explorer page", *PAPER_NEEDS)
        data.require_shown(run.config)
    if settings.census is not None:
        read_population(settings.census)  # refuses what is not one before anything is measured
    folder = PageFolder(out)
    for name in PAGE:
        folder.write(name, (files("assignadd.page") / "built" / name).read_bytes())
    models: list[dict[str, Any]] = []
    networks: list[Network] = []
    for run in runs:
        for network in networks_of(run, None, settings.n)[0]:
            models.append(_export_model(run, network, f"m{len(models)}", folder, settings, listener))
            networks.append(network)
    listener("measuring the claims of the story", 0, 1)
    folder.write(INDEX, f"assignadd.index({_literal(_index(models, networks, settings, command))});\n".encode())
    folder.remove_others()
    listener("measuring the claims of the story", 1, 1)
    return out / "index.html"


def _index(
    models: list[dict[str, Any]], networks: Sequence[Network], settings: Settings, command: str
) -> dict[str, Any]:
    """What the page reads first. The story is about one network; the population is of that network's task.

    That is one that binds, rather of the first run's task, and rather one whose training is on the page.
    """
    tasks = [data.task_data(network.config) for network in networks]
    distinct = [task for i, task in enumerate(tasks) if task not in tasks[:i]]
    told = max(
        range(len(models)),
        key=lambda i: (models[i]["binds"], tasks[i] == tasks[0], len(models[i]["phases"]["spikes"]), -i),
    )
    populations = populations_for([networks[told].config], settings.census)
    return {
        "format": FORMAT, "version": __version__, "tasks": distinct,
        "models": [model | {"task": distinct.index(task)} for model, task in zip(models, tasks, strict=True)],
        "story": models[told]["key"],
        "ledger": data.story_records(networks[told], command, populations) if settings.ledger else [],
        "population": data.population_data(populations),
        **data.package_tables(),
    }  # fmt: skip


def _export_model(
    run: Run, network: Network, key: str, folder: PageFolder, settings: Settings, listener: Listener
) -> dict[str, Any]:
    """Writes the files of a model and returns what the index says about it."""
    name = f"{run.name}, seed {network.seed}"
    spikes = data.straddled(phases_of(network), run.steps)
    steps = chosen_steps(run.steps, list(spikes.values()), settings.checkpoints)
    for i, step in enumerate(steps):
        listener(f"weights of {name}", i, len(steps))
        folder.write(f"data/{key}/{step:08d}.js", data.script(key, step, network.stack_at(step)).encode())
    listener(f"weights of {name}", len(steps), len(steps))
    measures = data.measures_data(
        run, network.index, steps, lambda done, total: listener(f"measures of {name}", done, total)
    )
    model = {
        "curves": data.curves_data(curves_of(network)),
        "measures": measures,
        "seen": "".join("1" if s else "0" for s in network.seen.flatten().tolist()),
        "exam": data.exam(network.config, network.seen),
        "reference": data.reference(network.config),
        "examples": data.examples(network.config, network.seen, network.stack),
    }
    folder.write(f"data/{key}.js", f"assignadd.model({json.dumps(key)},{_literal(model)});\n".encode())
    return {
        "key": key, "run": run.name, "seed": network.seed, "steps": steps, "matrices": data.shapes(network.stack),
        "binds": binds(network), "accuracies": data.accuracies_data(accuracies_of(network)),
        "phases": data.phases_data(network, spikes), "wall": data.thinned(curves_of(network), data.WALL_SETS),
        "telling": _telling(network, spikes),
    }  # fmt: skip


def _telling(network: Network, spikes: Mapping[str, Spike]) -> dict[str, str | None]:
    """Prompts for the story: wrong just before a spike and right just after it; wrong at the end."""

    def across(spike: Spike | None, sets: Sequence[EvalSet]) -> str | None:
        if spike is None:
            return None
        before, after = checkpoints_around(network.steps, spike)
        stack, later = network.stack_at(before), network.stack_at(after)
        return data.wrong_answer(network.config, network.seen, stack, sets, later)

    bound = [s for s in EVAL_SETS if s.name == BINDING_SET]
    return {
        "first": across(spikes.get("first"), bound),
        "second": across(spikes.get("second"), [s for s in EVAL_SETS if s.n_banned]),
        "end": data.wrong_answer(network.config, network.seen, network.stack, bound),
    }


class PageFolder:
    """The folder of the page, and the files written into it."""

    def __init__(self, out: Path):
        claim_folder(out, "explorer page")
        self.out, self.written = out, set[Path]()

    def write(self, name: str, data: bytes) -> None:
        path = folder_inside(self.out, str(Path(name).parent)) / Path(name).name
        atomic.write(path, data)
        self.written.add(path)

    def remove_others(self) -> None:
        """Removes the data of models and checkpoints of an earlier page that this one does not have."""
        data_folder = folder_inside(self.out, "data")
        folders = [f for f in data_folder.iterdir() if re.fullmatch("m[0-9]+", f.name) and not f.is_symlink()]
        for path in [*data_folder.glob("m*.js"), *(path for folder in folders for path in folder.glob("*.js"))]:
            if path not in self.written and DATA.fullmatch(path.name):
                atomic.discard(path)
        for folder in folders:
            with suppress(OSError):  # it has files
                folder.rmdir()


def _literal(value: Any) -> str:
    """JSON inside a string literal: whatever a run is called, the script only ever parses data."""
    return "JSON.parse(" + json.dumps(json.dumps(value, allow_nan=False, separators=(",", ":"))) + ")"
