"""The training of a network: accuracies and measures along it, its phases, and whether it binds in the end.

The measures are taken at every checkpoint now, or read from the table that `assignadd measure curves` writes beside
the run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assignadd.config.errors import RunError
from assignadd.dynamics.curves import Spike
from assignadd.dynamics.phases import CurveOnset, Curves, LateVariable, Phases, curve_onsets, late_variable
from assignadd.measures.columns import ProgressMeasures
from assignadd.model.accuracy import Exam
from assignadd.model.stack import Stack
from assignadd.network import Network, per_network
from assignadd.runs import atomic
from assignadd.runs.encoding import decode_sealed, encode_table
from assignadd.runs.files import read_regular
from assignadd.runs.folder import Run
from assignadd.runs.manifest import MEASURES
from assignadd.task.evalsets import RECORDED_SETS
from assignadd.training.processes import in_parallel

if TYPE_CHECKING:
    import polars

MODEL, SEED = "model", "seed"
Columns = dict[str, np.ndarray]  # values at each checkpoint, by the name of the column; `step` is one of them
CHUNK = 8  # checkpoints in memory at once
CURVE_SEQUENCES = 2000  # of each set, where training recorded no accuracies
Listener = Callable[[int, int], None]  # is told how many checkpoints are measured, and of how many in all
Read = Callable[[Sequence[int]], Stack]  # returns the checkpoints of one model at these steps, as a stack


def measured_at(progress: ProgressMeasures, steps: Sequence[int], read: Read) -> Columns:
    """The progress measures of one model at these steps."""
    chunks = []
    for chunk in _chunks(steps):
        measures = progress(read(chunk))
        chunks.append({"step": np.array(chunk)} | {name: values.float().numpy() for name, values in measures.items()})
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def _chunks(steps: Sequence[int]) -> list[Sequence[int]]:
    """The steps in groups of `CHUNK`."""
    return [steps[first : first + CHUNK] for first in range(0, len(steps), CHUNK)]


def measured_run(run: Run, listener: Listener = lambda done, total: None, processes: int = 1) -> polars.DataFrame:
    """Every progress measure of every model at every checkpoint: a table with a row per model and checkpoint."""
    import polars

    if not run.steps:
        raise RunError(f"run {run.name} has no checkpoints yet; train it on")
    models = range(len(run.members))
    progress = [ProgressMeasures([run.configs[model]], run.seen[model : model + 1]) for model in models]
    jobs = list(product(models, _chunks(run.steps)))

    def measure(job: tuple[int, Sequence[int]]) -> Columns:
        """The columns of one model at a chunk of steps."""
        model, steps = job
        columns = measured_at(progress[model], steps, read=lambda at_steps: run.trajectory(at_steps, model))
        seed = run.members[model].seed
        return {MODEL: np.full(len(steps), model), SEED: np.full(len(steps), seed)} | columns

    done, total = 0, len(run.members) * len(run.steps)
    listener(done, total)
    tables: dict[int, Columns] = {}  # by the index of the job; they do not end in their order
    for index, columns in in_parallel(measure, jobs, processes):
        tables[index] = columns
        done += len(columns["step"])
        listener(done, total)
    return polars.concat(polars.DataFrame(tables[index]) for index in range(len(jobs)))


def with_own_columns(run: Run, table: polars.DataFrame) -> polars.DataFrame:
    """The table of a run with the columns of the user's function, as training recorded them at these steps."""
    if run.observed is None:
        return table
    import polars

    recorded = {(row["model"], row["step"]): row.get("measures", {}) for row in run.metrics()}  # by model and step
    rows = [recorded.get(model_and_step, {}) for model_and_step in table.select(MODEL, "step").rows()]
    columns = {name: [row.get(name) for row in rows] for name in run.observed.columns}
    return table.with_columns(polars.Series(name, values, polars.Float64) for name, values in columns.items())


def write_measures(run: Run, table: polars.DataFrame) -> Path:
    """Writes the table beside the run, with a seal and what it was made from, and returns its path."""
    path = run.path / MEASURES
    atomic.write(path, encode_table(table, _origin(run)))
    return path


def stored_or_measured(
    run: Run,
    measure: Callable[[Run], polars.DataFrame] = measured_run,
    note: Callable[[str], None] = lambda problem: None,
) -> polars.DataFrame:
    """The table beside the run; where it is missing or cannot be used, the table from `measure`, which is stored there.

    `note` is called with the reason if the stored table cannot be used, or if the new one cannot be stored.
    """
    try:
        table = stored_measures(run)
        if table is not None:
            return table
    except RunError as error:
        note(f"{error}; it is measured again")
    table = measure(run)
    try:
        write_measures(run, table)
    except RunError as error:  # a run that may only be read
        note(f"the measures are not stored: {error}")
    return table


