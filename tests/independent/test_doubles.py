"""Votes against held-out doubles in a shipped network: the package's numbers and those of plain NumPy."""

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from assignadd.measures.doubles import (
    HELD_OUT_DOUBLES,
    LINEAR_LACK,
    OTHERS_WITHOUT_VOTES,
    REST_LACK,
    VOTE_HELD_OUT,
    VOTE_SEEN,
    WITHOUT_VOTES,
    doubles_columns,
)
from assignadd.measures.sequences import every_pair
from assignadd.runs.folder import open_run, shipped
from tests.independent.network import gathered, read_safetensors
from tests.independent.sequences import N, pair_classes

TWO = shipped("census-two")
n = np.arange(N)


def expected(net, tokens, seen):
    """Accuracies with and without the votes, votes of n for 2n, and what doubles lack, in units of all votes."""
    mid, logits = gathered(net, tokens, "mid", "logits")
    # f(x) - f(-x) has no |x|: half of it is linear in x, where f(x) = (x + MLP2(x)) W_U.
    linear = ((mid + net.mlp(mid)) - (-mid + net.mlp(-mid))) @ net.W_U / 2
    linear = (linear - linear.mean(0)).reshape(N, N, N).astype(float)
    logits = logits.reshape(N, N, N).astype(float)
    votes = [linear.mean(1), linear.mean(0)]
    votes = [v - v.mean(1, keepdims=True) for v in votes]
    repaired = logits.copy()
    for a in range(N):
        repaired[a, :, 2 * a % N] -= votes[0][a, 2 * a % N]
        repaired[:, a, 2 * a % N] -= votes[1][a, 2 * a % N]
    sums, unit = np.add.outer(n, n) % N, np.std(votes, ddof=1)
    own = (votes[0] + votes[1])[n, 2 * n % N] / 2 / unit
    held_out = ~seen[n, n]
    others = tuple(pair_classes(seen)["neither order seen"].T)

    def lack(part):
        right = np.take_along_axis(part, sums[..., None], -1)[..., 0] - part.mean(-1)
        return (right[n, n][held_out].mean() - right[others].mean()) / unit

    return {
        HELD_OUT_DOUBLES: (logits.argmax(-1) == sums)[n, n][held_out].mean(),
        WITHOUT_VOTES: (repaired.argmax(-1) == sums)[n, n][held_out].mean(),
        OTHERS_WITHOUT_VOTES: (repaired.argmax(-1) == sums)[~np.eye(N, dtype=bool)].mean(),
        VOTE_HELD_OUT: own[held_out].mean(),
        VOTE_SEEN: own[~held_out].mean(),
        LINEAR_LACK: lack(linear),
        REST_LACK: lack(logits - linear),
    }


def test_votes_and_accuracies_without_them():
    torch.set_num_threads(1)
    run = open_run(TWO)
    configs, seen = run.configs[:1], run.seen[:1]  # seed 39
    found = doubles_columns(run.checkpoint(run.steps[-1]).models(0), configs, seen)[0]
    net = read_safetensors(TWO / "checkpoints" / "00050000.safetensors")[0]
    split = load_file(TWO / "splits.safetensors")["seen"][0]
    plain = expected(net, every_pair(configs, seen, 0).tokens[0].numpy(), split)
    assert {name: found[name] for name in plain} == pytest.approx(plain, abs=2e-3)
    # What docs/findings.md says of networks that bind: negative votes, most of what doubles lack, and a repair.
    assert plain[VOTE_HELD_OUT] < -1.9 and plain[WITHOUT_VOTES] > 0.9 > 0.55 > plain[HELD_OUT_DOUBLES]
    assert plain[LINEAR_LACK] < 2 * plain[REST_LACK] < 0
