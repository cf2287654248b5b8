"""A study that trains in a second or two."""

from __future__ import annotations

from dataclasses import replace

from assignadd.config import PRESETS, Optim
from assignadd.studies.study import RECORD, Cell, Hypothesis, Study
from assignadd.verdicts import AtLeast, AtMost

BASE = replace(
    PRESETS["smoke"],
    optim=Optim(batch=16, steps=40),
    record=replace(RECORD, eval_every=20, eval_sequences=32, checkpoint_every=20, final_sequences=50),
)
SMALL = Study(
    name="small",
    title="A small study",
    question="Does it run?",
    method="Nothing is learned.",
    base=BASE,
    cells=(
        Cell("as it is"),
        Cell("2 heads", {"model.n_heads": 2, "model.d_head": 8}),
        Cell("N = 5", {"task.modulus": 5, "optim.lr": 2e-3}),
        Cell("1 operand", {"task.operands": 1, "task.length": 7}),
        Cell("3 operands", {"task.operands": 3, "task.n_vars": 6, "task.max_assignments": 3, "task.length": 11}),
        Cell("1 hop", {"task.hops": 1}),
        Cell("dihedral", {"task.operation": "dihedral", "task.modulus": 6}),
        Cell("too fast", {"optim.lr": 10.0, "optim.weight_decay": 100.0}),
    ),
    seeds=2,
    outcomes=("binds", "adds", "refines"),
    numbers=("binding at", "frequencies", "doubles minus others"),
    hypotheses=(
        Hypothesis("small-binds", "Half of the models bind.", "binds", "as it is", AtLeast(0.5)),
        Hypothesis("small-same", "No more with 2 heads.", "binds", "2 heads", AtMost(0.9), versus="as it is"),
        Hypothesis("small-of-none", "Among none.", "frequencies", "N = 5", AtLeast(1), among="binds"),
    ),
)
