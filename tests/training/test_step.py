"""The training step: both ways to the gradient agree, sequences drawn ahead change nothing, diverged models stop."""

import math
from dataclasses import replace

import pytest
import torch

from assignadd.config import PRESETS, Config, Member, Model, Numerics, Optim
from assignadd.model.forward import table_forward
from assignadd.model.kernels.tensor import Moments, TensorKernels, stacked_adamw
from assignadd.model.stack import initial_stack
from assignadd.model.transformer import Transformer
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.training.gradient import ReferenceGradient, TableGradient, cross_entropy_of, mean_losses
from assignadd.training.schedule import Rates
from assignadd.training.trainer import Group

CONFIG = PRESETS["smoke"]


def group(models: int = 1, config: Config = CONFIG) -> Group:
    seeds = list(range(models))
    seen = torch.stack([pair_split(config.task, s) for s in seeds])
    return Group(initial_stack(config, seeds), [Member(s).config(config) for s in seeds], seen)


def step_by_step(one: Group, steps: int) -> None:
    """Training on batches that are drawn one at a time."""
    for _ in range(steps):
        one.update(one.sampler.sample(int(one.step), one.batch_size))


def same(a: Group, b: Group) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state().values(), b.state().values(), strict=True))


def test_tables_and_autograd_give_the_same_loss_and_gradient():
    config = replace(CONFIG, numerics=Numerics(dtype="float64"))
    seeds = [0, 1, 2]
    stack = initial_stack(config, seeds)
    batch = Sampler([config.task] * 3, torch.stack([pair_split(config.task, s) for s in seeds]), seeds).sample(5, 64)
    table, reference = TableGradient(stack), ReferenceGradient(stack)
    torch.testing.assert_close(table(batch), reference(batch))
    torch.testing.assert_close(table.flat, reference.flat)


def test_a_loss_in_double_precision_keeps_gradients_that_single_precision_rounds_to_zero():
    config = replace(CONFIG, numerics=Numerics(loss_in_float64=True))
    logits, labels = torch.tensor([[[20.0, 0.0, 0.0], [1.0, 0.0, 2.0]]]), torch.tensor([[0, 1]])
    kernels = TensorKernels(5, 4, torch.device("cpu"))
    single, double = (cross_entropy_of(c, kernels)(logits.clone(), labels) for c in (CONFIG, config))
    wrong = math.exp(-20) / (1 + 2 * math.exp(-20))
    assert single[1][0, 0, 0] == 0 and double[1].dtype == torch.float32
    assert double[1][0, 0].tolist() == pytest.approx([-wrong, wrong / 2, wrong / 2], rel=1e-6)
    torch.testing.assert_close(double[1][0, 1], single[1][0, 1])
    torch.testing.assert_close(double[0], single[0])


