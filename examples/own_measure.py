"""A measure, a claim and a figure of your own: python examples/own_measure.py trains four models and shows them.

The commands take the same file:
    assignadd train --preset smoke --seeds 0..3 --observe examples/own_measure.py:qk2_ov1_var_rank -o run
    assignadd report run --with examples/own_measure.py -o report
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from assignadd import PRESETS, metrics, train
from assignadd.figure import COLORS, FigureData, FigureRecord, Sources
from assignadd.ledger import AtMost, Claim, Measured, Network, judge, networks_of
from assignadd.model import OV, QK, Stack


def qk2_ov1_var_rank(stack: Stack) -> Tensor:  # (M,)
    """Mean rank of variable v among all u by the score (e_v OV1) QK2 (e_u OV1)^T, from 1."""
    x = stack.W_E[:, -stack.config.task.n_vars :] @ OV(stack, 1)
    scores = x @ QK(stack, 2) @ x.mT  # (M, V, V)
    return 1 + (scores > scores.diagonal(dim1=1, dim2=2)[..., None]).float().sum(-1).mean(-1)


def rank(network: Network) -> Measured:
    """The rank in one network; it samples nothing, so it is exact."""
    return Measured.exactly(qk2_ov1_var_rank(network.stack).item(), network.config.task.n_vars, "variables")


CLAIMS = (Claim.ours("rank-falls", "A variable is its own first or second match.", rank, AtMost(2), if_binding=False),)


@dataclass(frozen=True)
class Ranks(FigureData):
    seeds: list[str]
    ranks: np.ndarray


def ranks(sources: Sources) -> Ranks:
    seeds = [f"seed {network.seed}" for network in sources.models]
    return Ranks(seeds, np.array([rank(network).value for network in sources.models]))


def draw(data: Ranks, made: Figure) -> None:
    made.add_subplot(ylabel="mean rank").bar(data.seeds, data.ranks, color=COLORS.blue)


FIGURES = (FigureRecord("ranks", "A variable's rank", "1 if each variable finds itself first.", ranks, draw, 2.0),)

if __name__ == "__main__":
    folder = Path(mkdtemp())
    run = train(PRESETS["smoke"], range(4), folder / "run", observe=qk2_ov1_var_rank)
    print(metrics(run).select("step", "seed", "loss", "qk2_ov1_var_rank").tail(4))
    networks = networks_of(run, n=100)[0]
    print(CLAIMS[0].claim, judge(CLAIMS[0], networks, "in examples/own_measure.py").verdict)
    FIGURES[0].save(ranks(Sources(networks)), folder / "ranks")
