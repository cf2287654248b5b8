"""Models in a stack train as they do alone; a broken one stops without touching its neighbours."""

import platform
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from assignadd.config import PRESETS, Config, Member, Model, Optim
from assignadd.model.accuracy import Exam
from assignadd.model.handmade import handmade
from assignadd.model.stack import Stack, initial_stack, views
from assignadd.model.transformer import Transformer
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.training.trainer import Group, Trainer

SMOKE = PRESETS["smoke"]
COUNT_PAGE_FAULTS = """
import resource, torch
from assignadd.config import Config
from assignadd.training.trainer import prepare
prepare("cpu", 1, Config())
faults = []
for _ in range(4):
    tensors = [torch.ones(2**20) for _ in range(20)]  # of 4 MB each
    del tensors
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[3] - faults[0])
"""


def splits(config: Config, members) -> torch.Tensor:
    configs = [m.config(config) for m in members]
    return torch.stack([pair_split(c.task, c.seed.split) for c in configs])


def trainer(config: Config, members, threads: int = 1) -> Trainer:
    return Trainer(config, members, splits(config, members), threads=threads)


@pytest.mark.parametrize(("dtype", "most"), [("float64", 1e-10), ("float32", 1e-5)])
def test_first_steps_equal_a_plain_loop_of_autograd_and_torch_adamw(dtype, most):
    """The whole step (data, loss, gradient, update) against ten lines of ordinary PyTorch in double precision."""
    config = replace(SMOKE, numerics=replace(SMOKE.numerics, dtype="float64"))
    ours = trainer(replace(SMOKE, numerics=replace(SMOKE.numerics, dtype=dtype)), [Member(5)])
    model = Transformer.from_stack(initial_stack(config, [5]), 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.02, betas=(0.9, 0.999), eps=1e-8)
    sampler = Sampler([config.task], pair_split(config.task, 5)[None], [5])
    for step in range(30):
        batch = sampler.sample(step, config.optim.batch)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch.tokens[0])[:, -1], batch.labels[0]).backward()
        optimizer.step()
    ours.advance(30)
    for name, weight in ours.stack().weights.items():
        expected = model.state_dict()[name]
        assert (weight[0] - expected).norm() < most * expected.norm(), name


@pytest.mark.parametrize("threads", [1, 2])
def test_a_model_in_a_stack_is_bitwise_the_model_alone(threads, monkeypatch):
    monkeypatch.setattr("assignadd.training.trainer.MOST_STEPS_AHEAD", 32)
    members = [Member(0), Member(3, lr=3e-3, seen_fraction=0.6), Member(4, two_var_ratio=2.0, weight_decay=0.0)]
    together = trainer(SMOKE, members, threads)
    together.advance(25)
    together.advance(45)  # across the sampler's look-ahead
    rows = together.evaluate()
    for i, member in enumerate(members):
        alone = trainer(SMOKE, [member])
        alone.advance(70)
        assert torch.equal(alone.stack().flat[0], together.stack().flat[i])
        assert alone.evaluate() == [rows[i] | {"model": 0}]


def test_own_settings_are_those_of_a_configuration_that_has_them():
    own = trainer(
        SMOKE, [Member(2, lr=5e-3, weight_decay=0.3, seen_fraction=0.5, one_var_ratio=1.0, two_var_ratio=0.5)]
    )
    task = replace(SMOKE.task, seen_fraction=0.5, one_var_ratio=1.0, two_var_ratio=0.5)
    config = replace(SMOKE, task=task, optim=replace(SMOKE.optim, lr=5e-3, weight_decay=0.3))
    whole = trainer(config, [Member(2)])
    own.advance(20)
    whole.advance(20)
    assert torch.equal(own.stack().flat, whole.stack().flat)


