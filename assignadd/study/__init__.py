"""Studies: cells of settings times seeds, and questions with rules that are stated beforehand."""

from assignadd.study.study import BASE, PAPER, Cell, Computed, Study, grid, mean, share
from assignadd.study.table import StudyTable
from assignadd.sweeps.final_tests import final_column

__all__ = [
    "BASE",
    "PAPER",
    "Cell",
    "Computed",
    "Study",
    "StudyTable",
    "final_column",
    "grid",
    "mean",
    "share",
]
