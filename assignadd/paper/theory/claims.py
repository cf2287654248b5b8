"""The statements of section 7 and appendix C: the numbers they are about, their verdicts, and records of the ledger.

docs/theory.md explains every verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from assignadd.dynamics.trajectory import binds
from assignadd.ledger.claim import CANNOT, Record, SeedResult, in_words, verdict_over
from assignadd.model.architecture import PAPER_NEEDS, lacking
from assignadd.network import Job, Network, runs_of
from assignadd.paper.theory.composition import (
    FACTOR,
    BetaScan,
    Composition,
    StepNumbers,
    answer_probability,
    attention,
    beta_scan,
    condition_constants,
    listed,
    step_numbers,
    tested_assignments,
)
from assignadd.paper.theory.real_gradient import CLAIMS, informative_steps, real_statements, theory_gradient_of
from assignadd.paper.theory.setting import Setting
from assignadd.paper.theory.symmetric import W_0
from assignadd.paper.theory.theorem import (
    MEMORY_NORM,
    Check,
    ProofNumbers,
    after_step,
    check,
    direction_cosine,
    extreme_constant,
    fitted_constant,
    grid_checks,
    proof_numbers,
)
from assignadd.stats import NOT_APPLICABLE, AtLeast, Statement, decided, median_interval

LABEL = "thm:c1"
COMMAND = "assignadd theory"

# Small enough to sum over every sequence; N is odd, and there is more than one of everything.
SUMMED = Setting(N=11, T=9, V=3, alpha=0.05)
ROUNDING = 1e-12
ORDER_ONE = 10.0  # the largest constant behind an O that passes
LEARNED = 0.95  # the accuracy from which a skill counts as learned, as for the networks
SAME_DIRECTION = 0.99  # the cosine from which a direction counts as unchanged
SHARP = 0.9  # the probability of the right answer from which predictions count as sharp


@dataclass(frozen=True)
class TheoryNumbers:
    """Every number that the verdicts are decided on."""

    at: Check
    """The theorem at the setting of the study."""
    far: Check
    """At the same V and large N and T."""
    sqrt_T: tuple[Check, ...]
    """At the same V and e^beta = sqrt T for growing T, where PADs have attention of order 1/T."""
    grid: list[Check]
    extreme_constant: float
    """The least constant with which the bound holds at the extremes of N, T, V and alpha."""
    constants: dict[int, float]
    """T -> the largest constant of the bound over the beta that meet the theorem's conditions."""
    proof: ProofNumbers
    step: StepNumbers
    scan: BetaScan
    w0_attention: float
    """The least attention of W_0 to the second operand over the tested numbers of assignments."""
    sharp_alpha: float
    """The alpha that gives the right answer probability SHARP, with one assignment, after the balancing step."""
    sharp_cosine: float
    """Between the gradients at W_0 at that alpha and as alpha vanishes."""


def theory_numbers(s: Setting) -> TheoryNumbers:
    """All numbers at setting `s` and over the grid."""
    step, alphas = step_numbers(s), np.geomspace(0.1, 500, 200).tolist()
    balanced = after_step(s, step.balanced)
    sharp = next((alpha for alpha in alphas if answer_probability(balanced, alpha) >= SHARP), alphas[-1])
    return TheoryNumbers(
        at=check(s),
        far=check(Setting(9973, 1 << 20, s.V, 1e-12)),
        sqrt_T=tuple(check(Setting(max(199, s.V), T, s.V, 1e-6, math.log(T) / 2)) for T in (64, 256, 1024)),
        grid=grid_checks(),
        extreme_constant=extreme_constant(s.V),
        constants=condition_constants(s.V),
        proof=proof_numbers(SUMMED),
        step=step,
        scan=beta_scan(s),
        w0_attention=min(attention(W_0(s), K).second for K in tested_assignments(s)),
        sharp_alpha=sharp,
        sharp_cosine=direction_cosine(s, sharp),
    )


_known: list[TheoryNumbers] = []


def paper_numbers() -> TheoryNumbers:
    """All numbers on the theory at the sizes of the paper's experiment, computed once."""
    if not _known:
        _known.append(theory_numbers(Setting()))
    return _known[0]


