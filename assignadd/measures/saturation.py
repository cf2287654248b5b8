"""How many sequences have a gradient of exactly 0 at the right answer, because its probability rounds to 1.

Thilak et al. (2022) and Prieto et al. (2025) trace instabilities late in training to this limit of float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from assignadd.config import Config
from assignadd.measures.scores import qk2_ov1_var_identity, qk2_ov1_var_margin
from assignadd.model.forward import answer_logits
from assignadd.model.kernels.tensor import cross_entropy
from assignadd.model.stack import Stack
from assignadd.task.randomness import REFERENCE_STEP
from assignadd.task.sampler import Sampler

SEQUENCES = 512
SATURATED, SATURATED_OWN, LOSS = "saturated", "saturated in double precision", "reference loss"
QK2_IDENTITY, QK2_MARGIN = "qk2_ov1_var_identity", "qk2_ov1_var_margin"


class Saturation:
    """Measures of a stack on fixed sequences of each model's training distribution, and the paper's measure of QK2."""

    def __init__(self, configs: Sequence[Config], seen: Bool[Tensor, "M ..."], n: int = SEQUENCES):
        seeds = [c.seed.data or 0 for c in configs]
        self.batch = Sampler([c.task for c in configs], seen, seeds, device=seen.device).sample(REFERENCE_STEP, n)

    def __call__(self, stack: Stack) -> dict[str, Tensor]:
        """The share of saturated sequences in single and in double precision, the mean loss, and QK2's measures."""
        logits, labels = answer_logits(stack, self.batch.tokens), self.batch.labels
        return {
            SATURATED: _saturated(logits.float(), labels),
            SATURATED_OWN: _saturated(logits.double(), labels),
            LOSS: cross_entropy(logits.double(), labels)[0],
            QK2_IDENTITY: qk2_ov1_var_identity(stack),
            QK2_MARGIN: qk2_ov1_var_margin(stack).mean(1),
        }


def _saturated(logits: Tensor, labels: Tensor) -> Tensor:
    """The share of sequences (M,) whose gradient at the right answer is exactly 0 in the precision of the logits."""
    gradient = cross_entropy(logits, labels)[1].gather(-1, labels.unsqueeze(-1))
    return (gradient == 0).squeeze(-1).to(torch.float64).mean(-1)
