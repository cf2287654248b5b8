"""Do comparisons between operations and widths that were found by looking hold with fresh seeds and 50,000 steps?"""

from functools import partial
from typing import Any

import numpy as np
from scipy.stats import fisher_exact

from assignadd.ledger import AtMost, Measured
from assignadd.study import PAPER, Cell, Computed, Study, StudyTable

OPERATIONS: dict[str, dict[str, Any]] = {
    "subtract": {"task.operation": "subtract"},
    "2 x + 3 y": {"task.operation": "affine 2 3"},
    "dihedral group": {"task.operation": "dihedral", "task.modulus": 58},
}
FRACTIONS = (0.7, 0.9)
NARROW, WIDE = "width 32", "width 256"
LEVEL = 0.05


def label(operation: str, fraction: float) -> str:
    """The name of a cell, such as "subtract, f = 0.9"."""
    return f"{operation}, f = {fraction:g}"


def width(d: int) -> dict[str, Any]:
    """Settings of another width, with an MLP four times as wide."""
    return {"model.d_model": d, "model.d_head": d, "model.d_mlp": (None, 4 * d)}


# The cell with fewer networks that have an outcome, the one with more, and the outcome.
COMPARISONS = (
    *((label(name, f), PAPER, "binds") for f in FRACTIONS for name in OPERATIONS),
    (NARROW, PAPER, "binds"),
    (PAPER, WIDE, "refines"),
)


def p_values(table: StudyTable) -> list[float] | None:
    """Fisher's one-sided p of every comparison, corrected by Holm's method; None where a cell has no network."""
    plain = []
    for fewer, more, outcome in COMPARISONS:
        found = [table.values(cell, outcome) for cell in (fewer, more)]
        if not all(len(values) for values in found):
            return None
        plain.append(fisher_exact([[v.sum(), len(v) - v.sum()] for v in found], alternative="less").pvalue)
    order, corrected = np.argsort(plain), np.empty(len(plain))
    by_rank = np.sort(plain) * np.arange(len(plain), 0, -1)  # the smallest p times the number of comparisons, and so on
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(by_rank))
    return corrected.tolist()


def p_value(place: int, table: StudyTable) -> Measured | None:
    """The corrected p of one comparison; its interval is the number itself."""
    corrected = p_values(table)
    if corrected is None:
        return None
    fewer, more, outcome = COMPARISONS[place]
    n = sum(len(table.values(cell, outcome)) for cell in (fewer, more))
    return Measured.exactly(corrected[place], n, "networks")


def statement(place: int) -> Computed:
    """Of one comparison: fewer networks of a cell have an outcome than of another."""
    fewer, more, outcome = COMPARISONS[place]
    words = {"binds": "bind", "refines": "use banned slots"}[outcome]
    says = f"Fewer networks {words} in the cell {fewer} than in {more}: Fisher's p after Holm is at most {LEVEL:g}."
    return Computed(f"comparison-{place + 1}", says, partial(p_value, place), AtMost(LEVEL))


STUDY = Study(
    "repeats",
    "Do comparisons that were found by looking hold with fresh seeds and 50,000 steps?",
    cells=(
        Cell(PAPER),
        *(
            Cell(label(name, f), settings | ({} if f == 0.7 else {"task.seen_fraction": f}))
            for name, settings in OPERATIONS.items()
            for f in FRACTIONS
        ),
        Cell(NARROW, width(32)),
        Cell(WIDE, width(256)),
    ),
    seeds=24,
    first_seed=26_000,
    steps=50_000,
    ask=tuple(map(statement, range(len(COMPARISONS)))),
)
