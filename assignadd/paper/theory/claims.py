"""The statements of section 7 and appendix C as records of the ledger: first the theory, then training.

docs/theory.md explains every verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from assignadd.dynamics.trajectory import binds
from assignadd.ledger.claim import CANNOT, Record, SeedResult, median_of, verdict_over
from assignadd.ledger.claim import in_words as steps_in_words
from assignadd.model.architecture import PAPER_NEEDS, lacking
from assignadd.network import Network, runs_of
from assignadd.paper.theory import composition, theorem
from assignadd.paper.theory.composition import BetaPoint
from assignadd.paper.theory.real_gradient import (
    DIRECTIONS,
    Alignment,
    TheoryGradient,
    informative_steps,
    theory_gradient_of,
)
from assignadd.paper.theory.theorem import FACTOR, W_0, Setting
from assignadd.stats import NOT_APPLICABLE, UNTESTABLE, AtLeast, Measured, decided

LABEL = "thm:c1"
COMMAND = "assignadd theory"
ORDER_ONE = 10.0  # the largest constant behind an O that passes
LEARNED = 0.95  # the accuracy from which a skill counts as learned, as for the networks


def theory_records(networks: Sequence[Network]) -> list[Record]:
    """The records of the ledger on the theory: statements at the paper's sizes, then the training of these networks."""
    return [*paper_statements(Setting()), *training_records(networks)]


def paper_statements(s: Setting) -> list[Record]:
    """The verdict on every statement that the paper makes and that could fail; the largest term comes first."""
    return [*_on_the_theorem(s), *_on_the_step(s), *_on_the_assumptions(s)]


def _exact(name: str, claim: str, paper: str, value: float, holds: bool, rule: str, comment: str) -> Record:
    """The record of a statement about a number without sampling error; `rule` completes the words `holds if`."""
    return Record(
        value=value, low=value, high=value, verdict=decided(holds), rule=f"holds if {rule}",
        id=f"theory-{name}", label=LABEL, claim=claim, paper=paper, comment=comment, command=COMMAND,
    )  # fmt: skip


def _on_the_theorem(s: Setting) -> list[Record]:
    """The records on the theorem's update: its largest term, and the bound on its remainder."""
    # Of a check, `attenuation` is the norm of the theorem's other displayed term (that of the memory is MEMORY_NORM),
    # and `constant` is the remainder's norm over V (1/N + 1/T + T alpha).
    at_these_sizes = theorem.check(s)
    asymptotic = theorem.check(Setting(N=997, T=1 << 16, V=s.V, alpha=1e-12))  # N, T >> V and V T alpha << 1
    constants = theorem.constants_over_beta(s.V)  # by T
    constant_at_small_T = max(constant for T, constant in constants.items() if T <= 256)
    constant_at_large_T = max(constant for T, constant in constants.items() if T > 256)
    grid_constant = max(checked.constant for checked in theorem.grid_checks())
    return [
        _exact("memory-dominates",
            "The associative memory, which matches every variable with itself, is the largest term of the update when "
            "N, T >> V and V T alpha << 1.",
            'appendix C: "the displayed associative-memory term dominates the update"; section 7: it is the "dominant '
            'term" of the negative gradient',
            value=asymptotic.attenuation / theorem.MEMORY_NORM,
            holds=asymptotic.attenuation < theorem.MEMORY_NORM / 2,
            rule="the other displayed term is less than half of the memory",
            comment=f"Norm (largest row sum) of the other displayed term over that of the memory at N = "
            f"{asymptotic.s.N}, T = 2^16, V = {s.V}; {at_these_sizes.attenuation / theorem.MEMORY_NORM:.3g} at {s}, "
            f"beta = {s.actual_beta:.3g}."),
        _exact("bound-over-beta",
            "For every beta that meets the theorem's conditions the remainder stays within a constant times V (1/N + "
            "1/T + T alpha).",
            "theorem C.1: remainder O_inf(V (1/N + 1/T + T alpha)) if beta is such that rho_1 = Theta(1) and rho_2 = "
            "Theta(1/T)",
            value=max(constants.values()), holds=constant_at_large_T <= constant_at_small_T,
            rule="the largest constant at T > 256 is no larger than at T <= 256 "
            f"({constant_at_large_T:.3g} and {constant_at_small_T:.3g})",
            comment=f"Largest constant over T = {', '.join(map(str, constants))}, over (N, alpha) = "
            f"{' and '.join(map(str, theorem.EXTREMES))}, and over the beta on a grid with rho_1 >= 1/{FACTOR:g} and "
            f"1/{FACTOR:g} <= T rho_2 <= {FACTOR:g}."),
        _exact("remainder",
            "At beta = log T, W_1 is the predicted sum up to a remainder of the stated size.",
            "theorem C.1: O_inf(V (1/N + 1/T + T alpha))",
            value=grid_constant, holds=grid_constant < ORDER_ONE,
            rule=f"the constant is below {ORDER_ONE:g}",
            comment=f"Largest constant over {len(theorem.grid_checks())} settings (N to 199, T to 256, V to 12, alpha "
            "1e-6 to 0.1) in the row-sum norm."),
    ]  # fmt: skip


