"""One meaning of "bind": every place that says whether a network binds, or from which step on, says the same.

What is expected comes from the recorded accuracies alone: 95 % of trained sums with one variable, for 1,000 steps or to
the end; and by the median of the last evaluations since then, at most ten and from the last tenth of the training.
"""

import json
import re
import shutil
from statistics import median

import polars
import pytest
import torch

from assignadd.config import Config, Member, Optim, Recording
from assignadd.dynamics import trajectory
from assignadd.dynamics.phases import BINDING_SET, BINDING_THRESHOLD, Curves
from assignadd.dynamics.trajectory import curves_of, followed, onsets_of, phases_of
from assignadd.model.accuracy import Exam
from assignadd.model.stack import concatenate
from assignadd.network import networks_of
from assignadd.page.export import export
from assignadd.page.population import population_data
from assignadd.paper.generalisation.figures import census_data
from assignadd.paper.ledger import ledger
from assignadd.report.first_screen import first_screen, names_of
from assignadd.report.page import Page
from assignadd.runs.folder import Run, shipped
from assignadd.runs.writer import Writer
from assignadd.sweeps.population import shipped_population, shipped_populations
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.splits import pair_split
from tests.cli.asking import complaint, said
from tests.page.pages import CONFIG, HERE, accuracies, states
from tests.page.test_export import argument
from tests.report.reader import Reader

LEVEL, LASTING = 0.95, 1000


def expected(steps: list[int], shares: list[float]) -> tuple[int | None, bool]:
    """The step at which a network came to bind, and whether it does in the end."""
    came = None
    for i, step in enumerate(steps):
        until = next((j for j in range(i, len(steps)) if steps[j] >= step + LASTING), len(steps) - 1)
        if all(share >= LEVEL for share in shares[i : until + 1]):
            came = step
            break
    if came is None:
        return None, False
    last = [share for step, share in zip(steps, shares, strict=True) if step >= 0.9 * steps[-1]][-10:]
    since = [share for step, share in zip(steps, shares, strict=True) if step >= came]
    return came, median(last[-len(since) :]) >= LEVEL


# From which step to which each of five networks binds, in a training of 3,000 steps.
ALWAYS, LOST, FOUND, LATE, NEVER = (1500, 3001), (500, 2700), (500, 2000, 2200, 3001), (2900, 3001), ()
MADE_UP = (ALWAYS, LOST, FOUND, LATE, NEVER)
STEPS = range(0, 3001, 100)


@pytest.fixture(scope="module")
def made_up(tmp_path_factory) -> Run:
    """Five hand-made networks that add from step 300 on; the last checkpoint of each is as at its last evaluation."""
    nothing, adds, whole = states()
    config = Config(CONFIG.task, whole.config.model, Optim(steps=3000), Recording(eval_every=100, eval_sequences=64))
    members = [Member(seed) for seed in range(len(MADE_UP))]
    seen = torch.stack([pair_split(config.task, seed) for seed in range(len(MADE_UP))])
    marks = []
    for i, member in enumerate(members):
        exam = Exam([member.config(config)], seen[i : i + 1], EVAL_SETS, config.record.eval_sequences)
        marks.append({id(state): accuracies(exam, state) for state in (nothing, adds, whole)})
    path = tmp_path_factory.mktemp("binding") / "made-up"
    with Writer.hold(path, config, members, seen, HERE) as run:
        for step in STEPS:
            early = nothing if step < 300 else adds
            models = [whole if sum(step >= edge for edge in edges) % 2 else early for edges in MADE_UP]
            known = {"step": step, "loss": 1.0, "diverged_at": None}
            rows = [known | {"model": i, "seed": i, "accuracy": marks[i][id(one)]} for i, one in enumerate(models)]
            checkpoint = concatenate(models) if step % 500 == 0 else None
            state = {} if checkpoint is not None else None
            run.commit(step, state=state, checkpoint=checkpoint, rows=rows, finished=step == STEPS[-1])
    return Run.open(path)