# What the ledger needs that takes long and is of no network.
THEORY = Job("theory", paper_numbers, _known.append)


def statements(study: TheoryNumbers) -> list[Statement]:
    """The verdict on every statement of the theory, in the order of the ledger; the largest term comes first."""
    of_step = _on_the_step(study.step, study.scan)
    return [*_on_the_theorem(study), *of_step, *_on_the_setting(study), *_on_the_proof(study)]


def _sizes(s: Setting) -> str:
    return f"N = {s.N}, T = {s.T}, V = {s.V}"


def _on_the_theorem(study: TheoryNumbers) -> list[Statement]:
    s, far, beta = study.at.s, study.far, f"beta = {study.at.s.actual_beta:.3g}"
    small_T = max(constant for T, constant in study.constants.items() if T <= 256)
    large_T = max(constant for T, constant in study.constants.items() if T > 256)
    constant = fitted_constant(study.grid)
    return [
        Statement("theory.memory_dominates",
            "The associative memory, which matches every variable with itself, is the largest term of the update when "
            "N, T >> V and V T alpha << 1",
            'appendix C: "the displayed associative-memory term dominates the update"; section 7: it is the "dominant '
            'term" of the negative gradient',
            far.attenuation / MEMORY_NORM, decided(far.attenuation < MEMORY_NORM / 2),
            f"norm (largest row sum) of the other displayed term over that of the memory at N = {far.s.N}, T = 2^20, "
            f"V = {far.s.V}; {study.at.attenuation / MEMORY_NORM:.3g} at {_sizes(s)}, {beta}",
            "holds if the other displayed term is less than half of the memory"),
        Statement("theory.bound_over_beta",
            "For every beta that meets the theorem's conditions the remainder stays within a constant times V (1/N + "
            "1/T + T alpha)",
            "theorem C.1: remainder O_inf(V (1/N + 1/T + T alpha)) if beta is such that rho_1 = Theta(1) and rho_2 = "
            "Theta(1/T)",
            max(small_T, large_T), decided(large_T <= small_T),
            f"largest constant over T = {', '.join(map(str, study.constants))}, N up to 9973, alpha from 1e-9 to 1e-3 "
            f"and every beta with rho_1 >= 1/{FACTOR:g} and 1/{FACTOR:g} <= T rho_2 <= {FACTOR:g}",
            f"holds if the largest constant at T > 256 is no larger than at T <= 256 ({large_T:.3g} and {small_T:.3g})",
        ),
        Statement("theory.remainder",
            "At beta = log T, W_1 is the predicted sum up to a remainder of the stated size",
            "theorem C.1: O_inf(V (1/N + 1/T + T alpha))",
            constant, decided(max(constant, study.extreme_constant) < ORDER_ONE),
            f"least constant over {len(study.grid)} settings (N to 199, T to 256, V to 12, alpha 1e-6 to 0.1) in the "
            f"row-sum norm; {study.extreme_constant:.3g} at the extremes of N, T and alpha",
            f"holds if the constant is below {ORDER_ONE:g}"),
        Statement("theory.remainder_small_here",
            f"At {_sizes(s)} the remainder is smaller than the memory",
            "claimed for N, T >> V; the experiment has N = 59, T = 16, V = 12",
            study.at.remainder, decided(study.at.remainder < MEMORY_NORM),
            f"norm of the remainder against the memory's {MEMORY_NORM:g}, {beta}",
            f"holds if the remainder is below {MEMORY_NORM:g}"),
    ]  # fmt: skip


