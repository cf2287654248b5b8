"""Settings as JSON: the same bytes for the same settings, and one line that names the field when they are wrong."""

from __future__ import annotations

import dataclasses
import json
import math

import msgspec
import pytest

from assignadd.config import PRESETS, Config, ConfigError, Member, Model, Optim, Start, Task
from assignadd.runs.config_json import (
    config_from,
    first_difference,
    parse,
    read_config,
    read_run_document,
    run_document,
)
from tests.runs.small import CONFIG, MEMBERS


def builtins(config: Config = CONFIG) -> dict:
    return json.loads(msgspec.json.encode(config))


@pytest.mark.parametrize("config", [CONFIG, *PRESETS.values()])
def test_round_trip(config):
    document = run_document(config, MEMBERS)
    assert read_run_document(document) == (config, MEMBERS)
    assert run_document(*read_run_document(document)) == document


def test_the_same_settings_are_the_same_bytes():
    whole = dataclasses.replace(CONFIG, optim=Optim(lr=1, steps=60), model=Model(d_mlp=(None, 512)))
    exact = dataclasses.replace(CONFIG, optim=Optim(lr=1.0, steps=60), model=Model(d_mlp=(None, 512)))
    assert run_document(whole, [Member(1, lr=2)]) == run_document(exact, [Member(1, lr=2.0)])


def test_the_papers_task_is_written_as_before_there_were_others():
    """The bytes that runs of an earlier version have, and hence their hash."""
    task = json.loads(run_document(PRESETS["paper"], [Member(0)]))["config"]["task"]
    assert list(task) == [
        *("modulus", "n_vars", "length", "max_assignments", "seen_fraction", "banned_first", "banned_second"),
        *("one_var_ratio", "two_var_ratio"),
    ]


def test_settings_without_a_schedule_are_written_as_before_there_were_any():
    optim = json.loads(run_document(PRESETS["paper"], [Member(0)]))["config"]["optim"]
    assert list(optim) == ["lr", "weight_decay", "beta1", "beta2", "eps", "batch", "steps"]
    config = dataclasses.replace(
        CONFIG, optim=Optim(warmup=5, later_lr=0.0, frozen="OV1", frozen_from=1, frozen_until=3)
    )
    own = Member(1, {"optim.later_lr": 3e-3, "optim.later_from": 10, "optim.frozen": "MLP2", "optim.literals_from": 7})
    assert read_run_document(run_document(config, [own])) == (config, (own,))


def test_the_weights_of_a_seed_are_written_as_before_there_were_others():
    document = json.loads(run_document(PRESETS["paper"], [Member(0)]))
    assert "start" not in document["config"]
    config = dataclasses.replace(CONFIG, start=Start("census-six:3@50000"))
    own = Member(1, {"start.part": "QK1", "start.part_from": "census-six:0"})
    document = run_document(config, [own])
    assert json.loads(document)["config"]["start"] == {"network": "census-six:3@50000"}
    assert read_run_document(document) == (config, (own,))


@pytest.mark.parametrize(
    "task",
    [
        Task(operation="affine 2 3"),
        Task(operands=3, length=17, banned_further="cd"),
        Task(hops=2, rebinding=0.25),
        Task(modulus=2, operation="table", table=(0, 1, 1, 0)),
    ],
)
def test_other_tasks_round_trip(task):
    config = dataclasses.replace(CONFIG, task=task)
    assert read_run_document(run_document(config, MEMBERS)) == (config, MEMBERS)


def test_a_table_of_answers_is_read_once_and_stored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "xor.csv").write_text("0,1\n1,0\n")
    (tmp_path / "mine.json").write_text('{"task": {"operation": "xor.csv"}}')
    config = read_config(tmp_path / "mine.json", PRESETS["paper"])
    (tmp_path / "xor.csv").unlink()
    assert (config.task.operation, config.task.table, config.task.modulus) == ("table", (0, 1, 1, 0), 2)
    assert read_run_document(run_document(config, MEMBERS))[0] == config


