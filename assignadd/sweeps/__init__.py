"""Sweeps: the exam of many networks at their end, and populations of the paper's network."""

from assignadd.sweeps.final_tests import final_exam
from assignadd.sweeps.population import Populations, SeedCurves, shipped_population

__all__ = ["Populations", "SeedCurves", "final_exam", "shipped_population"]