def _on_the_step(s: Setting) -> list[Record]:
    """The records on what the step leads to: claims of the theorem's title and of section 7, which depend on beta."""
    points = composition.beta_points(s)
    most = composition.most_assignments(s)
    # The points with the highest accuracy: after the stated step with one assignment and with the most assignments, and
    # after the balancing step with the most.
    best_with_one = max(points, key=lambda point: point.stated.with_one)
    best_with_most = max(points, key=lambda point: point.stated.with_most)
    balanced = [point for point in points if point.length is not None and point.s.meets_conditions]
    # Where no beta has a balancing step and meets the conditions, any point; without a length the stated step is taken.
    best_balanced = max(balanced or points, key=lambda point: point.balanced.with_most)
    at_this_beta = next(point for point in points if point.beta == s.actual_beta)
    length = composition.required_balance(s)
    preferences = [point.preference for point in points if not math.isnan(point.preference)]
    lowest = min(preferences, default=math.inf)  # no preference: with one variable there is no other assignment
    composing = composition.beta_in_words(points, [point.composes for point in points])
    return [
        _accuracy("stated-step-composes",
            "For some beta the step of the stated length makes the model add a variable and a number.",
            'theorem C.1, its title: "One gradient step leads to composition", with eta = V N / (2 alpha rho_1 rho_2 '
            "(N - 1))",
            point=best_with_one, n_assignments=1, length=1.0,
            where=f"beta = {best_with_one.beta:.2f}, {s}; on the grid the step composes for beta {composing}"),
        _accuracy("stated-step-composes-many",
            f"For some beta the step of the stated length also makes the model add with {most} assignments in context.",
            'appendix C: sufficient "even when tau has more than one variable"',
            point=best_with_most, n_assignments=most, length=1.0,
            where=f"{s}, at the best beta: {best_with_most.beta:.2f}, where T rho_2 = "
            f"{s.T * best_with_most.s.rho_2:.2g}"),
        _accuracy("shorter-step-composes",
            "A step of the right length along the same gradient makes the model add a variable and a number.",
            'section 7: an update "with appropriate step-size then leads to the QK_2 mechanism ..., which enables '
            'composition"',
            point=at_this_beta, n_assignments=1, length=length,
            where=f"{length:.3f} of the stated eta, where assignment and second operand get the same attention "
            f"({s}, beta = {s.actual_beta:.3g})"),
        _accuracy("appropriate-step-many",
            f"For some beta that meets the conditions, a step of the right length makes the model add with {most} "
            "assignments in context.",
            'section 7: "with appropriate step-size"; appendix C: "even when tau has more than one variable"',
            point=best_balanced, n_assignments=most, length=best_balanced.length or 1.0,
            where=f"{s}, at the best beta, {best_balanced.beta:.2f} (rho_1 = {best_balanced.s.rho_1:.2f}), after "
            f"{best_balanced.length or 1:.2f} of eta, where assignment and second operand get the same attention"),
        _exact("attends-target",
            "After the step the right assignment gets more attention than any other, at every beta.",
            'appendix C: "sufficient to ensure attention to the correct variables in the context, even when tau has '
            'more than one variable"',
            value=lowest, holds=lowest > 1,
            rule="the ratio is above 1",
            comment=f"Attention to the operand's assignment over that to each other one, the least over beta at {s}."),
    ]  # fmt: skip