def test_a_file_fills_in_what_it_says(tmp_path):
    (tmp_path / "mine.json").write_text(
        '{"optim": {"lr": 1, "steps": 7}, "model": {"d_mlp": [null, 9]}, "seed": {"data": 3}}'
    )
    config = read_config(tmp_path / "mine.json", PRESETS["authors"])
    assert config.optim == Optim(lr=1.0, steps=7)
    assert isinstance(config.optim.lr, float)
    assert (config.model.d_mlp, config.seed.data) == ((None, 9), 3)
    assert config.task == PRESETS["authors"].task


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '{"task": {"modulos": 59}}',
            "task.modulos = 59: expected the name of a setting, such as optim.lr; did you mean",
        ),
        ('{"tusk": {}}', "tusk = {}: expected objects with the names task, model"),
        ('{"task": 3}', "task = 3: expected objects with the names task, model"),
        ("[]", "config = []: expected an object with fields among task"),
        ('{"optim": {"lr": "fast"}}', "optim.lr = 'fast': expected a number from 0"),
        ('{"optim": {"lr": true}}', "optim.lr = True: expected a number"),
        ('{"optim": {"lr": null}}', "optim.lr = None: expected a number"),
        ('{"optim": {"steps": 10.0}}', "optim.steps = 10.0: expected a whole number"),
        ('{"optim": {"lr": 1' + "0" * 400 + "}}", "optim.lr = 1000"),
        ('{"optim": {"lr": 1e999}}', "optim.lr = inf: expected a number from 0"),
        ('{"task": {"operation": "none.csv"}}', "task.operation = 'none.csv': expected add, subtract"),
        ('{"task": {"operation": 3}}', "task.operation = 3: expected add, subtract"),
        ('{"task": {"table": [1]}}', "task.table = (1,): expected none, as task.operation is not table"),
        ('{"task": {"operands": 5}}', "task.operands = 5: expected a whole number from 1 to 4"),
        ('{"optim": {"lr": 1, "lr": 2}}', "expected JSON ('lr' is there twice)"),
        ('{"optim": {"lr": NaN}}', "expected JSON (NaN is no number of JSON)"),
        ('{"model": {"d_mlp": 512}}', "model.d_mlp = 512: expected a tuple with one width or None for each"),
        ('{"model": {"d_mlp": [null, "512"]}}', "model.d_mlp = [None, '512']: expected a tuple with one width"),
        ('{"model": {"activation": "swish"}}', "model.activation = 'swish': expected one of relu, gelu, abs"),
        ('{"model": {"biases": 0}}', "model.biases = 0: expected true or false"),
        ('{"task": {"banned_first": ["a"]}}', "task.banned_first = ['a']: expected distinct letters"),
        ('{"seed": {"init": -1}}', "seed.init = -1: expected a whole number from 0"),
        ('{"task": {"n_vars": 1}}', "task.banned_first = 'ab': expected distinct letters among a"),
        ('{"optim": {\n  "lr": }}', "expected JSON (Expecting value: line 2 column 9"),
        ("", "mine.json = b'': expected JSON (Expecting value: line 1 column 1"),
        ("[" * 100_000, "mine.json = b'[[[[[[[[[[[[': expected JSON (maximum recursion depth"),
        ('{"optim": {"steps": ' + "9" * 5000 + "}}", "expected JSON (Exceeds the limit"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(tmp_path, text, says):
    (tmp_path / "mine.json").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_config(tmp_path / "mine.json", PRESETS["paper"])
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_not_text_and_files_that_are_not_there(tmp_path):
    with pytest.raises(ConfigError, match="utf-8"):
        parse(b"\xff\xfe{}", "mine.json")
    with pytest.raises(ConfigError, match=r"none.json.*No such file"):
        read_config(tmp_path / "none.json", CONFIG)
    with pytest.raises(ConfigError, match="not a regular file"):
        read_config(tmp_path, CONFIG)


def test_a_field_that_is_left_out_has_its_default():
    config = dataclasses.replace(CONFIG, optim=Optim(lr=0.5, steps=60))
    values = builtins(config)
    del values["optim"]["lr"], values["record"]
    assert config_from(values) == dataclasses.replace(config, optim=Optim(steps=60), record=PRESETS["paper"].record)


@pytest.mark.parametrize(
    ("models", "says"),
    [
        ([], "models = []: expected a list of 1 to 4096 models"),
        pytest.param([{"seed": i} for i in range(4097)], "expected a list of 1 to 4096 models", id="most_models"),
        ({}, "models = {}: expected a list"),
        ([{}], "models[0] = {}: expected an object with a whole `seed`"),
        ([3], "models[0] = 3: expected an object"),
        (
            [{"seed": 0}, {"seed": 0, "size": 1}],
            "models[1].size = 1: expected a setting of one model of a stack: task.",
        ),
        ([{"seed": 0, "model.n_heads": 2}], "models[0].model.n_heads = 2: expected a setting of one model of a stack"),
        ([{"seed": "0"}], "models[0] = {'seed': '0'}: expected an object"),
        ([{"seed": True}], "models[0] = {'seed': True}: expected an object"),
        ([{"seed": 0, "optim.lr": "x"}], "optim.lr = 'x': expected a number from 0.0 to 10.0"),
        ([{"seed": -1}], "seeds = -1"),
        ([{"seed": 0, "lr": 99.0}], "optim.lr = 99.0"),
    ],
)
def test_models_are_as_strict(models, says):
    with pytest.raises(ConfigError) as caught:
        read_run_document(json.dumps({"config": builtins(), "models": models}).encode())
    assert says in str(caught.value)


def test_models_of_the_first_version_are_read():
    first = {"lr": 1, "weight_decay": None, "seen_fraction": None, "one_var_ratio": None, "two_var_ratio": 0.5}
    document = json.dumps({"config": builtins(), "models": [{"seed": 4, **first}]}).encode()
    own = {"optim.lr": 1.0, "task.two_var_ratio": 0.5}
    assert read_run_document(document) == (CONFIG, (Member(4, own),))
    assert json.loads(run_document(CONFIG, [Member(4, **first)]))["models"] == [{"seed": 4, **own}]


def test_nothing_is_lost_on_the_way_out():
    with pytest.raises(ConfigError, match=r"optim.lr = nan"):
        run_document(CONFIG, [Member(0, lr=math.nan)])


def test_first_difference_is_named():
    run = (CONFIG, MEMBERS)
    other = dataclasses.replace(CONFIG, optim=dataclasses.replace(CONFIG.optim, lr=0.5, batch=3))
    assert first_difference(run, run) is None
    assert first_difference(run, (other, MEMBERS)) == ("optim.lr", 0.001, 0.5)
    assert first_difference(run, (CONFIG, [Member(3), Member(8, lr=0.01)])) == ("models[1].seed", 7, 8)
    assert first_difference(run, (CONFIG, [Member(3), Member(7)])) == ("models[1].optim.lr", 0.01, None)
    assert first_difference(run, (CONFIG, [Member(3)])) == ("number of models", 2, 1)