def _on_the_step(step: StepNumbers, scan: BetaScan) -> list[Statement]:
    """What the step leads to: separate claims, of the theorem's title and section 7, and they depend on beta."""
    beta, Ks = f"beta = {step.s.actual_beta:.3g}", f"1 to {scan.most}"
    first, last = step.further[0], step.further[-1]
    fading = (last.spurious / last.memory) / (first.spurious / first.memory)
    preference = min(p.preference for p in scan.points)
    many, any_length = scan.stated_many, scan.any_length_many
    return [
        _accuracy("theory.stated_step_composes",
            "For some beta the step of the stated length makes the model add a variable and a number",
            'theorem C.1, its title: "One gradient step leads to composition", with eta = V N / (2 alpha rho_1 rho_2 '
            "(N - 1))",
            scan.stated_one.result,
            f"accuracy with one assignment at beta = {scan.stated_one.beta:.2f}, {_sizes(scan.s)}; the step composes "
            f"for beta {listed(scan.composing)} and for no other"),
        _accuracy("theory.stated_step_composes_many",
            f"For some beta the step of the stated length also makes the model add with {scan.most} assignments in "
            "context",
            'appendix C: sufficient "even when tau has more than one variable"',
            many.result,
            f"accuracy with {scan.most} assignments, {_sizes(scan.s)}, at the best beta among those where the step "
            f"composes with one: {many.beta:.2f}, where T rho_2 = {scan.s.T * scan.s.at(many.beta).rho_2:.2g}"),
        _accuracy("theory.shorter_step_composes",
            "A step of the right length along the same gradient makes the model add a variable and a number",
            'section 7: an update "with appropriate step-size then leads to the QK_2 mechanism ..., which enables '
            'composition"',
            step.shorter[0],
            f"accuracy with one assignment at {step.balanced:.3f} of the stated eta, where assignment and second "
            f"operand get the same attention ({_sizes(step.s)}, {beta})"),
        _accuracy("theory.appropriate_step_many",
            f"For some beta that meets the conditions, a step of the right length makes the model add with {scan.most} "
            "assignments in context",
            'section 7: "with appropriate step-size"; appendix C: "even when tau has more than one variable"',
            any_length.result,
            f"accuracy with {scan.most} assignments, {_sizes(scan.s)}, at the best beta and length: beta = "
            f"{any_length.beta:.2f} (rho_1 = {scan.s.at(any_length.beta).rho_1:.2f}), {any_length.length:.2f} of eta"),
        Statement("theory.attends_target",
            "After the step the right assignment gets more attention than any other, at every beta",
            'appendix C: "sufficient to ensure attention to the correct variables in the context, even when tau has '
            'more than one variable"',
            preference, decided(preference > 1),
            f"attention to the operand's assignment over that to each other one, the least over beta at "
            f"{_sizes(scan.s)}",
            "holds if the ratio is above 1"),
        Statement("theory.spurious_fades",
            "Further steps on several variables attenuate the spurious term",
            'appendix C: "this spurious term should be attenuated if one takes subsequent steps on data involving more '
            'variables in tau"',
            fading, decided(fading < 0.5),
            f"sum Phi_1 e_v p_T^T relative to the memory after {last.step} steps of eta/20 on {Ks} assignments, over "
            f"the same before them ({beta})",
            "holds if the share falls below one half"),
        Statement("theory.further_compose",
            "Further steps on several variables make the model add with any number of assignments",
            'section 7: "enables composition of variable binding with modular addition"',
            min(last.accuracy), decided(min(last.accuracy) >= LEARNED),
            f"lowest accuracy over {Ks} assignments after {last.step} steps of eta/20 from the shorter step ({beta})",
            f"holds if the lowest accuracy is at least {LEARNED:g}"),
    ]  # fmt: skip


def _accuracy(id: str, claim: str, paper: str, result: Composition, detail: str) -> Statement:
    rule = f"holds if the accuracy is at least {LEARNED:g}; undecided if its 95 % interval contains that"
    verdict = AtLeast(LEARNED).verdict(result.interval)
    return Statement(id, claim, paper, result.accuracy, verdict, detail, rule, result.interval, result.draws)


def _on_the_setting(study: TheoryNumbers) -> list[Statement]:
    s = study.at.s
    return [
        Statement("theory.alpha_keeps_direction",
            "alpha can be increased until predictions are sharp without turning the gradient of the key-query matrix",
            'appendix C: "alpha may be increased to sharpen predictions without changing the direction of the '
            'key-query signal"',
            study.sharp_cosine, decided(study.sharp_cosine >= SAME_DIRECTION),
            f"cosine between the gradients at W_0 for alpha near 0 and for alpha = {study.sharp_alpha:.3g}, the "
            f"smallest that gives the right answer probability {SHARP:g} with one assignment after the step that "
            f"balances the attention; {_sizes(s)}, beta = {s.actual_beta:.3g}",
            f"holds if the cosine is at least {SAME_DIRECTION}"),
        Statement("theory.w0_attention",
            "With a suitable beta, W_0 makes `=` attend mostly to the constant operand",
            'appendix C: W_0 "leads to an attention behavior similar to that observed in Figure early (a) when beta is '
            'chosen appropriately"',
            study.w0_attention, decided(study.w0_attention > 0.5),
            f"attention to the second operand, the constant, at beta = {s.actual_beta:.3g} with {study.scan.most} "
            f"assignments in context ({s.rho_1:.2f} with one)",
            "holds if more than half of the attention is on the constant operand for every number of assignments at "
            "this beta"),
    ]  # fmt: skip


