"""Training from given weights: the network and the part that the settings name; refused before anything is written."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from assignadd.api import train
from assignadd.cli import main
from assignadd.config import PRESETS, ConfigError, Member, Numerics, Optim, Recording, Start
from assignadd.model.stack import initial_stack
from assignadd.runs.folder import Run, open_run
from assignadd.sweeps.plan import Machines, Sweep, plan
from assignadd.training.start import Networks
from tests.runs.small import contents

torch.set_num_threads(1)
CONFIG = replace(PRESETS["smoke"], optim=Optim(batch=8, steps=20), record=Recording(10, 16, 10, 10))
QK1 = ["blocks.0.attn.W_Q", "blocks.0.attn.W_K"]


@pytest.fixture
def trained(tmp_path, monkeypatch) -> Run:
    """Seeds 4 and 5 after twenty steps, under runs/."""
    monkeypatch.chdir(tmp_path)
    return train(CONFIG, [4, 5], "runs/trained")


def test_each_model_starts_from_the_weights_that_it_names(trained):
    members = [
        Member(0),
        Member(0, {"start.network": "trained:5"}),
        Member(1, {"start.part": "QK1", "start.part_from": "trained:4@10"}),
        Member(1, {"start.network": "trained:5", "start.part": "QK1", "start.part_from": "runs/trained:4"}),
        Member(1, {"start.network": "trained:5", "start.part": "QK1", "start.part_from": "initial:7"}),
    ]
    run = train(CONFIG, members, "new")
    last, tenth = trained.checkpoint(20), trained.checkpoint(10)
    expected = [initial_stack(CONFIG, [0]), last.models(1), initial_stack(CONFIG, [1])]
    expected += [last.models(1).clone(), last.models(1).clone()]
    for name in QK1:
        expected[4][name].copy_(initial_stack(CONFIG, [7])[name])
        expected[2][name].copy_(tenth[name][:1])
        expected[3][name].copy_(last[name][:1])
    first = run.checkpoint(0)
    assert all(torch.equal(first.flat[i], stack.flat[0]) for i, stack in enumerate(expected))
    state = run.latest_state(at_most=0)
    assert not state["mean"].any() and not state["square"].any() and int(state["step"]) == 0
    assert torch.equal(run.checkpoint(20).flat[0], train(CONFIG, [0], "alone").checkpoint(20).flat[0])
    assert len({tuple(row) for row in run.checkpoint(20).flat.tolist()}) == 5


def test_the_network_is_read_once_and_an_interrupted_run_goes_on_bit_for_bit(trained):
    config = replace(CONFIG, start=Start("trained:5", "MLP2", "trained:4"))
    train(config, [0, 1], "whole")

    def stop(progress):
        if progress.step == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, [0, 1], "stopped", listener=stop)
    shutil.move("runs/trained", "elsewhere")
    assert Run.open("stopped").step == 10
    train(config, [0, 1], "stopped")
    assert contents(Path("stopped")) == contents(Path("whole"))
    with pytest.raises(ConfigError, match=r"start.network = 'trained:5': expected a network that can be read"):
        train(config, [0, 1], "another")


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (Start("nowhere:0"), "start.network = 'nowhere:0': expected a network that can be read (no run at nowhere;"),
        (Start("trained:6"), "start.network = 'trained:6': expected a network that can be read (run trained has no se"),
        (Start(f"{'x' * 5000}:0"), "expected a network that can be read ([Errno"),
        (Start("a\u2028b:0"), "expected a network that can be read (no run at a\\u2028b"),
        (Start("trained:4@11"), "(run trained has no checkpoint at step 11"),
        (Start("census-six:0"), "of the same shape (embed.W_E has the shape (14, 16) here and (74, 128) there)"),
        (Start(None, "QK1", "census-six:0"), "start.part_from = 'census-six:0': expected a network of the same shape"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line_before_anything_is_written(trained, start, says):
    with pytest.raises(ConfigError) as caught:
        train(replace(CONFIG, start=start), [0], "new")
    assert says in str(caught.value) and "\n" not in str(caught.value) and not Path("new").exists()


def test_a_part_alone_must_fit(trained):
    """Another MLP changes no other part; biases belong to the part."""
    wide = replace(CONFIG, model=replace(CONFIG.model, d_mlp=(None, 48)))
    part = {"start.part": "QK1", "start.part_from": "trained:4"}
    run = train(wide, [Member(0, part)], "wide")
    assert torch.equal(run.checkpoint(0)[QK1[0]][0], trained.checkpoint(20)[QK1[0]][0])
    with pytest.raises(ConfigError, match=r"blocks.0.attn.b_Q has the shape"):
        train(replace(CONFIG, model=replace(CONFIG.model, biases=True)), [Member(0, part)], "biased")
    double = replace(CONFIG, numerics=Numerics("float64"))
    run = train(double, [Member(0, {"start.network": "trained:4"})], "double")
    assert torch.equal(run.checkpoint(0).flat[0], trained.checkpoint(20).flat[0].double())


def test_factors_change_the_last_mlp_alone(trained):
    """They multiply the weights of the network that training starts from."""
    members = [
        Member(0, {"start.mlp_out_factor": 0.25}),
        Member(0, {"start.mlp_in_factor": 3.0, "start.network": "trained:4"}),
    ]
    first, MLP = train(CONFIG, members, "factors").checkpoint(0), "blocks.1.mlp."
    seed, network = initial_stack(CONFIG, [0]), trained.checkpoint(20)
    for name in seed.weights:
        assert torch.equal(first[name][0], seed[name][0] * (0.25 if name == f"{MLP}W_out" else 1))
        assert torch.equal(first[name][1], network[name][0] * (3 if name == f"{MLP}W_in" else 1))
    with pytest.raises(ConfigError, match=r"start.mlp_in_factor = 2: expected 1: there is no MLP after the last layer"):
        replace(CONFIG, model=replace(CONFIG.model, d_mlp=(None, None)), start=Start(mlp_in_factor=2))


def test_a_sweep_refuses_a_network_before_any_model_is_trained(trained):
    rows = [Member(0), Member(0, {"start.network": "trained:4"}), Member(0, {"start.network": "trained:7"})]
    with pytest.raises(ConfigError, match=r"start.network = 'trained:7': .* it has 4, 5"):
        plan(Sweep("s", CONFIG, tuple(rows)), trained.path / "out", Machines())
    (job,) = plan(Sweep("s", CONFIG, tuple(rows[:2])), trained.path / "out", Machines()).jobs
    assert len(job.members) == 2
    assert not (trained.path / "out").exists()


def test_from_the_shell_and_from_a_file(trained, capsys, tmp_path):
    flags = ["--preset", "smoke", "--optim.steps", "0", "--threads", "1", "--device", "cpu"]
    start = ["--start.network", "trained:5", "--start.part", "QK1", "--start.part-from", "trained:4"]
    assert main(["train", *flags, *start, "--out", "shell"]) == 0
    (tmp_path / "mine.json").write_text(
        json.dumps({"start": {"network": "trained:5", "part": "QK1", "part_from": "trained:4"}})
    )
    assert main(["train", *flags, "--config", "mine.json", "--out", "file"]) == 0
    made = [Run.open(name).checkpoint(0) for name in ("shell", "file")]
    assert torch.equal(made[0].flat, made[1].flat) and torch.equal(made[0].W_E[0], trained.checkpoint(20).W_E[1])
    assert main(["train", *flags, "--start.network", "trained:9", "--out", "refused"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("assignadd: start.network = 'trained:9': expected")
    (tmp_path / "rows.json").write_text(
        '[{"start.network": "trained:4"}, {"start.part": "OV2", "start.part_from": "trained:5"}]'
    )
    sweep = ["sweep", "rows.json", "--preset", "smoke", "--n-seeds", "1", "--steps", "2"]
    assert main([*sweep, "--device", "cpu", "--threads", "1"]) == 0


def test_a_network_of_the_package_has_its_own_weights():
    config, networks = PRESETS["paper"], Networks()
    fifteen, again, zero = (networks.weights(config, f"census-six:{network}") for network in ("15", "15@50000", "0"))
    index = open_run("census-six").index_of(15)
    assert torch.equal(fifteen.flat[0], open_run("census-six").checkpoint(50_000).flat[index]) and len(fifteen) == 1
    assert torch.equal(fifteen.flat, again.flat) and not torch.equal(fifteen.flat, zero.flat)