def _accuracy(
    name: str, claim: str, paper: str, point: BetaPoint, n_assignments: int, length: float, where: str
) -> Record:
    """The record of an accuracy with this many assignments at the beta of a point, after a step of this length.

    `length` is a share of the theorem's step; `where` says in words for which sizes and beta it is.
    """
    measured = composition.accuracy(point.s, theorem.after_step(point.s, length), n_assignments)
    assignments = "one assignment" if n_assignments == 1 else f"{n_assignments} assignments"
    return Record(
        value=measured.value, low=measured.low, high=measured.high, n=measured.n, unit=measured.unit,
        verdict=AtLeast(LEARNED).verdict(measured),
        rule=f"holds if the accuracy is at least {LEARNED:g}; undecided if its 95 % interval contains that",
        id=f"theory-{name}", label=LABEL, claim=claim, paper=paper,
        comment=f"Accuracy with {assignments}, {where}.", command=COMMAND,
    )  # fmt: skip


def _on_the_assumptions(s: Setting) -> list[Record]:
    """The records on what the appendix says of the attention at W_0."""
    most = composition.most_assignments(s)
    # The second operand, the constant, is at the paper's position T - 1, which is T - 2 counted from 0.
    of_constant = [float(composition.attention_with(s, W_0(s), n)[s.T - 2]) for n in range(1, most + 1)]
    # sigma_pad, the attention to a PAD, is rho_3. With beta = None beta is log T.
    pad_at_T_16 = replace(s, T=16, beta=None).rho_3
    pad_at_T_256 = replace(s, T=256, beta=None).rho_3
    growth = math.log(16 * pad_at_T_16 / (256 * pad_at_T_256)) / math.log(16 / 256)
    # With e^beta = sqrt T the attention to PADs is of order 1/T.
    N = max(*theorem.GRID[0], s.V)  # the largest of the grid, or V, which is at most N
    at_T_64 = theorem.check(Setting(N, 64, s.V, alpha=1e-6, beta=math.log(64) / 2))
    at_T_1024 = theorem.check(Setting(N, 1024, s.V, alpha=1e-6, beta=math.log(1024) / 2))
    return [
        _exact("w0-attention",
            "With a suitable beta, W_0 makes `=` attend mostly to the constant operand.",
            'appendix C: W_0 "leads to an attention behavior similar to that observed in Figure early (a) when beta is '
            'chosen appropriately"',
            value=min(of_constant), holds=min(of_constant) > 0.5,
            rule="more than half of the attention is on the constant operand for every number of assignments at this "
            "beta",
            comment=f"Attention to the second operand, the constant, at beta = {s.actual_beta:.3g} with {most} "
            f"assignments in context ({s.rho_1:.2f} with one)."),
        _exact("pads-theta",
            "At W_0 every position but T-1 has attention of order 1/T.",
            "sigma_t = Theta(1/T) for all t other than T-1",
            value=growth, holds=abs(growth) < 0.1,
            rule="the exponent is within 0.1 of 0, which it is for Theta(1/T)",
            comment="Growth exponent of T sigma_pad from T = 16 to T = 256."),
        _exact("pads-literal",
            "The remainder is small where PADs do have attention of order 1/T.",
            "O(V (1/N + 1/T + T alpha)) under sigma_t = Theta(1/T)",
            value=at_T_1024.remainder, holds=at_T_1024.remainder < at_T_64.remainder / 2,
            rule="it is less than half as large at T = 1024 as at T = 64",
            comment=f"Remainder for e^beta = sqrt T at T = 1024, V = {s.V}; {at_T_64.remainder:.3g} at T = 64."),
    ]  # fmt: skip


# The threshold of the first two is a quantile of an explicit null distribution (the same cosine for directions without
# the binding), not the null's own value: a network without the effect passes in at most about 5 % of cases.
NULL = f"holds if the mean cosine is above the 95 % quantile of {DIRECTIONS} directions with variables permuted"
# The statements about training by name: the claim, what the paper says, and the rule of the verdict.
TRAINING = {
    "real-gradient": (
        "While a network learns to bind, the gradient of QK2 on one-variable data points along the predicted memory.",
        "section 7: sum_v OV1 e_v (OV1 e_v + p_T)^T is in the negative gradient (simplified setup)",
        NULL,
    ),
    "real-change": (
        "While a network learns to bind, QK2 moves along the predicted memory.",
        "section 7: an update along this negative gradient leads to the QK_2 mechanism",
        NULL,
    ),
    "real-dominant": (
        "The predicted memory is the dominant term of a real gradient.",
        'section 7: "has the following associative memory as its dominant term"',
        "holds if it has more than half of the gradient's squared norm at some checkpoint: a cosine above 0.707",
    ),
}


