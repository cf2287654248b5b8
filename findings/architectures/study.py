"""Does the share of seeds that bind depend on the architecture and on the size of the task?"""

from typing import Any

from assignadd.study import PAPER, Cell, Study, mean, share


def width(d: int) -> dict[str, Any]:
    """Settings of another width, with an MLP four times as wide."""
    return {"model.d_model": d, "model.d_head": d, "model.d_mlp": (None, 4 * d)}


ARCHITECTURE = Study(
    "architecture",
    "The paper has one architecture. Does the share of seeds that learn to bind depend on it?",
    (
        Cell(PAPER),
        Cell("2 heads", {"model.n_heads": 2, "model.d_head": 64}),
        Cell("4 heads", {"model.n_heads": 4, "model.d_head": 32}),
        Cell("3 layers", {"model.n_layers": 3, "model.d_mlp": (None, None, 512)}),
        Cell("MLP in both layers", {"model.d_mlp": (512, 512)}),
        Cell("layer norm", {"model.norm": "layer"}),
        *(Cell(f"width {d}", width(d)) for d in (32, 64, 256)),
    ),
    seeds=16,
    numbers=("binding at",),
    ask=(share("binds").at_least(0.5), share("adds").at_least(0.8)),
)

PAPER_SIZE = "N = 59, V = 12, T = 16"
# As large a share of the variables is banned in each slot as in the paper, 2 of 12.
BANS = {6: ("a", "d"), 24: ("abcd", "mnop")}

TASK_SIZE = Study(
    "size",
    "How do the phases of training and the number of frequencies depend on the size of the task?",
    (
        Cell(PAPER_SIZE),
        *(Cell(f"N = {n}", {"task.modulus": n}) for n in (29, 113, 199)),
        *(
            Cell(f"V = {v}", {"task.n_vars": v, "task.banned_first": first, "task.banned_second": second})
            for v, (first, second) in BANS.items()
        ),
        *(Cell(f"T = {length}", {"task.length": length}) for length in (24, 32)),
    ),
    seeds=16,
    numbers=("addition at", "binding at", "refinement at", "frequencies"),
    ask=(
        share("adds").at_least(0.8),
        share("binds").at_least(0.5),
        mean("frequencies", among="adds").of("N = 199").versus(PAPER_SIZE, at_least=1),
        mean("frequencies", among="adds").of(PAPER_SIZE).versus("N = 29", at_least=1),
    ),
)

STUDIES = (ARCHITECTURE, TASK_SIZE)