@pytest.mark.parametrize("together", [True, False])
def test_a_model_whose_loss_is_not_finite_stops_before_its_update(together):
    """Together as on a GPU, in one batched group; or each in its own, as on a CPU."""
    members = [Member(0), Member(1), Member(2)]
    configs = [m.config(SMOKE) for m in members]
    parts = [slice(0, 3)] if together else [slice(i, i + 1) for i in range(3)]

    def groups() -> list[Group]:
        stack, seen = initial_stack(SMOKE, [0, 1, 2]), splits(SMOKE, members)
        return [Group(stack.models(p), configs[p], seen[p]) for p in parts]

    broken, healthy = groups(), groups()
    for group in (*broken, *healthy):
        group.advance(7)
    flat = torch.cat([w.stack.flat for w in broken])
    target = broken[0] if together else broken[1]
    target.stack["unembed.W_U"][1 if together else 0, 0, 0] = torch.inf
    poisoned = torch.cat([w.stack.flat for w in broken])[1].clone()
    for group in (*broken, *healthy):
        group.advance(5)
    after, expected = (torch.cat([w.stack.flat for w in ws]) for ws in (broken, healthy))
    assert [x for w in broken for x in w.diverged_at.tolist()] == [-1, 7, -1]
    assert torch.equal(after[1], poisoned)
    assert torch.equal(after[[0, 2]], expected[[0, 2]])
    assert not torch.equal(after[0], flat[0])


def test_state_goes_round():
    members = [Member(0), Member(1)]
    one, other = trainer(SMOKE, members), trainer(SMOKE, members)
    one.advance(13)
    other.load_state({name: t.clone() for name, t in one.state().items()})
    one.advance(20)
    other.advance(20)
    assert other.step == 33
    assert all(torch.equal(one.state()[name], t) for name, t in other.state().items())


def test_architectures_without_tables_train_too():
    config = replace(
        SMOKE, model=Model(n_layers=2, n_heads=2, d_model=16, d_head=8, d_mlp=(16, 16), norm="layer", biases=True)
    )
    config = replace(config, optim=Optim(lr=1e-2, batch=64, steps=100))
    t = trainer(config, [Member(0)])
    t.advance(1)
    first = t.losses[0]
    t.advance(60)
    assert t.losses[0] < first - 0.05


def test_exam_marks_right_and_wrong_answers():
    """The hand-made model knows everything; with two output columns swapped it is wrong on just those sums."""
    stack = handmade(Config(task=SMOKE.task))
    members = [Member(0).config(stack.config)]
    exam = Exam(members, pair_split(SMOKE.task, 0)[None], EVAL_SETS, 300)
    assert exam.count_correct(stack).tolist() == [[300] * len(EVAL_SETS)]
    swapped = Stack(stack.config, stack.flat.clone())
    W_U = views(stack.config, swapped.flat)["unembed.W_U"]
    W_U[..., [2, 5]] = W_U[..., [5, 2]]
    wrong = ((exam.labels == 2) | (exam.labels == 5)).view(len(EVAL_SETS), 300).sum(1)
    assert exam.count_correct(swapped)[0].tolist() == (300 - wrong).tolist()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_loaded_state_says_who_has_diverged_and_who_has_not(threads):
    """Whatever the losses are, and whoever holds the models: one process or several."""
    members = [Member(0), Member(1)]
    healthy, other = trainer(SMOKE, members, threads), trainer(SMOKE, members, threads)
    healthy.advance(4)
    state = {name: t.clone() for name, t in healthy.state().items()}
    other.advance(1)
    other.load_state(state | {"diverged_at": torch.tensor([-1, 2])})
    other.advance(3)
    healthy.advance(3)
    assert torch.equal(other.stack().flat[0], healthy.stack().flat[0])
    assert torch.equal(other.stack().flat[1], state["weights"][1])
    assert other.diverged_at == [None, 2]
    other.load_state(state)
    other.advance(3)
    assert torch.equal(other.stack().flat, healthy.stack().flat)
    assert other.diverged_at == [None, None]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_memory_that_was_freed_is_not_taken_from_the_system_again():
    """With `prepare` there are 1,024 page faults, of one tensor; without, 40,000."""
    done = subprocess.run([sys.executable, "-c", COUNT_PAGE_FAULTS], capture_output=True, check=True)
    assert int(done.stdout) < 5000
