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
from dataclasses import dataclass

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


@dataclass(frozen=True)
class PairLogits:
    """What one network gives for every pair of literals, in one context each."""

    logits: Tensor  # (N, N, N): first operand, second operand, answer
    votes: Tensor  # (2, N, N): place of the operand, operand, answer; with mean 0 over the answers

    def without_votes(self, doubles: Tensor) -> Tensor:
        """The logits without the votes of n for n + n at either place; `doubles` (N,) are the answers n + n."""
        index = doubles.expand(2, -1)[..., None]
        removed = torch.zeros_like(self.votes).scatter_(-1, index, self.votes.gather(-1, index))
        return self.logits - removed[0][:, None] - removed[1]


def pair_logits(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[PairLogits]:
    """Logits and votes of each network on every pair of literals."""
    require(stack.config, "the votes of the operands")
    N, tokens, of_models = stack.config.task.modulus, every_pair(configs, seen, 0).tokens, []
    for model, sequences in zip(stack, tokens, strict=True):
        trace = LastLayer(model).trace(sequences)
        readout = model["blocks.1.mlp.W_in"][0] @ model["blocks.1.mlp.W_out"][0] @ model.W_U[0] / 2 + model.W_U[0]
        linear = ((trace.resid_mid - trace.resid_mid.mean(0)) @ readout).view(N, N, N)
        votes = torch.stack([linear.mean(1), linear.mean(0)])
        of_models.append(PairLogits(trace.logits.view(N, N, N), votes - votes.mean(-1, keepdim=True)))
    return of_models


def doubles_columns(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, float]]:
    """For each network, its accuracy on held-out doubles with and without votes, and the votes for doubles."""
    task, rows = stack.config.task, []
    n = torch.arange(task.modulus, device=seen.device)
    answers = answer_of(task, (n[:, None], n))
    doubles, others = answers.diagonal(), ~torch.eye(len(n), dtype=torch.bool, device=n.device)
    for pairs, split in zip(pair_logits(stack, configs, seen), seen, strict=True):
        held_out = ~split.diagonal()
        right = pairs.logits.argmax(-1) == answers
        right_without_votes = pairs.without_votes(doubles).argmax(-1) == answers
        votes = (pairs.votes / pairs.votes.std())[:, n, doubles].mean(0)
        row = {
            HELD_OUT_DOUBLES: _mean(right.diagonal()[held_out]),
            WITHOUT_VOTES: _mean(right_without_votes.diagonal()[held_out]),
            OTHERS_WITHOUT_VOTES: _mean(right_without_votes[others]),
            VOTE_HELD_OUT: _mean(votes[held_out]),
            VOTE_SEEN: _mean(votes[~held_out]),
            DISTANCE_IRRELEVANCE: distance_irrelevance(pairs.logits.gather(-1, answers[..., None]).squeeze(-1)),
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