@pytest.mark.parametrize("way", [TableGradient, ReferenceGradient])
def test_both_ways_to_the_gradient_take_the_loss_in_double_precision(way):
    gradients = []
    for numerics in (Numerics(), Numerics(loss_in_float64=True), Numerics(dtype="float64")):
        config = replace(CONFIG, numerics=numerics)
        seen = pair_split(config.task, 0)[None]
        batch = Sampler([config.task], seen, [0]).sample(5, 64)
        gradient = way(initial_stack(config, [0]))
        loss = gradient(batch)
        gradients.append((loss.double(), gradient.flat.double()))
    for loss, flat in gradients[:2]:
        torch.testing.assert_close(loss, gradients[2][0], rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(flat, gradients[2][1], rtol=1e-3, atol=1e-6)
    assert not torch.equal(gradients[0][1], gradients[1][1])


def test_another_architecture_has_the_gradient_of_its_loss_and_goes_on_where_compiling_fails(capsys):
    model = Model(n_layers=3, n_heads=2, d_model=8, d_head=4, d_mlp=(6, None, 8), norm="layer", biases=True)
    config = replace(CONFIG, model=model, numerics=Numerics(dtype="float64"))
    stack = initial_stack(config, [0, 1])
    seen = torch.stack([pair_split(config.task, s) for s in (0, 1)])
    batch = Sampler([config.task] * 2, seen, [0, 1]).sample(5, 16)
    gradient = ReferenceGradient(stack)
    loss, found = gradient(batch), gradient.flat.clone()
    for m in range(2):
        one = Transformer.from_stack(stack, m)
        own = torch.nn.functional.cross_entropy(one.answer_logits(batch.tokens[m]), batch.labels[m])
        own.backward()
        grads = {name: p.grad for name, p in one.named_parameters()}
        torch.testing.assert_close(loss[m], own.detach())
        torch.testing.assert_close(found[m], torch.cat([grads[name].flatten() for name in stack.weights]))

    def refused(*_):
        raise RuntimeError("no compiler\nhere")

    gradient._loss = refused
    torch.testing.assert_close(gradient(batch), loss)
    assert torch.equal(gradient.flat, found)
    assert capsys.readouterr().err == (
        "assignadd: torch.compile failed (no compiler here); training goes on without it, slower\n"
    )


def test_models_of_a_stack_have_their_own_optimizer_settings():
    """All at once in the formula for GPUs, against torch's own optimizer for each model."""
    optims = [Optim(), Optim(lr=3e-2, beta1=0.5, weight_decay=0.5), Optim(lr=1e-2, beta2=0.9, eps=1e-3)]
    generator = torch.Generator().manual_seed(1)
    flat = torch.randn(3, 50, generator=generator, dtype=torch.float64)
    plain = [w.clone().requires_grad_() for w in flat]
    peers = [
        torch.optim.AdamW([w], lr=o.lr, betas=(o.beta1, o.beta2), eps=o.eps, weight_decay=o.weight_decay)
        for w, o in zip(plain, optims, strict=True)
    ]
    moments = Moments.zeros(flat, optims)
    for step in range(1, 6):
        grad = torch.randn(3, 50, generator=generator, dtype=torch.float64)
        stacked_adamw(flat, grad, moments, torch.zeros(3), torch.full((3,), -1), torch.tensor(step))
        for w, g, peer in zip(plain, grad, peers, strict=True):
            w.grad = g
            peer.step()
    torch.testing.assert_close(flat, torch.stack(plain).detach())


def test_models_of_a_stack_have_their_own_initial_scale():
    config = Member(1, {"model.init_scale": 0.4}).config(CONFIG)
    wide, narrow = initial_stack(CONFIG, [1, 1], [0.8, 0.4]).flat
    assert torch.equal(wide, initial_stack(CONFIG, [1]).flat[0])
    assert torch.equal(narrow, initial_stack(config, [1]).flat[0])


OTHER = replace(CONFIG.model, n_layers=3, n_heads=2, d_head=8, d_mlp=(None, None, 32), norm="layer", biases=True)


@pytest.mark.parametrize("model", [CONFIG.model, replace(CONFIG.model, n_heads=2), OTHER])
def test_drawing_ahead_changes_no_bit(model, monkeypatch):
    """Over several draws, and from a state that was loaded into a group with sequences of later steps."""
    for name in ("SEQUENCES_AHEAD", "FEWER_AHEAD"):
        monkeypatch.setattr(f"assignadd.training.trainer.{name}", 5 * CONFIG.optim.batch)
    config = replace(CONFIG, model=model)
    ahead, plain = group(config=config), group(config=config)
    ahead.advance(13)
    state = {name: t.clone() for name, t in ahead.state().items()}
    ahead.advance(20)
    step_by_step(plain, 33)
    assert same(ahead, plain)
    ahead.load_state(state)
    ahead.advance(20)
    assert same(ahead, plain)


@pytest.mark.parametrize("scale", [10, 1e5])
def test_extreme_weights_give_a_finite_loss_and_train_on(scale):
    """Scores that leave the range of exponentials, and answers less likely than any float32."""
    one = group()
    for factor in (1, scale, 1 / scale):
        one.stack.weights["unembed.W_U"].mul_(factor)
        one.advance(3)
        assert one.loss.isfinite().all()
    assert one.diverged_at.tolist() == [-1]


@pytest.mark.parametrize("gradient", ["compiled", "tensors"])
def test_a_model_that_diverges_among_several_steps_keeps_weights_and_loss(gradient, monkeypatch):
    """The learning rate is so large that the loss after the next update is not finite."""
    if gradient == "tensors":
        monkeypatch.setattr("assignadd.model.kernels._installed", lambda package: False)
        table_forward.cache_clear()
    rates_of_settings, optim = Rates.__call__, replace(CONFIG.optim, later_lr=1.0, later_from=3)
    huge = lambda self, step: rates_of_settings(self, step) * torch.where(step < 3, 1.0, 1e30)  # noqa: E731
    monkeypatch.setattr(Rates, "__call__", huge)
    at_once, one_by_one = (group(config=replace(CONFIG, optim=optim)) for _ in range(2))
    assert isinstance(at_once.gradient, TableGradient) == (gradient == "tensors")
    table_forward.cache_clear()
    at_once.advance(20)
    for _ in range(20):
        one_by_one.advance(1)
    assert one_by_one.diverged_at.item() == 4 and at_once.step == 20
    for name, tensor in one_by_one.state().items():
        torch.testing.assert_close(at_once.state()[name], tensor, rtol=0, atol=0, equal_nan=True)


def test_models_that_diverge_one_after_the_other_stay_as_they_were():
    """The first is not updated again when the second diverges, and a finite loss brings neither back."""
    one = group(3)
    one.advance(2)
    one.stack.weights["unembed.W_U"][1].fill_(torch.inf)
    one.advance(3)
    one.stack.weights["unembed.W_U"][2].fill_(torch.inf)
    one.advance(1)
    one.stack.flat[1:].fill_(0.5)
    one.advance(2)
    assert (one.stack.flat[1:] == 0.5).all()
    assert one.loss.isfinite().all()
    assert one.diverged_at.tolist() == [-1, 2, 5]
    assert one.step == 8


def test_a_loss_is_the_mean_over_the_answers_of_each_model():
    """A model with logits 0 has log N for each answer; -1 is none, at any place, and counts for nothing."""
    logits = torch.zeros(2, 3, 2, 5)  # (M, B, T, N)
    logits[1, 0, 0, 3] = math.log(4)  # 4 of 8 parts
    labels = torch.tensor([[[0, -1], [-1, 4], [-1, -1]], [[3, -1], [-1, -1], [-1, -1]]])
    assert mean_losses(CONFIG, logits, labels).tolist() == pytest.approx([math.log(5), math.log(2)])
    labels = torch.tensor([[0, 1, 2], [3, 0, 0]])
    assert mean_losses(CONFIG, logits[:, :, 0], labels).tolist() == pytest.approx(
        [math.log(5), (math.log(2) + 2 * math.log(5)) / 3]
    )
