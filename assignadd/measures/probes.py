"""Linear probes: for the answer at every stage of `=` (paper, section 5.1), for the variable at assigned numbers
(App. B).

A probe is the ridge-regularised least-squares classifier: centred features, one-hot targets, the exact minimiser in
closed form, so there is no training that could stop too early. The ridge is a multiple of the features' mean variance.
A multinomial logistic regression run to convergence (L-BFGS) draws the same conclusions on the paper's network at every
stage, at ten to thirty times the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from assignadd.config import Config
from assignadd.measures.sequences import sequences
from assignadd.model.circuits import OV
from assignadd.model.forward import traces
from assignadd.model.stack import Stack, single_models
from assignadd.model.table import Trace
from assignadd.task.arithmetic import answer_of, pair_values
from assignadd.task.randomness import EvalSteps, Stream, digit, permutation, words
from assignadd.task.roles import roles, with_values
from assignadd.task.vocabulary import Vocabulary

# Of the sequences (or pairs); the rest is for testing.
TRAIN_SHARE = 0.7
# 512 neurons on 2,436 pairs overfit with a smaller one: .91 at .01 against .996 on the paper's network. No other stage
# cares.
ANSWER_RIDGE = 1.0
# Here a large one costs accuracy while the variable is faint among what else the residual holds (.95 against 1.0 at
# step 3,001).
VARIABLE_RIDGE = 0.01
ADAM_LR, ADAM_BETAS, ADAM_EPS = 1e-2, (0.9, 0.999), 1e-8

STAGES = ("before attention", "before MLP", "neurons before ReLU", "neurons after ReLU", "MLP output", "after MLP")


@dataclass(frozen=True)
class AnswerProbes:
    """Accuracy of a linear probe for the answer at every stage of the residual of `=` in layer 2, in the order of
    `STAGES`."""

    test: Float[Tensor, "M stages"]
    train: Float[Tensor, "M stages"]
    control: Float[Tensor, "M stages"]
    """On test rows, of probes trained and tested on labels shuffled among the pairs: 1/N but for chance when split by
    pair."""
    n_train: int
    n_test: int


def answer_probes(
    stack: Stack,
    configs: Sequence[Config],
    seen: Bool[Tensor, "M N N"],
    split: Literal["pair", "row"] = "pair",
    contexts: int = 1,
) -> AnswerProbes:
    """Probes on `contexts` N^2 sequences whose types 0-var, 1-var, 2-var take turns, in contexts of the training law.

    `split="pair"`: every pair of numbers (n, m) is added in `contexts` sequences, and no pair is on both sides. Before
    the MLP such a probe falls *below* 1/N: what it can fit is a function of n plus one of m, and the answer of a
    left-out pair is just the one missing among the training pairs with this n and among those with this m.
    `split="row"`: pairs are drawn with replacement, so that most test pairs were trained on in other contexts, some
    more often than others; then the same fit is a little above 1/N.
    """
    task, N = stack.config.task, stack.config.task.modulus
    n_pairs = N * N
    n, n_train = contexts * n_pairs, contexts * int(TRAIN_SHARE * n_pairs)  # whole pairs on each side
    pairs = _pairs(N, contexts, split).to(stack.flat.device)  # (n,) codes N n + m
    values = torch.stack(pair_values(pairs, N), 1)
    shuffled = permutation(n_pairs, Stream.EVAL, EvalSteps.PROBE_CONTROL.start).to(pairs.device)[pairs]
    labels = torch.stack([answer_of(*pair_values(codes, N), N) for codes in (pairs, shuffled)])  # (2, n)
    found = []
    for i, one in enumerate(single_models(stack)):
        tokens = with_values(task, mixed_sequences(configs[i : i + 1], seen[i : i + 1], n), values)
        (trace,) = traces(one, tokens)
        stages = [least_squares_probe(x, labels, N, n_train, ANSWER_RIDGE) for x in _stages(one, trace)]
        found.append(torch.stack(stages, 1))  # (test or train, stages, labels)
    test, train = torch.stack(found, 1)  # (M, stages, labels) each
    return AnswerProbes(test[..., 0], train[..., 0], test[..., 1], n_train, n - n_train)


def probe_l1_var_from_num(stack: Stack, tokens: Int[Tensor, "#M B T"], steps: int | None = None) -> Float[Tensor, " M"]:
    """Test accuracy of a linear probe for the variable, from the residual after layer 1 at the numbers assigned
    (App. B).

    That residual is the number's embedding, its position's, and what layer 1's attention writes. Trained on the first
    sequences of `tokens`, tested on the last 30 %. Converged where `steps` is None; `steps=4` is the variant of the
    paper's code, a softmax probe after that many full-batch steps of Adam (lr .01) from zero, whose rise is partly the
    probe's own. Random weights are not at 1/V: evenly spread attention brings every variable so far, this one included.
    """
    task, accuracies = stack.config.task, []
    first_test = int(TRAIN_SHARE * tokens.shape[1])
    for i, trace in enumerate(traces(stack, tokens)):
        own = tokens[i % len(tokens)]  # (B, T)
        assigned = roles(task, own).assigned
        x = _after_layer_1(stack.models(i), trace, own)[assigned]
        variable = own.roll(1, 1)[assigned] - Vocabulary(task).first_variable
        n_train = int(assigned[:first_test].sum())
        if steps is None:
            accuracies.append(least_squares_probe(x, variable[None], task.n_vars, n_train, VARIABLE_RIDGE)[0, 0])
        else:
            accuracies.append(adam_probe(x, variable, task.n_vars, n_train, steps))
    return torch.stack(accuracies)


def mixed_sequences(
    configs: Sequence[Config], seen: Bool[Tensor, "M N N"], n: int, draw: int = 0
) -> Int[Tensor, "M {n} T"]:
    """`n` sequences for each model whose types, 0, 1 and 2 variables, take turns."""
    of_types = [sequences(configs, seen, n_vars, -(-n // 3), draw).tokens for n_vars in (0, 1, 2)]
    return torch.stack(of_types, 2).flatten(1, 2)[:, :n]


def least_squares_probe(
    x: Float[Tensor, "n d"], labels: Int[Tensor, "L n"], classes: int, n_train: int, ridge: float
) -> Float[Tensor, "2 L"]:
    """Accuracy on the test rows (the last ones) and on the training rows, for each of L labellings of the same rows."""
    x = x - x[:n_train].mean(0)
    train = x[:n_train]
    targets = one_hot(labels[:, :n_train], classes).to(x.dtype).transpose(0, 1)  # (n_train, L, classes)
    means = targets.mean(0)
    # The smallest ridge stands in for none where a stage is constant, as the output of an ablated MLP is.
    strength = (ridge * train.square().sum() / x.shape[1]).clamp(min=1e-30)
    gram = train.T @ train + strength * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    weights = torch.cholesky_solve(
        train.T @ (targets - means).flatten(1), torch.linalg.cholesky(gram)
    )  # (d, L classes)
    guesses = ((x @ weights).view(len(x), len(labels), classes) + means).argmax(-1).T  # (L, n)
    right = (guesses == labels).to(x.dtype)
    return torch.stack([right[:, n_train:].mean(1), right[:, :n_train].mean(1)])


def adam_probe(
    x: Float[Tensor, "n d"], labels: Int[Tensor, " n"], classes: int, n_train: int, steps: int
) -> Float[Tensor, ""]:
    """Test accuracy of a softmax probe (weights and biases from zero) after `steps` full-batch steps of Adam."""
    x = torch.cat([x, x.new_ones(len(x), 1)], 1)
    train, targets = x[:n_train], one_hot(labels[:n_train], classes).to(x.dtype)
    weights = x.new_zeros(x.shape[1], classes)
    first, second = torch.zeros_like(weights), torch.zeros_like(weights)
    for step in range(1, steps + 1):
        gradient = train.T @ ((train @ weights).softmax(-1) - targets) / n_train
        first.lerp_(gradient, 1 - ADAM_BETAS[0])
        second.lerp_(gradient.square(), 1 - ADAM_BETAS[1])
        size = (second / (1 - ADAM_BETAS[1] ** step)).sqrt() + ADAM_EPS
        weights -= ADAM_LR * first / (1 - ADAM_BETAS[0] ** step) / size
    return ((x[n_train:] @ weights).argmax(-1) == labels[n_train:]).to(x.dtype).mean()


def _stages(one: Stack, trace: Trace) -> tuple[Tensor, ...]:
    """The vectors at `=` named in STAGES, (n, d) or (n, h)."""
    W_in, W_out = one["blocks.1.mlp.W_in"][0], one["blocks.1.mlp.W_out"][0]
    before = trace.resid_mid @ W_in
    return trace.resid_before_2, trace.resid_mid, before, trace.neurons, trace.neurons @ W_out, trace.resid_post


def _after_layer_1(one: Stack, trace: Trace, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T d"]:
    """Residual after layer 1 at every position."""
    x = one.W_E[0][tokens] + one.W_pos[0]
    return x + trace.attention_1 @ (x @ OV(one, 1)[0])


def _pairs(N: int, contexts: int, split: str) -> Int[Tensor, " n"]:
    """Codes N n + m of the pairs to add, those for training first."""
    step = EvalSteps.PROBE_SPLIT.start
    if split == "pair":
        return permutation(N * N, Stream.EVAL, step).repeat_interleave(contexts)
    word = words(torch.tensor(0), Stream.EVAL, torch.tensor(step), torch.arange(contexts * N * N), 1)[0]
    return digit(word, N * N)[0]
