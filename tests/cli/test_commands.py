"""Every command end to end on the smoke preset, as a user types it."""

import json
import shutil

import pytest
import torch

from assignadd.cli import COMMANDS, GROUPS, main
from assignadd.cli.screen import MOST_LINES, Table, columns, screen_lines
from assignadd.config import PRESETS
from assignadd.model.stack import initial_stack
from assignadd.runs.folder import Run
from assignadd.task.evalsets import DOUBLY_HELD_OUT, EVAL_SETS
from tests.cli.asking import complaint, said
from tests.reference import REFERENCE


def test_help_names_every_command(capsys):
    out = said(capsys, "--help")
    grouped = [name for names in GROUPS.values() for name in names]
    assert grouped == list(dict.fromkeys(grouped)) and set(grouped) == {name.split()[0] for name in COMMANDS}
    assert all(name in out and COMMANDS[name][1] in out for name in grouped)
    assert len(out.splitlines()) < 40 and max(map(len, out.splitlines())) <= 80


def test_eval_as_json(here, capsys):
    models = json.loads(said(capsys, "measure", "smoke-seeds-0-1", "--n", "60", "--json"))["models"]
    assert [(m["seed"], m["step"]) for m in models] == [(0, 60), (1, 60)]
    for model in models:
        assert {s.name for s in (*EVAL_SETS, *DOUBLY_HELD_OUT)} <= set(model["sets"])
        for result in model["sets"].values():
            assert result["n"] == 60 and 0 <= result["low"] <= result["accuracy"] <= result["high"] <= 1


def test_eval_of_one_seed_and_step_is_a_part_of_the_whole(here, capsys):
    whole = json.loads(said(capsys, "measure", "smoke-seeds-0-1", "--n", "60", "--step", "20", "--json"))["models"]
    part = json.loads(
        said(capsys, "measure", "runs/smoke-seeds-0-1", "--n", "60", "--step", "20", "--seeds", "1", "--json")
    )["models"]
    assert part == whole[1:]


def test_eval_table(here, capsys):
    out = said(capsys, "measure", "smoke-seeds-0-1", "--n", "60", "--seeds", "0")
    assert "two variables, one in a banned" in out and "95 % intervals" in out
    classes = [" ".join(line.split()) for line in out.splitlines() if "held-out doubles" in line]
    assert len(classes) == 3 and "over pairs" in out  # of a class, the pairs are the sample
    assert all(line.split()[-1].isdecimal() for line in classes)
    both = said(capsys, "measure", "runs/smoke-seeds-0-1", "smoke-seeds-0-1", "--n", "60", "--csv").splitlines()
    assert both[0].startswith("run,seed,step,set,label,accuracy,low,high,n,pairs") and len(both) % 4 == 1
    assert "seed 1" in said(capsys, "measure", "smoke-seeds-0-1", "--n", "60")


def test_ask(here, capsys):
    reply = json.loads(said(capsys, "ask", "a=3, b=5, b+1=?", "smoke-seeds-0-1", "--json"))
    assert reply["label"] == 6 and reply["correct"] == (reply["answer"] == 6)
    assert reply["tokens"] == ["a", "3", "b", "5", "+", "b", "1", "="]
    assert reply["probability"] >= reply["runner_up_probability"] and reply["answer"] != reply["runner_up"]
    for weights in reply["attention"].values():
        assert len(weights) == 8 and sum(weights) == pytest.approx(1, abs=1e-5)
    text = said(capsys, "ask", "a=3, b=5, b+1=?")  # the newest run
    assert "attention from =" in text and "runner-up" in text


def test_show(capsys):
    rows = json.loads(said(capsys, "ask", "show", "--n", "5", "--set", "2-var var-restricted (2)", "--json"))
    assert len(rows) == 5
    assert all(row["tokens"][13] in "ab" and row["tokens"][14] in "gh" for row in rows)
    assert json.loads(said(capsys, "ask", "show", "c=1, b=17, a=42, b+19=?", "--json"))[0]["answer"] == 36
    assert "c=1, b=17, a=42, b+19=?" in said(capsys, "ask", "show", "c=1, b=17, a=42, b+19=?")


def test_runs(here, capsys):
    assert "smoke-seeds-0-1" in said(capsys, "runs")
    listed = json.loads(said(capsys, "runs", "list", "--json"))["runs"]
    assert {r["run"]: (r["models"], r["step"]) for r in listed}["smoke-seeds-0-1"] == (2, 60)
    shown = json.loads(said(capsys, "runs", "show", "smoke-seeds-0-1", "--json"))
    assert shown["config"]["config"]["optim"]["steps"] == 60 and len(shown["last"]) == 2
    assert "every committed file is whole" in said(capsys, "runs", "verify", "smoke-seeds-0-1")


