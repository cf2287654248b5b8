"""Two measures that tell the algorithms of modular addition apart (Zhong et al., 2023, "The Clock and the Pizza").

A pizza reads the sum of the two embeddings: gradients by the two operands agree, and the logit of the right answer
depends on n - m. A clock multiplies them: gradients differ, and the logit is the same at every distance.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from assignadd.model.stack import Stack
from assignadd.model.transformer import Transformer
from assignadd.task.roles import operand_slots

GRADIENT_SYMMETRICITY, DISTANCE_IRRELEVANCE = "gradient symmetricity", "distance irrelevance"


def gradient_symmetricity(one: Stack, tokens: Int[Tensor, "B T"], answers: Int[Tensor, " B"]) -> float:
    """The mean cosine between the gradients of an answer's logit by the embeddings of the two operands; 1 for a pizza.

    As many answers as sequences, chosen by the caller, right or wrong.
    """
    model = Transformer.from_stack(one, 0).requires_grad_(False)
    with torch.enable_grad():
        embedded = (model.embed.W_E[tokens] + model.pos_embed.W_pos).requires_grad_()
        logits = model.from_residual(embedded, last_only=True)[:, -1]
        (gradient,) = torch.autograd.grad(logits.gather(1, answers[:, None]).sum(), embedded)
    first, second = (gradient[:, slot] for slot in operand_slots(one.config.task))
    return float(torch.cosine_similarity(first, second, dim=-1).mean())


def distance_irrelevance(right: Float[Tensor, "N N"]) -> float:
    """The mean over d of the deviation of the right answer's logit over the pairs (n, n + d), in units of that over all
    pairs: 0 if the logit is a function of the distance d (pizza), 1 if the distance does not matter (clock)."""
    n = torch.arange(len(right), device=right.device)
    by_distance = right[n[:, None], (n[:, None] + n) % len(n)]  # (n, d)
    return float(by_distance.std(0, correction=0).mean() / right.std(correction=0))
