"""assignadd sweep: a grid of settings times seeds, and one table"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignadd.cli import options
from assignadd.cli.options import FromPreset, OnDevice, OwnFiles, positional
from assignadd.cli.screen import Output, Printing, Table, columns, facts, note
from assignadd.cli.train import note_undefined_measures, showing_sweep
from assignadd.config import has_code_of_user, with_settings
from assignadd.config.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from assignadd.sweeps.plan import Plan
    from assignadd.sweeps.plan import Sweep as SweepSettings

# More steps than any training has: a sweep keeps the newest optimizer state alone, from which it is continued.
NEWEST_STATE_ALONE = 1 << 31


@dataclass(frozen=True, kw_only=True)
class ManyModels(OnDevice, Printing):
    """Where and how the models of a sweep or a study are trained."""

    steps: int | None = None
    """Updates. If None, the preset's (30,000 for paper), or the study's."""
    tf32: bool = False
    """Round matrix-product inputs to TF32 on a GPU; kept in the results."""
    device: str = "auto"
    """auto, cpu or cuda (every GPU of this machine, or with --engine ray of the cluster)."""
    per_gpu: int = 1
    """Stacks at a time on each GPU of this machine: small stacks leave parts of a GPU unused."""
    engine: str = "local"
    """local, or ray (pip install 'assignadd[ray]')."""
    address: str | None = None
    """The Ray cluster: auto for the one on this machine (make ray-up), else HOST:PORT. If None, one is started for this
    sweep."""
    dry_run: bool = False
    """Print cells and stacks, and train nothing."""
    typed: str = ""  # the whole command line, for the record of how a table was made

    def plan(self, sweep: SweepSettings, out: Path) -> Plan:
        """What remains to be trained of a sweep."""
        from assignadd.sweeps.plan import Machines, plan

        options.within("per_gpu", self.per_gpu, 1, 64)
        device = options.resolve_device(self.device, self.engine)
        return plan(sweep, out, Machines(device, self.cores, self.per_gpu, self.engine, self.address))

    @property
    def quiet(self) -> bool:
        return self.json or self.csv


@dataclass(frozen=True, kw_only=True)
class Sweep(ManyModels, FromPreset, OwnFiles):
    """Train many models, a grid of settings times seeds, in stacks as large as the device's memory allows.

    The same command continues an interrupted sweep, and trains nothing that is finished. OUT/table.parquet has a row
    per model and evaluation; OUT/table.json says how it was made. --json prints the plan for --dry-run, else
    {"models", "diverged", "bind", "do_not_bind", "table"}.
    """

    grid: str = positional()
    """fraction (16 values of f), two-var (19 values of r), seeds, or a file with a row of settings per model: any field
    of task, model, optim, seed, numerics and start by its dotted name (optim.lr, model.n_heads), and seed. CSV, a
    JSON list of rows, or a JSON grid {"optim.lr": [0.001, 0.003], "model.n_heads": [1, 2]}."""
    n_seeds: int = 10
    """Models per row of settings, with seeds from 0 on."""
    seeds: str | None = None
    """Instead, the seeds themselves: 0..127 or 0,4,7."""
    every: int | None = None
    """Steps between evaluations and measures; 250 for seeds, else 1000."""
    final_sequences: int | None = None
    """Sequences per evaluation set in the last evaluation of every model; 0 for none. If None, 20,000; 500 for the
    preset smoke."""
    save_every: int = 5000
    """Steps between checkpoints: the most that an interruption costs."""
    observe: str | None = None
    """FILE.py:FUNCTION, a measure of yours: its columns stand in the table. The file is executed (docs/extend.md)."""
    out: Path | None = None
    """Where the run folders and the table go. If None, runs/sweeps/GRID-PRESET."""

    def main(self) -> Output:
        options.within("n_seeds", self.n_seeds)
        if (self.task_ or self.network) and (self.engine != "local" or self.per_gpu > 1):
            raise UsageError("a task or a network of your own trains in this process on a GPU: one stack at a time")
        sweep = self.requested()
        if self.observe is not None:
            sweep = _observed(sweep, self.observe)
        out = self.out or Path("runs") / "sweeps" / f"{sweep.name}-{self.preset}"
        from assignadd.sweeps.engine import run_plan
        from assignadd.sweeps.results import TABLE, read_provenance, tally

        planned = self.plan(sweep, out)
        if self.dry_run:
            summary = planned.dry_run() | {"out": str(out)}
            return Output([plan_table("sweep", summary)], summary)
        if not has_code_of_user(sweep.config):
            note_undefined_measures(sweep.config)
        with showing_sweep(out.name, planned.jobs, self.quiet) as listener:
            table = run_plan(planned, listener, self.typed)
        note_versions(read_provenance(out))
        counts: dict[str, Any] = tally(table, sweep) | {"table": str(out / TABLE)}
        n_rows = table.select("step").collect().height  # one column is enough to count the rows of the file
        binding = ""  # a task of the user's own has no variables
        if not has_code_of_user(sweep.config):
            binding = f"{counts['bind']} learned to bind variables, {counts['do_not_bind']} did not, "
        lines = [
            f"{counts['table']}: {counts['models']} models, {n_rows:,} rows",
            f"{binding}{counts['diverged']} diverged",
        ]
        return Output(lines, counts, Table("", columns(*counts), [tuple(counts.values())]))

    def requested(self) -> SweepSettings:
        """The sweep that the options ask for: its settings, and those of each model, of a named grid or from a file."""
        from assignadd.runs.config_json import with_files
        from assignadd.sweeps.plan import MOST_CELLS, NAMES, named_sweep, sweep_from_file

        base = with_files(options.base_config(self.preset, self.config), self.task_, self.network)
        # A sweep over seeds shows when a circuit forms; in others the end of training counts.
        usual_every = 250 if self.grid == "seeds" else 1000
        every = usual_every if self.every is None else self.every
        # The preset smoke learns nothing, and its training has fewer than 2,000 sequences.
        usual_final = 500 if self.preset == "smoke" else 20_000
        final = usual_final if self.final_sequences is None else self.final_sequences
        steps = base.optim.steps if self.steps is None else self.steps
        settings = {
            "record.eval_every": every, "record.measure_every": 0 if has_code_of_user(base) else every,
            "record.checkpoint_every": self.save_every, "record.state_every": NEWEST_STATE_ALONE,
            "record.final_sequences": final, "numerics.tf32": self.tf32, "optim.steps": steps,
        }  # fmt: skip
        config = with_settings(base, settings)
        seeds = options.parse_seeds(self.seeds, MOST_CELLS) if self.seeds else list(range(self.n_seeds))
        if self.grid in NAMES:
            return named_sweep(self.grid, config, seeds)
        suggestion = did_you_mean(self.grid, NAMES)
        if suggestion and not Path(self.grid).exists():
            raise UsageError(f"no sweep and no file {self.grid!r}{suggestion}")
        return sweep_from_file(Path(self.grid), config, seeds)


def _observed(sweep: SweepSettings, measure: str) -> SweepSettings:
    """The sweep with a measure of the user's, FILE.py:FUNCTION, after it was tried on the first of its models."""
    from assignadd.measures.own import function_named, own_measure
    from assignadd.sweeps.final_tests import SweepObserver

    function, file = function_named(measure)
    config, members = next(iter(sweep.members.items()))
    observe = own_measure(function, config, members[0], SweepObserver, file)  # which tries it
    return replace(sweep, observe=observe)


def note_versions(provenance: Mapping[str, Any]) -> None:
    """Prints a note if the networks of a table were trained by different versions of this package."""
    processes = provenance["made_with"]  # version and commit of each process that trained some of them
    # Each version once, in order.
    versions = dict.fromkeys(f"{process['assignadd']} ({str(process['commit'])[:8]})" for process in processes)
    if len(versions) > 1:
        note(f"different versions trained these networks, and may measure differently: {', '.join(versions)}")


def plan_table(title: str, summary: Mapping[str, Any]) -> Table:
    """The plan of a sweep or a study for people; `summary` is what --json prints of it."""
    stack_sizes = summary["stacks"]
    rows = {
        "models": summary["cells"], "steps each": summary["steps"], "updates to make": summary["model_steps"],
        "stacks": f"{len(stack_sizes)}, {summary['finished_stacks']} of them finished",
        "models in a stack": f"up to {max(stack_sizes)}",
        "at a time": f"{summary['at_a_time']} on {summary['device']}", "into": summary["out"],
    }  # fmt: skip
    if summary["seconds"] is not None:
        rows["takes about"] = f"{timedelta(seconds=round(summary['seconds']))} if nothing else runs"
    return facts(title, rows)
