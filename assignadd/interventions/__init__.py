"""Interventions: networks with activations replaced, edges cut, attention set, or components swapped."""

from assignadd.interventions.apply import apply
from assignadd.interventions.specification import Cut, Pattern, Replace, Swap, read_specification

__all__ = ["Cut", "Pattern", "Replace", "Swap", "apply", "read_specification"]