def test_verify_names_the_bad_file(here, capsys, tmp_path):
    shutil.copytree("runs/smoke-seeds-0-1", tmp_path / "r")
    victim = tmp_path / "r" / "checkpoints" / "00000020.safetensors"
    victim.write_bytes(victim.read_bytes()[:-1])
    assert main(["runs", "verify", str(tmp_path / "r")]) == 1
    assert "00000020.safetensors" in capsys.readouterr().out.replace("\n", "")


@pytest.mark.slow
def test_bench(capsys):
    result = json.loads(said(capsys, "bench", "--preset", "smoke", "--seconds", "0.02", "--json"))
    for times in result["threads"].values():
        assert {"sgemm_gflops", "step_ms", "floor_ms", "plain_ms", "plain_over_step"} <= set(times)
        assert times["step_over_floor"] > 0
    assert result["machine"] and result["backend"] == "numba"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--task.n-vars", "27"], ["task.n_vars = 27", "1 to 26"]),
        (["--task.n-vars", "many"], ["task.n_vars = 'many'", "1 to 26"]),
        (["--task.seen-fraction", "1.5"], ["task.seen_fraction = 1.5", "0 to 1"]),
        (["--task.max-assignments", "1"], ["task.max_assignments = 1", "two_var_ratio = 0"]),
        (
            ["--task.n-vars", "1", "--task.max-assignments", "1", "--task.banned-first=", "--task.banned-second="],
            ["task.n_vars = 1"],
        ),
        (["--task.length", "6"], ["task.length = 6", "at least 8"]),
        (["--task.banned-first", "abcd"], ["banned_first"]),
        (["--task.banned-first", "xyz"], ["task.banned_first = 'xyz'", "abcd"]),
        (["--model.activation", "tanh"], ["model.activation = 'tanh'", "relu, gelu, abs"]),
        (["--optim.lr", "-1"], ["optim.lr = -1.0"]),
        (["--nonsense", "1"], ["--nonsense"]),
        (["--task.n-varz", "3"], ["--task.n-varz", "did you mean --task.n-vars"]),
        (["--preset", "huge"], ["preset = 'huge'", "paper, authors, tiny, smoke"]),
        (["--seeds", "3..1"], ["seeds = '3..1'", "0..31"]),
        (["--seeds", "0,0"], ["every seed once"]),
        (["--seeds", "-1"], ["seed"]),
        (["--threads", "0"], ["threads = 0"]),
        (["--device", "tpu"], ["device = 'tpu'"]),
    ],
)  # fmt: skip
def test_bad_settings_are_one_line_and_create_nothing(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = complaint(capsys, "train", *([] if "--preset" in arguments else ["--preset", "smoke"]), *arguments)
    assert all(word in line for word in words), line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ('{"task": {"n_vars": 99}}', ["task.n_vars = 99"]),
        ('{"task": {"n_varz": 3}}', ["task.n_varz"]),
        ('{"task": {"n_vars": "3"}}', ["task.n_vars"]),
        ('{"tusk": {}}', ["tusk"]),
        ('{"optim": {"lr": NaN}}', []),
        ("{", []),
        ("[]", []),
    ],
)
def test_bad_config_files_are_one_line_and_create_nothing(document, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "my.json"
    file.write_text(document)
    line = complaint(capsys, "train", "--preset", "smoke", "--config", "my.json")
    assert all(word in line for word in words), line
    assert list(tmp_path.iterdir()) == [file]


def test_config_file_under_flags(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text('{"optim": {"steps": 3, "lr": 0.01}}')
    said(capsys, "train", "--preset", "smoke", "--config", "mine.json", "--optim.lr", "0.02")
    (run,) = (tmp_path / "runs").iterdir()  # with a hash, as the settings are not those of the preset alone
    assert run.name.startswith("smoke-seed-0-")
    shown = json.loads(said(capsys, "runs", "show", run.name, "--json"))["config"]["config"]
    assert shown["optim"]["steps"] == 3 and shown["optim"]["lr"] == 0.02 and shown["task"]["modulus"] == 7


def test_the_configuration_of_a_run_makes_the_same_run(here, capsys, tmp_path):
    said(
        capsys,
        "train",
        "--config",
        "runs/smoke-seeds-0-1/config.json",
        "--seeds",
        "0..1",
        "--out",
        str(tmp_path / "again"),
    )
    for name in ("metrics.jsonl", "checkpoints/00000060.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (here / "runs/smoke-seeds-0-1" / name).read_bytes()


def test_a_damaged_last_checkpoint_is_refused_by_name(here, capsys, tmp_path):
    shutil.copytree("runs/smoke-seeds-0-1", tmp_path / "r")
    victim = tmp_path / "r" / "checkpoints" / "00000060.safetensors"
    victim.write_bytes(victim.read_bytes()[:-1])
    assert "00000060.safetensors" in complaint(capsys, "measure", str(tmp_path / "r"), "--n", "20", code=1)
    assert main(["measure", str(tmp_path / "r"), "--n", "20", "--step", "50", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["step"] == 50


@pytest.mark.parametrize("name", ["x" * 400, "[/b] [red]", "no\nline"])
def test_odd_names_are_one_line(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    complaint(capsys, "measure", name, code=1)


def test_names_that_look_like_markup_are_shown_as_they_are(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = said(capsys, "train", "--preset", "smoke", "--optim.steps", "1", "--out", "runs/[lr] [b]")
    assert "[lr] [b]: 1 model at step 1" in out
    assert "[lr] [b]" in said(capsys, "runs")


def test_an_output_for_people_is_one_screen():
    long = Table("long", columns("name", "value"), [(f"row {i}", i) for i in range(90)], "of the long table")
    short = Table("short", columns("word"), [("brief",)])
    output = ["first", long, short, "last"]
    shown = [line.plain.strip() for line in screen_lines(output, everything=False)]
    assert len(shown) <= MOST_LINES and shown[0] == "first" and shown[-1] == "last"
    assert {"row 0       0", "of the long table", "brief"} <= set(shown)
    assert sum(line.startswith("row ") for line in shown) > 15
    assert any(line.endswith("of 90 rows: --all prints everything, --csv and --json too") for line in shown)
    assert len(screen_lines(output, everything=True)) > 90


def test_the_last_of_repeated_flags_counts(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "preset = 'huge'" in complaint(capsys, "train", "--preset", "smoke", "--preset", "huge")
    assert "task.n_vars = 'many'" in complaint(capsys, "train", "--task.n_vars", "many")


def test_import_reads_the_papers_checkpoints(capsys, tmp_path, monkeypatch):
    if not REFERENCE.is_dir():
        pytest.skip(f"no reference checkpoints at {REFERENCE.name}/ beside the checkout")
    monkeypatch.chdir(tmp_path)
    files = [str(REFERENCE / f"checkpoint_step_{step}.pth") for step in (1001, 20001)]
    assert said(capsys, "runs", "import", *files) == "runs/imported-authors: 2 checkpoints, steps 1,001 to 20,001\n"
    reply = json.loads(said(capsys, "ask", "c=1, b=17, a=42, c+b=?", "--json"))
    assert reply["answer"] == 18 and reply["correct"] and reply["step"] == 20001
    assert "expected" in complaint(capsys, "runs", "import", files[0], "--preset", "tiny", "--out", "other", code=1)
    assert not (tmp_path / "other").exists()


def test_import_takes_a_folder_of_checkpoints(capsys, tmp_path, monkeypatch):
    """Every file in it whose name says its step; however many there are, one line says so."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "given"
    folder.mkdir()
    assert "has no file named checkpoint_step_N.pth" in complaint(capsys, "runs", "import", "given", code=1)
    stack = initial_stack(PRESETS["smoke"], [0])
    for name in ("checkpoint_step_7.pth", "checkpoint_step_21.pth", "model_state_dict.pth", "notes.pth"):
        torch.save({weight: value[0].clone() for weight, value in stack.weights.items()}, folder / name)
    smoke = ("runs", "import", "given", "--preset", "smoke")
    assert said(capsys, *smoke, "--out", "run") == "run: 3 checkpoints, steps 7 to 40,000\n"
    run = Run.open(tmp_path / "run")
    assert run.steps == [7, 21, 40_000] and set(run.manifest.sources) == {p.name for p in folder.iterdir()} - {
        "notes.pth"
    }
    twice = (*smoke[:2], "given/checkpoint_step_7.pth", *smoke[2:], "--out", "other")
    assert "give each step once" in complaint(capsys, *twice, code=1) and not (tmp_path / "other").exists()


def test_missing_things_say_what_to_type(here, capsys):
    assert "assignadd runs list" in complaint(capsys, "measure", "nowhere", code=1)
    assert "nearest is at 40" in complaint(capsys, "measure", "smoke-seeds-0-1", "--step", "33", code=1)
    assert "it has 0, 1" in complaint(capsys, "ask", "a=3, a+1=?", "smoke-seeds-0-1", "--seed", "9", code=1)
    assert "column 6" in complaint(capsys, "ask", "a=3, q+1=?", "smoke-seeds-0-1")
    assert "usage: assignadd runs show RUN" in complaint(capsys, "runs", "show")


def test_the_wrong_settings_do_not_overwrite_a_run(here, capsys):
    command = ["train", "--preset", "smoke", "--seeds", "0..1", "--optim.lr", "0.5", "--out", "runs/smoke-seeds-0-1"]
    line = complaint(capsys, *command, code=1)
    assert "optim.lr" in line and "--out" in line
