"""Votes of single operands against doubles: planted votes, random weights, and plain computations of every number."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from assignadd.config import PRESETS, Member
from assignadd.measures import every_pair
from assignadd.model import answer_logits, handmade, initial_stack
from assignadd.model.transformer import Transformer
from assignadd.runs.folder import open_run, shipped
from assignadd.task import pair_split
from assignadd.user_file import user_module
from tests.independent.network import gathered, read_safetensors

torch.set_num_threads(1)
study = user_module(Path(__file__).parents[2] / "findings" / "doubles")
v = study.votes

PAPER = Member(0).config(replace(PRESETS["paper"], numerics=replace(PRESETS["paper"].numerics, dtype="float64")))
SMALL = Member(0).config(replace(PRESETS["smoke"], numerics=PAPER.numerics))
SEEN, SMALL_SEEN = (pair_split(config.task, 0)[None] for config in (PAPER, SMALL))


def test_planted_votes_are_found_and_removing_them_makes_doubles_right():
    """The hand-made network with a direct path from n to the logit of 2n, negative where n + n is held out."""
    stack, N, tokens = handmade(PAPER), PAPER.task.modulus, every_pair([PAPER], SEEN, 0).tokens
    plain = v.doubles_columns(stack, [PAPER], SEEN)[0]
    assert plain[v.HELD_OUT_DOUBLES] == plain[v.WITHOUT_VOTES] == plain[v.OTHERS_WITHOUT_VOTES] == 1
    two_best = answer_logits(stack, tokens).view(N * N, N).topk(2).values
    _, cache = Transformer.from_stack(stack, 0).run_with_cache(tokens[0])
    residual, n = cache["blocks.1.hook_resid_mid"][:, -1].view(N, N, -1).mean(1), torch.arange(N)
    wanted = torch.zeros(N, N, dtype=torch.float64)
    wanted[n, 2 * n % N] = -3 * (two_best[:, 0] - two_best[:, 1]).max() * ~SEEN[0].diagonal()
    stack.W_U[0].add_(torch.linalg.pinv(residual - residual.mean(0)) @ (wanted - wanted.mean(0)))
    found = v.doubles_columns(stack, [PAPER], SEEN)[0]
    assert found[v.HELD_OUT_DOUBLES] < 0.2 and found[v.VOTE_HELD_OUT] < -1 < found[v.VOTE_SEEN]
    assert found[v.WITHOUT_VOTES] > 0.9


def test_random_weights_have_no_votes_against_doubles_and_nothing_to_repair():
    found = v.doubles_columns(initial_stack(PAPER, [0]), [PAPER], SEEN)[0]
    assert abs(found[v.VOTE_HELD_OUT]) < 0.5 and abs(found[v.VOTE_SEEN]) < 0.5
    assert found[v.HELD_OUT_DOUBLES] < 0.2 and found[v.WITHOUT_VOTES] < 0.2


def test_the_votes_of_a_shipped_network_are_those_of_plain_numpy():
    """f(x) - f(-x) has no |x|: half of it is linear in x, where f(x) = (x + MLP2(x)) W_U."""
    run, folder = open_run("census-two"), shipped("census-two")
    configs, seen = run.configs[:1], run.seen[:1]  # seed 39
    net = read_safetensors(folder / "checkpoints" / "00050000.safetensors")[0]
    split, N = load_file(folder / "splits.safetensors")["seen"][0], 59
    mid, logits = gathered(net, every_pair(configs, seen, 0).tokens[0].numpy(), "mid", "logits")
    linear = ((mid + net.mlp(mid)) - (-mid + net.mlp(-mid))) @ net.W_U / 2
    linear, logits = (x.reshape(N, N, N).astype(float) for x in (linear - linear.mean(0), logits))
    votes = [x - x.mean(1, keepdims=True) for x in (linear.mean(1), linear.mean(0))]
    repaired, n, sums = logits.copy(), np.arange(N), np.add.outer(np.arange(N), np.arange(N)) % N
    for a in n:
        repaired[a, :, 2 * a % N] -= votes[0][a, 2 * a % N]
        repaired[:, a, 2 * a % N] -= votes[1][a, 2 * a % N]
    for_doubles = (votes[0] + votes[1])[n, 2 * n % N] / 2 / np.std(votes, ddof=1)
    held_out = ~split[n, n]
    plain = {
        v.HELD_OUT_DOUBLES: (logits.argmax(-1) == sums)[n, n][held_out].mean(),
        v.WITHOUT_VOTES: (repaired.argmax(-1) == sums)[n, n][held_out].mean(),
        v.OTHERS_WITHOUT_VOTES: (repaired.argmax(-1) == sums)[~np.eye(N, dtype=bool)].mean(),
        v.VOTE_HELD_OUT: for_doubles[held_out].mean(),
        v.VOTE_SEEN: for_doubles[~held_out].mean(),
    }
    found = v.doubles_columns(run.checkpoint(run.steps[-1]).models(0), configs, seen)[0]
    assert {name: found[name] for name in plain} == pytest.approx(plain, abs=2e-3)
    assert plain[v.VOTE_HELD_OUT] < -1.9 and plain[v.WITHOUT_VOTES] > 0.9 > 0.55 > plain[v.HELD_OUT_DOUBLES]


def test_distance_irrelevance_of_a_pizza_and_a_clock():
    n = torch.arange(11)
    assert v.distance_irrelevance(((n - n[:, None]) % 11).double()) == pytest.approx(0)
    assert v.distance_irrelevance(((n + n[:, None]) % 11).double()) == pytest.approx(1)
