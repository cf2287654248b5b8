"""Progress measures of a whole stack at once, fast enough to be taken during a sweep (paper, App. B)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from assignadd.config import Config
from assignadd.measures.progress import TRAINING_LAW, Columns, circuit_columns
from assignadd.measures.routing import top_two_are
from assignadd.measures.sequences import any_sequences
from assignadd.measures.variables import SLOTS, variable_accuracy, variable_exam
from assignadd.model.forward import CHUNK, trace
from assignadd.model.stack import Stack
from assignadd.task.roles import as_in_training, operand_slots, roles

SEQUENCES = 256
PER_VARIABLE = 64


class StackProgress:
    """The measures on fixed sequences of every model's own split; names are those of `progress`."""

    def __init__(self, configs: Sequence[Config], seen: Bool[Tensor, "M N N"]):
        self.task = configs[0].task
        self.attention = AttentionRates(configs, seen, range(1, 1 + min(2, self.task.max_assignments)), SEQUENCES)
        self.exam = variable_exam(configs, seen, PER_VARIABLE)

    def __call__(self, stack: Stack) -> Columns:
        columns = circuit_columns(stack) | self.attention(stack)
        accuracy = variable_accuracy(stack, self.exam)
        for s, slot in enumerate(SLOTS):
            columns |= {f"accuracy {v} {slot}": accuracy[:, s, i] for i, v in enumerate(self.task.variables)}
        return columns


class AttentionRates:
    """The rates of the attention patterns of `routing`, for all models of a stack at once, on `n` sequences of each
    type."""

    def __init__(self, configs: Sequence[Config], seen: Bool[Tensor, "M N N"], types: Iterable[int], n: int):
        task = configs[0].task
        self.tokens = {n_vars: any_sequences(configs, seen, n_vars, n).tokens for n_vars in types}
        self.as_in_training = {n_vars: as_in_training(task, seen, tokens) for n_vars, tokens in self.tokens.items()}

    def __call__(self, stack: Stack) -> Columns:
        columns: Columns = {}
        for n_vars, tokens in self.tokens.items():
            parts = [routing_hits(stack, part) for part in tokens.split(CHUNK, 1)]
            for name in parts[0]:
                hits, out_of = (torch.cat([part[name][i] for part in parts], -1) for i in (0, 1))  # (M, n) each
                for law, rows in (("", torch.ones_like(hits)), (f", {TRAINING_LAW}", self.as_in_training[n_vars])):
                    columns[f"{name} ({n_vars}-var{law})"] = (hits * rows).sum(1) / (out_of * rows).sum(1)
        return columns


def routing_hits(
    stack: Stack, tokens: Int[Tensor, "#M B T"]
) -> dict[str, tuple[Int[Tensor, "M B"], Int[Tensor, "#M B"]]]:
    """The three patterns of `routing` for all models at once: in each sequence, how often one is there, and how often
    it could be."""
    task = stack.config.task
    found, role = trace(stack, tokens), roles(task, tokens)
    slots = torch.tensor(operand_slots(task), device=tokens.device)
    to_previous = found.attention_1.argmax(-1)[..., 1:] == torch.arange(task.length - 1, device=tokens.device)
    numbers = role.assigned[..., 1:]  # (M, B, T - 1)
    one = torch.ones_like(tokens[..., 0])
    return {
        "attn_l1_equal_to_operands": (top_two_are(found.attention_1[..., -1, :], slots).long(), one),
        "attn_l1_num_to_prev": ((to_previous & numbers).sum(-1), numbers.sum(-1)),
        "attn_l2_equal_to_values": (top_two_are(found.attention_2, role.value_positions).long(), one),
    }
