"""A study that trains in a second or two."""

from __future__ import annotations

from dataclasses import replace

from assignadd.config import PRESETS, Optim
from assignadd.study import BASE as PAPER_BASE
from assignadd.study import Cell, Study, mean, share

BASE = replace(
    PRESETS["smoke"],
    optim=Optim(batch=16, steps=40),
    record=replace(PAPER_BASE.record, eval_every=20, eval_sequences=32, checkpoint_every=20, final_sequences=50),
)
SMALL = Study(
    name="small",
    question="Does it run?",
    base=BASE,
    steps=40,
    cells=(
        Cell("plain"),
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
    ask=(
        share("binds").of("plain").at_least(0.5),
        share("binds").of("2 heads").versus("plain", at_most=0.9),
        mean("frequencies", among="binds").of("N = 5").at_least(1),
    ),
)
