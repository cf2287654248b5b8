"""Studies of other tasks and networks: does binding depend on architecture, sizes, operations, operands, hops?"""

from __future__ import annotations

from typing import Any

from assignadd.config import Model
from assignadd.studies.study import PAPER, Cell, Hypothesis, Study, slug, study_base
from assignadd.verdicts import AtLeast, AtMost


def _width(d: int) -> dict[str, Any]:
    return {"model.d_model": d, "model.d_head": d, "model.d_mlp": (None, 4 * d)}


ARCHITECTURES = (
    Cell(PAPER),
    Cell("2 heads", {"model.n_heads": 2, "model.d_head": 64}),
    Cell("4 heads", {"model.n_heads": 4, "model.d_head": 32}),
    Cell("3 layers", {"model.n_layers": 3, "model.d_mlp": (None, None, 512)}),
    Cell("MLP in both layers", {"model.d_mlp": (512, 512)}),
    Cell("layer norm", {"model.norm": "layer"}),
    Cell("width 32", _width(32)),
    Cell("width 64", _width(64)),
    Cell("width 256", _width(256)),
)


def _words(cell: Cell) -> str:
    return "the paper's architecture" if cell.label == PAPER else cell.label


ARCHITECTURE = Study(
    name="architecture",
    title="Binding in other architectures",
    question="The paper has one architecture. Does the share of seeds that learn to bind depend on it?",
    method=(
        "The paper's task. One thing about the network differs at a time: the number of heads (of width 128 / heads, "
        "so that the number of parameters stays), a third layer, an MLP after both layers, layer norm before every "
        "part, or the width (MLP four times as wide)."
    ),
    cells=ARCHITECTURES,
    seeds=16,
    numbers=("binding at",),
    hypotheses=(
        *(
            Hypothesis(
                f"study-architecture-binds-{slug(cell.label)}",
                f"With {_words(cell)}, at least half of the seeds bind by the end of training.",
                "binds", cell.label, AtLeast(0.5),
            )
            for cell in ARCHITECTURES
        ),
        *(
            Hypothesis(
                f"study-architecture-adds-{slug(cell.label)}",
                f"With {_words(cell)}, at least 80 % of the seeds learn to add held-out pairs of literals.",
                "adds", cell.label, AtLeast(0.8),
            )
            for cell in ARCHITECTURES
        ),
    ),
)  # fmt: skip


PAPER_SIZE = "N = 59, V = 12, T = 16"
# As large a share of the variables is banned in each slot as in the paper, 2 of 12.
BANS = {6: ("a", "d"), 24: ("abcd", "mnop")}
SIZES = (
    Cell(PAPER_SIZE),
    *(Cell(f"N = {n}", {"task.modulus": n}) for n in (29, 113, 199)),
    *(
        Cell(f"V = {v}", {"task.n_vars": v, "task.banned_first": first, "task.banned_second": second})
        for v, (first, second) in BANS.items()
    ),
    *(Cell(f"T = {length}", {"task.length": length}) for length in (24, 32)),
)


SIZE = Study(
    name="size",
    title="Numbers, variables and length",
    question="How do the phases of training and the number of frequencies depend on the size of the task?",
    method=(
        "The paper's network. One size of the task differs at a time: the numbers N, the variables V (with 2 of 12 "
        "banned from each slot throughout) or the length T (longer sequences have more padding, not more assignments)."
    ),
    cells=SIZES,
    seeds=16,
    numbers=("addition at", "binding at", "refinement at", "frequencies"),
    hypotheses=(
        *(
            Hypothesis(
                f"study-size-adds-{slug(cell.label)}",
                f"With {cell.label}, at least 80 % of the seeds learn to add held-out pairs of literals.",
                "adds", cell.label, AtLeast(0.8),
            )
            for cell in SIZES
        ),
        *(
            Hypothesis(
                f"study-size-binds-{slug(cell.label)}",
                f"With {cell.label}, at least half of the seeds bind by the end of training.",
                "binds", cell.label, AtLeast(0.5),
            )
            for cell in SIZES
        ),
        Hypothesis(
            "study-size-frequencies-199",
            "Networks that learn to add with N = 199 use more frequencies than those with N = 59, by at least one.",
            "frequencies", "N = 199", AtLeast(1), versus=PAPER_SIZE, among="adds",
        ),
        Hypothesis(
            "study-size-frequencies-29",
            "Networks that learn to add with N = 59 use more frequencies than those with N = 29, by at least one.",
            "frequencies", PAPER_SIZE, AtLeast(1), versus="N = 29", among="adds",
        ),
    ),
)  # fmt: skip


# A dihedral group has an even order: the nearest to 59.
OPERATIONS: dict[str, dict[str, Any]] = {
    "add": {},
    "subtract": {"task.operation": "subtract"},
    "multiply": {"task.operation": "multiply"},
    "2 x + 3 y": {"task.operation": "affine 2 3"},
    "dihedral group": {"task.operation": "dihedral", "task.modulus": 58},
}
FRACTIONS = (0.3, 0.5, 0.7, 0.9)
PAPER_FRACTION = 0.7


def operation_label(operation: str, fraction: float) -> str:
    """The name of a cell, such as "add, f = 0.7"."""
    return f"{operation}, f = {fraction:g}"


