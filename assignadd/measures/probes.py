"""Linear probes for the answer at every stage of `=` (section 5.1) and for the variable at assigned numbers (App. B).

A probe is a ridge-regularised least-squares classifier with centred features and one-hot targets. Its exact minimiser
is known in closed form, so no training can stop too early. The ridge is a multiple of the features' mean variance. A
multinomial logistic regression trained to convergence (L-BFGS) leads to the same conclusions on the paper's network at
every stage, at ten to thirty times the cost.
"""

from __future__ import annotations

import math
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
    n_train = contexts * int(TRAIN_SHARE * n_pairs)  # all sequences of a pair are on one side
    pairs = _pairs(N, contexts, split).to(stack.flat.device)  # (n,) codes N n + m
    values = torch.stack(tuple_values(pairs, N), 1)  # (n, 2)
    # Two labels of each sequence: its answer and, as a control, that of another pair.
    other_pair = permutation(n_pairs, Stream.EVAL, EvalSteps.PROBE_CONTROL.start).to(pairs.device)
    labels = torch.stack([answer_of(task, tuple_values(codes, N)) for codes in (pairs, other_pair[pairs])])  # (2, n)
    tokens = with_values(task, mixed_sequences(configs, seen, n), values)
    accuracies = []
    for model, trace in zip(single_models(stack), traces(stack, tokens), strict=True):
        stages = probed_stages(trace, model)
        of_stages = [least_squares_probe(vectors, labels, N, n_train, ANSWER_RIDGE) for vectors in stages.values()]
        accuracies.append(torch.stack(of_stages, 1))  # (test or train, stages, labels)
    test, train = torch.stack(accuracies, 1)  # (M, stages, labels) each
    return AnswerProbes(
        stages=tuple(stages),
        test=test[..., 0],
        train=train[..., 0],
        control=test[..., 1],
        n_train=n_train,
        n_test=n - n_train,
    )


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
    task = stack.config.task
    n_train_sequences = int(TRAIN_SHARE * tokens.shape[1])
    accuracies = []  # by model, then by number of steps
    for i, trace in enumerate(traces(stack, tokens)):
        tokens_of_model = tokens[i % len(tokens)]  # (B, T); `tokens` may be shared by all models
        is_number = roles(task, tokens_of_model).assigned  # (B, T)
        vectors = trace.after_layer(1)[is_number]  # (n, d)
        token_before = tokens_of_model.roll(1, 1)[is_number]
        variable = token_before - Vocabulary(task).first_variable  # (n,), from 0
        n_train = int(is_number[:n_train_sequences].sum())
        for n_steps in steps:
            if n_steps is None:
                test_and_train = least_squares_probe(vectors, variable[None], task.n_vars, n_train, VARIABLE_RIDGE)
                accuracies.append(test_and_train[0, 0])
            else:
                accuracies.append(adam_probe(vectors, variable, task.n_vars, n_train, n_steps))
    return torch.stack(accuracies).view(-1, len(steps)).T


def mixed_sequences(configs: Sequence[Config], seen: Bool[Tensor, "M N N"], n: int) -> Int[Tensor, "M {n} T"]:
    """`n` sequences for each model, with 0, 1 and 2 variables in turn."""
    n_each = math.ceil(n / 3)
    of_types = [sequences(configs, seen, n_vars, n_each).tokens for n_vars in (0, 1, 2)]  # (M, n_each, T) each
    return torch.stack(of_types, 2).flatten(1, 2)[:, :n]


def least_squares_probe(
    x: Float[Tensor, "n d"], labels: Int[Tensor, "L n"], classes: int, n_train: int, ridge: float
) -> Float[Tensor, "2 L"]:
    """Accuracy on the test rows and on the training rows, for each of L labellings of the same rows of x.

    The first `n_train` rows are for training, the rest for testing. The probe is the ridge regression of the one-hot
    targets on x, whose class is that of the largest score.
    """
    x = x - x[:n_train].mean(0)
    train, train_labels = x[:n_train], labels[:, :n_train]
    # x^T (one-hot targets) is a sum of rows for each class. The mean target adds nothing, as the rows have mean 0.
    sums = _sums_by_class(train, train_labels, classes).flatten(0, 1)  # (L classes, d)
    weights = _ridge_weights(_gram(train), sums.T, ridge)  # (d, L classes)
    counts = torch.stack([row.bincount(minlength=classes) for row in train_labels]).to(x.dtype)  # (L, classes)
    mean_target = counts / n_train  # the constant of the regression
    scores = torch.addmm(mean_target.flatten(), x, weights)  # (n, L classes)
    guesses = largest(scores.view(len(x), len(labels), classes)).T  # (L, n)
    is_right = (guesses == labels).to(x.dtype)
    return torch.stack([is_right[:, n_train:].mean(1), is_right[:, :n_train].mean(1)])


