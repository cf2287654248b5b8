"""Claims on paths (ours): which connections between components the answer needs, and how few of them suffice.

Circuits of paths are judged by CPR and CMD, as the MIB benchmark defines them (see `interventions.path_circuits`).
"""

from __future__ import annotations

import numpy as np

from assignadd.claims.evidence import Evidence
from assignadd.claims.measured import Measured, highest, lowest, paired_difference, paired_share, ratio_of_means
from assignadd.claims.record import IMPLIED, NOT_REPORTED, OURS, Claim, Measure
from assignadd.interventions.path_circuits import AT_RANDOM, BY_EFFECT, BY_SIZE, PROPORTIONS
from assignadd.interventions.paths import LAYER_1, MLP2, PAPER_PATHS
from assignadd.stats import Z_95
from assignadd.verdicts import AtLeast, AtMost

UNIT = "sequences"


def outside_paper_paths(e: Evidence) -> Measured | None:
    """The largest effect of a path that the paper does not describe, on the accuracy of sums with one variable."""
    found = e.causal.path_answers[1]
    others = [correct for path, correct in found.patched.items() if path not in PAPER_PATHS]
    return highest(paired_difference(found.whole.numpy(), c.numpy(), UNIT) for c in others)


def largest_outside(e: Evidence) -> str:
    """The path with the largest effect that the paper does not describe, in words."""
    effects = {path: effect for path, effect in e.causal.paths[1].items() if path not in PAPER_PATHS}
    path = max(effects, key=lambda p: effects[p])
    receiver = f"{path.receiver} at {path.at}" if path.receiver == LAYER_1 else path.receiver
    return f"the largest effect is that of {path.sender} at {path.role} on {receiver}, {effects[path]:.3f}"


def only_paper_paths(e: Evidence) -> Measured | None:
    """Accuracy on sums with one variable with all other paths replaced at once, divided by the network's own."""
    found = e.causal.path_answers[1]
    return paired_share(found.paper_only.numpy(), found.whole.numpy(), UNIT)


def direct_share(e: Evidence) -> Measured | None:
    """The share of the correct answer's logit that MLP2 itself adds, in the type of sequence with the lowest share."""
    by_type = [{name: x.double().numpy() for name, x in parts.items()} for parts in e.causal.direct_parts.values()]
    return lowest(ratio_of_means(parts[MLP2], np.sum(list(parts.values()), 0), UNIT) for parts in by_type)


def performance_ratio(ranking: str) -> Measure:
    """CPR of a ranking; None if all paths together add nothing to the margin, and nothing can be divided by it."""

    def measure(e: Evidence) -> Measured | None:
        curve = e.causal.path_circuits[ranking]
        return ratio_of_means(curve.performance, curve.gain, UNIT) if _matters(curve.gain) else None

    return measure


def model_distance(e: Evidence) -> Measured | None:
    """CMD of the ranking by absolute effect; None as in `performance_ratio`."""
    curve = e.causal.path_circuits[BY_SIZE]
    return ratio_of_means(curve.distance, curve.gain, UNIT) if _matters(curve.gain) else None


def _matters(gain: np.ndarray) -> bool:
    """Whether the mean is above zero by more than its 95 % interval."""
    return bool(gain.mean() > Z_95 * gain.std() / np.sqrt(len(gain)))


def curve_in_words(e: Evidence) -> str:
    """The faithfulness of the circuits of a twentieth, a tenth, a fifth and a half of the paths."""
    curve, shown = e.causal.path_circuits[BY_EFFECT], (0.05, 0.1, 0.2, 0.5)
    by_size = dict(zip(PROPORTIONS, curve.faithfulness, strict=True))
    said = ", ".join(f"{by_size[k]:.2f} with {100 * k:g} %" for k in shown)
    return f"of {len(e.causal.path_answers[1].patched)} paths, the faithfulness is {said}"


ONE_VARIABLE = "On sums with one variable"
MIB = (
    "As the MIB benchmark defines it (Mueller et al., 2025): paths are ranked by the margin lost when each is "
    "replaced alone on one half of the sequences, and judged on the other half"
)

PATHS = (
    Claim("paths-story", OURS,
          f"{ONE_VARIABLE}, no path that the paper does not describe changes the accuracy by more than 0.1.",
          NOT_REPORTED, outside_paper_paths, AtMost(0.1),
          "Each path is replaced by its mean over tokens of the same role.", detail=largest_outside),
    Claim("paths-paper-only", OURS,
          f"{ONE_VARIABLE}, the paths that the paper describes have at least 90 % of the network's accuracy if all "
          "others are replaced at once.",
          NOT_REPORTED, only_paper_paths, AtLeast(0.9), "Layer 1's attention pattern is the network's own."),
    Claim("paths-cpr", OURS,
          f"{ONE_VARIABLE}, the circuits of the paths with the largest effects have a CPR of at least 0.8.",
          NOT_REPORTED, performance_ratio(BY_EFFECT), AtLeast(0.8),
          f"{MIB}. A ranking has at least this CPR if its first fifth of the paths does all of the work.",
          detail=curve_in_words),
    Claim("paths-cmd", OURS,
          f"{ONE_VARIABLE}, the circuits of the paths with the largest absolute effects have a CMD of at most 0.2.",
          NOT_REPORTED, model_distance, AtMost(0.2), f"{MIB}."),
    Claim("paths-cpr-random", OURS,
          f"Control: {ONE_VARIABLE[0].lower()}{ONE_VARIABLE[1:]}, circuits of paths in random order have a CPR of at "
          "most 0.5.",
          NOT_REPORTED, performance_ratio(AT_RANDOM), AtMost(0.5), "The value is the mean of five random orders."),
    Claim("paths-direct", OURS, "MLP2 writes at least 95 % of the correct answer's logit directly.",
          IMPLIED, direct_share, AtLeast(0.95), "The value is that of the type of sequence with the lowest share."),
)  # fmt: skip
