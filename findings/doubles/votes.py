"""Votes: what each operand of n + m alone adds to the logits of the answers, and the answers without some of them.

ReLU(x) = x/2 + |x|/2, so half of MLP2 is linear. Together with the direct path from the residual to the logits it is
the linear part of the logits, to which each operand adds the same whatever the other operand is: its vote for each
answer. The rest of the logits is the other part. Votes are in standard deviations of all votes of a network.

`distance_irrelevance` tells two algorithms of modular addition apart (Zhong et al., 2023, "The Clock and the Pizza"). A
pizza reads the sum of the two embeddings: the logit of the right answer depends on n - m. A clock multiplies them: the
logit is the same at every distance.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from assignadd import Config
from assignadd.measures import every_pair
from assignadd.model import LastLayer, Stack, require
from assignadd.task import answer_of

HELD_OUT_DOUBLES = "held-out doubles"
WITHOUT_VOTES, OTHERS_WITHOUT_VOTES = "held-out doubles without votes", "other pairs without votes"
VOTE_HELD_OUT, VOTE_SEEN = "vote of n for n + n, held out", "vote of n for n + n, seen"
DISTANCE_IRRELEVANCE = "distance irrelevance"
MEANINGS = {
    HELD_OUT_DOUBLES: "accuracy on held-out doubles, one sequence a sum",
    WITHOUT_VOTES: "accuracy on held-out doubles without the votes of n for n + n",
    OTHERS_WITHOUT_VOTES: "accuracy on all pairs of different numbers without the votes of n for n + n",
    VOTE_HELD_OUT: "the vote of n for n + n, over the n whose double is held out (standard deviations of all votes)",
    VOTE_SEEN: "the vote of n for n + n, over the n whose double is in training",
    DISTANCE_IRRELEVANCE: "0 if the logit of the right answer is a function of n - m, 1 if n - m does not matter",
}


def logits_and_votes(model: Stack, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The logits of one network on every pair of literals (N, N, N), by first operand, second operand and answer, and
    the votes (2, N, N), by place of the operand, operand and answer; votes have the mean 0 over the answers."""
    N, trace = model.config.task.modulus, LastLayer(model).trace(tokens)
    readout = model["blocks.1.mlp.W_in"][0] @ model["blocks.1.mlp.W_out"][0] @ model.W_U[0] / 2 + model.W_U[0]
    linear = ((trace.resid_mid - trace.resid_mid.mean(0)) @ readout).view(N, N, N)
    votes = torch.stack([linear.mean(1), linear.mean(0)])
    return trace.logits.view(N, N, N), votes - votes.mean(-1, keepdim=True)


def doubles_columns(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, float]]:
    """For each network, its accuracy on held-out doubles with and without votes, and the votes for doubles."""
    require(stack.config, "the votes of the operands")
    n, rows = torch.arange(stack.config.task.modulus, device=seen.device), []
    answers = answer_of(stack.config.task, (n[:, None], n))  # (N, N)
    doubles, others = answers.diagonal(), n[:, None] != n
    is_double = doubles[:, None] == n  # (N, N): whether an answer is twice the operand
    for model, tokens, split in zip(stack, every_pair(configs, seen, 0).tokens, seen, strict=True):
        logits, votes = logits_and_votes(model, tokens)
        first, second = votes * is_double  # the votes of n for n + n, at either place
        held_out = ~split.diagonal()
        right = logits.argmax(-1) == answers
        right_without_votes = (logits - first[:, None] - second).argmax(-1) == answers
        for_doubles = (votes / votes.std())[:, n, doubles].mean(0)
        row = {
            HELD_OUT_DOUBLES: _mean(right.diagonal()[held_out]),
            WITHOUT_VOTES: _mean(right_without_votes.diagonal()[held_out]),
            OTHERS_WITHOUT_VOTES: _mean(right_without_votes[others]),
            VOTE_HELD_OUT: _mean(for_doubles[held_out]),
            VOTE_SEEN: _mean(for_doubles[~held_out]),
            DISTANCE_IRRELEVANCE: distance_irrelevance(logits.gather(-1, answers[..., None]).squeeze(-1)),
        }
        rows.append({name: value for name, value in row.items() if math.isfinite(value)})
    return rows


def _mean(values: Tensor) -> float:
    """The mean; NaN of nothing."""
    return float(values.double().mean())


def distance_irrelevance(right: Tensor) -> float:
    """The mean over d of the deviation of the right answer's logit (N, N) over the pairs (n, n + d), in units of that
    over all pairs: 0 if the logit is a function of the distance d (pizza), 1 if d does not matter (clock)."""
    n = torch.arange(len(right), device=right.device)
    by_distance = right[n[:, None], (n[:, None] + n) % len(n)]  # (n, d)
    return float(by_distance.std(0, correction=0).mean() / right.std(correction=0))