OPERATION_CELLS = tuple(
    Cell(operation_label(name, f), settings | ({} if f == PAPER_FRACTION else {"task.seen_fraction": f}))
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
    cells=OPERATION_CELLS,
    seeds=32,
    numbers=("binding at", "doubles minus others"),
    hypotheses=(
        *(
            Hypothesis(
                f"study-operations-binds-{slug(name)}",
                f"With {name} at f = 0.7, at least half of the seeds bind by the end of training.",
                "binds", operation_label(name, PAPER_FRACTION), AtLeast(0.5),
            )
            for name in OPERATIONS
        ),
        *(
            Hypothesis(
                f"study-operations-generalises-{slug(name)}-{f:g}",
                f"With {name} at f = {f:g}, at least 80 % of the seeds answer held-out pairs of literals (90 %).",
                "adds", operation_label(name, f), AtLeast(0.8),
            )
            for name in OPERATIONS for f in FRACTIONS
        ),
        *(
            Hypothesis(
                f"study-operations-doubles-{slug(name)}",
                f"With {name} at f = 0.7, networks that bind answer held-out doubles (n, n) less often than literal "
                "pairs held out in both orders, by at least .1 on average.",
                "doubles minus others", operation_label(name, PAPER_FRACTION), AtMost(-0.1), among="binds",
            )
            for name in OPERATIONS
        ),
    ),
)  # fmt: skip


TWO_OPERANDS = "2 operands"
OPERAND_CELLS = (
    Cell(TWO_OPERANDS),
    # The prefix stays 12 positions long; one operand has no second slot.
    Cell("1 operand", {"task.operands": 1, "task.length": 15}),
    Cell("3 operands", {"task.operands": 3, "task.length": 17}),
)

OPERANDS = Study(
    name="operands",
    title="One to three operands",
    question="Does the share of seeds that bind depend on the number of operands? One operand is lookup alone.",
    method=(
        "The paper's network, and its task with one, two or three numbers to add: `+ v =`, `+ v w =` and `+ u v w =` "
        "after twelve positions of assignments. A share of .7 of the numbers, pairs or triples is in training; the "
        "third slot has no banned variables. With one operand a held-out number is the answer of no training sequence. "
        "Networks with three operands that do not answer held-out triples have not learned the sums either, so their "
        "share that binds is not about binding alone."
    ),
    cells=OPERAND_CELLS,
    seeds=32,
    numbers=("addition at", "binding at", "refinement at"),
    hypotheses=(
        Hypothesis(
            "study-operands-one-binds",
            "With one operand, at least 80 % of the seeds bind.",
            "binds", "1 operand", AtLeast(0.8),
        ),
        Hypothesis(
            "study-operands-three-adds",
            "With three operands, at least 80 % of the seeds add held-out triples of literals.",
            "adds", "3 operands", AtLeast(0.8),
        ),
        Hypothesis(
            "study-operands-three-binds",
            "With three operands, at least half of the seeds bind by the end of training.",
            "binds", "3 operands", AtLeast(0.5),
        ),
    ),
)  # fmt: skip


HOPS, LAYERS = (0, 1, 2), (2, 3, 4)
# Half the paper's, to keep the cost of four layers at every position low; cells are compared with each other.
WIDTH = 64


def hops_label(hops: int, layers: int) -> str:
    """The name of a cell, such as "1 hop, 3 layers"."""
    return f"{hops} hop{'s' * (hops != 1)}, {layers} layers"


def _hops_settings(hops: int, layers: int) -> dict[str, Any]:
    task = {"task.hops": hops} if hops else {}
    deeper = {"model.n_layers": layers, "model.d_mlp": (*[None] * (layers - 1), 4 * WIDTH)} if layers != 2 else {}
    return task | deeper


HOP_CELLS = tuple(Cell(hops_label(hops, layers), _hops_settings(hops, layers)) for layers in LAYERS for hops in HOPS)

HOPS_STUDY = Study(
    name="hops",
    title="Chains of assignments",
    question="What depth does a chain of assignments such as `c=5, b=c, b+3=?` need, and do seeds learn to follow it?",
    method=(
        "The paper's task, in which a variable may be assigned another variable: every variable of the sum is 0 to h "
        "links away from its number. The network is the paper's at half its width with two, three or four layers; the "
        "MLP comes after the last."
    ),
    base=study_base(steps=15_000, model=Model(d_model=WIDTH, d_head=WIDTH, d_mlp=(None, 4 * WIDTH))),
    cells=HOP_CELLS,
    seeds=16,
    outcomes=("adds", "binds", "follows 1 link", "follows 2 links"),
    numbers=("binding at",),
    hypotheses=(
        Hypothesis(
            "study-hops-two-layers",
            "With two layers, at most a fifth of the seeds follow one link.",
            "follows 1 link", hops_label(1, 2), AtMost(0.2),
        ),
        *(
            Hypothesis(
                f"study-hops-{hops}-in-{layers}",
                f"With {layers} layers, at least half of the seeds follow chains of {links}.",
                f"follows {links}", hops_label(hops, layers), AtLeast(0.5),
            )
            for hops, links in ((1, "1 link"), (2, "2 links")) for layers in (3, 4)
        ),
    ),
)  # fmt: skip
