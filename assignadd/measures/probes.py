"""Linear probes for the answer at every stage of `=` (section 5.1) and for the variable at assigned numbers (App. B).

A probe is a ridge-regularised least-squares classifier with centred features and one-hot targets. Its exact minimiser
is known in closed form, so no training can stop too early. The ridge is a multiple of the features' mean variance.
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
from assignadd.model.stack import Stack
from assignadd.model.trace import Trace
from assignadd.network import Network, per_network
from assignadd.task.arithmetic import answer_of, tuple_values
from assignadd.task.positions import roles, with_values
from assignadd.task.randomness import EvalSteps, Stream, digit, permutation, words
from assignadd.task.vocabulary import Vocabulary

# Share of the sequences (or pairs) for training; the rest are for testing.
TRAIN_SHARE = 0.7
ANSWER_RIDGE = 1.0  # with a smaller one, 512 neurons overfit 2,436 pairs
VARIABLE_RIDGE = 0.01  # with a larger one, a variable that is a small part of the residual is missed, early in training
ADAM_LR, ADAM_BETAS, ADAM_EPS = 1e-2, (0.9, 0.999), 1e-8

ACTIVATION_NAMES = {"relu": "ReLU", "gelu": "GELU", "abs": "|x|"}


@dataclass(frozen=True)
class AnswerProbes:
    """Accuracy of linear probes for the answer from the vectors at `=` named in `stages`."""

    stages: tuple[str, ...]
    test: Float[Tensor, "M stages"]
    """Accuracy on sequences that the probe was not trained on."""
    control: Float[Tensor, "M stages"]
    """The same with labels shuffled among the pairs; about 1/N if split by pair."""
    n_test: int


def answer_probes(
    stack: Stack, configs: Sequence[Config], seen: Bool[Tensor, "M N N"], split: Literal["pair", "row"] = "pair"
) -> AnswerProbes:
    """Accuracy of linear probes for the answer before and after MLP2 (section 5.1), on N^2 sequences.

    The sequences follow the training distribution; 0, 1 and 2 variables alternate. `split="pair"`: every pair of
    numbers (n, m) is added once, and is either for training or for testing. Before the MLP the accuracy is then *below*
    1/N: the probe can fit only a function of n plus a function of m, and the answer of a test pair occurs less often
    among the training pairs with the same n or m. `split="row"`: pairs are drawn with replacement, so most test pairs
    also occur in training.
    """
    task, N = stack.config.task, stack.config.task.modulus
    n_train = int(TRAIN_SHARE * N * N)
    pairs = _pairs(N, split).to(stack.flat.device)  # (N^2,) codes N n + m
    values = torch.stack(tuple_values(pairs, N), 1)  # (N^2, 2)
    # Two labels of each sequence: its answer and, as a control, that of another pair.
    other_pair = permutation(N * N, Stream.EVAL, EvalSteps.PROBE_CONTROL.start).to(pairs.device)
    labels = torch.stack([answer_of(task, tuple_values(codes, N)) for codes in (pairs, other_pair[pairs])])  # (2, N^2)
    tokens = with_values(task, mixed_sequences(configs, seen, N * N), values)
    accuracies = []
    for model, trace in zip(stack, traces(stack, tokens), strict=True):
        stages = vectors_at_equals(trace, model)
        of_stages = [least_squares_probe(vectors, labels, N, n_train, ANSWER_RIDGE) for vectors in stages.values()]
        accuracies.append(torch.stack(of_stages))  # (stages, labels)
    test, control = torch.stack(accuracies).unbind(-1)  # (M, stages) each
    return AnswerProbes(tuple(stages), test, control, n_test=N * N - n_train)


@needs(SECOND_LAYER)
def probe_l1_var_from_num(
    stack: Stack, tokens: Int[Tensor, "#M B T"], steps: Sequence[int | None] = (None,)
) -> Float[Tensor, "{len(steps)} M"]:
    """Test accuracy of linear probes for the variable from the residual after layer 1 at assigned numbers (App. B).

    A probe is trained on the first 70 % of the sequences and tested on the rest: one for each number of `steps`. It is
    converged for None. For 4 it is the probe of the paper's code, a softmax probe after four full-batch steps of Adam
    (lr .01) from zero; its accuracy rises in part because the probe has not converged.
    """
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
                accuracies.append(least_squares_probe(vectors, variable[None], task.n_vars, n_train, VARIABLE_RIDGE)[0])
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
) -> Float[Tensor, " L"]:
    """Test accuracy of the ridge regression of one-hot targets on x, for each of L labellings of the rows of x.

    The first `n_train` rows are for training, the rest for testing.
    """
    x = x - x[:n_train].mean(0)
    train = x[:n_train]
    targets = one_hot(labels[:, :n_train], classes).to(x.dtype)  # (L, n_train, classes)
    gram = train.T @ train
    # The lower bound keeps the matrix invertible if a stage is constant, as the output of an ablated MLP is.
    gram.diagonal().add_((ridge * gram.diagonal().mean()).clamp(min=1e-30))
    weights, _ = torch.linalg.solve_ex(gram, train.T @ targets)  # (L, d, classes); NaN for a network that diverged
    # As the rows have mean 0, the constant of the regression is the mean target.
    scores = x @ weights + targets.mean(1, keepdim=True)  # (L, n, classes)
    return (largest(scores[:, n_train:]) == labels[:, n_train:]).to(x.dtype).mean(1)


def adam_probe(
    x: Float[Tensor, "n d"], labels: Int[Tensor, " n"], classes: int, n_train: int, steps: int
) -> Float[Tensor, ""]:
    """Test accuracy, on the rows of x after the first `n_train`, of a softmax probe after full-batch steps of Adam."""
    x = torch.cat([x, x.new_ones(len(x), 1)], 1)  # with a column of ones for the biases
    train = x[:n_train]  # (n_train, d + 1)
    targets = one_hot(labels[:n_train], classes).T.to(x.dtype)  # (classes, n_train): a softmax over rows is fast
    weights = x.new_zeros(classes, x.shape[1])
    beta_1, beta_2 = ADAM_BETAS
    moment_1, moment_2 = torch.zeros_like(weights), torch.zeros_like(weights)
    for step in range(1, steps + 1):
        gradient = ((weights @ train.T).softmax(0) - targets) @ train / n_train
        moment_1.lerp_(gradient, 1 - beta_1)
        moment_2.lerp_(gradient.square(), 1 - beta_2)
        denominator = (moment_2 / (1 - beta_2**step)).sqrt() + ADAM_EPS
        weights -= ADAM_LR * moment_1 / (1 - beta_1**step) / denominator
    guesses = (x[n_train:] @ weights.T).argmax(-1)
    return (guesses == labels[n_train:]).to(x.dtype).mean()


def vectors_at_equals(trace: Trace, model: Stack) -> dict[str, Float[Tensor, "B _"]]:
    """The vectors at `=` that are probed, by the name of their stage, from the trace of one model.

    These are the stages of the last layer, and before them the residual after each earlier part of a network that has
    more layers, or more MLPs, than the paper's.
    """
    architecture = model.config.model
    parts = list(trace.residuals)  # in the order of the forward pass
    before_last_layer = parts[: parts.index(f"attention {architecture.n_layers}")]
    # The first of them is the embedding, which is the same for every `=`; the last one is `resid_pre`.
    stages = {f"after {part}": trace.residuals[part] for part in before_last_layer[1:-1]}
    stages["before attention"] = trace.resid_pre
    if architecture.d_mlp[-1] is None:
        return stages | {"after attention": trace.resid_mid}
    activation = ACTIVATION_NAMES[architecture.activation]
    return stages | {
        "before MLP": trace.resid_mid,
        f"neurons before {activation}": trace.preactivations,
        f"neurons after {activation}": trace.neurons,
        "MLP output": trace.mlp_out,
        "after MLP": trace.resid_post,
    }


def _pairs(N: int, split: str) -> Int[Tensor, " n"]:
    """The codes N n + m of the N^2 pairs to add: every pair once for the split "pair", random pairs for "row"."""
    step = EvalSteps.PROBE_SPLIT.start
    if split == "pair":
        return permutation(N * N, Stream.EVAL, step)
    random_words = words(0, Stream.EVAL, step, torch.arange(N * N), 1)[0]  # (N^2,), with seed 0
    codes, _ = digit(random_words, N * N)
    return codes


@per_network(slow=True)
def answer_probes_of(network: Network, split: Literal["pair", "row"] = "pair") -> AnswerProbes:
    """The probes trained and tested on different pairs of numbers or, split by row, mostly on the same."""
    return answer_probes(network.stack, [network.config], network.seen[None], split=split)
