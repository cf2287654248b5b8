"""Accuracy pair by pair: on a network that solves the task, on one that fails where it is made to, and on the paper's."""

import pytest
import torch

from assignadd.config import PRESETS, Config, Member
from assignadd.measures.pair_accuracy import class_pairs, pair_accuracy
from assignadd.model.handmade import handmade
from assignadd.model.stack import initial_stack
from assignadd.task.enumeration import EveryPair
from assignadd.task.evalsets import any_sums
from assignadd.task.splits import pair_split

torch.set_num_threads(1)
CONFIG = Member(0).config(PRESETS["tiny"])
N = CONFIG.task.modulus


@pytest.mark.parametrize("n_vars", [0, 1, 2])
def test_the_hand_made_model_adds_every_pair_and_random_weights_do_not(n_vars):
    assert (pair_accuracy(handmade(Config(task=CONFIG.task)), CONFIG, n_vars, 3) == 1).all()
    assert pair_accuracy(initial_stack(CONFIG, [0]), CONFIG, n_vars, 3).mean() < 0.15


def test_every_pair_comes_up_equally_often():
    seen = torch.ones(1, N, N, dtype=torch.bool)
    labels = EveryPair([CONFIG.task], seen, [0], any_sums(1)).sample(0, 3 * N * N).labels[0]
    n, m = torch.meshgrid(torch.arange(N), torch.arange(N), indexing="ij")
    assert torch.equal(labels, ((n + m) % N).flatten().repeat(3))


def test_a_wrong_answer_is_found_where_it_is():
    """With the logits of the answers 5 and 6 exchanged, exactly the pairs with these sums are wrong."""
    broken = handmade(Config(task=CONFIG.task)).clone()
    broken["unembed.W_U"][..., [5, 6]] = broken["unembed.W_U"][..., [6, 5]]
    n, m = torch.meshgrid(torch.arange(N), torch.arange(N), indexing="ij")
    assert torch.equal(pair_accuracy(broken, CONFIG, 0, 2) == 0, torch.isin((n + m) % N, torch.tensor([5, 6])))


def test_the_classes_are_a_partition_of_the_held_out_pairs():
    seen = pair_split(PRESETS["paper"].task, 3)
    classes = [class_pairs(seen, kind) for kind in ("mirror_seen", "neither_order", "doubles")]
    assert torch.equal(torch.stack(classes).sum(0), (~seen).long())
    assert torch.equal(classes[2], torch.diag(~seen.diagonal()))
    assert torch.equal(classes[0], ~seen & seen.T)


def test_the_papers_network_errs_on_doubles_alone(paper_run):
    one, config, seen = paper_run.checkpoint(40_000), paper_run.configs[0], paper_run.seen[0]
    accuracy = pair_accuracy(one, config, 0)
    classes = {kind: accuracy[class_pairs(seen, kind)] for kind in ("mirror_seen", "neither_order", "doubles")}
    assert {kind: len(values) for kind, values in classes.items()} == {
        "mirror_seen": 723,
        "neither_order": 302,
        "doubles": 20,
    }
    assert classes["mirror_seen"].min() == classes["neither_order"].min() == 1
    assert classes["doubles"].mean() == pytest.approx(0.65, abs=0.03)
    wrong = (accuracy < 0.5).nonzero()
    assert len(wrong) and (wrong[:, 0] == wrong[:, 1]).all()
