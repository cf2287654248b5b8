"""Study `fate`: which source of randomness decides whether a network binds, and how early can that be predicted?

The fate of a network is whether it binds.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product

import numpy as np
from scipy.stats import norm

from assignadd.ledger import AtLeast, AtMost, Measured
from assignadd.study import BASE, Cell, Computed, Study, StudyTable

SOURCES = {"seed.init": "initialisation", "seed.data": "order of the data", "seed.split": "split"}
LEVELS = REPEATS = 8
FACTORIAL, REPEATED = "8 x 8 x 8", "repeated"
# The least area under the ROC curve that is asked of a prediction from the measures at each step.
LEAST_AUC = {500: 0.7, 1000: 0.8, 2000: 0.9}
# What is known of a network at those steps: accuracies and measures that need no knowledge of its fate.
KNOWN = (
    "loss", "0-var train", "0-var add-restricted", "1-var train", "2-var train", "ov2_mlp2_accuracy",
    "qk1_num_to_prev_var", "qk2_ov1_var_identity", "qk2_ov1_var_margin", "attn_l1_num_to_prev (1-var)",
    "attn_l1_equal_to_operands (1-var)", "attn_l2_equal_to_values (1-var)",
)  # fmt: skip
# Levels of each source that are predicted together, from networks that have none of them.
BLOCK = 2
RIDGE = 1.0
BOUND = 0.95


def fates(table: StudyTable) -> np.ndarray:
    """Whether each combination of initialisation, data and split binds, as an array with an axis for each."""
    frame = table.cells[FACTORIAL].sort(list(SOURCES))
    sizes = [frame[source].n_unique() for source in SOURCES]
    if frame.height != np.prod(sizes):
        return np.empty((0, 0, 0))  # some combinations were not trained
    return frame["binds"].to_numpy().astype(float).reshape(sizes)


def components(y: np.ndarray) -> dict[tuple[int, ...], float]:
    """The variance components of a crossed design with one value a combination, by the axes of each effect.

    Unbiased under random effects, from mean squares; a component may come out negative. That of all axes together
    includes the variance between repeats.
    """
    axes = range(y.ndim)
    effects = [group for n in range(1, y.ndim + 1) for group in combinations(axes, n)]
    squares = {group: _mean_square(y, group) for group in effects}
    found = {}
    for group in effects:
        above = [other for other in effects if set(group) <= set(other)]
        signed = sum((-1) ** (len(other) - len(group)) * squares[other] for other in above)
        found[group] = signed / np.prod([y.shape[i] for i in axes if i not in group])
    return found


def _mean_square(y: np.ndarray, group: tuple[int, ...]) -> float:
    """The mean square of an effect: of means over the other axes, minus all effects of fewer axes."""
    effect = y.mean(tuple(i for i in range(y.ndim) if i not in group), keepdims=True)
    for i in group:
        effect = effect - effect.mean(i, keepdims=True)
    others = np.prod([y.shape[i] for i in range(y.ndim) if i not in group])
    return float(others * (effect**2).sum() / np.prod([y.shape[i] - 1 for i in group]))


def shares(y: np.ndarray) -> dict[tuple[int, ...], float]:
    """The variance components over their sum."""
    found = components(y)
    total = sum(found.values())
    return {group: value / total for group, value in found.items()} if total > 0 else dict.fromkeys(found, np.nan)


def jackknife(y: np.ndarray, number: Callable[[np.ndarray], float]) -> Measured | None:
    """A number of an array with its 95 % interval, from leaving out one level after the other of each axis.

    With eight levels on each of three axes it covers the truth in 90 to 93 % of simulated designs of zeros and ones.
    """
    value, variance = number(y), 0.0
    for axis, n in enumerate(y.shape):
        without = np.array([number(np.delete(y, i, axis)) for i in range(n)])
        variance += (n - 1) / n * ((without - without.mean()) ** 2).sum()
    half = norm.ppf(0.975) * float(np.sqrt(variance))
    finite = np.isfinite(half) and np.isfinite(value)
    return Measured(value, value - half, value + half, y.size, "networks") if finite else None


def main_share(source: str, table: StudyTable) -> Measured | None:
    """The share of the variance of the fate that one source carries alone."""
    y, axis = fates(table), list(SOURCES).index(source)
    return jackknife(y, lambda part: shares(part)[(axis,)]) if y.size and min(y.shape) > 2 else None


def repeats(table: StudyTable) -> np.ndarray:
    """Whether each repeat of a combination binds: (combinations, repeats), that of the factorial design first."""
    import polars

    repeated = table.cells[REPEATED]
    first = table.cells[FACTORIAL].join(repeated.select(list(SOURCES)).unique(), on=list(SOURCES))
    networks = polars.concat(frame.select(*SOURCES, "binds") for frame in (first, repeated))
    outcomes = networks.group_by(list(SOURCES), maintain_order=True).agg("binds").sort(list(SOURCES))["binds"].to_list()
    n = min(map(len, outcomes), default=0)
    return np.array([binds[:n] for binds in outcomes], float).reshape(len(outcomes), n)


def both_outcomes(table: StudyTable) -> Measured | None:
    """The share of the repeated combinations of which some repeats bind and others do not."""
    y = repeats(table)
    if y.shape[0] < 2 or y.shape[1] < 2:
        return None
    return Measured.share(int((y.min(1) < y.max(1)).sum()), len(y), "combinations")


def auc(known: Sequence[str], step: int, table: StudyTable) -> Measured | None:
    """The probability that of two networks with different fates the one that binds is predicted to, from these columns
    at this step; networks that bind by then are left out.

    The variance adds up each network's influence on the area (DeLong et al., 1988), where networks that share levels
    may depend on each other (Cameron, Gelbach and Miller, 2011).
    """
    found = predictions(known, step, table)
    if found is None or len(np.unique(found[2])) < 2:
        return None
    levels, scores, binds = found
    order = in_order(scores, binds)
    value = float(order.mean())
    influence = np.empty(len(binds))
    influence[binds] = (order.mean(1) - value) / order.shape[0]
    influence[~binds] = (order.mean(0) - value) / order.shape[1]
    variance = (influence**2).sum()  # of all axes together: each network has its own combination
    for axes in [group for n in (1, 2) for group in combinations(range(3), n)]:
        clusters = np.unique(levels[:, axes], axis=0, return_inverse=True)[1].ravel()
        variance += (-1) ** (len(axes) + 1) * (np.bincount(clusters, influence) ** 2).sum()
    half = norm.ppf(0.975) * float(np.sqrt(max(variance, (influence**2).sum())))
    return Measured(value, max(0.0, value - half), min(1.0, value + half), len(binds), "networks")


def predictions(known: Sequence[str], step: int, table: StudyTable) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The levels (models, 3), the predicted log odds and the fates of the networks that do not bind by the step.

    Each is predicted from networks that have neither its initialisation nor its data nor its split.
    """
    frame = table.cells[FACTORIAL]
    frame = frame.filter(frame[f"1-var train at {step}"] < BOUND)
    levels, binds = frame.select(list(SOURCES)).to_numpy(), frame["binds"].to_numpy().astype(bool)
    values = frame.select([f"{name} at {step}" for name in known]).to_numpy().astype(float)
    if not len(binds) or not np.isfinite(values).all():
        return None
    blocks, scores = levels // BLOCK, np.full(len(binds), np.nan)
    for block in np.unique(blocks, axis=0):
        inside, others = (blocks == block).all(1), (blocks != block).all(1)
        if len(np.unique(binds[others])) == 2:
            scores[inside] = predicted(values[others], binds[others], values[inside])
    return (levels, scores, binds) if np.isfinite(scores).all() else None


