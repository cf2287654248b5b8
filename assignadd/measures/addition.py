"""The isolated addition circuit W_U MLP2(OV2(a) + OV2(b)), without attention and residual (section 5.1; App. B)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Task
from assignadd.model.architecture import PAPER_NEEDS, needs
from assignadd.model.circuits import OV
from assignadd.model.stack import Stack
from assignadd.task.arithmetic import answer_of

# Neurons and logits of all pairs that a GPU has in memory at once, in numbers of 4 bytes.
MOST_AT_ONCE = 1 << 28


@needs(*PAPER_NEEDS)
def number_outputs(stack: Stack) -> Float[Tensor, "M N d"]:
    """OV2(e_n): what layer 2 adds to `=` if it attends only to the number n."""
    return stack.W_E[:, : stack.config.task.modulus] @ OV(stack, 2)


def number_preactivations(stack: Stack) -> Float[Tensor, "M N h"]:
    """OV2(e_n) W_in: what the number n alone gives to each neuron of MLP2."""
    return number_outputs(stack) @ stack["blocks.1.mlp.W_in"]


def mlp_readout(stack: Stack) -> Float[Tensor, "M h N"]:
    """W_out W_U: what each neuron of MLP2 adds to the logits."""
    return stack["blocks.1.mlp.W_out"] @ stack.W_U


def best_answers(preactivations: Float[Tensor, "*M N h"], readout: Float[Tensor, "*M h N"]) -> Int[Tensor, "*M N N"]:
    """The answer with the largest logit relu(x_a + x_b) `readout` for all pairs (a, b); x has a row for every number.

    x_a + x_b = x_b + x_a is computed once: with b = a + s mod N, for all a and s = 0..N/2.
    """
    x, N = preactivations, preactivations.shape[-2]
    shifts = N // 2 + 1
    shifted = torch.cat([x, x], -2).unfold(-2, N, 1)[..., :shifts, :, :].mT
    neurons = (x.unsqueeze(-3) + shifted).relu_()  # (..., shifts, N, h)
    best = (neurons.flatten(-3, -2) @ readout).max(-1).indices.unflatten(-1, (shifts, N))
    n = torch.arange(N, device=x.device)
    a, b = n.expand(shifts, N), torch.cat([n, n]).unfold(0, N, 1)[:shifts]
    answers = best.new_empty(*x.shape[:-2], N, N)
    answers[..., a, b] = answers[..., b, a] = best
    return answers


def pairs_added(
    task: Task, preactivations: Float[Tensor, "*M N h"], readout: Float[Tensor, "*M h N"]
) -> Bool[Tensor, "*M N N"]:
    """Whether the largest logit is at the answer (see `best_answers`), for all pairs of numbers."""
    n = torch.arange(task.modulus, device=preactivations.device)
    return best_answers(preactivations, readout) == answer_of(task, (n[:, None], n))


def ov2_mlp2_correct(stack: Stack) -> Bool[Tensor, "M N N"]:
    """Which of the N^2 pairs the circuit adds correctly."""
    x, readout, task = number_preactivations(stack), mlp_readout(stack), stack.config.task
    if stack.flat.device.type == "cpu":  # one model after the other stays in the caches
        return torch.stack([pairs_added(task, *own) for own in zip(x, readout, strict=True)])
    n = max(1, MOST_AT_ONCE // (task.modulus**2 // 2 * (x.shape[-1] + readout.shape[-1])))  # models at once
    return torch.cat([pairs_added(task, *own) for own in zip(x.split(n), readout.split(n), strict=True)])


def ov2_mlp2_accuracy(stack: Stack) -> Float[Tensor, " M"]:
    """Share of all pairs that the circuit adds correctly (99.94 % in the paper)."""
    return ov2_mlp2_correct(stack).float().mean((1, 2))


def wrong_pairs(stack: Stack) -> list[list[tuple[int, int]]]:
    """For each model, the pairs that the circuit adds wrongly."""
    return [[(n, m) for n, m in pairs.nonzero().tolist()] for pairs in ~ov2_mlp2_correct(stack)]
