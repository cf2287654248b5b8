"""Training as curves: phases and spikes, and whether a network binds in the end."""

from assignadd.dynamics.of_network import binds
from assignadd.dynamics.phases import ADDITION, BINDING, Curves, find_phases

__all__ = ["ADDITION", "BINDING", "Curves", "binds", "find_phases"]
