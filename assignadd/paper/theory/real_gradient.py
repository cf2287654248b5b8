"""The gradient of the one-variable loss and the change of QK2 in training, against the direction of theorem C.1.

The theorem predicts that both point along an associative memory. In the row convention of `circuits` this direction is
sum_v (c_v + p_T)^T c_v, where c_v = e_v OV1 is what layer 1 copies of variable v, and p_T the embedding of the last
position. For comparison, the variables on the key side (the second c_v) are permuted such that none is matched with
itself. This keeps p_T, the vectors and their lengths, so that the cosines differ by the matching alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from assignadd.dynamics.trajectory import binds
from assignadd.measures.scores import variable_outputs
from assignadd.model.architecture import PAPER_NEEDS, require
from assignadd.model.circuits import OV, QK
from assignadd.model.forward import answer_logits
from assignadd.model.stack import Stack, flatten
from assignadd.network import Network, per_network
from assignadd.task.evalsets import EvalSet
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import Batch, Sampler
from assignadd.training.gradient import gradient_of

ONE_VARIABLE = EvalSet("1-var train", n_vars=1)
# Halfway between the accuracies of the paper's run before its first spike (.75) and after it (.99).
SPIKE_THRESHOLD = 0.87
DIRECTIONS = 200  # number of permuted directions
SEQUENCES = 2048  # for the gradient
MOST_STEPS = 48  # checkpoints that are looked at


def merged(stack: Stack) -> Stack:
    """Equivalent models with W_Q = QK sqrt(d), W_V = OV and W_K = W_O = 1, so that QK and OV are parameters."""
    require(stack.config, "the theory's gradient", *PAPER_NEEDS)
    d = stack.config.model.d_model
    config = dataclasses.replace(stack.config, model=dataclasses.replace(stack.config.model, d_head=d))
    identity = torch.eye(d, dtype=stack.flat.dtype).expand(len(stack), 1, d, d)
    weights = dict(stack.weights)
    for layer in (1, 2):
        attention = f"blocks.{layer - 1}.attn"
        weights[f"{attention}.W_Q"] = QK(stack, layer).unsqueeze(1) * math.sqrt(d)  # (M, head, d, d)
        weights[f"{attention}.W_K"] = identity
        weights[f"{attention}.W_V"] = OV(stack, layer).unsqueeze(1)
        weights[f"{attention}.W_O"] = identity
    return Stack(config, flatten(config, weights))


def qk2_descent(stack: Stack, batch: Batch) -> Float[Tensor, "M d d"]:
    """The negative gradient of the mean loss on these sequences with respect to the matrix QK2."""
    gradients = []
    for model in merged(stack):
        gradient = gradient_of(model)
        gradient(batch)  # fills `gradient.flat`
        by_weight = Stack(model.config, gradient.flat)  # in the shape of the model's weights
        gradients.append(by_weight["blocks.1.attn.W_Q"][0, 0])  # (d, d)
    # In the merged models W_Q of layer 2 is QK2 sqrt(d): the gradient by QK2 is sqrt(d) times that by W_Q.
    return -math.sqrt(stack.config.model.d_model) * torch.stack(gradients)


@dataclass(frozen=True)
class Alignment:
    """Cosines of matrices, one per model, with the predicted direction and with the directions for comparison."""

    memory: Tensor  # (M,) with sum_v (c_v + p_T)^T c_v
    permuted: Tensor  # (M, DIRECTIONS) with sum_v (c_v + p_T)^T c_o(v), for random orders o

    def mean_over(self, chosen: Tensor) -> Alignment:
        """The means over the chosen models, without the axis M."""
        return Alignment(self.memory[chosen].mean(0), self.permuted[chosen].mean(0))


def alignment(stack: Stack, matrices: Float[Tensor, "M d d"]) -> Alignment:
    """Cosines of one matrix per model (a gradient or a change of QK2) with its predicted and permuted directions."""
    copied = variable_outputs(stack)  # c_v, (M, V, d)
    queries = copied + stack.W_pos[:, -1:]  # c_v + p_T
    unit = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=torch.finfo(matrices.dtype).tiny)
    V = copied.shape[1]
    return Alignment(
        memory=_cosines(unit, queries, copied, torch.arange(V)[None])[:, 0],
        permuted=_cosines(unit, queries, copied, derangements(V, DIRECTIONS)),
    )


def _cosines(unit: Tensor, queries: Tensor, keys: Tensor, orders: Tensor) -> Tensor:
    """Cosine of matrices of norm 1, (M, d, d), with sum_v q_v^T k_{o(v)}, for every order o of the keys: (M, orders).

    `queries` q and `keys` k are (M, V, d), `orders` (orders, V).
    """
    products = queries @ unit @ keys.mT  # of q_u and k_v, (M, V, V)
    # The inner product of a matrix with the direction is sum_v q_v unit k_{o(v)}^T.
    inner_products = products[:, torch.arange(queries.shape[1]), orders].sum(-1)  # (M, orders)
    # The squared Frobenius norm of the direction is sum_{u,v} (q_u q_v)(k_{o(u)} k_{o(v)}).
    query_products = queries @ queries.mT  # (M, V, V)
    key_products = keys @ keys.mT
    ordered = key_products[:, orders[:, :, None], orders[:, None, :]]  # (M, orders, V, V)
    squared_norms = (query_products[:, None] * ordered).sum((-2, -1))
    return inner_products / squared_norms.clamp(min=0).sqrt()


def derangements(V: int, count: int) -> Tensor:
    """Random permutations of V > 1 variables without a fixed point, always the same for this `count`, (count, V)."""
    generator = torch.Generator().manual_seed(0)
    orders: list[Tensor] = []
    while len(orders) < count:
        order = torch.randperm(V, generator=generator)
        if (order != torch.arange(V)).all():
            orders.append(order)
    return torch.stack(orders)


@dataclass(frozen=True)
class TheoryGradient:
    """The cosines of one model at M steps of its training."""

    steps: list[int]
    accuracy: Tensor  # (M,) on the one-variable sequences
    descent: Alignment  # of the negative gradient at each checkpoint
    change: Alignment  # of the change of QK2 from each checkpoint to the next: M - 1 of them

    @property
    def spike_at(self) -> int | None:
        """The first checkpoint after the first spike, in which the model learns to bind; None if there is no spike."""
        after = (self.accuracy >= SPIKE_THRESHOLD).nonzero().flatten()  # indices of the checkpoints after it
        return self.steps[after[0]] if len(after) else None


def theory_gradient(trajectory: Stack, steps: Sequence[int], batch: Batch) -> TheoryGradient:
    """How the gradient and the changes of QK2 of one model align with the theory, from its checkpoints at `steps`."""
    is_correct = answer_logits(trajectory, batch.tokens).argmax(-1) == batch.labels  # (M, B)
    descent = alignment(trajectory, qk2_descent(trajectory, batch))
    QK2 = QK(trajectory, 2)  # (M, d, d)
    without_last = trajectory.models(slice(0, len(trajectory) - 1))
    change = alignment(without_last, QK2[1:] - QK2[:-1])  # with the direction at the earlier checkpoint of the two
    return TheoryGradient(list(steps), is_correct.double().mean(1), descent, change)


def informative_steps(steps: Sequence[int], rows: Sequence[Mapping[str, Any]], most: int = MOST_STEPS) -> list[int]:
    """At most `most` of a run's steps: half of them over all of training, denser early, and half near the first spike.

    `rows` are one model's metrics. Without metrics (an imported run) or without a spike, all are over all of training.
    """
    if len(steps) <= most:
        return list(steps)
    accuracies = {row["step"]: row["accuracy"].get(ONE_VARIABLE.name, 0.0) for row in rows}
    spike_at = next((step for step, accuracy in accuracies.items() if accuracy >= SPIKE_THRESHOLD), None)
    n_over_training = most if spike_at is None else most // 2
    marks = np.expm1(np.linspace(0, np.log1p(steps[-1]), n_over_training))  # evenly spaced in log(1 + step)
    chosen = {min(steps, key=lambda step: abs(step - mark)) for mark in marks}
    if spike_at is not None:
        nearest_first = sorted(steps, key=lambda step: abs(step - spike_at))
        chosen |= set(nearest_first[: most - n_over_training])
    return sorted(chosen)


@per_network(slow=True, only=binds)
def theory_gradient_of(network: Network) -> TheoryGradient | None:
    """How QK2's gradient and change along training align with the theory; None with one checkpoint or one variable."""
    steps = informative_steps(network.steps, network.rows)
    if len(steps) < 2 or network.config.task.n_vars < 2:
        return None
    sampler = Sampler([network.config.task], network.seen[None], [network.config.seed.data or 0], ONE_VARIABLE)
    batch = sampler.sample(EvalSteps.EXAMS.start, SEQUENCES)
    return theory_gradient(network.checkpoints(steps), steps, batch)
