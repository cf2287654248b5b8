"""Tasks and networks of the user's own: runs, resuming, stacks, evaluation, and what is refused in one line."""

import hashlib
import importlib.util
import json
import math
import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import polars
import pytest
import torch
from torch import nn

import assignadd
from assignadd import PRESETS
from assignadd.cli import main
from assignadd.config import Member, Optim, Recording, Task, UserError
from assignadd.config.errors import RunError
from assignadd.model.stack import weight_shapes
from assignadd.model.transformer import Transformer, reference_logits
from assignadd.runs.config_json import with_files
from assignadd.runs.folder import Run
from assignadd.task import RandomWords
from assignadd.task.randomness import Stream, words
from assignadd.training import cuda_graph
from assignadd.training.loop import train_run
from assignadd.training.schedule import training_sampler
from assignadd.training.trainer import Trainer
from assignadd.user_file import source_of
from tests.runs.kill import in_child
from tests.runs.small import contents

ROOT = Path(__file__).parents[1]
SMOKE = replace(PRESETS["smoke"], optim=Optim(lr=0.01, batch=16, steps=30), record=Recording(10, 32, 10, 20))

TASK_FILE = '''
"""The answer is whether the first two tokens are the same; at the second position already, if EVERYWHERE."""
import torch

EVERYWHERE = False


class Same:
    n_tokens, length, n_answers = 5, 4, 2
    sets = ("test", "same")

    def __init__(self, everywhere=EVERYWHERE):
        self.everywhere = everywhere

    def draw(self, words, set):
        tokens = words.below(5, 4)
        if set == "same":
            tokens = torch.cat([tokens[:, :1], tokens[:, :1], tokens[:, 2:]], 1)
        answers = (tokens[:, 0] == tokens[:, 1]).long()
        if self.everywhere:
            answers = torch.stack([torch.full_like(answers, -1), answers, answers, torch.full_like(answers, -1)], 1)
        return tokens, answers


TASK = Same()
'''
NETWORK_FILE = '''
"""A recurrent network over embeddings, written by hand."""
import torch
from torch import nn


class Recurrent(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.embedding = nn.Embedding(sizes.n_tokens, 12)
        self.update, self.gate = nn.Linear(24, 12), nn.Linear(24, 12)
        self.unembed = nn.Linear(12, sizes.n_answers)
        self.register_buffer("start", torch.zeros(12))

    def forward(self, tokens):
        state, states = self.start.expand(len(tokens), -1), []
        for x in self.embedding(tokens).unbind(1):
            both = torch.cat([state, x], -1)
            keep = self.gate(both).sigmoid()
            state = keep * state + (1 - keep) * self.update(both).tanh()
            states.append(state)
        return self.unembed(torch.stack(states, 1))


NETWORK = Recurrent
'''


@pytest.fixture
def files(tmp_path, monkeypatch) -> Path:
    """A working directory with same.py, everywhere.py and recurrent.py."""
    monkeypatch.chdir(tmp_path)
    Path("same.py").write_text(TASK_FILE)
    Path("everywhere.py").write_text(TASK_FILE.replace("EVERYWHERE = False", "EVERYWHERE = True"))
    Path("recurrent.py").write_text(NETWORK_FILE)
    return tmp_path


def one_line(capsys) -> str:
    """The error of the last command."""
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and error.startswith("assignadd: "), error
    return error


def unknown():
    """As in a process in which no file has been given yet."""
    from assignadd import user_file
    from assignadd.model import own as networks

    user_file._registered.clear()
    networks._shape_only.cache_clear()


GIVEN = [("everywhere.py", None), ("same.py", "recurrent.py"), (None, "recurrent.py")]


