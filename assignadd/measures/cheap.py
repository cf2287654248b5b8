"""The progress measures that are cheap enough to take while a whole stack trains (paper, App. B), without a loop over models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assignadd.config import Config
from assignadd.measures.progress import Columns, circuit_columns
from assignadd.measures.samples import sequences
from assignadd.measures.variables import SLOTS, variable_accuracy, variable_exam
from assignadd.model.forward import trace
from assignadd.model.stack import Stack
from assignadd.task.roles import operand_slots, roles

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

SEQUENCES = 256
PER_VARIABLE = 64


class CheapProgress:
    """The measures on fixed sequences of every model's own split; names are those of `progress`."""

    def __init__(self, configs: Sequence[Config], seen: Bool[Tensor, "M N N"]):
        self.task = configs[0].task
        types = range(1, 1 + min(2, self.task.max_assignments))
        self.tokens = {n_vars: sequences(configs, seen, n_vars, SEQUENCES).tokens for n_vars in types}
        self.exam = variable_exam(configs, seen, PER_VARIABLE)

    def __call__(self, stack: Stack) -> Columns:
        columns = circuit_columns(stack)
        for n_vars, tokens in self.tokens.items():
            columns |= {f"{name} ({n_vars}-var)": values for name, values in routing_rates(stack, tokens).items()}
        accuracy = variable_accuracy(stack, self.exam)
        for s, slot in enumerate(SLOTS):
            columns |= {f"accuracy {v} {slot}": accuracy[:, s, i] for i, v in enumerate(self.task.variables)}
        return columns


def routing_rates(stack: Stack, tokens: Int[Tensor, "M T B"]) -> dict[str, Float[Tensor, " M"]]:
    """The three rates of `routing` for all models at once."""
    task = stack.config.task
    found, role = trace(stack, tokens), roles(task, tokens)
    slots = torch.tensor(operand_slots(task), device=tokens.device).view(1, 2, 1).expand(len(tokens), 2, tokens.shape[-1])
    to_previous = found.attention_1.argmax(2)[:, 1:] == torch.arange(task.length - 1, device=tokens.device)[:, None]
    numbers = role.assigned[:, 1:]  # (M, T - 1, B)
    return {
        "attn_l1_equal_to_operands": _top_two_are(found.attention_1[:, -1], slots),
        "attn_l1_num_to_prev": (to_previous & numbers).sum((1, 2)) / numbers.sum((1, 2)),
        "attn_l2_equal_to_values": _top_two_are(found.attention_2, role.value_positions),
    }


def _top_two_are(attention: Tensor, positions: Tensor) -> Tensor:
    """Share of sequences in which the two keys with the most attention (M, T, B) are these positions (M, 2, B)."""
    top = attention.topk(2, 1).indices.sort(1).values
    return (top == positions.sort(1).values).all(1).float().mean(1)
