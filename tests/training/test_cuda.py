"""On a GPU: the same integers, the same function, and a replayed step that is the step (skipped where there is none)."""

from dataclasses import replace

import pytest
import torch

from assignadd.config import PRESETS, Member, Numerics, Optim
from assignadd.model.forward import answer_logits
from assignadd.model.stack import initial_stack
from assignadd.model.transformer import reference_logits
from assignadd.task.evalsets import ALL_SETS
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.training.trainer import Trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

SEEDS = [0, 5, 2**40 + 7]
CONFIG = replace(PRESETS["paper"], numerics=Numerics(dtype="float64"), optim=Optim(batch=64))
SEEN = torch.stack([pair_split(CONFIG.task, s) for s in SEEDS])


@pytest.mark.parametrize("evalset", [None, *ALL_SETS], ids=lambda s: s.name if s else "training")
def test_the_sampler_draws_the_same_integers(evalset):
    steps = torch.arange(4).view(-1, 1, 1)
    here = Sampler([CONFIG.task] * 3, SEEN, SEEDS, evalset).sample(steps, 500)
    there = Sampler([CONFIG.task] * 3, SEEN, SEEDS, evalset, "cuda").sample(steps.cuda(), 500)
    assert torch.equal(here.tokens, there.tokens.cpu()) and torch.equal(here.labels, there.labels.cpu())


def test_the_tables_of_a_whole_stack_equal_the_reference():
    stack = initial_stack(CONFIG, SEEDS)
    tokens = Sampler([CONFIG.task] * 3, SEEN, SEEDS).sample(0, 64).tokens
    torch.testing.assert_close(answer_logits(stack.to("cuda"), tokens.cuda()).cpu(), reference_logits(stack, tokens))


def test_replayed_steps_of_a_stack_equal_the_steps_of_each_model_on_a_cpu():
    members = [Member(s, lr=lr) for s, lr in zip(SEEDS, (1e-3, 3e-3, 1e-4), strict=True)]
    there, here = Trainer(CONFIG, members, SEEN, "cuda"), Trainer(CONFIG, members, SEEN)
    for trainer in (there, here):
        trainer.advance(7)
        trainer.advance(13)
    assert there.step == here.step == 20
    torch.testing.assert_close(there.stack().flat, here.stack().flat, rtol=1e-9, atol=1e-11)
    assert there.evaluate() == [row | {"loss": pytest.approx(row["loss"])} for row in here.evaluate()]


def test_a_broken_model_stops_and_the_others_go_on():
    members = [Member(s) for s in SEEDS]
    trainer = Trainer(CONFIG, members, SEEN, "cuda")
    trainer.advance(5)
    trainer.workers[0].stack["unembed.W_U"][1, 0, 0] = torch.inf
    before = trainer.stack().flat
    trainer.advance(5)
    after = trainer.stack().flat
    assert trainer.diverged_at == [None, 5, None]
    assert torch.equal(after[1], before[1])
    assert after[[0, 2]].isfinite().all() and not torch.equal(after[0], before[0])
