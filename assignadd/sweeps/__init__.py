"""Sweeps: many networks with many seeds and settings, their tables, and populations of the paper's network."""

from assignadd.sweeps.engine import run_sweep
from assignadd.sweeps.final_tests import final_exam
from assignadd.sweeps.population import Populations, SeedCurves, shipped_population
from assignadd.sweeps.settings import Sweep

__all__ = [
    "Populations",
    "SeedCurves",
    "Sweep",
    "final_exam",
    "run_sweep",
    "shipped_population",
]