@pytest.fixture(scope="module", params=["census-six", "small-trajectory", "made-up"])
def run(request, made_up, tmp_path_factory) -> Run:
    if request.param == "made-up":
        return made_up
    folder = tmp_path_factory.mktemp("shipped") / request.param  # a copy: what is measured is kept
    shutil.copytree(shipped(request.param), folder)
    return Run.open(folder)


@pytest.fixture(scope="module")
def truth(run) -> list[tuple[int | None, bool]]:
    """The step and whether it binds, for each network of the run, from its recorded accuracies."""
    own = [[row for row in run.metrics() if row["model"] == i] for i in range(len(run.members))]
    return [expected([r["step"] for r in rows], [r["accuracy"]["1-var train"] for r in rows]) for rows in own]


@pytest.fixture(scope="module")
def models(run):
    return networks_of(run, n=50)[0]


def test_the_expectation_is_that_of_the_made_up_networks(made_up):
    steps = list(STEPS)
    found = [expected(steps, [row["accuracy"]["1-var train"] for row in made_up.metrics() if row["model"] == i])
             for i in range(5)]  # fmt: skip
    assert found == [(1500, True), (500, False), (500, True), (2900, True), (None, False)]


def test_curves_networks_and_phases(run, truth, models):
    assert len(models) == len(run.members)
    for e, (step, truly) in zip(models, truth, strict=True):
        curves = curves_of(e)
        assert curves.binds == trajectory.binds(e) == phases_of(e).binds == truly
        for onset in (curves.binding, phases_of(e).binding):
            assert (onset and onset.step) == step
        own = next(o for o in onsets_of(e) if o.curve == "1-var train")
        assert (own.threshold, own.onset) == (LEVEL, step)


def test_the_summary_in_words(truth, models):
    for e, (step, binds) in zip(models, truth, strict=True):
        words = phases_of(e).summary
        if phases_of(e).addition is None or step is None:
            assert "binding at" not in words and "was not learned" in words
        else:
            assert f"binding at {step:,}{'' if binds else ' and lost by the end'}" in words
            assert ("lost" in words) == (not binds)


def test_the_command_phases(run, truth, capsys):
    if len({row["step"] for row in run.metrics()}) == 1:
        assert "evaluated once" in complaint(
            capsys, "measure", "phases", str(run.path), code=1
        )  # no step could be named
        return
    found = json.loads(said(capsys, "measure", "phases", str(run.path), "--json"))["models"]
    assert [(m["binding"] and m["binding"]["step"], m["binds"]) for m in found] == truth
    assert [o["onset"] for m in found for o in m["onsets"] if o["curve"] == "1-var train"] == [s for s, _ in truth]
    # For people: a table with run, seed, addition, binding, ...
    table = said(capsys, "measure", "phases", str(run.path))
    row = rf"^ *{run.name} +\d+ +(?:[\d,]+|-) +([\d,]+|-)"
    shown = [int(step.replace(",", "")) if step[0].isdigit() else None for step in re.findall(row, table, re.MULTILINE)]
    assert shown == [step for step, _ in truth]


def test_the_page(run, truth, tmp_path):
    networks = networks_of(run, n=50)[0]
    networks, known = networks[-4:-1] or networks, truth[-4:-1] or truth  # three of several
    export(networks, tmp_path / "page", "assignadd explore", checkpoints=2, ledger=False)
    found = argument(tmp_path / "page" / "data" / "index.js")["models"]
    assert [m["binds"] for m in found] == [binds for _, binds in known]
    steps = [step if followed(e) else None for e, (step, _) in zip(networks, known, strict=True)]
    assert [m["phases"]["onsets"]["binding"] for m in found] == steps