def _sums_by_class(x: Float[Tensor, "n d"], labels: Int[Tensor, "L n"], classes: int) -> Float[Tensor, "L classes d"]:
    """The sum of the rows with each label, for each of L labellings."""
    if x.device.type != "cpu":  # `index_add_` would add in another order each time
        return one_hot(labels, classes).to(x.dtype).mT @ x
    sums = x.new_zeros(len(labels), classes, x.shape[1])
    for sums_of_labelling, labelling in zip(sums, labels, strict=True):
        sums_of_labelling.index_add_(0, labelling, x)
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
    """x^T x, `rows` of its rows at a time, each block from the diagonal on: half of the products.

    Below the diagonal, the matrix is its own mirror image.
    """
    gram = x.new_zeros(x.shape[1], x.shape[1])
    for first in range(0, len(gram), rows):
        block = slice(first, first + rows)
        torch.mm(x[:, block].T, x[:, first:], out=gram[block, first:])
    return gram.triu() + gram.triu(1).T


def adam_probe(
    x: Float[Tensor, "n d"], labels: Int[Tensor, " n"], classes: int, n_train: int, steps: int
) -> Float[Tensor, ""]:
    """Test accuracy of a softmax probe (weights and biases from zero) after `steps` full-batch steps of Adam.

    The first `n_train` rows of x are for training, the rest for testing.
    """
    x = torch.cat([x, x.new_ones(len(x), 1)], 1)  # with a column of ones for the biases
    # With a row for each class: on a CPU, a softmax over few columns takes ten times as long as one over few rows.
    train = x[:n_train]  # (n, d)
    targets = one_hot(labels[:n_train], classes).T.to(x.dtype)  # (classes, n)
    weights = x.new_zeros(classes, x.shape[1])
    beta_1, beta_2 = ADAM_BETAS
    moment_1, moment_2 = torch.zeros_like(weights), torch.zeros_like(weights)
    for step in range(1, steps + 1):
        gradient = ((weights @ train.T).softmax(0) - targets) @ train / n_train
        moment_1.lerp_(gradient, 1 - beta_1)
        moment_2.lerp_(gradient.square(), 1 - beta_2)
        size = (moment_2 / (1 - beta_2**step)).sqrt() + ADAM_EPS
        weights -= ADAM_LR * moment_1 / (1 - beta_1**step) / size
    guesses = (x[n_train:] @ weights.T).argmax(-1)
    return (guesses == labels[n_train:]).to(x.dtype).mean()


def probed_stages(trace: Trace, model: Stack) -> dict[str, Float[Tensor, "B _"]]:
    """The vectors at `=` that are probed, by the name of their stage, from the trace of one model.

    These are the stages of the last layer, and before them the residual after each earlier part of a network that has
    more layers, or more MLPs, than the paper's.
    """
    architecture = model.config.model
    has_mlp = architecture.d_mlp[-1] is not None
    n_in_last_layer = 2 if has_mlp else 1  # residuals after the last layer's attention and, if it has one, its MLP
    # The embedding, then the residual after each part of the earlier layers; the last of them enters the last layer.
    before_last_layer = list(trace.residuals.items())[:-n_in_last_layer]
    _, before_attention = before_last_layer[-1]
    # The embedding of `=` is a constant, and is not probed.
    stages = {f"after {part}": residual for part, residual in before_last_layer[1:-1]}
    stages["before attention"] = before_attention
    if not has_mlp:
        return stages | {"after attention": trace.resid_mid}
    activation = ACTIVATION_NAMES[architecture.activation]
    return stages | {
        "before MLP": trace.resid_mid,
        f"neurons before {activation}": trace.preactivations,
        f"neurons after {activation}": trace.neurons,
        "MLP output": trace.mlp_out,
        "after MLP": trace.resid_post,
    }


def _pairs(N: int, contexts: int, split: str) -> Int[Tensor, " n"]:
    """Codes N n + m of the pairs to add; the first ones are for training.

    Split by pair, every pair is there `contexts` times, one after the other; split by row, pairs are random.
    """
    step = EvalSteps.PROBE_SPLIT.start
    if split == "pair":
        return permutation(N * N, Stream.EVAL, step).repeat_interleave(contexts)
    seed, row = torch.tensor(0), torch.arange(contexts * N * N)
    word_of_row = words(seed, Stream.EVAL, torch.tensor(step), row, 1)[0]
    pairs, _ = digit(word_of_row, N * N)
    return pairs


@per_network(slow=True)
def answer_probes_of(network: Network, split: Literal["pair", "row"] = "pair") -> AnswerProbes:
    """The probes trained and tested on different pairs of numbers, or, split by row, on the same in other contexts."""
    return answer_probes(network.stack, [network.config], network.seen[None], split=split)