@dataclass(frozen=True)
class TrainingResult:
    """The number of a statement about one network's training, whether the statement holds, and details in words."""

    value: float
    holds: bool
    detail: str


def training_results(gradient: TheoryGradient | None) -> dict[str, TrainingResult]:
    """The results of the statements about training for one network, by their names in `TRAINING`.

    `gradient` has cosines with the memory that the theory predicts, and with permuted ones: those of the negative
    gradient at each checkpoint (`descent`), and of the change from each to the next (`change`). Means are over the last
    quarter of the steps before the network's first spike, the largest cosine is over all checkpoints. Empty without a
    spike, or without a checkpoint in that quarter.
    """
    if gradient is None or gradient.spike_at is None:
        return {}
    steps = torch.tensor(gradient.steps)
    end = gradient.spike_at
    begin = 0.75 * end
    in_quarter = (steps >= begin) & (steps < end)  # (checkpoints,)
    if not in_quarter.any():
        return {}
    change_overlaps = (steps[1:] > begin) & (steps[:-1] < end)  # (checkpoints - 1,): of changes from one to the next
    where = f"the last quarter of the {end:,} steps until the first spike (checkpoints: {int(in_quarter.sum())})"
    largest = float(gradient.descent.memory.max())
    about_largest = f"Largest cosine at any of {len(steps)} checkpoints ({largest**2:.1%} of the squared norm)"
    return {
        "real-gradient": _against_permuted(gradient.descent.mean_over(in_quarter), f"Mean cosine, {where}"),
        "real-change": _against_permuted(
            gradient.change.mean_over(change_overlaps), f"Mean cosine of the change of QK2 between checkpoints, {where}"
        ),
        "real-dominant": TrainingResult(largest, largest > math.sqrt(0.5), about_largest),
    }


def _against_permuted(mean: Alignment, subject: str) -> TrainingResult:
    """Whether a mean cosine with the memory is above 95 % of those with permuted directions, and details in words."""
    limit = float(mean.permuted.quantile(0.95))
    cosine = float(mean.memory)
    detail = f"{subject}; permuted {float(mean.permuted.mean()):+.3f} (95 % below {limit:+.3f})"
    return TrainingResult(cosine, cosine > limit, detail)


def training_records(networks: Sequence[Network]) -> list[Record]:
    """The statements about training, over the networks that bind: the theory only predicts how binding is learned."""
    lacks = {network: lacking(network.config, *PAPER_NEEDS) for network in networks}  # in words; "" if it has all
    if networks and all(lacks.values()):
        comment = f"Not defined for this architecture: it {lacks[networks[0]]}."
        return [replace(_over_networks(name, {}), verdict=NOT_APPLICABLE, comment=comment) for name in TRAINING]
    results: dict[str, dict[Network, TrainingResult]] = {name: {} for name in TRAINING}
    for network in networks:
        if not lacks[network] and binds(network):
            for name, result in training_results(theory_gradient_of(network)).items():
                results[name][network] = result
    return [_over_networks(name, of_networks) for name, of_networks in results.items()]


def _over_networks(name: str, results: Mapping[Network, TrainingResult]) -> Record:
    """The record of one statement about training: the median over these networks, with an interval if there are six."""
    claim, paper, rule = TRAINING[name]
    record = Record(
        id=f"theory-{name}", label=LABEL, claim=claim, paper=paper, rule=rule, unit="networks", comment=CANNOT,
        verdict=UNTESTABLE, command=" ".join([COMMAND, *(run.address for run in runs_of(list(results)))]),
    )  # fmt: skip
    if not results:
        return record
    by_seed = tuple(  # both ends of the interval are the value
        SeedResult(network.name, network.seed, result.value, result.value, result.value, decided(result.holds))
        for network, result in results.items()
    )
    numbers = [Measured.exactly(result.value, 1, "networks") for result in results.values()]
    value, low, high, remark = median_of(numbers)
    first_network = next(iter(results))
    return replace(
        record, value=value, low=low, high=high, n=len(results), seeds=len(results), by_seed=by_seed,
        verdict=verdict_over(by_seed), comment=f"{results[first_network].detail}." if len(results) == 1 else remark,
        checkpoints=steps_in_words(informative_steps(first_network.steps, first_network.rows)),
    )  # fmt: skip
