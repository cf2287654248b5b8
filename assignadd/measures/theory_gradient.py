"""Does training follow the theory? The gradient of the one-variable loss, and the actual change of QK2, against the
associative memory that the appendix predicts (theorem "One gradient step leads to composition"), which the paper does not test.

In the row convention of `circuits` the predicted direction is sum_v (c_v + p_T)^T c_v: queries are rows, c_v = e_v OV1 is
what layer 1 copies of variable v, and p_T the embedding of the last position. A direction with the copies of the key
permuted (no variable meets itself) has the same p_T, the same vectors and the same lengths: what the true one has
beyond it is the binding of each variable to itself.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from assignadd.config import Config, UserError
from assignadd.model.circuits import OV, QK
from assignadd.model.forward import answer_logits
from assignadd.model.stack import Stack, flatten, single_models
from assignadd.model.table import covers
from assignadd.task.evalsets import EvalSet
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import Batch, Sampler
from assignadd.task.vocabulary import Vocabulary
from assignadd.training.step import gradient_of

if TYPE_CHECKING:
    from jaxtyping import Float

ONE_VARIABLE = EvalSet("1-var train", n_vars=1)
# Half-way up the first spike, between the plateaus of the paper's run before it (.75) and after it (.99).
SPIKE_THRESHOLD = 0.87
DIRECTIONS = 200  # permuted and random ones, each


def one_variable_batch(config: Config, seen: Tensor, n: int) -> Batch:
    """`n` one-variable sequences of the training law of one model, from its evaluation stream."""
    return Sampler([config.task], seen[None], [config.seed.data or 0], ONE_VARIABLE).sample(EvalSteps.EXAMS.start, n)


def merged(stack: Stack) -> Stack:
    """The same functions with W_Q = QK sqrt(d), W_V = OV and W_K = W_O = 1, so that QK and OV are weights of their own."""
    if not covers(stack.config):
        raise UserError(
            "the theory's gradient is for the paper's architecture: two layers, one head, ReLU, no norms, no biases"
        )
    d = stack.config.model.d_model
    config = dataclasses.replace(stack.config, model=dataclasses.replace(stack.config.model, d_head=d))
    weights, one = dict(stack.weights), torch.eye(d, dtype=stack.flat.dtype).expand(len(stack), 1, d, d)
    for layer in (1, 2):
        block = f"blocks.{layer - 1}.attn.W_"
        weights |= {
            block + "Q": QK(stack, layer).unsqueeze(1) * math.sqrt(d),
            block + "V": OV(stack, layer).unsqueeze(1),
        }
        weights |= {block + "K": one, block + "O": one}
    return Stack(config, flatten(config, weights))


def qk2_descent(stack: Stack, batch: Batch) -> Float[Tensor, "M d d"]:
    """The negative gradient of the mean loss on these sequences with respect to the matrix QK2."""
    found = []
    for model in single_models(merged(stack)):
        gradient = gradient_of(model)
        gradient(batch)
        found.append(
            -math.sqrt(stack.config.model.d_model) * Stack(model.config, gradient.flat)["blocks.1.attn.W_Q"][0, 0]
        )
    return torch.stack(found)


@dataclass(frozen=True)
class Alignment:
    """Cosines of matrices, one per model, with the predicted direction and with those it is compared with."""

    memory: Tensor  # (M,) with sum_v (c_v + p_T)^T c_v
    permuted: Tensor  # (M, DIRECTIONS)
    random: Tensor  # (M, DIRECTIONS) with random vectors of the same lengths in place of c_v and p_T
    binding: Tensor  # (M,) with sum_v c_v^T c_v, without p_T
    spurious: Tensor  # (M,) with p_T^T sum_v c_v


@dataclass(frozen=True)
class TheoryGradient:
    """One model over training."""

    steps: list[int]
    accuracy: Tensor  # (M,) on the one-variable sequences
    descent: Alignment  # of the negative gradient at each checkpoint
    change: Alignment  # (M - 1) of the change of QK2 to the next one

    @property
    def spike_at(self) -> int | None:
        """The first of the steps that lies behind the first spike, when variables come to be bound."""
        return next(
            (step for step, a in zip(self.steps, self.accuracy.tolist(), strict=True) if a >= SPIKE_THRESHOLD), None
        )


def theory_gradient(trajectory: Stack, steps: Sequence[int], batch: Batch) -> TheoryGradient:
    """Of the stack of one model's checkpoints at these steps."""
    if len(steps) < 2:
        raise UserError(f"training is followed over several checkpoints: expected at least 2, found {len(steps)}")
    accuracy = (answer_logits(trajectory, batch.tokens).argmax(-1) == batch.labels).double().mean(1)
    earlier, circuits = trajectory.models(slice(0, len(trajectory) - 1)), QK(trajectory, 2)
    descent = alignment(trajectory, qk2_descent(trajectory, batch))
    return TheoryGradient(list(steps), accuracy, descent, alignment(earlier, circuits[1:] - circuits[:-1]))


