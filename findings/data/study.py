"""Networks that add, bind and use banned slots at 49 mixtures of training data: the share f of the pairs of numbers,
and the ratio r of two-variable to literal sequences."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import ttest_1samp

from assignadd.figure import share_map
from assignadd.ledger import AtLeast, Measured
from assignadd.study import Cell, Computed, Study, StudyTable

# Close together where earlier sweeps saw success rise: f about .28, r about .2.
FRACTIONS = (0.2, 0.25, 0.28, 0.31, 0.35, 0.5, 0.7)
RATIOS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 10 / 12)
PAPER = (0.7, 10 / 12)
Chosen = tuple[Sequence[float], Sequence[float]]
"""Some of the shares f and ratios r: all settings that combine them."""
MANY_PAIRS: Chosen = ((0.5, 0.7), RATIOS)
FEW_PAIRS: Chosen = (FRACTIONS[:-2], RATIOS)
MANY_TWO_VAR: Chosen = (FRACTIONS, RATIOS[-1:])
FEW_TWO_VAR: Chosen = (FRACTIONS, RATIOS[:1])


def label(fraction: float, ratio: float) -> str:
    """The name of a cell, such as "f = 0.7, r = 0.83"."""
    return f"f = {fraction:g}, r = {ratio:.2g}"


def by_seed(table: StudyTable, outcome: str, chosen: Chosen) -> np.ndarray:
    """For each seed, the share of its networks at the chosen settings that have an outcome."""
    cells = [table.cells[label(f, r)].sort("seed") for f, r in product(*chosen)]
    return np.mean([cell[outcome].to_numpy() for cell in cells], axis=0)


def gain(outcome: str, more: Chosen, fewer: Chosen, table: StudyTable) -> Measured | None:
    """The share with an outcome at some settings minus that at others: the mean over the seeds, which are the same at
    every setting, with Student's interval."""
    gains = by_seed(table, outcome, more) - by_seed(table, outcome, fewer)
    if len(gains) < 2:
        return None
    interval = ttest_1samp(gains, 0).confidence_interval()
    return Measured(float(gains.mean()), float(interval.low), float(interval.high), len(gains), "seeds")


STUDY = Study(
    name="data",
    question="How do the shares of networks that add, bind and use banned slots depend on the training data?",
    cells=tuple(
        Cell(label(f, r), {} if (f, r) == PAPER else {"task.seen_fraction": f, "task.two_var_ratio": r})
        for f, r in product(FRACTIONS, RATIOS)
    ),
    seeds=16,
    steps=12_000,
    numbers=("binding at",),
    ask=tuple(
        Computed(id, says, partial(gain, outcome, more, fewer), AtLeast(0))
        for id, says, outcome, more, fewer in (
            ("adding-by-pairs", "More networks add with f of at least .5 than with f of at most .35.",
             "adds", MANY_PAIRS, FEW_PAIRS),
            ("binding-by-pairs", "More networks bind with f of at least .5 than with f of at most .35.",
             "binds", MANY_PAIRS, FEW_PAIRS),
            ("binding-by-ratio", "More networks bind with r = .83 than with r = .05.",
             "binds", MANY_TWO_VAR, FEW_TWO_VAR),
        )
    ),
)  # fmt: skip

SIZE = (7.2, 3.0)
PANELS = ("answer held-out\npairs of literals", "bind variables", "use banned slots,\nof those that bind")


def counts(table: StudyTable) -> tuple[np.ndarray, np.ndarray]:
    """How many networks add, bind, and use banned slots among those that bind, and of how many: (3, 7, 7) each."""
    having, networks = (np.zeros((len(PANELS), len(FRACTIONS), len(RATIOS)), int) for _ in range(2))
    for (i, f), (j, r) in product(enumerate(FRACTIONS), enumerate(RATIOS)):
        frame = table.cells[label(f, r)]
        bound = frame.filter(frame["binds"])
        having[:, i, j] = frame["adds"].sum(), bound.height, bound["refines"].sum()
        networks[:, i, j] = frame.height, frame.height, bound.height
    return having, networks


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """A map for each skill: the number of networks that have it at every setting, coloured by their share."""
    panels = figure.subplots(1, len(PANELS), sharey=True)
    for panel, title, having, of in zip(panels, PANELS, *counts(tables[STUDY.name]), strict=True):
        share = np.divide(having, of, out=np.full(of.shape, np.nan), where=of > 0)
        differs = of.max() > of.min()
        panel.set_title(title if differs else f"{title}, of {of.max()}")
        panel.set_xticks(range(len(RATIOS)), [f"{r:.2g}" for r in RATIOS])
        panel.set_xlabel("two-variable sequences\nper literal one, r")
        words = [f"{n}/{m}" if differs else f"{n}" for n, m in zip(having.flat, of.flat, strict=True)]
        image = share_map(panel, share, [word if m else "" for word, m in zip(words, of.flat, strict=True)])
    panels[0].set_yticks(range(len(FRACTIONS)), [f"{f:g}" for f in FRACTIONS])
    panels[0].set_ylabel("share f of the pairs in training")
    figure.colorbar(image, ax=panels, label="share of networks", pad=0.02, aspect=30, fraction=0.05)
