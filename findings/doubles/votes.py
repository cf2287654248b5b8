"""Votes: what each operand of n + m alone adds to the logits of the answers, and the answers without some of them.

ReLU(x) = x/2 + |x|/2, so half of MLP2 is linear. Together with the direct path from the residual to the logits it is
the linear part of the logits, to which each operand adds the same whatever the other operand is: its vote for each
answer. The rest of the logits is the other part. Votes are in standard deviations of all votes of a network.

Two measures tell algorithms of modular addition apart (Zhong et al., 2023, "The Clock and the Pizza"). A pizza reads
the sum of the two embeddings: gradients by the two operands agree, and the logit of the right answer depends on n - m.
A clock multiplies them: gradients differ, and the logit is the same at every distance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from assignadd import Config
from assignadd.measures import every_pair
from assignadd.model import LastLayer, Stack, Transformer, require, single_models
from assignadd.task import Stream, answer_of, operand_slots, words

HELD_OUT_DOUBLES = "held-out doubles"
WITHOUT_VOTES, OTHERS_WITHOUT_VOTES = "held-out doubles without votes", "other pairs without votes"
NOT_LINEAR, OTHERS_NOT_LINEAR = "held-out doubles without the linear part", "other pairs without the linear part"
VOTE_HELD_OUT, VOTE_SEEN = "vote of n for n + n, held out", "vote of n for n + n, seen"
EVEN_RIVALS = "2n or 2m is the runner-up without the linear part"
GRADIENT_SYMMETRICITY, DISTANCE_IRRELEVANCE = "gradient symmetricity", "distance irrelevance"
VOTE_OTHERS = "vote of n for n + m, both orders held out"
VOTE_OF_REST = "vote of n for n + n in the other half"
LINEAR_LACK, REST_LACK = "doubles less others, linear part", "doubles less others, other part"
SAME_AMOUNT = "held-out doubles without the mean vote"
AS_SEEN = "held-out doubles with the vote of seen ones"
NEXT_VOTE = "held-out doubles less another number's vote"
SEEN_LOWERED, OTHERS_LOWERED = "seen doubles with the vote of held-out ones", "others lowered as doubles are"
ASYMMETRY = "difference of the operands"
MEANINGS = {
    HELD_OUT_DOUBLES: "accuracy on held-out doubles, one sequence a sum",
    WITHOUT_VOTES: "accuracy on held-out doubles without the votes of n for n + n",
    OTHERS_WITHOUT_VOTES: "accuracy on all pairs of different numbers without the votes of n for n + n",
    NOT_LINEAR: "accuracy on held-out doubles without the linear part of the logits",
    OTHERS_NOT_LINEAR: "accuracy on all pairs of different numbers without the linear part",
    VOTE_HELD_OUT: "the vote of n for n + n, over the n whose double is held out (standard deviations of all votes)",
    VOTE_SEEN: "the vote of n for n + n, over the n whose double is in training",
    EVEN_RIVALS: "share of pairs n + m, n != m, whose second largest logit of the other part is that of 2n or 2m",
    GRADIENT_SYMMETRICITY: "mean cosine between the gradients by the two operands (Zhong et al., 2023)",
    DISTANCE_IRRELEVANCE: "0 if the logit of the right answer is a function of n - m, 1 if n - m does not matter",
    VOTE_OTHERS: "the vote of n for n + m, over the pairs of different numbers held out in both orders",
    VOTE_OF_REST: "what n adds to the logit of n + n in the other part, on pairs n + m (standard deviations of votes)",
    LINEAR_LACK: "right logit of held-out doubles minus that of pairs held out in both orders, linear part",
    REST_LACK: "right logit of held-out doubles minus that of pairs held out in both orders, other part",
    SAME_AMOUNT: "accuracy on held-out doubles without the mean of the votes of n for n + n, the same for every n",
    AS_SEEN: "accuracy on held-out doubles with the mean vote of the n whose double is in training",
    NEXT_VOTE: "accuracy on held-out doubles with the vote of n for 2(n + 1) removed from n + n instead",
    SEEN_LOWERED: "accuracy on seen doubles with the mean vote of the n whose double is held out",
    OTHERS_LOWERED: "accuracy on pairs held out in both orders, right answer lowered by the mean votes of doubles",
    ASYMMETRY: "|A - B| / |A + B|, mean residuals before MLP2 with n first (A) and second (B), minus the mean of all",
}
# Sequences and answers whose gradients are compared: about the number of Zhong et al.
TRIPLES = 128


@dataclass(frozen=True)
class PairLogits:
    """What one network gives for every pair of literals, in one context each."""

    tokens: Tensor  # (pairs, T)
    logits: Tensor  # (N, N, N): first operand, second operand, answer
    votes: Tensor  # (2, N, N): place of the operand, operand, answer; with mean 0 over the answers
    linear: Tensor  # (N, N, N): the linear part of the logits, minus its mean over the pairs

    def votes_for_doubles(self, answers: Tensor) -> Tensor:
        """The vote of n for n + n at either place, (2, N); `answers` (N, N) are the right ones."""
        return self.votes.gather(-1, answers.diagonal().expand(2, -1)[..., None]).squeeze(-1)

    def minus(self, amounts: Tensor, answers: Tensor) -> Tensor:
        """The logits of every pair, with the logit of n + n lowered by an amount (2, N) for each operand n."""
        doubled = answers.diagonal().expand(2, -1)[..., None]
        removed = torch.zeros_like(self.votes).scatter_(-1, doubled, amounts[..., None])
        return self.logits - removed[0][:, None] - removed[1]


def pair_logits(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[PairLogits]:
    """Logits and votes of each network on every pair of literals."""
    require(stack.config, "the votes of the operands")
    N, tokens, found = stack.config.task.modulus, every_pair(configs, seen, 0).tokens, []
    for model, sequences in zip(single_models(stack), tokens, strict=True):
        trace = LastLayer(model).trace(sequences)
        readout = model["blocks.1.mlp.W_in"][0] @ model["blocks.1.mlp.W_out"][0] @ model.W_U[0] / 2 + model.W_U[0]
        linear = ((trace.resid_mid - trace.resid_mid.mean(0)) @ readout).view(N, N, N)
        votes = torch.stack([linear.mean(1), linear.mean(0)])
        votes = votes - votes.mean(-1, keepdim=True)
        found.append(PairLogits(sequences, trace.logits.view(N, N, N), votes, linear))
    return found


def doubles_columns(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, float]]:
    """For each network, its accuracy on held-out doubles with and without votes, the votes, and the controls."""
    task, rows = stack.config.task, []
    n = torch.arange(task.modulus, device=seen.device)
    answers = answer_of(task, (n[:, None], n))
    doubled, others = answers.diagonal(), ~torch.eye(len(n), dtype=torch.bool, device=n.device)
    for model, pairs, split in zip(single_models(stack), pair_logits(stack, configs, seen), seen, strict=True):
        held_out, rest = torch.diag(~split.diagonal()), pairs.logits - pairs.linear
        without_votes = pairs.minus(pairs.votes_for_doubles(answers), answers)
        plain, without, not_linear = (part.argmax(-1) == answers for part in (pairs.logits, without_votes, rest))
        votes = (pairs.votes / pairs.votes.std())[:, n, doubled].mean(0)
        runner_up = rest.scatter(-1, answers[..., None], -torch.inf).argmax(-1)
        row = {
            HELD_OUT_DOUBLES: _mean(plain[held_out]),
            WITHOUT_VOTES: _mean(without[held_out]),
            OTHERS_WITHOUT_VOTES: _mean(without[others]),
            NOT_LINEAR: _mean(not_linear[held_out]),
            OTHERS_NOT_LINEAR: _mean(not_linear[others]),
            VOTE_HELD_OUT: _mean(votes[held_out.diagonal()]),
            VOTE_SEEN: _mean(votes[split.diagonal()]),
            EVEN_RIVALS: _mean(((runner_up == doubled[:, None]) | (runner_up == doubled))[others]),
            GRADIENT_SYMMETRICITY: _symmetricity(model, pairs.tokens, others),
            DISTANCE_IRRELEVANCE: distance_irrelevance(pairs.logits.gather(-1, answers[..., None]).squeeze(-1)),
        }
        row |= control_columns(pairs, answers, split)
        rows.append({name: value for name, value in row.items() if math.isfinite(value)})
    return rows


def control_columns(pairs: PairLogits, answers: Tensor, seen: Tensor) -> dict[str, float]:
    """Votes and logits of one network on doubles beside those on other pairs, and its accuracy under other changes.

    Numbers that are not accuracies are in standard deviations of all votes; NaN where there are no such pairs.
    """
    held_out = ~seen.diagonal()
    both_held_out = ~seen & ~seen.T & ~torch.diag(held_out)
    unit, n = pairs.votes.std(), torch.arange(len(seen), device=seen.device)
    for_answers = (pairs.votes[0, n[:, None], answers] + pairs.votes[1, n, answers]) / 2 / unit
    linear, rest = (_right(part, answers) / unit for part in (pairs.linear, pairs.logits - pairs.linear))
    votes = pairs.votes_for_doubles(answers)
    mean_held_out, mean_seen = (votes[:, k].mean(1, keepdim=True).expand_as(votes) for k in (held_out, ~held_out))
    lowered = pairs.logits.scatter_add(-1, answers[..., None], mean_held_out[:, :1].sum().expand(*answers.shape, 1))

    def accuracy(logits: Tensor, of: Tensor) -> float:
        return _mean((logits.argmax(-1) == answers)[of])

    doubles, seen_doubles = torch.diag(held_out), torch.diag(~held_out)
    next_vote = pairs.votes[:, n, answers.diagonal().roll(-1)]
    return {
        VOTE_OTHERS: _mean(for_answers[both_held_out]),
        VOTE_OF_REST: _mean(_rest_votes(pairs, answers)[held_out] / unit),
        LINEAR_LACK: _mean(linear[doubles]) - _mean(linear[both_held_out]),
        REST_LACK: _mean(rest[doubles]) - _mean(rest[both_held_out]),
        SAME_AMOUNT: accuracy(pairs.minus(mean_held_out, answers), doubles),
        AS_SEEN: accuracy(pairs.minus(votes - mean_seen, answers), doubles),
        NEXT_VOTE: accuracy(pairs.minus(next_vote, answers), doubles),
        SEEN_LOWERED: accuracy(pairs.minus(votes - mean_held_out, answers), seen_doubles),
        OTHERS_LOWERED: accuracy(lowered, both_held_out),
    }


def asymmetry_columns(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, float]]:
    """For each network, how differently its last MLP reads the two operands of literal sums: |A - B| / |A + B|.

    A_n is the mean residual before the last MLP over the pairs with n first, B_n with n second, both minus the mean
    over all pairs; |.| is over all n. If A = B, the pair (n, n) gives 2 A_n, which depends on n alone.
    """
    N, rows = stack.config.task.modulus, []
    for model, sequences in zip(single_models(stack), every_pair(configs, seen, 0).tokens, strict=True):
        residual = LastLayer(model).trace(sequences).resid_mid.view(N, N, -1)
        A, B = (residual.mean(axis) - residual.mean((0, 1)) for axis in (1, 0))
        rows.append({ASYMMETRY: float((A - B).norm() / (A + B).norm())})
    return rows


def _rest_votes(pairs: PairLogits, answers: Tensor) -> Tensor:
    """What the other part gives n + n on the pairs of n with other numbers, above what it gives other answers and what
    it gives n + n on all pairs; the mean over the two places of n, (N,)."""
    rest = pairs.logits - pairs.linear
    others = ~torch.eye(len(answers), dtype=torch.bool, device=answers.device)[..., None]
    by_place = torch.stack([(rest * others).sum(dim) for dim in (1, 0)]) / (len(answers) - 1)
    by_place = by_place - by_place.mean(1, keepdim=True)
    by_place = by_place - by_place.mean(2, keepdim=True)
    return by_place.mean(0).gather(-1, answers.diagonal()[:, None]).squeeze(-1)


def _right(logits: Tensor, answers: Tensor) -> Tensor:
    """The logit of the right answer minus the mean over all answers, (N, N)."""
    return logits.gather(-1, answers[..., None]).squeeze(-1) - logits.mean(-1)


def _symmetricity(model: Stack, tokens: Tensor, others: Tensor) -> float:
    """The gradient symmetricity on random pairs of different numbers and random answers."""
    N = len(others)
    random = words(torch.tensor(0), Stream.ORDER, torch.tensor(N), torch.arange(TRIPLES), 2).to(tokens.device)
    pairs = others.flatten().nonzero().flatten()
    return gradient_symmetricity(model, tokens[pairs[random[0] % len(pairs)]], random[1] % N)


def _mean(values: Tensor) -> float:
    """The mean; NaN of nothing."""
    return float(values.double().mean())


def gradient_symmetricity(model: Stack, tokens: Tensor, answers: Tensor) -> float:
    """The mean cosine between the gradients of an answer's logit by the embeddings of the two operands; 1 for a pizza.

    One answer for each of the sequences (B, T), right or wrong.
    """
    network = Transformer.from_stack(model, 0).requires_grad_(False)
    with torch.enable_grad():
        embedded = (network.embed.W_E[tokens] + network.pos_embed.W_pos).requires_grad_()
        logits = network.from_residual(embedded, last_only=True)[:, -1]
        (gradient,) = torch.autograd.grad(logits.gather(1, answers[:, None]).sum(), embedded)
    first, second = (gradient[:, slot] for slot in operand_slots(model.config.task))
    return float(torch.cosine_similarity(first, second, dim=-1).mean())


def distance_irrelevance(right: Tensor) -> float:
    """The mean over d of the deviation of the right answer's logit (N, N) over the pairs (n, n + d), in units of that
    over all pairs: 0 if the logit is a function of the distance d (pizza), 1 if d does not matter (clock)."""
    n = torch.arange(len(right), device=right.device)
    by_distance = right[n[:, None], (n[:, None] + n) % len(n)]  # (n, d)
    return float(by_distance.std(0, correction=0).mean() / right.std(correction=0))
