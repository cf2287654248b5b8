"""Claims of appendix B on the plateau of the routing measures between the first spike and the second."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assignadd.claims.evidence import Evidence
from assignadd.claims.record import AtLeast, Between, Claim, Measured
from assignadd.measures.progress import SEQUENCES, TRAINING_LAW

PATTERNS = {
    "attn_l1_equal_to_operands": "attention of `=` to the operands in layer 1",
    "attn_l2_equal_to_values": "attention of `=` to the values in layer 2",
}
# "between 80 % and 99 %"
PLATEAU = Between(0.8, 0.99)


def _during(e: Evidence) -> np.ndarray | None:
    """Which checkpoints lie from the end of the first spike to the start of the second; None without both or without a checkpoint."""
    first, second = e.phases.first_spike, e.phases.second_spike
    if not e.followed or first is None or second is None:
        return None
    steps = e.trajectory["step"]
    inside = (steps >= first.after) & (steps <= second.before)
    return inside if inside.any() else None


def _rate(e: Evidence, pattern: str, inside: np.ndarray, law: str = "") -> float:
    """The median over these checkpoints of the pattern's mean rate over sums with one and with two variables."""
    return float(np.median(np.mean([e.trajectory[f"{pattern} ({n}-var{law})"][inside] for n in (1, 2)], axis=0)))


def plateau(pattern: str) -> Callable[[Evidence], Measured | None]:
    def measure(e: Evidence) -> Measured | None:
        inside = _during(e) if len(e.types) > 2 else None
        # The same sequences at every checkpoint, so that their number is what counts.
        return (
            None
            if inside is None
            else Measured.share(_rate(e, pattern, inside) * 2 * SEQUENCES, 2 * SEQUENCES, "sequences")
        )

    return measure


def identity(e: Evidence) -> Measured | None:
    inside = _during(e)
    if inside is None:
        return None
    return Measured.exactly(
        float(np.median(e.trajectory["qk2_ov1_var_identity"][inside])), e.config.task.n_vars, "variables"
    )


def of_banned_slots(e: Evidence) -> Measured | None:
    """Of what layer 2 misses on the plateau, at least what share is missed in sequences that training could not show.

    At least, because the rate of misses in the training law is taken for all sequences, not only for those it applies to.
    """
    inside = _during(e) if len(e.types) > 2 else None
    if inside is None:
        return None
    pattern = "attn_l2_equal_to_values"
    missed, in_training = (1 - _rate(e, pattern, inside, law) for law in ("", f", {TRAINING_LAW}"))
    n = round(missed * 2 * SEQUENCES)
    return Measured.share(max(0.0, 1 - in_training / missed) * n, n, "missed sequences") if n else None


ROUTING_PLATEAU = (
    *(
        Claim(
            f"routing-plateau-{pattern.replace('_', '-')}", "progress_measures",
            f"Between the two spikes the measures of routing stay between 80 and 99 %: {words}.",
            "80 % to 99 %", plateau(pattern), PLATEAU, comment="Median over the checkpoints; any pair of numbers, any slots.",
        )
        for pattern, words in PATTERNS.items()
    ),
    Claim(
        "routing-plateau-qk2-identity", "progress_measures",
        "Between the two spikes the measures of routing stay between 80 and 99 %: variables that match themselves under QK2.",
        "80 % to 99 %", identity, PLATEAU, comment="Median over the checkpoints.",
    ),
    Claim(
        "routing-plateau-due-to-banned-slots", "progress_measures",
        "Layer 2's plateau is due to sequences that training never shows: most of what it misses is theirs.",
        "not yet able to route b", of_banned_slots, AtLeast(0.5),
    ),
)  # fmt: skip
