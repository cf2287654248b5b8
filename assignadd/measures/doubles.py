"""Why held-out doubles n + n fail: what each operand alone adds to the logits of the answers.

MLP2 has ReLU(x) = |x|/2 + x/2. Its linear half and the direct path from the residual to the logits give each operand a
vote for every answer, whatever the other operand is. On pairs n + m the other half favours 2n and 2m, and the votes
of n for 2n and of m for 2m are against them. On n + n both operands cast this vote, against the right answer.

The controls change other votes, or by other amounts (docs/findings.md).

Two measures tell the algorithms of modular addition apart (Zhong et al., 2023, "The Clock and the Pizza"). A pizza
reads the sum of the two embeddings: gradients by the two operands agree, and the logit of the right answer depends on
n - m. A clock multiplies them: gradients differ, and the logit is the same at every distance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from assignadd.config import Config
from assignadd.measures.sequences import every_pair
from assignadd.model.architecture import PAPER_NEEDS, needs
from assignadd.model.forward import traces
from assignadd.model.stack import Stack, single_models
from assignadd.model.transformer import Transformer
from assignadd.task.arithmetic import answer_of
from assignadd.task.randomness import Stream, words
from assignadd.task.roles import operand_slots
from assignadd.task.splits import pair_mask

GRADIENT_SYMMETRICITY, DISTANCE_IRRELEVANCE = "gradient symmetricity", "distance irrelevance"
HELD_OUT_DOUBLES = "held-out doubles"
WITHOUT_VOTES = "held-out doubles without votes"
OTHERS_WITHOUT_VOTES = "other pairs without votes"
VOTE_HELD_OUT, VOTE_SEEN = "vote of n for n + n, held out", "vote of n for n + n, seen"
NOT_LINEAR, OTHERS_NOT_LINEAR = "held-out doubles without the linear part", "other pairs without the linear part"
EVEN_RIVALS = "2n or 2m is the runner-up without the linear part"
# Controls.
VOTE_OTHERS = "vote of n for n + m, both orders held out"
VOTE_OF_REST = "vote of n for n + n in the other half"
LINEAR_LACK, REST_LACK = "doubles less others, linear part", "doubles less others, other part"
SAME_AMOUNT = "held-out doubles without the mean vote"
AS_SEEN = "held-out doubles with the vote of seen ones"
NEXT_VOTE = "held-out doubles less another number's vote"
SEEN_LOWERED, OTHERS_LOWERED = "seen doubles with the vote of held-out ones", "others lowered as doubles are"
ASYMMETRY = "difference of the operands"
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

    def own_votes(self, answers: Tensor) -> Float[Tensor, "2 N"]:
        """The vote of each operand n for n + n; `answers` (N, N) are the right ones."""
        return self.votes.gather(-1, answers.diagonal().expand(2, -1)[..., None]).squeeze(-1)

    def less(self, amounts: Float[Tensor, "2 N"], answers: Tensor) -> Float[Tensor, "N N N"]:
        """The logits of every pair with n first, or second, less an amount of n's own at the answer n + n."""
        own = answers.diagonal().expand(2, -1)[..., None]
        removed = torch.zeros_like(self.votes).scatter_(-1, own, amounts[..., None])
        return self.logits - removed[0][:, None] - removed[1]

    def without_votes_for_doubles(self, answers: Tensor) -> Float[Tensor, "N N N"]:
        """The logits without the vote of each operand n for n + n alone; `answers` (N, N) are the right ones."""
        return self.less(self.own_votes(answers), answers)


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
        row |= control_columns(found, answers, own)
        rows.append({name: value for name, value in row.items() if math.isfinite(value)})
    return rows


def control_columns(found: PairLogits, answers: Tensor, seen: Tensor) -> dict[str, float]:
    """Votes and logits of one model on doubles beside those on other pairs, and its accuracy under other changes.

    Numbers that are not accuracies are in standard deviations of all votes; NaN where there are no such pairs.
    """
    both_held_out, held_out = pair_mask(seen, "neither_order"), ~seen.diagonal()
    unit, n = found.votes.std(), torch.arange(len(seen), device=seen.device)
    # What the operands vote for the right answer of each pair, and each part of its logit above that of the others.
    cast = (found.votes[0, n[:, None], answers] + found.votes[1, n, answers]) / 2 / unit
    linear, rest = (_right(part, answers) / unit for part in (found.linear, found.logits - found.linear))
    own = found.own_votes(answers)
    mean_held_out, mean_seen = (own[:, k].mean(1, keepdim=True).expand_as(own) for k in (held_out, ~held_out))
    lowered = found.logits.scatter_add(-1, answers[..., None], mean_held_out[:, :1].sum().expand(*answers.shape, 1))

    def accuracy(logits: Tensor, pairs: Tensor) -> float:
        return _mean((logits.argmax(-1) == answers)[pairs])

    doubles, seen_doubles = torch.diag(held_out), torch.diag(~held_out)
    next_vote = found.votes[:, n, answers.diagonal().roll(-1)]
    return {
        VOTE_OTHERS: _mean(cast[both_held_out]),
        VOTE_OF_REST: _mean(_rest_votes(found, answers)[held_out] / unit),
        LINEAR_LACK: _mean(linear[doubles]) - _mean(linear[both_held_out]),
        REST_LACK: _mean(rest[doubles]) - _mean(rest[both_held_out]),
        SAME_AMOUNT: accuracy(found.less(mean_held_out, answers), doubles),
        AS_SEEN: accuracy(found.less(own - mean_seen, answers), doubles),
        NEXT_VOTE: accuracy(found.less(next_vote, answers), doubles),
        SEEN_LOWERED: accuracy(found.less(own - mean_held_out, answers), seen_doubles),
        OTHERS_LOWERED: accuracy(lowered, both_held_out),
    }


