"""Training as curves: phases and spikes, and whether a network binds in the end."""

from assignadd.dynamics.phases import ADDITION, BINDING, Curves
from assignadd.dynamics.trajectory import binds

__all__ = ["ADDITION", "BINDING", "Curves", "binds"]
