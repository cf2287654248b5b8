"""Two tests whether MLP2 adds literals and variables in the same way (paper, section 5.1).

The first compares, between types of sequences, how much removing each frequency reduces the margin of the answer. The
second trains a new MLP2 on sums of literals only. A third test is in `interchange`: it exchanges the values
of single operands between types (alignments first value, second value, values). Exchanging the whole input of MLP2
would show nothing, since the answer is a function of this input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, Optim
from assignadd.interventions.apply import reference_sequences
from assignadd.measures.accuracies import Accuracy, set_accuracies
from assignadd.measures.addition import circuit_waves, network_frequencies
from assignadd.measures.sequences import sequences
from assignadd.model.architecture import PAPER_NEEDS, needs
from assignadd.model.forward import CHUNK, traces
from assignadd.model.kernels.tensor import cross_entropy
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import Stack, initial_stack
from assignadd.network import Network, per_network
from assignadd.stats import Z_95, Measured
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.positions import answers
from assignadd.task.randomness import TrainingLawDraws

# Number of literal sequences on which a new MLP2 is trained.
POOL = 16384
STEPS, BATCH, LR = 500, 512, 2e-3
# Sequences of each kind, and of the accuracies with a grafted MLP2.
SEQUENCES, TESTED = 1000, 5000
RESAMPLING_SEED, GRAFT_SEED = 0, 1
# How often the sequences behind a correlation are resampled.
RESAMPLES = 300
MLP2_WEIGHTS = ("blocks.1.mlp.W_in", "blocks.1.mlp.W_out")


@dataclass(frozen=True)
class FrequencyDamage:
    """Margins of the answer when the neurons of one frequency are replaced by their mean, by type of sequence.

    The margin is the right answer's logit minus the largest other one. Accuracy would show no difference, since no
    single frequency is necessary for the answer.
    """

    frequencies: list[int]
    before: Float[Tensor, "types n"]
    """Margins of the sequences of each type."""
    after: Float[Tensor, "F types n"]
    """The same without each frequency."""

    @property
    def loss(self) -> Float[Tensor, "F types"]:
        """The loss of mean margin without each frequency, as a share of the type's mean margin."""
        return 1 - self.after.mean(-1) / self.before.mean(-1)

    @property
    def agreement(self) -> float:
        """The smallest correlation over frequencies between the losses of two types; NaN if the losses are constant."""
        return _least_correlation(self.loss)

    def resampled(self, resamples: int) -> Float[Tensor, " resamples"]:
        """Bootstrap values of the agreement, with the sequences of each type resampled."""
        types, n = self.before.shape
        generator, agreements = torch.Generator().manual_seed(RESAMPLING_SEED), []
        for _ in range(resamples):
            rows = torch.randint(n, (types, n), generator=generator)
            after = self.after.gather(-1, rows.expand(len(self.after), -1, -1))
            agreements.append(_least_correlation(1 - after.mean(-1) / self.before.gather(-1, rows).mean(-1)))
        return torch.tensor(agreements)


def _least_correlation(columns: Float[Tensor, "F types"]) -> float:
    """The smallest correlation between two different columns."""
    r = torch.corrcoef(columns.T)
    return r[~torch.eye(len(r), dtype=torch.bool)].min().item()


@torch.no_grad()
def frequency_damage(model: Stack, config: Config, seen: Bool[Tensor, "N N"], n: int = SEQUENCES) -> FrequencyDamage:
    """The margins of one model on `n` sequences of each type, with and without each of its frequencies."""
    frequencies = [int(k) + 1 for k in network_frequencies(model)[0].nonzero().flatten()]
    types, reference = config.task.variable_counts, reference_sequences(config, seen)
    tokens = torch.cat([sequences([config], seen[None], n_vars, n).tokens[0] for n_vars in types])
    labels = answers(config.task, tokens)
    of_neurons = circuit_waves(model).frequency[0]
    layer, W_out = LastLayer(model), model[MLP2_WEIGHTS[1]][0]
    trace, mean = layer.trace(tokens), layer.trace(reference).neurons.mean(0)

    def margins(neurons: Tensor) -> Tensor:
        return _margin(layer.logits(trace.resid_mid, neurons @ W_out), labels).view(len(types), n)

    after = [margins(torch.where(of_neurons == k, mean, trace.neurons)) for k in frequencies]
    return FrequencyDamage(frequencies, margins(trace.neurons), torch.stack(after))


