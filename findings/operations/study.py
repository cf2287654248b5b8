"""Do networks bind as readily with other operations than addition?"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from assignadd.figure import share_map
from assignadd.study import Cell, Study, StudyTable, mean, share

# A dihedral group has an even order: the nearest to 59.
OPERATIONS: dict[str, dict[str, Any]] = {
    "add": {},
    "subtract": {"task.operation": "subtract"},
    "multiply": {"task.operation": "multiply"},
    "2 x + 3 y": {"task.operation": "affine 2 3"},
    "dihedral group": {"task.operation": "dihedral", "task.modulus": 58},
}
FRACTIONS = (0.3, 0.5, 0.7, 0.9)


def label(operation: str, fraction: float = 0.7) -> str:
    """The label of a cell; the paper's share of pairs in training is 0.7."""
    return f"{operation}, f = {fraction:g}"


STUDY = Study(
    "operations",
    "Does binding depend on the operation, which share of the pairs does each need, and do held-out doubles fail where "
    "the operation is not symmetric?",
    tuple(
        Cell(label(name, f), settings | ({} if f == 0.7 else {"task.seen_fraction": f}))
        for name, settings in OPERATIONS.items()
        for f in FRACTIONS
    ),
    seeds=32,
    numbers=("binding at", "doubles minus others"),
    ask=(
        share("binds").of(*map(label, OPERATIONS)).at_least(0.5),
        share("adds").at_least(0.8),
        mean("doubles minus others", among="binds").of(*map(label, OPERATIONS)).at_most(-0.1),
    ),
)

SIZE = (7.0, 2.6)


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """The number of networks, by operation and share of pairs in training, that answer held-out literals and that
    bind."""
    table = tables["operations"]
    titles = {"adds": "answer held-out pairs of literals", "binds": "bind variables"}
    for axes, (outcome, title) in zip(figure.subplots(1, 2, sharey=True), titles.items(), strict=True):
        cells = [table.values(cell.label, outcome) for cell in table.study.cells]
        shares = np.array([values.mean() for values in cells]).reshape(len(OPERATIONS), len(FRACTIONS))
        share_map(axes, shares, [f"{values.sum():.0f} of {len(values)}" for values in cells])
        axes.set_xticks(range(len(FRACTIONS)), [f"{f:g}" for f in FRACTIONS])
        axes.set_yticks(range(len(OPERATIONS)), list(OPERATIONS))
        axes.set(title=title, xlabel="share f of the pairs in training")
