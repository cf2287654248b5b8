"""Study `operations`: does binding depend on what is done with the two numbers, and which pairs does it need?"""

from __future__ import annotations

from typing import Any

from assignadd.studies.study import Cell, Hypothesis, Study, slug, study_base
from assignadd.verdicts import AtLeast, AtMost

# A dihedral group has an even order: the nearest to 59.
OPERATIONS: dict[str, dict[str, Any]] = {
    "add": {},
    "subtract": {"task.operation": "subtract"},
    "multiply": {"task.operation": "multiply"},
    "2 x + 3 y": {"task.operation": "affine 2 3"},
    "dihedral group": {"task.operation": "dihedral", "task.modulus": 58},
}
FRACTIONS = (0.3, 0.5, 0.7, 0.9)
OF_THE_PAPER = 0.7


def label(operation: str, fraction: float) -> str:
    """The name of a cell, such as "add, f = 0.7"."""
    return f"{operation}, f = {fraction:g}"


CELLS = tuple(
    Cell(label(name, f), settings | ({} if f == OF_THE_PAPER else {"task.seen_fraction": f}))
    for name, settings in OPERATIONS.items()
    for f in FRACTIONS
)


OPERATIONS_STUDY = Study(
    name="operations",
    title="Other operations",
    question=(
        "Does binding depend on the operation, which share of the pairs does each need, and do held-out doubles fail "
        "where the operation is not symmetric?"
    ),
    method=(
        "The paper's network and task with another operation on the two numbers: subtraction, multiplication, "
        "2 x + 3 y modulo 59, and the product of the dihedral group of order 58 (not commutative). For each, four "
        "shares f of the pairs are in training. Doubles (n, n) are compared with pairs held out in both orders, both "
        "of literals; all doubles of subtraction have the answer 0, and those of the dihedral group are half "
        "reflections, with the answer 0, and half additions modulo 29."
    ),
    base=study_base(steps=15_000),
    cells=CELLS,
    seeds=32,
    outcomes=("adds", "binds", "refines"),
    numbers=("binding at", "doubles minus others"),
    hypotheses=(
        *(
            Hypothesis(
                f"study-operations-binds-{slug(name)}",
                f"With {name} at f = 0.7, at least half of the seeds bind by the end of training.",
                "binds", label(name, OF_THE_PAPER), AtLeast(0.5),
            )
            for name in OPERATIONS
        ),
        *(
            Hypothesis(
                f"study-operations-generalises-{slug(name)}-{f:g}",
                f"With {name} at f = {f:g}, at least 80 % of the seeds answer held-out pairs of literals (90 %).",
                "adds", label(name, f), AtLeast(0.8),
            )
            for name in OPERATIONS for f in FRACTIONS
        ),
        *(
            Hypothesis(
                f"study-operations-doubles-{slug(name)}",
                f"With {name} at f = 0.7, networks that bind answer held-out doubles (n, n) less often than literal "
                "pairs held out in both orders, by at least .1 on average.",
                "doubles minus others", label(name, OF_THE_PAPER), AtMost(-0.1), among="binds",
            )
            for name in OPERATIONS
        ),
    ),
)  # fmt: skip
