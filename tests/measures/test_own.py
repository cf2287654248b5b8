"""A measure of the user's: its columns in every row of the metrics, and a run that goes on with it alone."""

import csv
import io
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

import assignadd
from assignadd.cli import main
from assignadd.config import PRESETS, ConfigError, Member, UserError
from assignadd.config.errors import RunError
from assignadd.measures.own import function_named, own_measure
from assignadd.runs.folder import Run
from assignadd.sweeps.engine import run_sweep
from assignadd.sweeps.final_tests import SweepObserver
from assignadd.sweeps.plan import named_sweep
from tests.runs.small import contents
from tests.sweeps.small import CONFIG as SWEEP_CONFIG

torch.set_num_threads(1)
CONFIG = replace(PRESETS["smoke"], optim=replace(PRESETS["smoke"].optim, steps=30))
FILE = '''
"""A user's file."""
import torch

def size(stack):
    """Mean square of the embedding.

    More that is not kept.
    """
    stack.W_E.mul_(2)  # what a measure does to the weights is not training
    return stack.W_E.square().mean((1, 2)) / 4

def both(stack, configs, seen):
    return {"seen pairs": seen.flatten(1).sum(1), "rate": torch.tensor([c.optim.lr for c in configs])}

both.columns = {"seen pairs": "how many pairs training shows", "rate": "the learning rate"}

def norm(stack):
    """Ours by another name."""
    return {"norm blocks.0.mlp.W_in": stack.W_E.sum((1, 2))}

def silent(stack):
    return stack.W_E.sum((1, 2))

def scalar(stack):
    """One number for all."""
    return stack.W_E.sum()

def wrong(stack):
    """Fails."""
    return stack.W_nothing
'''


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def named(file, name):
    return function_named(f"{file}:{name}")[0]


@pytest.mark.parametrize("threads", [1, 2])
def test_its_column_is_in_every_row_and_changes_no_weight(tmp_path, file, threads):
    run = assignadd.train(CONFIG, [0, 1], tmp_path / "run", threads=threads, observe=named(file, "size"))
    plain = assignadd.train(CONFIG, [0, 1], tmp_path / "plain")
    assert torch.equal(run.checkpoint(30).flat, plain.checkpoint(30).flat)
    table = assignadd.metrics(run)
    assert table["size"].null_count() == 0 and len(table) == len(assignadd.metrics(plain))
    expected = run.checkpoint(30).W_E.double().square().mean((1, 2)).tolist()
    assert table.filter(table["step"] == 30)["size"].to_list() == pytest.approx(expected, rel=1e-5)
    assert run.observed.name == "mine.py:size" and run.observed.columns == {"size": "Mean square of the embedding."}
    assert len(run.observed.file) == 64 and Run.open(run.path).verify() == []


def test_a_run_without_one_has_the_manifest_that_it_always_had(tmp_path):
    run = assignadd.train(CONFIG, [0], tmp_path / "run")
    assert b"observed" not in (run.path / "manifest.json").read_bytes() and run.observed is None


