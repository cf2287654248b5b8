"""What a training curve says: whether and when a skill was learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BINDING_SET = "1-var train"
# Between the plateau before the first spike (.75 in the paper's run) and the one after it (.99).
BINDING_THRESHOLD = 0.95


def learned_binding(row: Mapping[str, Any]) -> bool:
    """Whether a model looks variables up: at least 95 % on one-variable sequences of the training law."""
    return row["accuracy"].get(BINDING_SET, 0.0) >= BINDING_THRESHOLD