@pytest.mark.parametrize(("task", "network"), GIVEN)
def test_a_run_that_is_killed_goes_on_with_the_same_bytes(task, network, files):
    """Killed at step 20 with SIGKILL, by a listener; then the same call."""

    def killed():
        def listener(progress):
            if progress.step == 20:
                os.kill(os.getpid(), signal.SIGKILL)

        assignadd.train(SMOKE, [0, 1], "killed", listener=listener, task=task, network=network)

    assert in_child(killed).killed
    assert not Run.open("killed").finished
    assignadd.train(SMOKE, [0, 1], "killed", task=task, network=network)
    whole = assignadd.train(SMOKE, [0, 1], "whole", task=task, network=network)
    assert whole.finished and contents(Path("killed")) == contents(Path("whole"))


@pytest.mark.parametrize(("task", "network"), GIVEN)
def test_a_stack_of_two_seeds_is_the_seeds_alone(task, network, files):
    together = assignadd.train(SMOKE, [3, 5], "both", task=task, network=network, threads=2)
    for i, seed in enumerate((3, 5)):
        alone = assignadd.train(SMOKE, [seed], f"seed{seed}", task=task, network=network)
        assert torch.equal(together.checkpoint(30).flat[i], alone.checkpoint(30).flat[0])
        ours = [row["accuracy"] for row in together.metrics() if row["seed"] == seed]
        assert ours == [row["accuracy"] for row in alone.metrics()]
    assert not torch.equal(*together.checkpoint(30).flat)


def test_what_a_run_keeps_and_shows_without_the_file(files, capsys):
    run = assignadd.train(SMOKE, [0], "run", task="same.py", network="recurrent.py")
    assert Path("run/task.txt").read_text() == TASK_FILE and Path("run/network.txt").read_text() == NETWORK_FILE
    file = run.config.task.file
    assert (file.name, file.sha256) == ("same.py", hashlib.sha256(TASK_FILE.encode()).hexdigest())
    assert (file.n_tokens, file.length, file.n_answers, file.sets) == (5, 4, 2, ("test", "same"))
    Path("same.py").unlink()
    Path("recurrent.py").unlink()
    unknown()
    assert assignadd.metrics("run").columns[-2:] == ["test", "same"]
    assert assignadd.load_stack("run")["embedding.weight"].shape == (1, 5, 12)
    assert main(["runs", "show", "run"]) == 0 and main(["runs", "verify", "run"]) == 0
    assert "same.py" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"--task same\.py"):
        assignadd.evaluate("run")
    assert main(["measure", "run"]) == 2
    assert "name its file with --task same.py" in one_line(capsys)


def test_the_text_in_the_run_folder_is_never_executed(files, monkeypatch):
    Path("marks.py").write_text(f"import os\nos.mkdir('executed')\n{TASK_FILE}")
    assignadd.train(SMOKE, [0], "run", task="marks.py")
    Path("executed").rmdir()
    unknown()
    with pytest.raises(UserError):
        assignadd.evaluate("run")
    with pytest.raises(UserError, match="a file of Python"):
        assignadd.evaluate("run", task="run/task.txt")
    assert not Path("executed").exists()


def test_a_file_that_has_changed_is_said_in_one_line(files, capsys):
    command = ["train", "--preset", "smoke", "--task", "same.py", "--optim.steps", "2", "--out", "run"]
    assert main(command) == 0
    Path("same.py").write_text(TASK_FILE + "# changed\n")
    capsys.readouterr()
    assert main(["measure", "run", "--task", "same.py"]) == 1
    line = one_line(capsys)
    assert "and this is" in line and "run/task.txt" in line
    assert main(command) == 1
    assert "task.file = same.py (sha256 " in one_line(capsys)
    shutil.copy("run/task.txt", "again.py")  # another name, the same text
    assert main(["measure", "run", "--task", "again.py", "--n", "50"]) == 0


def test_a_file_for_a_run_that_was_trained_without_one_is_said_in_one_line(files, capsys):
    assignadd.train(SMOKE, [0], "plain")
    capsys.readouterr()  # training that compiles its step says so
    for option, name in (("task", "same.py"), ("network", "recurrent.py")):
        assert main(["measure", "plain", f"--{option}", name]) == 1
        assert one_line(capsys) == f"assignadd: run plain has no {option} of your own; leave {name} out\n"


