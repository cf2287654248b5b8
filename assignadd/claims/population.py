"""Claims about all initialisations and about how much data is needed: asked of the populations that come with the package."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assignadd.claims.generalisation import TEST_SETS, slug
from assignadd.claims.record import AtLeast, Between, Claim, Measured
from assignadd.dynamics.onsets import Onset
from assignadd.dynamics.phases import ADDITION_SET, REFINEMENT_SETS, Phases
from assignadd.stats import threshold_interval
from assignadd.sweeps.population import SeedCurves, population

# A seed of a sweep succeeds with this accuracy on the paper's test at the end.
SUCCESS = 0.95
PATTERNS = ("attn_l1_equal_to_operands", "attn_l1_num_to_prev", "attn_l2_equal_to_values")
Asked = Callable[[SeedCurves], Measured | None]


def binds(seed: SeedCurves) -> Measured:
    return Measured.exactly(float(seed.learned_binding), 1, "network")


def final(sets: Sequence[str], among_binding: bool = False) -> Asked:
    """The lowest accuracy of these sets at the end of training."""

    def ask(seed: SeedCurves) -> Measured | None:
        if among_binding and not seed.learned_binding:
            return None
        return Measured.share(round(min(seed.final(s) for s in sets) * seed.n), seed.n, "sequences")

    return ask


def column(names: Sequence[str], among_binding: bool = False) -> Asked:
    """The lowest of these measures at the end of training."""

    def ask(seed: SeedCurves) -> Measured | None:
        if among_binding and not seed.learned_binding:
            return None
        return Measured.exactly(min(seed.final(name) for name in names), 1, "network")

    return ask


def in_order(earlier: Callable[[Phases], Onset | None], later: Callable[[Phases], Onset | None]) -> Asked:
    """Steps from one onset to another, as far as evaluation noise lets them come apart; None where the later never came."""

    def ask(seed: SeedCurves) -> Measured | None:
        first, second = earlier(seed.phases), later(seed.phases)
        if second is None:
            return None
        if first is None:
            return Measured.exactly(-float(second.step), 1, "network")
        end = int(seed.curves.steps[-1])
        return Measured(second.step - first.step, second.low - (first.high or end), (second.high or end) - first.low, 1, "network")

    return ask


def apart(earlier: Callable[[Phases], Onset | None], later: Callable[[Phases], Onset | None]) -> Asked:
    """Whether the one onset comes before the other whatever evaluation noise did; None where the later never came."""
    delay = in_order(earlier, later)

    def ask(seed: SeedCurves) -> Measured | None:
        found = delay(seed)
        return found and Measured.exactly(float(found.low > 0), 1, "network")

    return ask


def stays_refined(seed: SeedCurves) -> Measured | None:
    """Whether every set with a banned slot ends at 95 % or above; None where they never all were."""
    if seed.phases.refinement is None:
        return None
    return Measured.exactly(float(min(seed.final(s) for s in REFINEMENT_SETS) >= SUCCESS), 1, "network")


def late_is_banned(seed: SeedCurves) -> Measured | None:
    late = seed.late_variable
    return None if late is None else Measured.exactly(float(late.banned), 1, "network")


def crossing(sweep: str, setting: str, test: str) -> Callable[[], Measured | None]:
    """Where half of the seeds succeed on a test, with the bootstrap interval over seeds."""

    def measured() -> Measured | None:
        values, outcomes = population(sweep).outcomes(setting, test, SUCCESS)
        found = threshold_interval(values, outcomes)
        return found and Measured(found[0], found[1].low, found[1].high, sum(map(len, outcomes)), "seeds")

    return measured


def readings_differ() -> Measured:
    """Share of seeds that bind with the banned slots of the paper's text less that with those of its code, with Newcombe's interval."""
    ours, theirs = (_binding(population(name).seeds) for name in ("census", "authors"))
    difference = ours.value - theirs.value
    low = difference - ((ours.value - ours.low) ** 2 + (theirs.high - theirs.value) ** 2) ** 0.5
    high = difference + ((ours.high - ours.value) ** 2 + (theirs.value - theirs.low) ** 2) ** 0.5
    return Measured(difference, low, high, ours.n + theirs.n, "seeds")


def _binding(seeds: Sequence[SeedCurves]) -> Measured:
    return Measured.share(sum(s.learned_binding for s in seeds), len(seeds), "seeds")


POPULATION = (
    Claim(
        "every-seed-adds", "section 3", "Findings hold across initialisations: every seed learns held-out literal sums (95 %).",
        "expected", rule=AtLeast(0.95), seed_measure=final([ADDITION_SET]),
    ),
    Claim(
        "every-seed-binds", "section 3", "Findings hold across initialisations: every seed learns to bind variables within 50,000 steps.",
        "expected", rule=AtLeast(1), seed_measure=binds,
    ),
    Claim(
        "every-seed-refines", "section 3", "Every seed that binds comes to handle variables in banned slots (95 %).",
        "expected", rule=AtLeast(0.95), seed_measure=final(REFINEMENT_SETS, among_binding=True),
    ),
    *(
        Claim(
            f"every-seed-{slug(name)}", "section 3", f"Every seed that binds reaches over 98 % in the end: {name}.",
            "over 98 %", rule=AtLeast(0.98), seed_measure=final([name], among_binding=True),
        )
        for name in TEST_SETS
    ),
    Claim(
        "every-seed-over-98-at-once", "section 3", "Every seed that binds reaches over 98 % in the end on all six test sets at once.",
        "over 98 %", rule=AtLeast(0.98), seed_measure=final(TEST_SETS, among_binding=True),
    ),
    Claim(
        "every-seed-ov-mlp-99.94", "ov-mlp", "In every seed that binds W_U MLP2(OV2(a) + OV2(b)) alone adds 99.94 % of all pairs.",
        "99.94 %", rule=AtLeast(0.9994), seed_measure=column(["ov2_mlp2_accuracy"], among_binding=True),
    ),
    Claim(
        "every-seed-attention", "attention", "The attention patterns are the same for all training initialisations (99 % of sequences).",
        "all initialisations", rule=AtLeast(0.99), seed_measure=column([f"{p} ({n}-var)" for p in PATTERNS for n in (1, 2)]),
    ),
    Claim(
        "every-binding-seed-attention", "attention", "The attention patterns are the same for all seeds that bind (99 %).",
        "all initialisations", rule=AtLeast(0.99),
        seed_measure=column([f"{p} ({n}-var)" for p in PATTERNS for n in (1, 2)], among_binding=True),
    ),
    Claim(
        "every-binding-seed-identity", "qk0pos_and_qk1", "The identity under QK2 is there in all seeds that bind.",
        "expected", rule=AtLeast(1), seed_measure=column(["qk2_ov1_var_identity"], among_binding=True),
    ),
    Claim(
        "every-seed-addition-first", "section 1", "Addition comes before binding in every seed that binds.",
        "prior to", rule=AtLeast(1), seed_measure=in_order(lambda p: p.addition, lambda p: p.binding),
    ),
    Claim(
        "every-seed-binding-first", "progress_measures", "Binding comes before refinement in every seed that gets there.",
        "in this order", rule=AtLeast(1), seed_measure=in_order(lambda p: p.binding, lambda p: p.refinement),
    ),
    *(
        Claim(
            f"every-seed-{name}-first-beyond-noise", label, f"The same by more than evaluation noise: {what}.",
            paper, rule=AtLeast(1), seed_measure=apart(earlier, later),
        )
        for name, label, what, paper, earlier, later in (
            ("addition", "section 1", "addition before binding", "prior to", lambda p: p.addition, lambda p: p.binding),
            ("binding", "progress_measures", "binding before refinement", "in this order", lambda p: p.binding, lambda p: p.refinement),
        )
    ),
    Claim(
        "every-seed-stays-refined", "accuracies", "A seed that once handled every banned slot for 1,000 steps still does at the end.",
        "not discussed", rule=AtLeast(1), seed_measure=stays_refined,
    ),
    Claim(
        "every-seed-late-variable", "late", "Where a variable comes late, it is one in a banned slot.",
        "b, and k in another run", rule=AtLeast(1), seed_measure=late_is_banned,
    ),
    Claim(
        "pair-threshold", "generalization_combined", "Held-out literal sums need about a quarter of all pairs in training.",
        "f about 0.25", rule=Between(0.2, 0.3), measured=crossing("fraction", "seen_fraction", "0-var held out"),
        comment="The fraction at which half of the seeds reach 95 % after 30,000 steps.",
    ),
    Claim(
        "two-var-threshold", "generalization_combined", "Two-variable sums need about one two-variable sequence for five literal ones.",
        "r about 0.2", rule=Between(0.15, 0.25), measured=crossing("two-var", "two_var_ratio", "2-var test"),
        comment="The ratio at which half of the seeds reach 95 % after 30,000 steps, over the union of the three parts of the test.",
    ),
    *(
        Claim(
            f"two-var-threshold-{name}", "generalization_combined", f"The same on one part of the test: {what}.",
            "not reported apart", rule=Between(0.15, 0.25), measured=crossing("two-var", "two_var_ratio", test),
            comment="The ratio at which half of the seeds reach 95 % after 30,000 steps.",
        )
        for name, what, test in (
            ("held-out", "pairs that were held out", "2-var test held out"),
            ("banned-first", "variables banned from the first slot", "2-var test banned (1)"),
            ("banned-second", "variables banned from the second slot", "2-var test banned (2)"),
        )
    ),
    Claim(
        "readings-equivalent", "ours", "No difference shows in how often seeds bind under either reading of the bans.",
        "not discussed", rule=Between(0, 0), measured=readings_differ,
        comment="Difference of the shares of seeds that bind; with these numbers of seeds one of .15 could go unseen.",
    ),
)  # fmt: skip