def test_the_first_screen_of_the_report_and_the_ledger(run, truth, models, capsys):
    page, n = Page("t"), sum(binds for _, binds in truth)
    first_screen(page, models, [], ())
    words = "".join(Reader(page.html()).words)
    verb = "binds" if n == 1 else "bind"
    binding, others = [[e for e, (_, b) in zip(models, truth, strict=True) if b == binds] for binds in (True, False)]
    which = f": {names_of(binding)}" if binding else ""
    counted = f"{n} of {len(truth)} networks {verb} variables{which}."
    assert (f"{names_of(models)}, binds variables." if len(truth) == n == 1 else counted) in words
    assert (f"on the others: {names_of(others)}." in words) == bool(binding and others)
    others = [f"seed {e.seed} of {e.name}" for e in others]
    out = " ".join(said(capsys, "claims", str(run.path), "--only", "probe-after-mlp", "--n", "50").split())
    assert (f"{len(others)} of {len(truth)} networks do not bind ({', '.join(others)})" in out) == bool(others)
    (record,) = ledger(models, "", "qk2-identity")  # a claim about networks that bind
    assert [s.seed for s in record.by_seed] == [e.seed for e, (_, binds) in zip(models, truth, strict=True) if binds]


def test_the_census_its_figure_its_page_and_its_claim():
    """From the rows of the shipped tables."""
    populations, truth = shipped_populations(), {}
    for part in populations.census:
        for seed, rows in part.table.sort("step").partition_by("seed", as_dict=True).items():
            truth[seed] = expected(rows["step"].to_list(), rows["1-var train"].to_list())
    seeds = {(s.seed,): s for s in populations.seeds}
    assert {seed: (s.curves.binding and s.curves.binding.step, s.binds) for seed, s in seeds.items()} == truth
    bind, came = sum(binds for _, binds in truth.values()), sum(step is not None for step, _ in truth.values())
    assert (len(truth), bind) == (160, 131)
    assert census_data(populations).binds.sum() == population_data(populations)["census"]["bind"] == bind
    skills = {skill["name"]: len(skill["steps"]) for skill in population_data(populations)["census"]["skills"]}
    assert skills["binding"] == came >= bind
    (record,) = ledger([], "", "every-seed-binds", populations=populations)
    assert (record.value, record.verdict) == (bind / 160, f"{bind} hold, {160 - bind} fail")
    (refined,) = ledger([], "", "every-seed-refines", populations=populations)
    assert refined.seeds == bind  # it is about those that bind


def test_a_sweep_over_a_setting():
    populations = shipped_populations()
    for part, setting in ((populations.fraction, "seen_fraction"), (populations.two_var, "two_var_ratio")):
        found, values = part.binds(setting), sorted(part.table[setting].unique().to_list())
        for i, value in enumerate(values[:: len(values) - 1]):
            rows = part.table.filter(polars.col(setting) == value).sort("step").partition_by("seed", as_dict=True)
            own = [expected(r["step"].to_list(), r["1-var train"].to_list())[1] for _, r in sorted(rows.items())]
            assert found[i * (len(values) - 1)].tolist() == own


def test_the_exam_after_the_last_step_and_the_end_of_training_nearly_always_agree():
    """findings/README.md has these numbers: tables of findings judge by the exam."""
    networks, apart = 0, []
    varied = {"census": [], "authors": [], "fraction": ["seen_fraction"], "two-var": ["two_var_ratio"]}
    for name, settings in varied.items():
        population = shipped_population(name)
        for part in population.table.partition_by([*settings, "seed"]):
            curves = Curves(part["step"].to_numpy(), {BINDING_SET: part[BINDING_SET].to_numpy()}, 512)
            exam = part[f"{BINDING_SET} (final)"].drop_nulls()[-1]
            networks += 1
            apart += [exam] if (exam >= BINDING_THRESHOLD) != curves.binds else []
    assert networks == 1000 and len(apart) == 4 and max(abs(exam - BINDING_THRESHOLD) for exam in apart) < 0.01