def test_columns_beside_the_measures_and_on_the_command_line(tmp_path, file, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(f"train --preset smoke --optim.steps 30 --observe {file}:both --threads 1 -o r".split()) == 0
    table = assignadd.measure("r")
    assert table["seen pairs"].to_list()[-1] == int(assignadd.open_run("r").seen.sum())
    capsys.readouterr()
    assert main(["measure", "curves", "r", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert float(rows[-1]["rate"]) == pytest.approx(CONFIG.optim.lr) and "norm W_E" not in rows[0]
    assert main(["runs", "show", "r"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "columns of mine.py:both" in shown and "seen pairs how many pairs training shows" in shown
    assert main(["measure", "phases", "r"]) == 0  # whose curves are ours alone


def test_an_interrupted_run_goes_on_with_the_same_function_alone(tmp_path, file):
    size, both = named(file, "size"), named(file, "both")
    whole = assignadd.train(CONFIG, [0], tmp_path / "whole", observe=size)

    def stop(progress):
        if progress.step == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        assignadd.train(CONFIG, [0], tmp_path / "run", listener=stop, observe=size)
    before = contents(tmp_path / "run")
    again = "with the columns of mine.py:size; give --observe mine.py:size as it was then"
    with pytest.raises(RunError, match=again):
        assignadd.train(CONFIG, [0], tmp_path / "run")
    with pytest.raises(RunError, match=again):
        assignadd.train(CONFIG, [0], tmp_path / "run", observe=both)
    file.write_text(FILE.replace("/ 4", "/ 8"))
    with pytest.raises(RunError, match=again):
        assignadd.train(CONFIG, [0], tmp_path / "run", observe=named(file, "size"))
    assert contents(tmp_path / "run") == before
    file.write_text(FILE + "\n# more\n")
    run = assignadd.train(CONFIG, [0], tmp_path / "run", observe=named(file, "size"))
    assert contents(run.path) == contents(whole.path)
    with pytest.raises(RunError, match=r"without columns of a function of yours; leave --observe out"):
        plain = assignadd.train(CONFIG, [1], tmp_path / "plain")
        assignadd.train(CONFIG, [1], plain.path, observe=named(file, "size"))


@pytest.mark.parametrize(
    "name, says",
    [
        ("norm", "a column that assignadd has not already"),
        ("silent", "a docstring that says what its columns mean"),
        ("scalar", "a number for each model"),
        ("wrong", "mine.py, line 31: .*W_nothing"),
    ],
)
def test_what_is_refused_before_anything_is_written(tmp_path, file, name, says):
    with pytest.raises(ConfigError, match=says) as caught:
        assignadd.train(CONFIG, [0], tmp_path / "run", observe=named(file, name))
    assert "\n" not in str(caught.value) and not (tmp_path / "run").exists()


def test_names_that_are_refused(file):
    with pytest.raises(UserError, match="did you mean size"):
        function_named(f"{file}:siz")
    with pytest.raises(ConfigError, match=r"FILE.py:FUNCTION"):
        function_named("size")
    with pytest.raises(ConfigError, match="a lambda"):
        own_measure(lambda stack: stack.W_E, CONFIG, Member(0), SweepObserver)


def test_a_function_without_a_file_is_known_by_what_it_was_compiled_to(tmp_path):
    names = {}
    for constant in (2, 2, 3):
        exec(f"def size(stack):\n    'Size.'\n    return [[x for x in (0, {constant})][1]] * len(stack)", names)
        names.setdefault("first", names["size"])
        names[f"again {constant}"] = names["size"]
    run = assignadd.train(CONFIG, [0], tmp_path / "run", observe=names["first"])
    assert run.observed.file is None and assignadd.metrics(run)["size"].to_list()[-1] == 2
    assignadd.train(CONFIG, [0], run.path, observe=names["again 2"])
    with pytest.raises(RunError, match="as it was then"):
        assignadd.train(CONFIG, [0], run.path, observe=names["again 3"])


def test_a_sweep_in_two_processes_has_the_columns_and_what_they_mean(tmp_path, file, capsys, monkeypatch):
    monkeypatch.setattr("assignadd.sweeps.plan.OPERATIONS_TOGETHER", 1)
    words = f"sweep seeds --preset smoke --steps 20 --n-seeds 3 --final-sequences 50 --every 10 -o {tmp_path / 's'}"
    command = [*words.split(), "--threads", "2", "--device", "cpu"]
    assert main([*command, "--observe", f"{file}:size"]) == 0
    from assignadd.sweeps.results import read_results

    table, about = read_results(tmp_path / "s/table.parquet")
    assert table["size"].null_count() == 0 and table["qk2_ov1_var_identity"].null_count() == 0
    assert about["observed"]["columns"] == {"size": "Mean square of the embedding."}
    capsys.readouterr()
    assert main(command) == 1  # although nothing is left to train
    assert "give --observe mine.py:size" in capsys.readouterr().err


def test_a_sweep_is_the_same_with_a_measure_but_for_its_columns(tmp_path, file):
    sweep = named_sweep("seeds", SWEEP_CONFIG, (0, 1))
    observer = own_measure(named(file, "size"), SWEEP_CONFIG, Member(0), SweepObserver, file)
    plain = run_sweep(sweep, tmp_path / "a").collect()
    observed = run_sweep(replace(sweep, observe=observer), tmp_path / "b").collect()
    assert observed.drop("size").equals(plain.select(observed.drop("size").columns))


def test_in_a_file_that_a_process_has_not_loaded(file):
    """As where processes cannot be forked, and on a cluster."""
    code = "import pickle, sys; observer = pickle.loads(sys.stdin.buffer.read()); print(observer.function.__doc__[:11])"
    import pickle

    function, path = function_named(f"{file}:size")
    sent = pickle.dumps(own_measure(function, CONFIG, Member(0), SweepObserver, path))
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True)
    assert done.stdout == b"Mean square\n"