def predicted(values: np.ndarray, binds: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The log odds of new rows by logistic regression with a ridge penalty on standardised columns."""
    mean, deviation = values.mean(0), values.std(0)
    deviation[deviation == 0] = 1
    x = np.column_stack([np.ones(len(values)), (values - mean) / deviation])
    penalty, weights = RIDGE * np.eye(x.shape[1]), np.zeros(x.shape[1])
    penalty[0, 0] = 0  # none on the intercept
    for _ in range(50):  # Newton's method
        p = (1 + np.tanh(x @ weights / 2)) / 2
        step = np.linalg.solve((x.T * (p * (1 - p))) @ x + penalty, x.T @ (binds - p) - penalty @ weights)
        weights = weights + step
        if np.abs(step).max() < 1e-9:
            break
    return np.column_stack([np.ones(len(new)), (new - mean) / deviation]) @ weights


def in_order(scores: np.ndarray, binds: np.ndarray) -> np.ndarray:
    """Whether each network that binds has a higher score than each that does not: 1, 0, or .5 for a tie.

    The mean is the area under the ROC curve.
    """
    yes, no = scores[binds][:, None], scores[~binds]
    return (yes > no) + 0.5 * (yes == no)


FATE = Study(
    "fate",
    "Does the initialisation, the order of the data, the split of the pairs or rounding decide whether a network "
    "binds, and how early can its fate be predicted?",
    cells=(
        Cell(
            FACTORIAL,
            models=tuple(dict(zip(SOURCES, levels, strict=True)) for levels in product(range(LEVELS), repeat=3)),
        ),
        Cell(
            REPEATED,
            models=tuple(
                dict.fromkeys(SOURCES, level) | {"optim.lr": BASE.optim.lr * (1 + parts * 1e-6)}
                for level in range(LEVELS) for parts in range(1, REPEATS + 1)
            ),
        ),
    ),
    seeds=LEVELS**3,
    steps=30_000,
    # Measures of all networks every 500 steps.
    base=replace(BASE, record=replace(BASE.record, eval_every=500, measure_every=500, checkpoint_every=10_000)),
    early_steps=tuple(LEAST_AUC),
    early=KNOWN,
    ask=(
        *(
            Computed(
                source.partition(".")[2], f"The {words} alone carries at most a quarter of the variance of the fate.",
                partial(main_share, source), AtMost(0.25),
            )
            for source, words in SOURCES.items()
        ),
        Computed(
            "both-outcomes", "At least a quarter of the repeated combinations both bind and do not bind.",
            both_outcomes, AtLeast(0.25),
        ),
        *(
            Computed(
                f"auc-{step}",
                f"From its measures at step {step:,}, the fate of a network is predicted with an AUC of at least "
                f"{least:g}.",
                partial(auc, KNOWN, step), AtLeast(least),
            )
            for step, least in LEAST_AUC.items()
        ),
    ),
)  # fmt: skip