def _on_the_proof(study: TheoryNumbers) -> list[Statement]:
    p, b, s = study.proof, study.proof.bounds, study.at.s
    signal = "-2 rho_1 rho_2 (N-1)/N E[(x_t* + x_{T-1} - 2 x_bar) x_T^T]"
    adds, pairs = "M_k(e_n + e_m) = 2 1{k=n+m} + 1{k=2n} + 1{k=2m}", "nabla M_k(e_n)^T e_m = 2 1{k=n+m}"
    logits, along = "|v_j^T Phi_2 x_t| <= 1 and |M_k(z)| <= 1", "|nabla M_k(z)^T Phi_2 x_t| <= 2"
    rows: list[tuple[str, str, str, float, float]] = [  # the last number is the largest value that holds
        ("mlp_adds", "The complex quadratic MLP adds mod N", adds, p.addition_error, 0),
        ("mlp_gradient", "Its gradient pairs the numbers that add up to k", pairs, p.gradient_error, 0),
        ("logits_bounded", "Unscaled logits are bounded", logits, max(b.v_x, b.M), 1),
        ("near_uniform", "The prediction stays near uniform", "|r_k| N / (e^(2 alpha) - 1) <= 1", b.r, 1),
        ("gradient_bounded", "The MLP's gradient along a token is bounded", along, b.grad_M, 2),
        ("expansion", "A_k has three terms, in rho_1^2, rho_2^2 and rho_1 rho_2", "A_k as displayed", b.expansion, 0),
        ("same_attention", "rho_1 and rho_2 do not depend on the sequence", "footnote to the theorem", b.sigma_spread,
         0),
        ("G_1_G_2", "The terms without signal vanish", "G_1 = G_2 = 0", max(p.G_1, p.G_2), 0),
        ("G_3", "G_3 carries the signal", signal, p.G_3_error, 0),
    ]  # fmt: skip
    where = f"over every sequence at {_sizes(p.s)}, alpha = {p.s.alpha:g}"
    exact = [
        Statement(f"theory.{name}", claim, paper, value, decided(value <= most + ROUNDING),
            f"largest {'value' if most else 'deviation'} {where}")
        for name, claim, paper, value, most in rows
    ]  # fmt: skip
    softmax = max(c.softmax_part / (c.s.V * c.s.T * c.s.alpha) for c in study.grid)
    short = replace(s, T=16, beta=None)
    long = replace(s, T=256, beta=None)
    pads = math.log(short.T * short.rho_3 / (long.T * long.rho_3)) / math.log(short.T / long.T)
    first, *_, last = study.sqrt_T
    return [
        *exact,
        Statement("theory.R_alpha",
            "What the softmax's deviation adds to W_1",
            "O(V T alpha)",
            softmax, decided(softmax <= 1),
            "largest ratio to V T alpha over the grid"),
        Statement("theory.pads_theta",
            "At W_0 every position but T-1 has attention of order 1/T",
            "sigma_t = Theta(1/T) for all t other than T-1",
            pads, decided(abs(pads) < 0.1),
            "growth exponent of T sigma_pad from T = 16 to T = 256, which is 0 for Theta(1/T)"),
        Statement("theory.pads_literal",
            "The remainder is small where PADs do have attention of order 1/T",
            "O(V (1/N + 1/T + T alpha)) under sigma_t = Theta(1/T)",
            last.remainder, decided(last.remainder < first.remainder / 2),
            f"remainder for e^beta = sqrt T at T = {last.s.T}, V = {last.s.V}; {first.remainder:.3g} at T = "
            f"{first.s.T}"),
        Statement("theory.G_3_columns",
            "The small terms of G_3 are all in the column p_T",
            "+ O_inf(1/N + 1/T) p_T^T",
            p.G_3_columns, decided(p.G_3_columns < ROUNDING),
            f"largest coefficient in the columns Phi_1 e_v, which the display leaves out, where the memory's is 1 "
            f"({_sizes(p.s)})"),
    ]  # fmt: skip