def _margin(logits: Float[Tensor, "B N"], labels: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
    """The right answer's logit minus the largest other one."""
    right = logits.gather(1, labels[:, None])
    return (right - logits.scatter(1, labels[:, None], -math.inf).amax(1, keepdim=True))[:, 0]


@needs(*PAPER_NEEDS)
def grafted(model: Stack, config: Config, seen: Bool[Tensor, "N N"], steps: int = STEPS) -> Stack:
    """The model with a new MLP2, trained from random weights on seen sums of literals; other weights are unchanged."""
    pool = sequences([config], seen[None], 0, POOL, TrainingLawDraws.GRAFTED_MLP.start)
    with torch.no_grad():
        inputs = torch.cat([trace.resid_mid for part in pool.tokens.split(CHUNK, 1) for trace in traces(model, part)])
    result = model.clone()
    initial = initial_stack(model.config, [GRAFT_SEED])
    weights = {name: initial[name][0].clone() for name in MLP2_WEIGHTS}
    _fit(weights, inputs, pool.labels[0], model.W_U[0], steps)
    for name, weight in weights.items():
        result[name].copy_(weight[None])
    return result


@torch.no_grad()
def _fit(
    weights: dict[str, Tensor], inputs: Float[Tensor, "n d"], labels: Int[Tensor, " n"], W_U: Tensor, steps: int
) -> None:
    """Trains W_in and W_out in place on the cross entropy, by AdamW with the paper's weight decay.

    The classes of `torch.optim` import torch's compiler, which takes longer than this.
    """
    W_in, W_out = weights[MLP2_WEIGHTS[0]], weights[MLP2_WEIGHTS[1]]
    means = [torch.zeros_like(W_in), torch.zeros_like(W_out)]
    squares = [torch.zeros_like(W_in), torch.zeros_like(W_out)]
    optim = Optim()
    starts = range(0, len(inputs) - BATCH + 1, BATCH)
    around = inputs @ W_U
    for step in range(steps):
        rows = slice(starts[step % len(starts)], starts[step % len(starts)] + BATCH)
        x, read_out = inputs[rows], W_out @ W_U  # there are fewer logits than dimensions: the neurons are read directly
        neurons = (x @ W_in).relu()
        _, grad = cross_entropy(torch.addmm(around[rows], neurons, read_out), labels[rows])
        to_in = (grad @ read_out.T) * (neurons > 0)
        grads = [x.T @ to_in, (neurons.T @ grad @ W_U.T).contiguous()]  # the kernel reads memory, not strides
        count = torch.tensor(step + 1.0)
        torch._fused_adamw_(
            [W_in, W_out], grads, means, squares, [], [count, count],
            lr=LR, beta1=optim.beta1, beta2=optim.beta2, weight_decay=optim.weight_decay, eps=optim.eps,
            amsgrad=False, maximize=False,
        )  # fmt: skip


@per_network(slow=True)
def frequency_damage_of(network: Network) -> FrequencyDamage:
    """The margins of a network with and without each of its frequencies."""
    return frequency_damage(network.stack, network.config, network.seen, min(network.n, SEQUENCES))


@per_network(slow=True)
def grafted_accuracies(network: Network) -> dict[str, Accuracy]:
    """Accuracies on sums with variables in trained slots, with an MLP2 that was trained on sums of literals."""
    stack = grafted(network.stack, network.config, network.seen)
    n = min(network.n, TESTED)
    names = [s.name for s in EVAL_SETS if s.n_vars and not s.n_banned]
    return set_accuracies(stack, [network.config], network.seen[None], n, EVAL_SETS, names)[0]


def frequency_agreement(network: Network) -> Measured | None:
    """The lowest correlation of two types' losses over the frequencies, with its interval over resampled sequences.

    None where there are too few frequencies to compare, or none of them matters.
    """
    damage = frequency_damage_of(network)
    agreement = damage.agreement if len(damage.frequencies) > 2 else math.nan
    if not math.isfinite(agreement):
        return None
    centre = float(_fisher(agreement))
    resampled = np.asarray(_fisher(damage.resampled(RESAMPLES).numpy()))
    half = Z_95 * resampled[np.isfinite(resampled)].std()
    return Measured(agreement, math.tanh(centre - half), math.tanh(centre + half), damage.before.numel(), "sequences")


def _fisher(correlation: float | np.ndarray) -> float | np.ndarray:
    """A correlation on Fisher's scale, where the spread of a correlation does not depend on its value."""
    return np.arctanh(np.clip(np.asarray(correlation, dtype=float), -1 + 1e-9, 1 - 1e-9))


def grafted_accuracy(network: Network) -> Measured:
    """The lowest accuracy, on sums with variables in trained slots, with an MLP2 trained on literals only."""
    worst = min(grafted_accuracies(network).values(), key=lambda a: a.accuracy)
    return Measured(worst.accuracy, worst.interval.low, worst.interval.high, worst.n, "sequences")