def test_another_network_than_that_of_the_run_is_said_in_one_line(files, capsys):
    assignadd.train(SMOKE, [0], "run", network="recurrent.py")
    capsys.readouterr()
    Path("recurrent.py").write_text(NETWORK_FILE.replace("12", "10").replace("24", "20"))
    assert main(["measure", "run", "--network", "recurrent.py"]) == 1
    assert one_line(capsys).endswith("its text at that time is run/network.txt\n")
    with pytest.raises(RunError, match=r"run was trained with .*, and this is .*network\.txt"):
        assignadd.load("run", network="recurrent.py")


def test_a_task_with_other_parameters_is_another_task(files, monkeypatch):
    """The file is the same; the first sequences are not."""
    spec = importlib.util.spec_from_file_location("same", "same.py")
    same = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "same", same)
    spec.loader.exec_module(same)
    first, second = (with_files(SMOKE, same.Same(everywhere)).task.file for everywhere in (False, True))
    assert first.sha256 == second.sha256 and first != second and (first.everywhere, second.everywhere) == (False, True)


def test_the_loss_and_the_accuracies_are_those_of_a_plain_computation(files):
    """Answers at two of four positions: the mean cross entropy over them; a sequence is right if both answers are."""
    config = with_files(SMOKE, "everywhere.py")
    trainer = Trainer(config, [Member(4)], torch.ones(1, dtype=torch.bool))
    weights = trainer.stack().clone()
    trainer.advance(1)
    tokens = RandomWords(16, seed=4).below(5, 4)
    logits = reference_logits(weights, tokens[None])[0]  # (B, T, N)
    assert logits.shape == (16, 4, 2)
    answers = (tokens[:, 0] == tokens[:, 1]).long()
    picked = logits.log_softmax(-1)[:, 1:3].gather(2, answers.view(-1, 1, 1).expand(-1, 2, 1))
    assert trainer.losses[0] == pytest.approx(-picked.mean().item(), rel=1e-5)
    exam = trainer._pool._items[0]._exam
    right = reference_logits(trainer.stack(), exam.tokens)[0, :, 1:3].argmax(-1) == exam.labels[0, :, 1:3]
    shares = right.all(1).view(2, -1).float().mean(1).tolist()
    assert trainer.evaluate()[0]["accuracy"] == pytest.approx(dict(zip(("test", "same"), shares, strict=True)))


def test_what_is_written_in_no_file_is_refused():
    with pytest.raises(UserError, match="a definition in a file"):
        source_of(object())


def test_it_is_learned_and_attention_patterns_are_there(files):
    config = replace(SMOKE, optim=Optim(lr=0.01, batch=128, steps=250))
    run = assignadd.train(config, [0], "run", task="everywhere.py")
    results = assignadd.evaluate(run, n=500)[0]
    assert results["test"].accuracy > 0.97 and results["same"].accuracy > 0.97 and results["test"].n == 500
    logits, cache = assignadd.load(run).run_with_cache(torch.zeros(1, 4, dtype=torch.int64))
    assert logits.shape == (1, 4, 2) and cache["blocks.1.attn.hook_pattern"].shape == (1, 1, 4, 4)


def test_a_network_of_ones_own_is_learned_and_loaded_as_a_module(files):
    config = replace(SMOKE, optim=Optim(lr=0.02, batch=128, steps=250))
    run = assignadd.train(config, [0], "run", task="same.py", network="recurrent.py")
    assert assignadd.evaluate(run, n=500)[0]["test"].accuracy > 0.97
    module = assignadd.load(run, network="recurrent.py")
    assert type(module).__name__ == "Recurrent"
    tokens = RandomWords(200, seed=9).below(5, 4)
    right = module(tokens)[:, -1].argmax(-1) == (tokens[:, 0] == tokens[:, 1]).long()
    assert right.float().mean() > 0.95


