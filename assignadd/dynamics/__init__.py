"""Training as curves: when a skill comes to last, phases and spikes."""

from assignadd.dynamics.curves import bursts, fast_rises, onset
from assignadd.dynamics.of_network import binds, curves_of
from assignadd.dynamics.phases import (
    ADDITION_SET,
    ADDITION_THRESHOLD,
    BINDING_SET,
    BINDING_SETS,
    BINDING_THRESHOLD,
    THRESHOLD,
    Curves,
    find_phases,
)

__all__ = [
    "ADDITION_SET",
    "ADDITION_THRESHOLD",
    "BINDING_SET",
    "BINDING_SETS",
    "BINDING_THRESHOLD",
    "THRESHOLD",
    "Curves",
    "binds",
    "bursts",
    "curves_of",
    "fast_rises",
    "find_phases",
    "onset",
]