def telling_steps(steps: Sequence[int], rows: Sequence[Mapping[str, Any]], most: int = 48) -> list[int]:
    """At most so many of a run's steps: half of them all along, denser early, half around the first spike.

    `rows` are one model's metrics; without any (an imported run), or where there is no spike, all stand all along.
    """
    if len(steps) <= most:
        return list(steps)
    spike_at = next(
        (row["step"] for row in rows if row["accuracy"].get(ONE_VARIABLE.name, 0.0) >= SPIKE_THRESHOLD), None
    )
    along = most if spike_at is None else most // 2
    marks = [(1 + steps[-1]) ** (i / (along - 1)) - 1 for i in range(along)]  # evenly spaced in log(1 + step)
    chosen = {min(steps, key=lambda step: abs(step - mark)) for mark in marks}
    if spike_at is not None:
        chosen |= set(sorted(steps, key=lambda step: abs(step - spike_at))[: most - along])
    return sorted(chosen)


def alignment(stack: Stack, matrices: Float[Tensor, "M d d"], seed: int = 0) -> Alignment:
    """Of matrices that belong to the stack's models (gradients or changes of QK2), by the stack's own c_v and p_T."""
    c = stack.W_E[:, list(Vocabulary(stack.config.task).variables)] @ OV(stack, 1)  # (M, V, d)
    p = stack.W_pos[:, -1:]  # (M, 1, d)
    G = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=torch.finfo(matrices.dtype).tiny)
    g = torch.Generator().manual_seed(seed)
    orders = derangements(c.shape[1], DIRECTIONS, g)  # (P, V)
    own = torch.arange(c.shape[1])[None]
    x, y = (torch.randn(DIRECTIONS, k, c.shape[-1], generator=g, dtype=c.dtype) for k in (c.shape[1], 1))
    r, s = (z / z.norm(dim=-1, keepdim=True) for z in (x, y))  # (P, V, d), (P, 1, d)
    r, s = r * c.norm(dim=-1)[:, None, :, None], s * p.norm(dim=-1)[:, None, :, None]  # (M, P, ...)
    random = ((r + s) @ G[:, None] * r).sum((-2, -1)) / _norms((r + s).flatten(0, 1), r.flatten(0, 1), own).view(
        len(c), -1
    )
    return Alignment(
        cosines(G, c + p, c, own)[:, 0],
        cosines(G, c + p, c, orders),
        random,
        cosines(G, c, c, own)[:, 0],
        cosines(G, p.expand_as(c), c, own)[:, 0],
    )


def cosines(G: Tensor, q: Tensor, k: Tensor, orders: Tensor) -> Tensor:
    """Cosine of each G of length one with sum_v q_v^T k_{o(v)}, for every order o: (M, P)."""
    products = q @ G @ k.mT  # (M, V, V)
    return products[:, torch.arange(q.shape[1]), orders].sum(-1) / _norms(q, k, orders)


def _norms(q: Tensor, k: Tensor, orders: Tensor) -> Tensor:
    """Frobenius norms of sum_v q_v^T k_{o(v)}, (M, P): its square is sum_{u,v} (q_u q_v)(k_{o(u)} k_{o(v)})."""
    queries, keys = q @ q.mT, k @ k.mT  # (M, V, V)
    return (queries[:, None] * keys[:, orders[:, :, None], orders[:, None, :]]).sum((-2, -1)).clamp(min=0).sqrt()


def derangements(V: int, count: int, g: torch.Generator) -> Tensor:
    """Random orders of the variables that leave none in its place, (count, V)."""
    if V < 2:
        raise UserError(f"a run with {V} variable has no other to compare it with: expected at least 2")
    found: list[Tensor] = []
    while len(found) < count:
        order = torch.randperm(V, generator=g)
        if not (order == torch.arange(V)).any():
            found.append(order)
    return torch.stack(found)