# Of what `assignadd theory` shows: identities of algebra, bounds that cannot fail, and a statement of ours.
NOT_CLAIMED = frozenset(
    f"theory.{name}"
    for name in (
        "mlp_adds", "mlp_gradient", "expansion", "same_attention", "G_1_G_2", "G_3", "logits_bounded", "near_uniform",
        "gradient_bounded", "remainder_small_here",
    )
)  # fmt: skip


def theory_records(networks: Sequence[Network]) -> list[Record]:
    """Records of the theory itself, which need no network, then of the training of these models.

    The theory only predicts how binding is learned, so networks that did not learn it are left out.
    """
    defined = [network for network in networks if not lacking(network.config, *PAPER_NEEDS)]
    undefined = "" if defined or not networks else lacking(networks[0].config, *PAPER_NEEDS)
    tested = [network for network in defined if binds(network) and theory_gradient_of(network) is not None]
    by_network = [
        real_statements(theory_gradient_of(network), f"seed {network.seed} of {network.name}") for network in tested
    ]
    of_training = [
        _over_seeds(name, tested, [statements_of_one[i] for statements_of_one in by_network])
        for i, name in enumerate(CLAIMS)
    ]
    if undefined:
        words = f"Not defined for this architecture: it {undefined}."
        of_training = [replace(record, verdict=NOT_APPLICABLE, comment=words) for record in of_training]
    claimed = [statement for statement in statements(paper_numbers()) if statement.id not in NOT_CLAIMED]
    return [*map(_of_theory, claimed), *of_training]


def _of_theory(statement: Statement) -> Record:
    """The record of a statement about the theory itself."""
    fields = statement.record()
    return Record(
        statement.value, fields["low"], fields["high"], statement.draws, "sequences" if statement.draws else "", 0,
        statement.verdict, statement.rule, id=_id(statement.id), label=LABEL, claim=f"{statement.claim}.",
        paper=statement.paper, comment=f"{statement.detail}.", command=COMMAND,
    )  # fmt: skip


def _id(name: str) -> str:
    return name.replace(".", "-").replace("_", "-")


def _over_seeds(name: str, networks: Sequence[Network], of_each: Sequence[Statement]) -> Record:
    """The record of one statement about training, from the statement for each of these networks."""
    results: list[SeedResult] = []
    details: list[str] = []
    for network, statement in zip(networks, of_each, strict=True):
        value = statement.value
        if value is not None:
            results.append(SeedResult(network.name, network.seed, value, value, value, statement.verdict))
            details.append(statement.detail)
    n = len(results)
    value, low, high, comment = _summary([result.value for result in results], details)
    claim, paper, rule = CLAIMS[name]
    command = " ".join([COMMAND, *(str(run.path) for run in runs_of(networks))])
    steps = informative_steps(networks[0].steps, networks[0].rows) if networks else []
    return Record(
        value, low, high, n, "networks", n, verdict_over(results), rule, tuple(results), id=_id(f"theory.{name}"),
        label=LABEL, claim=f"{claim}.", paper=paper, comment=comment, command=command, checkpoints=in_words(steps),
    )  # fmt: skip


def _summary(values: Sequence[float], details: Sequence[str]) -> tuple[float | None, float | None, float | None, str]:
    """Median over seeds, its interval (from six seeds on) and a comment; one network has its number at both ends."""
    if not values:
        return None, None, None, CANNOT
    value, interval = median_interval(values)
    if len(values) == 1:
        return value, value, value, f"{details[0]}."
    n = len(values)
    comment = f"Median of the {n} seeds that learned binding; they range from {min(values):.3g} to {max(values):.3g}"
    if interval is None:
        return value, None, None, f"{comment}, too few for an interval of the median."
    return value, interval.low, interval.high, f"{comment}."
