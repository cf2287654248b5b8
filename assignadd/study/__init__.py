"""Studies: cells of settings times seeds, and questions with rules that are stated beforehand."""

from assignadd.study.ask import Computed, mean, share, slug
from assignadd.study.files import read_study, studies_in
from assignadd.study.statements import study_records
from assignadd.study.study import BASE, PAPER, RECORD, Cell, Study, grid
from assignadd.study.table import StudyTable, early_column
from assignadd.sweeps.final_tests import final_column

__all__ = [
    "BASE",
    "PAPER",
    "RECORD",
    "Cell",
    "Computed",
    "Study",
    "StudyTable",
    "early_column",
    "final_column",
    "grid",
    "mean",
    "read_study",
    "share",
    "slug",
    "studies_in",
    "study_records",
]