def asymmetry_columns(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, float]]:
    """For each model, how differently its last MLP reads the two operands of literal sums: |A - B| / |A + B|.

    A_n is the mean residual before the last MLP over the pairs with n first, B_n with n second, both less the mean over
    all pairs; |.| is over all n. If A = B, the pair (n, n) gives 2 A_n, which depends on n alone.
    """
    N, found = stack.config.task.modulus, []
    for trace in traces(stack, every_pair(configs, seen, 0).tokens):
        residual = trace.resid_mid.view(N, N, -1)
        A, B = (residual.mean(axis) - residual.mean((0, 1)) for axis in (1, 0))
        found.append({ASYMMETRY: float((A - B).norm() / (A + B).norm())})
    return found


def _rest_votes(found: PairLogits, answers: Tensor) -> Float[Tensor, " N"]:
    """What the half that is not linear gives n + n on the pairs of n with other numbers, above what it gives other
    answers and what it gives n + n on all pairs; the mean over the two places of n."""
    rest = found.logits - found.linear
    others = ~torch.eye(len(answers), dtype=torch.bool, device=answers.device)[..., None]
    by_place = torch.stack([(rest * others).sum(dim) for dim in (1, 0)]) / (len(answers) - 1)
    by_place = by_place - by_place.mean(1, keepdim=True)
    by_place = by_place - by_place.mean(2, keepdim=True)
    return by_place.mean(0).gather(-1, answers.diagonal()[:, None]).squeeze(-1)


def _right(logits: Tensor, answers: Tensor) -> Float[Tensor, "N N"]:
    """The logit of the right answer less the mean over all answers."""
    return logits.gather(-1, answers[..., None]).squeeze(-1) - logits.mean(-1)


def _symmetricity(one: Stack, tokens: Tensor, others: Tensor) -> float:
    """The gradient symmetricity on random pairs of different numbers and random answers."""
    N = len(others)
    random = words(torch.tensor(0), Stream.ORDER, torch.tensor(N), torch.arange(TRIPLES), 2).to(tokens.device)
    pairs = others.flatten().nonzero().flatten()
    return gradient_symmetricity(one, tokens[pairs[random[0] % len(pairs)]], random[1] % N)


def _mean(values: Tensor) -> float:
    """The mean; NaN of nothing."""
    return float(values.double().mean())


def gradient_symmetricity(one: Stack, tokens: Int[Tensor, "B T"], answers: Int[Tensor, " B"]) -> float:
    """The mean cosine between the gradients of an answer's logit by the embeddings of the two operands; 1 for a pizza.

    As many answers as sequences, chosen by the caller, right or wrong.
    """
    model = Transformer.from_stack(one, 0).requires_grad_(False)
    with torch.enable_grad():
        embedded = (model.embed.W_E[tokens] + model.pos_embed.W_pos).requires_grad_()
        logits = model.from_residual(embedded, last_only=True)[:, -1]
        (gradient,) = torch.autograd.grad(logits.gather(1, answers[:, None]).sum(), embedded)
    first, second = (gradient[:, slot] for slot in operand_slots(one.config.task))
    return float(torch.cosine_similarity(first, second, dim=-1).mean())


def distance_irrelevance(right: Float[Tensor, "N N"]) -> float:
    """The mean over d of the deviation of the right answer's logit over the pairs (n, n + d), in units of that over all
    pairs: 0 if the logit is a function of the distance d (pizza), 1 if the distance does not matter (clock)."""
    n = torch.arange(len(right), device=right.device)
    by_distance = right[n[:, None], (n[:, None] + n) % len(n)]  # (n, d)
    return float(by_distance.std(0, correction=0).mean() / right.std(correction=0))
