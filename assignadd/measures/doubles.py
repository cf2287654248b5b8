"""Why held-out doubles n + n fail: what each operand alone adds to the logits of the answers.

MLP2 has ReLU(x) = |x|/2 + x/2. Its linear half and the direct path from the residual to the logits give each operand a
vote for every answer, whatever the other operand is. On n + m the other half favours 2n and 2m among the wrong answers
(docs/findings.md), so that the vote of n for 2n becomes negative in training. On n + n both operands cast it, against
the right answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from assignadd.config import Config
from assignadd.measures.clock_or_pizza import (
    DISTANCE_IRRELEVANCE,
    GRADIENT_SYMMETRICITY,
    distance_irrelevance,
    gradient_symmetricity,
)
from assignadd.measures.sequences import every_pair
from assignadd.model.architecture import PAPER_NEEDS, needs
from assignadd.model.forward import traces
from assignadd.model.stack import Stack, single_models
from assignadd.task.arithmetic import answer_of
from assignadd.task.randomness import Stream, words
from assignadd.task.splits import pair_mask

HELD_OUT_DOUBLES = "held-out doubles"
WITHOUT_VOTES = "held-out doubles without votes"
OTHERS_WITHOUT_VOTES = "other pairs without votes"
VOTE_HELD_OUT, VOTE_SEEN = "vote of n for n + n, held out", "vote of n for n + n, seen"
NOT_LINEAR, OTHERS_NOT_LINEAR = "held-out doubles without the linear part", "other pairs without the linear part"
EVEN_RIVALS = "2n or 2m is the runner-up without the linear part"
# For the gradients: about the number of Zhong et al.
TRIPLES = 128


@dataclass(frozen=True)
class PairLogits:
    """What one model gives for every pair of literals, in one context each."""

    tokens: Int[Tensor, "pairs T"]
    logits: Float[Tensor, "N N N"]
    votes: Float[Tensor, "2 N N"]
    """For the first and the second operand, each number's vote for each answer, with mean 0 over the answers."""
    linear: Float[Tensor, "N N N"]
    """The part of the logits that is linear in the residual, less its mean over the pairs."""

    def without_votes_for_doubles(self, answers: Tensor) -> Float[Tensor, "N N N"]:
        """The logits without the vote of each operand n for n + n alone; `answers` (N, N) are the right ones."""
        own = answers.diagonal()
        removed = torch.zeros_like(self.votes).scatter_(
            -1, own.expand(2, -1)[..., None], self.votes.gather(-1, own.expand(2, -1)[..., None])
        )
        return self.logits - removed[0][:, None] - removed[1]


@needs(*PAPER_NEEDS)
def pair_logits(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[PairLogits]:
    """For each model, its logits and votes on every pair of literals."""
    N, tokens, found = stack.config.task.modulus, every_pair(configs, seen, 0).tokens, []
    for one, own, trace in zip(single_models(stack), tokens, traces(stack, tokens), strict=True):
        readout = one["blocks.1.mlp.W_in"][0] @ one["blocks.1.mlp.W_out"][0] @ one.W_U[0] / 2 + one.W_U[0]
        linear = ((trace.resid_mid - trace.resid_mid.mean(0)) @ readout).view(N, N, N)
        votes = torch.stack([linear.mean(1), linear.mean(0)])
        found.append(PairLogits(own, trace.logits.view(N, N, N), votes - votes.mean(-1, keepdim=True), linear))
    return found


def doubles_columns(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, float]]:
    """For each model, its accuracy on held-out doubles with and without the votes of n for n + n, and these votes.

    A vote is in standard deviations of all votes of the model.
    """
    task, rows = stack.config.task, []
    n = torch.arange(task.modulus, device=seen.device)
    answers = answer_of(task, (n[:, None], n))
    doubled, others = answers.diagonal(), ~torch.eye(len(n), dtype=torch.bool, device=n.device)
    for one, found, own in zip(single_models(stack), pair_logits(stack, configs, seen), seen, strict=True):
        held_out = pair_mask(own, "doubles")
        even = found.logits - found.linear
        plain, without, not_linear = (
            logits.argmax(-1) == answers for logits in (found.logits, found.without_votes_for_doubles(answers), even)
        )
        votes = (found.votes / found.votes.std())[:, n, doubled].mean(0)
        runner_up = even.scatter(-1, answers[..., None], -torch.inf).argmax(-1)
        row = {
            HELD_OUT_DOUBLES: _mean(plain[held_out]),
            WITHOUT_VOTES: _mean(without[held_out]),
            OTHERS_WITHOUT_VOTES: _mean(without[others]),
            NOT_LINEAR: _mean(not_linear[held_out]),
            OTHERS_NOT_LINEAR: _mean(not_linear[others]),
            VOTE_HELD_OUT: _mean(votes[held_out.diagonal()]),
            VOTE_SEEN: _mean(votes[own.diagonal()]),
            EVEN_RIVALS: _mean(((runner_up == doubled[:, None]) | (runner_up == doubled))[others]),
            GRADIENT_SYMMETRICITY: _symmetricity(one, found.tokens, others),
            DISTANCE_IRRELEVANCE: distance_irrelevance(found.logits.gather(-1, answers[..., None]).squeeze(-1)),
        }
        rows.append({name: value for name, value in row.items() if math.isfinite(value)})
    return rows


def _symmetricity(one: Stack, tokens: Tensor, others: Tensor) -> float:
    """The gradient symmetricity on random pairs of different numbers and random answers."""
    N = len(others)
    random = words(torch.tensor(0), Stream.ORDER, torch.tensor(N), torch.arange(TRIPLES), 2).to(tokens.device)
    pairs = others.flatten().nonzero().flatten()
    return gradient_symmetricity(one, tokens[pairs[random[0] % len(pairs)]], random[1] % N)


def _mean(values: Tensor) -> float:
    """The mean; NaN of nothing."""
    return float(values.double().mean())
