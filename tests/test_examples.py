"""The plain training of `examples/` and the package's trainer compute the same losses and the same accuracies."""

import importlib.util
import math
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import pytest
import torch

import assignadd
from assignadd.config import PRESETS, Member
from assignadd.model.handmade import handmade
from assignadd.model.stack import initial_stack
from assignadd.model.transformer import Transformer
from assignadd.runs.config_json import with_files
from assignadd.task import RandomWords
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.splits import pair_split
from assignadd.task.text import parse
from assignadd.training.trainer import Trainer

PATH = Path(__file__).parents[1] / "examples" / "plain_training.py"
STEPS = 20


def imported(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


plain = imported(PATH)


def paper(dtype, batch):
    """The paper's task, model and optimizer with smaller batches: an example in plain PyTorch takes its time."""
    config = PRESETS["paper"]
    return replace(
        config,
        numerics=replace(config.numerics, dtype=dtype),
        optim=replace(config.optim, batch=batch),
        record=replace(config.record, eval_sequences=32),
    )


def trainer_of(config, seed):
    return Trainer(config, [Member(seed)], pair_split(config.task, seed)[None])


def package_losses(trainer):
    """The loss of each step on its batch, before its update."""
    losses = []
    for _ in range(STEPS):
        trainer.advance(1)
        losses += trainer.losses
    return losses


def test_first_losses_and_accuracies_equal_the_packages_in_double_precision():
    """The two agree to the last bit or two (2e-16). Weight decay 0.0199 instead of 0.02 would differ by 1e-7."""
    config = paper("float64", batch=32)
    trainer, weights = trainer_of(config, seed=0), plain.initial_weights(config, seed=0)
    assert list(plain.train(weights, config, 0, STEPS)) == pytest.approx(package_losses(trainer), rel=1e-11, abs=0)
    recorded = trainer.evaluate()[0]["accuracy"]
    assert plain.accuracies(weights, config, 0) == {s.name: recorded[s.name] for s in EVAL_SETS}


def test_first_losses_equal_the_packages_in_single_precision():
    """In float32 they differ by a unit in the last place (1e-7) until a neuron falls on the other side of ReLU.

    This happens where a preactivation is within rounding of 0. AdamW divides the neuron's gradient by its small running
    magnitude, so the weights then differ by parts of the learning rate, and the losses by up to 2e-5 of
    their value in 20 seeds (7e-5 in 8 seeds with batches of 512).
    """
    config = paper("float32", batch=128)
    losses = package_losses(trainer_of(config, seed=0))
    plain_losses = list(plain.train(plain.initial_weights(config, seed=0), config, 0, STEPS))
    assert plain_losses[:3] == pytest.approx(losses[:3], rel=1e-6, abs=0)
    assert plain_losses == pytest.approx(losses, rel=3e-4, abs=0)


def test_a_model_that_solves_the_task_by_construction_answers_every_set():
    stack = handmade(PRESETS["tiny"])
    weights = {name: weight[0].squeeze(0) for name, weight in stack.weights.items()}
    assert plain.accuracies(weights, PRESETS["tiny"], seed=3) == {s.name: 1.0 for s in EVAL_SETS}


def test_the_sequence_it_explains_is_one_of_the_task():
    line = next(line for line in plain.__doc__.splitlines() if line.startswith("    "))
    sequence, explained = line.strip().split("  ", 1)
    tokens = torch.tensor([parse(sequence, PRESETS["paper"].task)])
    assert tokens.shape == (1, 16)
    solved = {name: weight[0].squeeze(0) for name, weight in handmade(PRESETS["paper"]).weights.items()}
    assert f"predicts {plain.answer_logits(solved, tokens).argmax().item()} at" in explained


@pytest.mark.parametrize("steps", [0, 2])
def test_it_runs_as_a_program(steps, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [PATH.name, "--preset", "smoke", "--steps", str(steps)])
    runpy.run_path(str(PATH), run_name="__main__")
    names, *lines = capsys.readouterr().out.splitlines()
    assert all(s.name in names for s in EVAL_SETS) and len(lines) == steps
    for step, line in enumerate(lines, 1):
        assert line.startswith(f"step     {step}  loss ") and line.count(".") == 1 + len(EVAL_SETS)


def test_an_own_measure_claim_and_figure(tmp_path, monkeypatch, capsys):
    path = PATH.with_name("own_measure.py")
    assert len(path.read_text().splitlines()) <= 60
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out
    assert "qk2_ov1_var_rank" in said and "second match. " in said and (tmp_path / "ranks.svg").is_file()
    last = [line.split("┆")[-1].strip(" │") for line in said.splitlines() if line.startswith("│ 60 ")]
    assert len(last) == 4 and all(1 <= float(rank) <= 12 for rank in last)


def imported_as(name, monkeypatch):
    """An example by its file's name, as a module that its classes can be found in."""
    path = PATH.with_name(f"{name}.py")
    assert len(path.read_text().splitlines()) <= 120
    spec = importlib.util.spec_from_file_location(f"{name}_example", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_grokking_trains_on_the_same_pairs_of_a_seed_and_tests_on_all_others(monkeypatch):
    task = imported_as("grokking", monkeypatch).Addition(113, 0.3)
    pairs = {}
    for set, rows in (("train", 3830), ("trained", 3830), ("held out", 8939)):
        tokens, sums = task.draw(RandomWords(rows, seed=5, step=len(pairs)), set)
        assert torch.equal(sums, (tokens[:, 0] + tokens[:, 1]) % 113) and (tokens[:, 2] == 113).all()
        pairs[set] = {tuple(pair) for pair in tokens[:, :2].tolist()}
        assert len(pairs[set]) == rows
    assert pairs["train"] == pairs["trained"] and not pairs["train"] & pairs["held out"]
    other = {tuple(pair) for pair in task.draw(RandomWords(3830, seed=6), "train")[0][:, :2].tolist()}
    assert len(other & pairs["train"]) == pytest.approx(3830 * 0.3, rel=0.1)  # by chance


def test_grokking_finds_the_frequencies_that_neurons_have(monkeypatch):
    """Of waves that are put in: cos(k a + u) + cos(k b + v) and a rectified cos(k (a + b)); noise has none."""
    grokking = imported_as("grokking", monkeypatch)
    random, p = np.random.default_rng(0), 31
    a, b = np.meshgrid(np.arange(p), np.arange(p), indexing="ij")
    turn = 2 * math.pi / p
    neurons = []
    for k in (3, 3, 7, 12):
        u, v = random.uniform(0, 2 * math.pi, 2)
        neurons.append(np.cos(turn * k * a + u) + np.cos(turn * k * b + v) + 5)
        neurons.append(np.cos(turn * k * (a + b) + u))
    neurons += [random.normal(size=(p, p)) for _ in range(8)]
    ks, share = grokking.frequencies(torch.tensor(np.stack(neurons, -1)))
    assert ks.tolist() == [3, 7, 12] and share == 0.5
    curves = polars.DataFrame({"step": range(0, 300, 10), "x": [0.0] * 5 + [1.0] * 9 + [0.5] + [1.0] * 15})
    assert grokking.lasting(curves, "x") == 150 and grokking.lasting(curves.head(24), "x") is None


def test_grokking_accuracy_with_some_frequencies_is_that_of_edited_embeddings(monkeypatch):
    grokking = imported_as("grokking", monkeypatch)
    task = grokking.Addition(11, 0.5)
    config = with_files(PRESETS["smoke"], task)
    stack = initial_stack(config, [0])
    kept = torch.tensor([False, True, False, True, False, False])
    found = grokking.accuracy_with(stack, kept, task)
    angle = 2 * np.pi / 11 * np.outer(np.arange(11), np.arange(11))
    W_E = stack.W_E[0, :-1].double().numpy()
    coefficients = np.exp(-1j * angle) @ W_E / 11
    coefficients[[2, 4, 5, 6, 7, 9]] = 0  # k and -k
    edited = stack.clone()
    edited.W_E[0, :-1] = torch.tensor((np.exp(1j * angle) @ coefficients).real)
    tokens, sums = task.sums(torch.arange(121))
    right = Transformer.from_stack(edited, 0)(tokens)[:, -1].argmax(-1) == sums
    assert found == pytest.approx(right.float().mean().item(), abs=1e-6)


def test_induction_draws_what_it_says(monkeypatch):
    """Bigrams as often as the table says, but after a trigger always its output; outputs are uniform."""
    induction = imported_as("induction", monkeypatch)
    task = induction.Bigrams(12, 40)
    tokens, following = task.draw(RandomWords(4000), "train")
    assert torch.equal(tokens[:, 1:], following[:, :-1])
    counts, outputs = np.zeros((12, 12)), np.zeros(12)
    for row, after in zip(tokens.tolist(), following.tolist(), strict=True):
        drawn = {}
        for token, next_token in zip(row, after, strict=True):
            if token < 5:
                assert drawn.setdefault(token, next_token) == next_token
            else:
                counts[token, next_token] += 1
        for output in drawn.values():
            outputs[output] += 1
    for token in range(5, 12):
        chances = np.bincount(task.after[token], minlength=12) / 4096
        n = counts[token].sum()
        assert np.all(np.abs(counts[token] - n * chances) <= 5 * np.sqrt(n * chances) + 1e-9)
    assert np.all(np.abs(outputs - outputs.sum() / 12) < 6 * np.sqrt(outputs.sum() / 12))
    tokens, following = task.draw(RandomWords(50), "in context")
    for row, answer in zip(tokens.tolist(), following.tolist(), strict=True):
        assert row[0] == row[-1] < 5 and answer == [-1] * 39 + [row[1]]


def test_inductions_measures_are_those_of_the_hooked_transformer(monkeypatch):
    """Accuracy, attention and divergence by a loop over what `run_with_cache` returns; layer 1 levelled by a hook."""
    induction = imported_as("induction", monkeypatch)
    task = induction.Bigrams(12, 20)
    model = replace(PRESETS["smoke"].model, d_mlp=(None, None))
    stack = initial_stack(with_files(replace(PRESETS["smoke"], model=model), task), [0, 1])
    stack.flat.mul_(3)  # attention that is far from even
    measured = induction.memories(stack)
    tokens, following = task.draw(RandomWords(32, seed=1 << 40), "train")
    hooked = Transformer.from_stack(stack, 1)
    logits, cache = hooked.run_with_cache(tokens)
    even = torch.ones(20, 20).tril() / torch.arange(1, 21)[:, None]
    levelled = hooked.run_with_hooks(
        tokens, fwd_hooks=[("blocks.0.attn.hook_pattern", lambda pattern, _: even.expand_as(pattern))]
    )
    right, right_levelled, attention, divergences = [], [], [], []
    for b, row in enumerate(tokens.tolist()):
        for t, token in enumerate(row):
            if token >= 5:
                chances = np.bincount(task.after[token], minlength=12) / 4096
                log = logits[b, t].log_softmax(-1).detach().numpy()
                divergences.append(sum(c * (math.log(c) - q) for c, q in zip(chances, log, strict=True) if c))
            elif places := [s + 1 for s in range(t) if row[s] == token]:
                right.append(logits[b, t].argmax() == following[b, t])
                right_levelled.append(levelled[b, t].argmax() == following[b, t])
                attention.append(cache["blocks.1.attn.hook_pattern"][b, 0, t, places].sum())
    assert measured["in_context"][1] == pytest.approx(np.mean(right), abs=1e-6)
    assert measured["even_layer_1"][1] == pytest.approx(np.mean(right_levelled), abs=1e-6)
    assert measured["attention"][1] == pytest.approx(np.mean(attention), rel=1e-4)
    assert measured["bigrams"][1] == pytest.approx(math.exp(-np.mean(divergences)), rel=1e-4)


def test_inductions_memories_of_a_head_by_construction(monkeypatch):
    """One-hot embeddings, and W_O2, W_K2 and W_K1 as Bietti et al. write them: each is recalled, and the head answers.

    Without one of them, its own measure falls, and so does the accuracy. The first position, which has none before it,
    copies itself, and is found where it is a trigger.
    """
    induction = imported_as("induction", monkeypatch)
    n, T, d = 12, 20, 64
    task = induction.Bigrams(n, T)
    model = replace(PRESETS["smoke"].model, d_model=d, d_head=d, d_mlp=(None, None))
    stack = initial_stack(with_files(replace(PRESETS["smoke"], model=model), task), [0])
    stack.flat.zero_()
    stack.W_E[0, range(n), range(n)] = 1
    stack.W_pos[0, range(T), range(n, n + T)] = 1
    stack.W_U[0, range(n), range(n)] = 1
    head = {name: stack[name][0, 0] for name in stack.weights if ".attn." in name}
    copied = range(n + T, n + T + n)  # where layer 1 writes the token before
    head["blocks.0.attn.W_Q"][range(n + 1, n + T), range(n, n + T - 1)] = 1000  # p_t looks for p_(t-1)
    head["blocks.0.attn.W_K"][range(n, n + T), range(n, n + T)] = 1
    head["blocks.0.attn.W_V"][range(n), range(n)] = 1
    head["blocks.0.attn.W_O"][range(n), copied] = 1
    head["blocks.1.attn.W_Q"][range(5), range(5)] = 1000
    head["blocks.1.attn.W_K"][copied, range(n)] = 1
    head["blocks.1.attn.W_V"][range(n), range(n)] = 1
    head["blocks.1.attn.W_O"][range(n), range(n)] = 10
    whole = {name: value.item() for name, value in induction.memories(stack).items()}
    assert min(whole[name] for name in ("W_O2", "W_K2", "W_K1")) == 1
    assert min(whole["attention"], whole["in_context"]) > 0.95
    assert whole["even_layer_1"] < 0.8
    for name, weight in (("W_O2", "blocks.1.attn.W_O"), ("W_K2", "blocks.1.attn.W_K"), ("W_K1", "blocks.0.attn.W_Q")):
        broken = stack.clone()
        broken[weight].neg_() if name == "W_O2" else broken[weight].copy_(broken[weight].roll(1, -1))
        measured = induction.memories(broken)
        assert measured[name].item() < 0.3 and measured["in_context"].item() < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grokking", "induction"])
def test_the_quick_form_of_a_replication(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, "--quick"])
    imported_as(name, monkeypatch).main()
    out = Path(f"{name}-results")  # in the working folder, not over the results of the full size
    table = polars.read_csv(out / "seeds.csv")
    assert table.height == 2 and (out / f"{name}.svg").is_file()
    if name == "grokking":
        table = table.drop_nulls("generalised")
        assert table.height and (table["memorised"] < table["generalised"]).all() and table["n"].is_between(1, 5).all()
        assert (table["with these alone"] > 0.9).all() and (table["without these"] < 0.3).all()
    else:
        assert (table["bigrams"] < table["in_context"]).all() and (table["in_context (last)"] > 0.9).all()
        assert (table["even_layer_1 (last)"] < table["in_context (last)"] - 0.1).all()
    [run] = Path("runs").iterdir()
    assert assignadd.open_run(run).finished
