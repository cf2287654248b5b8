"""Linear probes for the answer at every stage of `=` (section 5.1) and for the variable at assigned numbers (App. B).

A probe is a ridge-regularised least-squares classifier with centred features and one-hot targets. Its exact minimiser
is known in closed form, so no training can stop too early. The ridge is a multiple of the features' mean variance. A
multinomial logistic regression trained to convergence (L-BFGS) leads to the same conclusions on the paper's network at
every stage, at ten to thirty times the cost.
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
from assignadd.model.architecture import SECOND_LAYER, needs
from assignadd.model.forward import largest, traces
from assignadd.model.stack import Stack, single_models
from assignadd.model.trace import Trace
from assignadd.network import Network, per_network
from assignadd.task.arithmetic import answer_of, tuple_values
from assignadd.task.positions import roles, with_values
from assignadd.task.randomness import EvalSteps, Stream, digit, permutation, words
from assignadd.task.vocabulary import Vocabulary

# Share of the sequences (or pairs) for training; the rest are for testing.
TRAIN_SHARE = 0.7
# With a smaller ridge, 512 neurons overfit 2,436 pairs: .91 with .01, .996 with 1 on the paper's network. The probes at
# the other stages depend little on it.
ANSWER_RIDGE = 1.0
# A large ridge costs accuracy early in training, when the variable is a small part of the residual (.95 instead of 1.0
# at step 3,001).
VARIABLE_RIDGE = 0.01
ADAM_LR, ADAM_BETAS, ADAM_EPS = 1e-2, (0.9, 0.999), 1e-8

ACTIVATION_NAMES = {"relu": "ReLU", "gelu": "GELU", "abs": "|x|"}


@dataclass(frozen=True)
class AnswerProbes:
    """Accuracy of linear probes for the answer from the vectors at `=` named in `stages`."""

    stages: tuple[str, ...]
    test: Float[Tensor, "M stages"]
    train: Float[Tensor, "M stages"]
    control: Float[Tensor, "M stages"]
    """Test accuracy with labels shuffled among the pairs; about 1/N if split by pair."""
    n_train: int
    n_test: int


def answer_probes(
    stack: Stack,
    configs: Sequence[Config],
    seen: Bool[Tensor, "M N N"],
    split: Literal["pair", "row"] = "pair",
    contexts: int = 1,
) -> AnswerProbes:
    """Accuracy of linear probes for the answer before and after MLP2 (section 5.1), on `contexts` N^2 sequences.

    The sequences follow the training distribution; 0, 1 and 2 variables alternate.

    `split="pair"`: every pair of numbers (n, m) is added in `contexts` sequences, and is either for training or for
    testing. Before the MLP the accuracy is *below* 1/N: the probe can fit only a function of n plus a function of m,
    and the answer of a test pair occurs less often among the training pairs with the same n or m.
    `split="row"`: pairs are drawn with replacement, so most test pairs also occur in training, not equally often. The
    accuracy before the MLP is then a little above 1/N.
    """
    task, N = stack.config.task, stack.config.task.modulus
    n_pairs = N * N
    n = contexts * n_pairs
    n_train = contexts * int(TRAIN_SHARE * n_pairs)  # whole pairs on each side
    pairs = _pairs(N, contexts, split).to(stack.flat.device)  # (n,) codes N n + m
    values = torch.stack(tuple_values(pairs, N), 1)
    shuffled = permutation(n_pairs, Stream.EVAL, EvalSteps.PROBE_CONTROL.start).to(pairs.device)[pairs]
    labels = torch.stack([answer_of(task, tuple_values(codes, N)) for codes in (pairs, shuffled)])  # (2, n)
    tokens = with_values(task, mixed_sequences(configs, seen, n), values)
    accuracies = []
    for model, trace in zip(single_models(stack), traces(stack, tokens), strict=True):
        stages = probed_stages(trace, model)
        probes = [least_squares_probe(x, labels, N, n_train, ANSWER_RIDGE) for x in stages.values()]
        accuracies.append(torch.stack(probes, 1))  # (test or train, stages, labels)
    test, train = torch.stack(accuracies, 1)  # (M, stages, labels) each
    return AnswerProbes(tuple(stages), test[..., 0], train[..., 0], test[..., 1], n_train, n - n_train)


def probe_l1_var_from_num(stack: Stack, tokens: Int[Tensor, "#M B T"], steps: int | None = None) -> Float[Tensor, " M"]:
    """Test accuracy of a linear probe for the variable from the residual after layer 1 at assigned numbers (App. B).

    The probe is trained on the first 70 % of the sequences and tested on the rest. It is converged if `steps` is
    None. With `steps=4` it is the probe of the paper's code, a softmax probe after four full-batch steps of Adam
    (lr .01) from zero; its accuracy rises in part because the probe has not converged. Random weights are above 1/V,
    since uniform attention copies all earlier variables, among them the right one.
    """
    return variable_probes(stack, tokens, [steps])[0]


@needs(SECOND_LAYER)
def variable_probes(
    stack: Stack, tokens: Int[Tensor, "#M B T"], steps: Sequence[int | None]
) -> Float[Tensor, "{len(steps)} M"]:
    """`probe_l1_var_from_num` for several numbers of steps, from one forward pass."""
    task, accuracies = stack.config.task, []
    first_test = int(TRAIN_SHARE * tokens.shape[1])
    for i, trace in enumerate(traces(stack, tokens)):
        sequences_of_model = tokens[i % len(tokens)]  # (B, T)
        assigned = roles(task, sequences_of_model).assigned
        x = trace.after_layer(1)[assigned]
        variable = sequences_of_model.roll(1, 1)[assigned] - Vocabulary(task).first_variable
        n_train = int(assigned[:first_test].sum())
        for n in steps:
            if n is None:
                accuracies.append(least_squares_probe(x, variable[None], task.n_vars, n_train, VARIABLE_RIDGE)[0, 0])
            else:
                accuracies.append(adam_probe(x, variable, task.n_vars, n_train, n))
    return torch.stack(accuracies).view(-1, len(steps)).T


def mixed_sequences(configs: Sequence[Config], seen: Bool[Tensor, "M N N"], n: int) -> Int[Tensor, "M {n} T"]:
    """`n` sequences for each model, with 0, 1 and 2 variables in turn."""
    of_types = [sequences(configs, seen, n_vars, -(-n // 3)).tokens for n_vars in (0, 1, 2)]
    return torch.stack(of_types, 2).flatten(1, 2)[:, :n]


def least_squares_probe(
    x: Float[Tensor, "n d"], labels: Int[Tensor, "L n"], classes: int, n_train: int, ridge: float
) -> Float[Tensor, "2 L"]:
    """Accuracy on the test rows (the last ones) and on the training rows, for each of L labellings of the same rows."""
    x = x - x[:n_train].mean(0)
    train, train_labels = x[:n_train], labels[:, :n_train]
    counts = torch.stack([row.bincount(minlength=classes) for row in train_labels]).to(x.dtype)  # (L, classes)
    # x^T (one-hot targets) is a sum of rows for each class. The mean target adds nothing, as the rows have mean 0.
    sums = _sums_by_class(train, train_labels, classes).flatten(0, 1)
    weights = _ridge_weights(_gram(train), sums.T, ridge)  # (d, L classes)
    scores = torch.addmm((counts / n_train).flatten(), x, weights)  # (n, L classes)
    guesses = largest(scores.view(len(x), *counts.shape)).T  # (L, n)
    right = (guesses == labels).to(x.dtype)
    return torch.stack([right[:, n_train:].mean(1), right[:, :n_train].mean(1)])


def _sums_by_class(x: Float[Tensor, "n d"], labels: Int[Tensor, "L n"], classes: int) -> Float[Tensor, "L classes d"]:
    """The sum of the rows with each label, for each of L labellings."""
    if x.device.type != "cpu":  # `index_add_` would add in another order each time
        return one_hot(labels, classes).to(x.dtype).mT @ x
    sums = x.new_zeros(len(labels), classes, x.shape[1])
    for of_classes, row in zip(sums, labels, strict=True):
        of_classes.index_add_(0, row, x)
    return sums


def _ridge_weights(gram: Float[Tensor, "d d"], products: Float[Tensor, "d k"], ridge: float) -> Float[Tensor, "d k"]:
    """The weights (x^T x + s)^-1 x^T y of ridge regressions of k targets y on x, from x^T x and x^T y.

    The ridge s is `ridge` times the features' mean power.
    """
    power = gram.trace() / len(gram)
    # The lower bound keeps the matrix invertible if a stage is constant, as the output of an ablated MLP is.
    gram.diagonal().add_((ridge * power).clamp(min=1e-30))
    # Of a network that diverged the matrix is NaN, and so are the weights; some libraries refuse to factor it.
    factor, _ = torch.linalg.cholesky_ex(gram, check_errors=bool(power.isfinite()))
    return torch.cholesky_solve(products, factor)


def _gram(x: Float[Tensor, "n d"], rows: int = 64) -> Float[Tensor, "d d"]:
    """x^T x. Blocks of rows are computed from the diagonal on; below it, the matrix is its own mirror image."""
    gram = x.new_zeros(x.shape[1], x.shape[1])
    for i in range(0, len(gram), rows):
        torch.mm(x[:, i : i + rows].T, x[:, i:], out=gram[i : i + rows, i:])
    return gram.triu() + gram.triu(1).T


def adam_probe(
    x: Float[Tensor, "n d"], labels: Int[Tensor, " n"], classes: int, n_train: int, steps: int
) -> Float[Tensor, ""]:
    """Test accuracy of a softmax probe (weights and biases from zero) after `steps` full-batch steps of Adam."""
    x = torch.cat([x, x.new_ones(len(x), 1)], 1)
    # With a row for each class: on a CPU, a softmax over few columns takes ten times as long as one over few rows.
    train = x[:n_train]  # (n, d)
    targets = one_hot(labels[:n_train], classes).T.to(x.dtype)  # (classes, n)
    weights = x.new_zeros(classes, x.shape[1])
    first, second = torch.zeros_like(weights), torch.zeros_like(weights)
    for step in range(1, steps + 1):
        gradient = ((weights @ train.T).softmax(0) - targets) @ train / n_train
        first.lerp_(gradient, 1 - ADAM_BETAS[0])
        second.lerp_(gradient.square(), 1 - ADAM_BETAS[1])
        size = (second / (1 - ADAM_BETAS[1] ** step)).sqrt() + ADAM_EPS
        weights -= ADAM_LR * first / (1 - ADAM_BETAS[0] ** step) / size
    return ((x[n_train:] @ weights.T).argmax(-1) == labels[n_train:]).to(x.dtype).mean()


def probed_stages(trace: Trace, model: Stack) -> dict[str, Float[Tensor, "B _"]]:
    """The vectors at `=` that are probed, by the name of their stage, from the trace of one model.

    These are the stages of the last layer, and before them the residual after each earlier part of a network that has
    more layers, or more MLPs, than the paper's.
    """
    shape = model.config.model
    has_mlp = shape.d_mlp[-1] is not None
    n_after = 2 if has_mlp else 1  # residuals after the last layer's attention and, if it has one, its MLP
    before_last = list(trace.residuals.items())[:-n_after]  # the embedding, then the residual after each part
    _, before_attention = before_last[-1]
    # The embedding of `=`, the first of them, is a constant.
    stages = {f"after {part}": residual for part, residual in before_last[1:-1]}
    stages["before attention"] = before_attention
    if not has_mlp:
        return stages | {"after attention": trace.resid_mid}
    activation = ACTIVATION_NAMES[shape.activation]
    return stages | {
        "before MLP": trace.resid_mid,
        f"neurons before {activation}": trace.preactivations,
        f"neurons after {activation}": trace.neurons,
        "MLP output": trace.mlp_out,
        "after MLP": trace.resid_post,
    }


def _pairs(N: int, contexts: int, split: str) -> Int[Tensor, " n"]:
    """Codes N n + m of the pairs to add; the first ones are for training."""
    step = EvalSteps.PROBE_SPLIT.start
    if split == "pair":
        return permutation(N * N, Stream.EVAL, step).repeat_interleave(contexts)
    word = words(torch.tensor(0), Stream.EVAL, torch.tensor(step), torch.arange(contexts * N * N), 1)[0]
    return digit(word, N * N)[0]


@per_network(slow=True)
def answer_probes_of(network: Network, split: Literal["pair", "row"] = "pair") -> AnswerProbes:
    """The probes trained and tested on different pairs of numbers, or, split by row, on the same in other contexts."""
    return answer_probes(network.stack, [network.config], network.seen[None], split=split)