def stored_measures(run: Run) -> polars.DataFrame | None:
    """The table beside the run, None if there is none; raises a RunError that says why it cannot be used."""
    path = run.path / MEASURES
    if not os.path.lexists(path):
        return None
    n_rows = len(run.members) * len(run.steps)
    table, stored_origin = decode_sealed(read_regular(run.path, MEASURES), str(path), n_rows)
    for key, value in _origin(run).items():
        if stored_origin.get(key) != value:
            raise RunError(f"{path} was measured on or by other {key} than there are now")
    expected_rows = [(model, member.seed, step) for model, member in enumerate(run.members) for step in run.steps]
    has_columns = {MODEL, SEED, "step"} < set(table.columns)  # and at least one measure
    if not has_columns or table.select(MODEL, SEED, "step").rows() != expected_rows:
        raise RunError(f"{path} does not have a row for each model and checkpoint of the run")
    return table


def _origin(run: Run) -> dict[str, str]:
    """The hash of the checkpoints and that of the measuring code: a table with others is not used."""
    return {"checkpoints": run.fingerprint, "code": _code_version()}


@lru_cache(maxsize=1)
def _code_version() -> str:
    """A hash of the code of measures, networks and sequences, on which the numbers of a table depend."""
    package = Path(__file__).parents[1]
    sources: list[Path] = []
    for folder in ("measures", "model", "task"):
        sources += sorted((package / folder).glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


@per_network()
def trajectory_of(network: Network) -> Columns:
    """The progress measures at every checkpoint, by column: stored by `assignadd measure curves`, or measured now."""
    table = None
    if network.run is not None:
        with suppress(RunError):  # a table that cannot be used
            table = stored_measures(network.run)
    if table is None:
        progress = ProgressMeasures([network.config], network.seen[None])
        return measured_at(progress, network.steps, network.checkpoints)
    rows = table.filter(table[MODEL] == network.index)
    return {name: rows[name].to_numpy() for name in rows.columns if name not in (MODEL, SEED)}


@per_network(slow=True)
def curves_of(network: Network) -> Curves:
    """The accuracies that a network's run recorded up to its step.

    Without a record, as for imported weights, those of its checkpoints up to there on at most 2,000 sequences a set.
    """
    if network.rows:
        rows = network.rows
        columns = {name: np.array([row["accuracy"][name] for row in rows]) for name in rows[0]["accuracy"]}
        columns["step"] = np.array([row["step"] for row in rows])
        return Curves.of_columns(columns, network.config.record.eval_sequences).until(network.step)
    n = min(network.n, CURVE_SEQUENCES)
    exam = Exam([network.config], network.seen[None], RECORDED_SETS, n)
    steps = [step for step in network.steps if step <= network.step]
    of_steps = [(exam.count_correct(network.stack_at(step)) / n).numpy() for step in steps]  # (1, sets) each
    by_set = np.concatenate(of_steps).T
    return Curves(np.array(steps), dict(zip(exam.names, by_set, strict=True)), n)


def followed(network: Network) -> bool:
    """Whether training was evaluated more than once: one evaluation says what was learned, not when."""
    return len(curves_of(network).steps) > 1


@per_network()
def phases_of(network: Network) -> Phases:
    """When a network learned to add, to bind and to use banned slots, and both spikes."""
    return curves_of(network).phases


@per_network()
def binds(network: Network) -> bool:
    """Whether the network binds in the end."""
    return curves_of(network).binds


@per_network()
def late_variable_of(network: Network) -> LateVariable | None:
    """The variable that is learned last; None without a first spike, or if none is learned after it."""
    spike, task = phases_of(network).first_spike, network.config.task
    if spike is None:
        return None
    banned = {"first": task.banned_first, "second": task.banned_second}
    return late_variable(trajectory_of(network), banned, spike.after)


@per_network()
def onsets_of(network: Network) -> list[CurveOnset]:
    """The onset of every accuracy and, with several checkpoints, of every measure that has a threshold."""
    return curve_onsets(curves_of(network), trajectory_of(network))


def checkpoints_around(steps: Sequence[int], spike: Spike) -> tuple[int, int]:
    """The last of these steps before a spike and the first one after it."""
    before = max(step for step in steps if step <= spike.before)
    after = min(step for step in steps if step >= spike.after)
    return before, after
