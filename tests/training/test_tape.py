"""Playing back against doing it again: the same bits, whatever the tensors hold by then."""

import pytest
import torch

from assignadd.config import PRESETS, Member
from assignadd.model.stack import initial_stack
from assignadd.task.splits import pair_split
from assignadd.training.tape import Tape
from assignadd.training.worker import Worker

CONFIG = PRESETS["smoke"]


def worker(models: int = 1) -> Worker:
    members = [Member(i).config(CONFIG) for i in range(models)]
    return Worker(
        initial_stack(CONFIG, list(range(models))),
        members,
        torch.stack([pair_split(CONFIG.task, i) for i in range(models)]),
    )


def step_by_step(one: Worker, steps: int) -> None:
    """Training without a tape."""
    for _ in range(steps):
        one.update(one.sampler.sample(int(one.step), one.batch_size))


def same(a: Worker, b: Worker) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state().values(), b.state().values(), strict=True))


def test_a_tape_does_what_its_function_did_to_what_the_tensors_hold_now():
    x, total = torch.arange(6.0).view(2, 3), torch.zeros(3)

    def do() -> torch.Tensor:
        rows = torch.cat([x, x.mT.reshape(2, 3) * 2]).clone()
        rows[1:3] += 1  # a view, written to
        spread = torch.zeros_like(total).index_add_(0, torch.tensor([0, 0, 2]), rows.sum(0))
        total.add_(spread)
        return torch.mm(rows, x.mT)

    tape = Tape(do)
    for value in (3.0, -1.5):
        x.fill_(value)
        x[0, 1] = 7
        before = total.clone()
        assert tape.play()
        played = tape.result.clone(), total.clone()
        total.copy_(before)
        assert torch.equal(do(), played[0])
        assert torch.equal(total, played[1])


def test_a_tape_stops_where_a_branch_falls_out_differently():
    x, seen = torch.tensor(1.0), torch.zeros(())

    def do() -> None:
        seen.copy_(x if x > 0 else -x)

    tape = Tape(do)
    x.fill_(5)
    assert tape.play()
    assert seen == 5
    x.fill_(-3)
    assert not tape.play()
    assert seen == 5


def test_a_tape_refuses_what_depends_on_a_number_it_could_not_look_at_again():
    x = torch.tensor(2.0)
    with pytest.raises(NotImplementedError, match="read out of a tensor"):
        Tape(lambda: torch.ones(3) * float(x))


def test_a_tape_refuses_to_write_into_what_it_would_not_make_again():
    x = torch.tensor([2.0, 3.0])
    for do in (
        lambda: torch.zeros(2).add_(x),
        lambda: torch.tensor([1.0, 1.0]).add_(x),
        lambda: torch._foreach_add_([torch.zeros(2)], [x]),
        lambda: torch.add(x, x, out=torch.ones(2)),
    ):
        with pytest.raises(NotImplementedError, match="made from numbers alone"):
            Tape(do)
    with pytest.raises(NotImplementedError, match="one given tensor"):
        Tape(lambda: x.sort())


def test_training_from_a_tape_is_training_bit_for_bit(monkeypatch):
    """Over several draws of data, and from a state that was loaded into a worker with a tape."""
    monkeypatch.setattr("assignadd.training.taped.SEQUENCES_AHEAD", 5 * CONFIG.optim.batch)
    taped, plain = worker(), worker()
    taped.advance(13)
    state = {name: t.clone() for name, t in taped.state().items()}
    taped.advance(20)
    step_by_step(plain, 33)
    assert same(taped, plain)
    taped.load_state(state)
    taped.advance(20)
    assert same(taped, plain)


def test_a_tape_is_recorded_anew_when_the_patterns_need_the_softmax(monkeypatch):
    """Weights grown tenfold leave the range in which products of exponentials are safe."""
    taken = []
    for way in ("_by_products", "_by_softmax"):
        method = getattr(type(worker().gradient._table), way)
        monkeypatch.setattr(
            f"assignadd.model.table.TableForward.{way}",
            lambda self, *a, m=method, w=way: taken.append(w) or m(self, *a),
        )
    taped, plain = worker(), worker()
    for one in (taped, plain):
        for scale in (1, 10, 0.1):
            one.stack.flat.mul_(scale)
            one.advance(3) if one is taped else step_by_step(one, 3)
    assert same(taped, plain)
    assert taken[:3] == ["_by_products", "_by_softmax", "_by_products"]  # once for each time it was recorded


def test_a_tape_is_recorded_anew_when_an_answer_is_less_likely_than_any_number():
    """The loss is then well beyond -log(1e-45), and finite all the same."""
    taped, plain = worker(), worker()
    for one in (taped, plain):
        for scale in (1, 1e5, 1e-5):
            one.stack.weights["unembed.W_U"].mul_(scale)
            one.advance(3) if one is taped else step_by_step(one, 3)
            assert (one.loss > 104).all() == (scale > 1)
            assert one.loss.isfinite().all()
    assert same(taped, plain)


def test_of_several_models_in_one_tape_each_keeps_its_own_fate():
    """One diverges, then another: the first is not updated twice for it, and no finite loss brings them back."""
    taped, plain = worker(3), worker(3)
    for one in (taped, plain):
        one.advance(2) if one is taped else step_by_step(one, 2)
        one.stack.weights["unembed.W_U"][1].fill_(torch.inf)
        one.advance(3) if one is taped else step_by_step(one, 3)
        one.stack.weights["unembed.W_U"][2].fill_(torch.inf)
        one.advance(1) if one is taped else step_by_step(one, 1)
        one.stack.flat[1:].fill_(0.5)
        one.advance(2) if one is taped else step_by_step(one, 2)
        assert (one.stack.flat[1:] == 0.5).all()
        assert one.loss.isfinite().all()
    assert torch.equal(taped.stack.flat[0], plain.stack.flat[0])
    assert taped.diverged_at.tolist() == plain.diverged_at.tolist() == [-1, 2, 5]
    assert taped.step == plain.step == 8