def test_updates_of_a_network_are_those_of_torchs_adamw(files):
    """Ten steps of float64 training against the module and optimizer of torch."""
    config = with_files(replace(SMOKE, numerics=replace(SMOKE.numerics, dtype="float64")), "same.py", "recurrent.py")
    trainer = Trainer(config, [Member(2)], torch.ones(1, dtype=torch.bool))
    from assignadd.model.own import module_with

    module = module_with(config, {name: weight[0] for name, weight in trainer.stack().weights.items()})
    o = config.optim
    optimizer = torch.optim.AdamW(module.parameters(), o.lr, (o.beta1, o.beta2), o.eps, o.weight_decay)
    for step in range(10):
        tokens = RandomWords(16, seed=2, step=step).below(5, 4)
        loss = nn.functional.cross_entropy(module(tokens)[:, -1], (tokens[:, 0] == tokens[:, 1]).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    trainer.advance(10)
    assert trainer.losses[0] == pytest.approx(loss.item(), rel=1e-9)
    for name, weight in module.named_parameters():
        assert torch.allclose(trainer.stack()[name][0], weight, rtol=1e-9, atol=1e-12), name


def test_several_models_at_once_have_the_gradient_of_each_alone(files):
    """As a GPU trains them: by vmap."""
    from assignadd.model.stack import initial_stack
    from assignadd.training.gradient import gradient_of

    config = with_files(SMOKE, "everywhere.py", "recurrent.py")
    configs, ones = [Member(s).config(config) for s in (0, 1)], torch.ones(2, dtype=torch.bool)
    stack, batch = initial_stack(config, [0, 1]), training_sampler(configs, ones, torch.device("cpu")).sample(0, 16)
    together = gradient_of(stack)
    losses = together(batch)
    for i in (0, 1):
        alone = gradient_of(stack.models(i))
        loss = alone(type(batch)(batch.tokens[i : i + 1], batch.labels[i : i + 1]))
        assert losses[i].item() == pytest.approx(loss.item(), rel=1e-5)
        assert torch.allclose(together.flat[i], alone.flat[0], rtol=1e-4, atol=1e-7)


SWEEP = ["sweep", "grid.json", "--preset", "smoke", "--seeds", "0,1", "--final-sequences", "200", "--every", "30"]


@pytest.mark.parametrize(("task", "network"), [GIVEN[0], GIVEN[2]])
def test_a_sweep_has_a_row_for_each_cell_and_goes_on(task, network, files, capsys):
    """Accuracies during training, at the last evaluations and in the final exam; each cell is the run of it alone."""
    Path("grid.json").write_text('{"optim.lr": [0.01, 0.02]}')
    given = [*(["--task", task] if task else []), *(["--network", network] if network else [])]
    command = [*SWEEP, *given, "--out", "out", "--device", "cpu", "--threads", "2"]
    assert main([*command, "--dry-run", "--json"]) == 0 and not Path("out").exists()
    assert json.loads(capsys.readouterr().out)["model_steps"] == 4 * 60
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"] == 4
    table = polars.read_parquet("out/table.parquet")
    assert table.height == 4 * 3 and table["lr"].unique().sort().to_list() == [0.01, 0.02]
    names = ["test", "same"] if task else ["0-var train"]
    assert {column for name in names for column in (name, f"{name} (final)", f"{name} (end)")} <= set(table.columns)
    base = replace(PRESETS["smoke"], record=Recording(30, 64, 5000, 1 << 31))
    config = replace(base, optim=replace(base.optim, lr=0.02))
    run = assignadd.train(config, [1], "alone", task=task, network=network)
    expected = [row["accuracy"][names[0]] for row in run.metrics()]
    assert table.filter(lr=0.02, seed=1)[names[0]].to_list() == pytest.approx(expected)
    last = assignadd.evaluate(run, n=1000, task=task, network=network)[0][names[0]].accuracy
    assert table.filter(lr=0.02, seed=1, step=60)[f"{names[0]} (final)"].item() == pytest.approx(last, abs=0.15)
    before = contents(Path("out"))
    shutil.rmtree(next(Path("out").glob("stack-*")))
    assert main(command) == 0
    assert contents(Path("out")).keys() == before.keys() and "0 diverged" in capsys.readouterr().out
    assert polars.read_parquet("out/table.parquet").equals(table)
    assert main([*command, "--per-gpu", "2"]) == 2
    assert "one stack at a time" in one_line(capsys)


STUDY_FILE = '''
from dataclasses import replace

from assignadd import PRESETS
from assignadd.study import BASE, Cell, Study, mean


def norm(stack):
    """The norm of all weights."""
    return stack.flat.norm(dim=1)


STUDY = Study(
    "rates", "Does it help to train faster?", (Cell("slow"), Cell("fast", {"optim.lr": 0.02})), seeds=2, steps=40,
    base=replace(PRESETS["smoke"], record=replace(BASE.record, eval_every=20, final_sequences=200)),
    task="same.py", network="recurrent.py", measure=norm, outcomes=(), numbers=("same (final)", "norm (final)"),
    ask=(mean("norm (final)").of("fast").versus("slow", at_least=0),),
)
'''


def test_a_study_of_ones_own_task_and_network(files, capsys):
    Path("rates.py").write_text(STUDY_FILE)
    assert main(["study", "rates.py", "-o", "out", "--device", "cpu", "--threads", "1", "--json"]) == 0
    [shown] = json.loads(capsys.readouterr().out)
    assert [statement["id"] for statement in shown["statements"]] == ["rates-norm-fast-than-slow"]
    table = polars.read_parquet("out/rates.parquet")
    assert table["cell"].to_list() == ["slow", "slow", "fast", "fast"] and table["test (final)"].is_between(0, 1).all()
    norms = []
    for rate in (PRESETS["smoke"].optim.lr, 0.02):
        config = replace(PRESETS["smoke"], optim=replace(PRESETS["smoke"].optim, lr=rate, steps=40))
        run = assignadd.train(config, [0, 1], f"at {rate}", task="same.py", network="recurrent.py")
        norms += assignadd.load_stack(run).flat.norm(dim=1).tolist()
    assert table["norm (final)"].to_list() == pytest.approx(norms, rel=1e-5)
    assert Path("out/figure.svg").exists() and main(["study", "rates.py", "-o", "out", "--show"]) == 0


def linear(*between):
    def network(sizes):
        return nn.Sequential(nn.Embedding(sizes.n_tokens, 8), *between, nn.Linear(8, sizes.n_answers))

    return network


class Counting(nn.Module):
    """Counts its calls in a buffer, in training and in evaluation."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x


@pytest.mark.parametrize(
    ("between", "said"),
    [
        (lambda: nn.Dropout(0.1), "differs between training and evaluation"),
        (lambda: nn.Sequential(nn.Flatten(1, 1), nn.BatchNorm1d(4)), "changes the buffer"),
        (Counting, "changes the buffer 1.calls"),
        (lambda: nn.Linear(8, 9), "its forward pass raised RuntimeError"),
        (lambda: nn.Flatten(), "its forward pass raised RuntimeError"),
    ],
)
def test_a_module_whose_forward_pass_is_not_a_function_of_tokens_and_weights_is_refused(between, said, files):
    def network(sizes):
        return linear(between())(sizes)

    with pytest.raises(UserError, match=said) as refused:
        assignadd.train(SMOKE, [0], "run", task="same.py", network=network)
    assert "\n" not in str(refused.value) and not Path("run").exists()


class Bad:
    n_tokens, length, n_answers, sets = 5, 4, 2, ("test",)

    def __init__(self, draw, **sizes):
        self.__dict__ |= {"_draw": draw, **sizes}

    def draw(self, words, set):
        return self._draw(words)


def sequences(words):
    return words.below(5, 4), words.below(2)


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (Bad(lambda words: (torch.randint(5, (len(words), 4)), words.below(2))), "take all random numbers from words"),
        (Bad(lambda words: (words.below(5, 4).flip(0), words.below(2))), "compute each row from its own words"),
        (Bad(lambda words: (words.below(5, 3), words.below(2))), r"tokens \(8, 3\).*expected whole numbers \(8, 4\)"),
        (Bad(lambda words: (words.below(6, 4), words.below(2))), "tokens from 0 to 5: expected 0 to 4"),
        (Bad(lambda words: (words.below(5, 4), words.below(3))), "answers from 0 to 2: expected 0 to 1"),
        (Bad(lambda words: (words.below(5, 4), words.below(2, 4) * 0 - 1)), "a sequence without an answer"),
        (Bad(lambda words: 1 / 0), "raised ZeroDivisionError"),
        (Bad(lambda words: None), "returned NoneType: expected tokens and answers"),
        (Bad(sequences, sets=()), "1 to 100 different names"),
        (Bad(sequences, n_tokens=0), "n_tokens of .* = 0: expected a whole number"),
        (Bad, "expected a task, not the class Bad"),
    ],
)
def test_a_task_that_is_none_is_refused_in_one_line(task, said, files):
    with pytest.raises(UserError, match=said) as refused:
        assignadd.train(SMOKE, [0], "run", task=task)
    assert "\n" not in str(refused.value) and not Path("run").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["--task.modulus", "11"], "do not go with --task same.py"),
        (["--record.measure-every", "5"], "record.measure_every = 5: expected 0, its default: the task is same.py"),
        (["--optim.literals-from", "5"], "optim.literals_from = 5"),
        (["--network", "recurrent.py", "--model.n-heads", "2"], "do not go with --network recurrent.py"),
        (["--network", "recurrent.py", "--optim.frozen", "QK1"], "optim.frozen = 'QK1'"),
        (["--network", "same.py"], "expected a line such as NETWORK = ..."),
        (["--network", "none.py"], "none.py: expected a file of Python"),
    ],
)
def test_settings_that_mean_nothing_here_are_refused(settings, said, files, capsys):
    assert main(["train", "--preset", "smoke", "--task", "same.py", "--out", "run", *settings]) == 2
    assert said in one_line(capsys)
    assert not Path("run").exists()


COMMANDS = (
    ["ask", "b=4, b+1=?", "run"], ["claims", "run"], ["report", "run"], ["explore", "run"],
    ["measure", "phases", "run"], ["measure", "curves", "run"], ["theory", "run"],
    ["runs", "publish", "run", "--repo", "a/b", "--dry-run"],
    ["intervene", "[]", "b=4, b+1=?", "run"],
)  # fmt: skip


def test_commands_for_assign_and_add_alone_say_so(files, capsys):
    command = ["train", "--preset", "smoke", "--task", "same.py", "--optim.steps", "2", "--out", "run"]
    assert main(command) == 0
    capsys.readouterr()
    for command in COMMANDS:
        assert main(command) == 2, command
        assert "this run's task is same.py" in one_line(capsys)
    for function in (assignadd.measure, assignadd.claims):
        with pytest.raises(UserError, match=r"this run's task is same\.py"):
            function("run")


def test_runs_without_files_have_the_bytes_that_they_had():
    """The settings of a run do not mention what it has not."""
    from assignadd.runs.config_json import run_document

    assert b"file" not in run_document(PRESETS["paper"], [Member(0)])
    assert Task().file is None and math.prod(PRESETS["paper"].task.tuples) == 59 * 59
    assert weight_shapes(PRESETS["paper"])["embed.W_E"] == (74, 128)


def test_random_words_are_uniform_and_of_their_row_alone():
    drawn = RandomWords(40_000, seed=1).below(7)
    counts = torch.bincount(drawn, minlength=7)
    assert (counts - 40_000 / 7).abs().max() < 5 * math.sqrt(40_000 / 7)
    words = RandomWords(5, seed=1, step=3)
    first, second = words.below(1 << 20, 2, 3), words.below(1 << 20, 2, 3)
    assert first.shape == (5, 2, 3) and not torch.equal(first, second)
    again = RandomWords(9, seed=1, step=3)
    assert torch.equal(again.below(1 << 20, 2, 3)[:5], first) and len(again) == 9
    orders = RandomWords(24_000).permutations(4)
    assert torch.equal(orders.sort(1).values, torch.arange(4).expand(24_000, 4))
    of_each = torch.bincount((orders * torch.tensor([64, 16, 4, 1])).sum(1)).sort(descending=True).values[:24]
    assert (of_each - 1000).abs().max() < 5 * math.sqrt(1000)


def ranks(n, seed):
    """The numbers 0 to n - 1 by the random word that the seed gives each of them, in plain Python."""
    word = words(torch.tensor(seed), Stream.SPLIT, torch.tensor(0), torch.arange(n), 1)[0].tolist()
    return sorted(range(n), key=lambda number: word[number])


def test_numbers_in_a_fixed_order_depend_on_seed_and_row_alone():
    order = ranks(50, seed=3)
    assert sorted(order) == list(range(50)) and order != ranks(50, seed=4)
    drawn = [RandomWords(70, seed=3, step=step).in_fixed_order(50).tolist() for step in (0, 9)]
    assert drawn == [[*order, *order[:20]]] * 2
    some = RandomWords(7, seed=3).in_fixed_order(50, range(40, 50, 3))
    assert some.tolist() == [order[place] for place in (40, 43, 46, 49, 40, 43, 46)]
    for places in (range(0), range(49, 51), range(-1, 3)):
        with pytest.raises(UserError, match="expected places from 0 to 49"):
            RandomWords(3).in_fixed_order(50, places)


class Products:
    """Products mod 5 of pairs, of which each seed is trained on twelve."""

    n_tokens, length, n_answers, sets = 5, 2, 5, ("held out",)
    drawn = 0

    def draw(self, words, set):
        self.drawn += 1
        places = range(12, 25) if set == "held out" else range(12)
        pairs = words.in_fixed_order(25, places)
        tokens = torch.stack([pairs // 5, pairs % 5], 1)
        return tokens, tokens.prod(1) % 5


def test_a_fixed_training_set_is_drawn_once_and_trained_on_as_a_whole():
    """Full batches: losses and weights are those of torch's AdamW on the twelve pairs; no held-out pair is seen."""
    task = Products()
    file = with_files(replace(SMOKE, optim=Optim(lr=0.01, batch=12, weight_decay=0.1)), task)
    config = replace(file, numerics=replace(SMOKE.numerics, dtype="float64"))
    trainer = Trainer(config, [Member(7)], torch.ones(1, dtype=torch.bool))
    model = Transformer.from_stack(trainer.stack(), 0)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01, weight_decay=0.1)
    pairs = torch.tensor(ranks(25, seed=7))
    tokens = torch.stack([pairs // 5, pairs % 5], 1)
    before = task.drawn
    for _ in range(20):
        loss = nn.functional.cross_entropy(model(tokens[:12])[:, -1], tokens[:12].prod(1) % 5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        trainer.advance(1)
        assert trainer.losses[0] == pytest.approx(loss.item(), rel=1e-9)
    assert task.drawn == before + 1
    held_out, _ = task.draw(RandomWords(13, seed=7), "held out")
    assert torch.equal(held_out, tokens[12:])


def test_each_model_of_a_stack_has_the_fixed_set_of_its_seed_at_every_step(files):
    task = Products()
    config = with_files(SMOKE, task)
    configs = [Member(seed).config(config) for seed in (3, 4)]
    sampler = training_sampler(configs, torch.ones(2, 1, dtype=torch.bool), torch.device("cpu"))
    for steps in (torch.arange(3).view(-1, 1, 1), torch.tensor(8), torch.arange(5, 7).view(-1, 1, 1)):
        batch = sampler.sample(steps, 12)
        shape = (*steps.shape[:1], 2, 12)
        assert batch.tokens.shape == (*shape, 2) and batch.labels.shape == shape
        for model, seed in enumerate((3, 4)):
            pairs = torch.tensor(ranks(25, seed)[:12])
            assert (batch.tokens[..., model, :, :] == torch.stack([pairs // 5, pairs % 5], 1)).all()
            assert (batch.labels[..., model, :] == (pairs // 5) * (pairs % 5) % 5).all()


@pytest.mark.parametrize(("task", "network"), [*GIVEN[:2], (Products(), None)])
def test_a_captured_step_trains_as_steps_do(task, network, files, monkeypatch):
    """On a GPU, with a stand-in for CUDA graphs: what is replayed is called again. A task draws outside of them."""
    replayed = []
    monkeypatch.setattr(cuda_graph, "captured", lambda do: SimpleNamespace(replay=lambda: (replayed.append(do), do())))
    monkeypatch.setattr(cuda_graph, "OWN_TOKENS_AHEAD", 3 * 4 * 12 * 2)  # three steps or more
    config = with_files(replace(SMOKE, optim=Optim(lr=0.01, batch=12)), task, network)
    members, seen = [Member(1), Member(2)], torch.ones(2, 1, dtype=torch.bool)
    plain = Trainer(config, members, seen)
    groups = []
    for index, member in enumerate(members):  # on a CPU each model is a group
        trainer = Trainer(config, [member], seen[index : index + 1])
        trainer.groups[0]._has_graph = True
        trainer.advance(4)
        trainer.advance(6)
        groups.append(trainer)
    plain.advance(10)
    assert torch.equal(plain.stack().flat, torch.cat([trainer.stack().flat for trainer in groups]))
    assert plain.losses == [trainer.losses[0] for trainer in groups] and len(replayed) == 20


def test_a_network_that_cannot_be_captured_trains_without_a_graph(files, monkeypatch, capsys):
    def not_captured(do):
        do()  # the warm-up takes a step
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(cuda_graph, "captured", not_captured)
    config = with_files(SMOKE, "same.py", "recurrent.py")
    trainer, plain = (Trainer(config, [Member(1)], torch.ones(1, dtype=torch.bool)) for _ in range(2))
    trainer.groups[0]._has_graph = True
    for _ in range(2):
        trainer.advance(5)
        plain.advance(5)
    assert torch.equal(trainer.stack().flat, plain.stack().flat) and trainer.step == 10
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "recurrent.py trains without a CUDA graph, slower (operation not" in error


def test_the_example_learns_and_draws(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = ROOT / "examples" / "copying.py"
    assert len(path.read_text().splitlines()) <= 60
    spec = importlib.util.spec_from_file_location("copying_example", path)
    example = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "copying_example", example)
    spec.loader.exec_module(example)
    example.main()
    printed = capsys.readouterr().out
    accuracies = [float(part.split()[-1]) for line in printed.splitlines() for part in line.split(",")]
    assert len(accuracies) == 4 and min(accuracies) > 0.95
    assert Path("copying.png").exists()


def test_a_run_is_trained_by_the_loop_without_the_api(files):
    """Writing a run of a task that was never given is refused before the folder is made."""
    config = with_files(SMOKE, "same.py")
    unknown()
    with pytest.raises(UserError, match="--task"):
        train_run(Path("run"), config, [Member(0)], torch.ones(1, dtype=torch.bool))
    assert not Path("run").exists()
