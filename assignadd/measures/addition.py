"""The isolated addition circuit W_U MLP2(OV2(a) + OV2(b)), without attention and residual (section 5.1; App. B)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from assignadd.model.architecture import PAPER_NEEDS, needs
from assignadd.model.circuits import OV
from assignadd.model.stack import Stack, single_models
from assignadd.task.arithmetic import answer_of


@needs(*PAPER_NEEDS)
def number_outputs(stack: Stack) -> Float[Tensor, "M N d"]:
    """OV2(e_n): what layer 2 adds to `=` if it attends only to the number n."""
    return stack.W_E[:, : stack.config.task.modulus] @ OV(stack, 2)


def pair_logits(one: Stack, numbers: Float[Tensor, "N d"], first: Tensor, second: Tensor) -> Float[Tensor, "P N"]:
    """Logits W_U MLP2(x_a + x_b) for P pairs (a, b), where x has a vector for every number; for a stack of one model.

    Plain products are faster than batched ones on a CPU.
    """
    x = numbers @ one["blocks.1.mlp.W_in"][0]  # (N, h)
    neurons = x.index_select(0, first).add_(x.index_select(0, second)).relu_()  # (P, h)
    return neurons @ (one["blocks.1.mlp.W_out"][0] @ one.W_U[0])


def pairs_added(one: Stack, numbers: Float[Tensor, "N d"]) -> Bool[Tensor, "N N"]:
    """Whether W_U MLP2(x_a + x_b) is largest at a + b; pairs (a, b) and (b, a) are computed once."""
    N = len(numbers)
    first, second = torch.triu_indices(N, N, device=numbers.device)
    right = pair_logits(one, numbers, first, second).argmax(-1) == answer_of(first, second, N)
    is_added = right.new_zeros(N, N)
    is_added[first, second] = is_added[second, first] = right
    return is_added


def ov2_mlp2_correct(stack: Stack) -> Bool[Tensor, "M N N"]:
    """Which of the N^2 pairs the circuit adds correctly."""
    return torch.stack([pairs_added(one, number_outputs(one)[0]) for one in single_models(stack)])


def ov2_mlp2_accuracy(stack: Stack) -> Float[Tensor, " M"]:
    """Share of all pairs that the circuit adds correctly (99.94 % in the paper)."""
    return ov2_mlp2_correct(stack).float().mean((1, 2))


def wrong_pairs(stack: Stack) -> list[list[tuple[int, int]]]:
    """For each model, the pairs that the circuit adds wrongly."""
    return [[(n, m) for n, m in pairs.nonzero().tolist()] for pairs in ~ov2_mlp2_correct(stack)]
