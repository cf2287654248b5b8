"""Claims about all initialisations and about how much data is needed: asked of populations of seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from assignadd.claims.generalisation import TEST_SETS, slug
from assignadd.claims.record import AtLeast, AtMost, Between, Claim, Measured
from assignadd.dynamics.onsets import steps_between
from assignadd.dynamics.phases import ADDITION_SET, HELD_OUT_SETS, REFINEMENT_SETS, TRAINED_SETS, skill_onset
from assignadd.measures.progress import TRAINING_LAW
from assignadd.stats import Threshold, median_interval, threshold
from assignadd.sweeps.population import Populations, SeedCurves
from assignadd.task.evalsets import CLASS_SETS, EVAL_SETS, HELD_OUT_CLASSES, EvalSet

# A seed of a sweep succeeds with this accuracy on the paper's test at the end.
SUCCESS = 0.95
PATTERNS = ("attn_l1_equal_to_operands", "attn_l1_num_to_prev", "attn_l2_equal_to_values")
SWEEPS = {"fraction": "seen_fraction", "two_var": "two_var_ratio"}
NINE_SETS = [s.name for s in EVAL_SETS]
Asked = Callable[[SeedCurves], Measured | None]
Number = Callable[[Populations], Measured | None]


def among_binding(ask: Asked) -> Asked:
    """The same, of seeds that bind only."""
    return lambda seed: ask(seed) if seed.learned_binding else None


def binds(seed: SeedCurves) -> Measured:
    return Measured.exactly(float(seed.learned_binding), 1, "network")


def final(names: Sequence[str]) -> Asked:
    """The lowest of these accuracies or attention rates in the final exam, with its own interval."""

    def ask(seed: SeedCurves) -> Measured | None:
        found = [
            Measured.share(seed.final(n) * seed.n_final(n), seed.n_final(n), "sequences") for n in names if seed.has(n)
        ]
        return min(found, key=lambda m: m.value) if len(found) == len(names) else None

    return ask


def final_class(evalset: EvalSet) -> Asked:
    """The accuracy on a class of held-out pairs at the end, with the interval over its pairs."""

    def ask(seed: SeedCurves) -> Measured | None:
        n = seed.n_pairs(evalset.pair)
        return Measured.share(seed.final(evalset.name) * n, n, "pairs") if n and seed.has(evalset.name) else None

    return ask


def column(name: str) -> Asked:
    """A number at the end of training that is exact for the network, such as one over all pairs."""
    return lambda seed: Measured.exactly(seed.final(name), 1, "network") if seed.has(name) else None


def in_order(earlier: Sequence[str], later: Sequence[str]) -> Asked:
    """Steps from the onset of some sets to that of others, both at 95 %; None where the later never came."""

    def ask(seed: SeedCurves) -> Measured | None:
        found = steps_between(
            skill_onset(seed.curves, earlier), skill_onset(seed.curves, later), int(seed.curves.steps[-1])
        )
        return None if found is None else Measured(found.steps, found.low, found.high, 1, "network")

    return ask


def stays_refined(seed: SeedCurves) -> Measured | None:
    """The lowest set with a banned slot at the end; None where they never all reached 95 % for 1,000 steps."""
    return None if seed.phases.refinement is None else final(REFINEMENT_SETS)(seed)


def late_is_banned(seed: SeedCurves) -> Measured | None:
    late = seed.late_variable
    return None if late is None else Measured.exactly(float(late.banned), 1, "network")


def median_final(name: str, binding: bool) -> Number:
    """The median over the seeds that bind, or over those that do not, of an accuracy at the end."""

    def measured(populations: Populations) -> Measured | None:
        values = [s.final(name) for s in populations.seeds if s.learned_binding == binding and s.has(name)]
        if not values:
            return None
        value, interval = median_interval(values)
        return Measured(value, interval.low, interval.high, len(values), "seeds") if interval else None

    return measured


@lru_cache(maxsize=32)
def sweep_threshold(
    populations: Populations, sweep: str, test: str, binding: bool, level: float = SUCCESS
) -> Threshold | None:
    """Where the share of seeds that reach a level on a test rises; of those that bind alone if `binding`."""
    population = getattr(populations, sweep)
    if population is None:
        return None
    settings, accuracy = population.finals(SWEEPS[sweep], test)
    asked = np.isfinite(accuracy) & (population.binds(SWEEPS[sweep]) | (not binding))
    return threshold(settings, np.nan_to_num(accuracy) >= level, asked)


def crossing(sweep: str, test: str, binding: bool, level: float = SUCCESS) -> Number:
    def measured(populations: Populations) -> Measured | None:
        found = sweep_threshold(populations, sweep, test, binding, level)
        return (
            None
            if found is None
            else Measured(found.value, found.interval.low, found.interval.high, found.n, "networks")
        )

    return measured


def _thresholds(id: str, sweep: str, test: str, claim: str, paper: str, rule: Between) -> tuple[Claim, Claim]:
    """Over all seeds, with a lapse rate for those that fail at any setting, and over the seeds that bind."""
    how = f"Half-way up to the share of seeds that succeed at best ({SUCCESS:.0%} on the test at the end); seeds are resampled."
    return (
        Claim(id, "generalization_combined", claim, paper, rule=rule, measured=crossing(sweep, test, False), comment=how, sweep=sweep),
        Claim(
            f"{id}-binding", "generalization_combined", f"{claim} Among the seeds that bind.", paper, rule=rule,
            measured=crossing(sweep, test, True), comment=how, sweep=sweep,
        ),
    )  # fmt: skip


# The paper reads its thresholds off a figure, in steps of .05.
ABOUT_A_QUARTER, ABOUT_A_FIFTH = Between(0.225, 0.275), Between(0.175, 0.225)

INITIALISATIONS = (
    Claim(
        "every-seed-adds", "section 3", "Findings hold across initialisations: every seed learns held-out literal sums (95 %).",
        "expected", rule=AtLeast(0.95), seed_measure=final([ADDITION_SET]),
    ),
    Claim(
        "every-seed-binds", "section 3", "Findings hold across initialisations: every seed learns to bind variables by the end.",
        "expected", rule=AtLeast(1), seed_measure=binds, comment="Binding: 95 % on one-variable sums of the training law.",
    ),
    Claim(
        "every-seed-refines", "section 3", "Every seed that binds comes to handle variables in banned slots (95 %).",
        "expected", rule=AtLeast(0.95), seed_measure=among_binding(final(REFINEMENT_SETS)),
    ),
    *(
        Claim(
            f"every-seed-{slug(name)}", "section 3", f"Every seed that binds reaches over 98 % in the end: {name}.",
            "over 98 %", rule=AtLeast(0.98), seed_measure=among_binding(final([name])),
        )
        for name in TEST_SETS
    ),
    Claim(
        "every-seed-over-98-at-once", "section 3", "Every seed that binds reaches over 98 % in the end on all six test sets at once.",
        "over 98 %", rule=AtLeast(0.98), seed_measure=among_binding(final(TEST_SETS)),
    ),
    Claim(
        "every-seed-over-99-at-once", "progress_measures", "Every seed that binds reaches over 99 % in the end on all nine sets at once.",
        "> 99 % across all benchmarks", rule=AtLeast(0.99), seed_measure=among_binding(final(NINE_SETS)),
    ),
    Claim(
        "every-seed-ov-mlp-99.94", "ov-mlp", 
        "In every seed that binds W_U MLP2(OV2(a) + OV2(b)) alone adds at least 99.94 % of all pairs at the last step.",
        "99.94 %", rule=AtLeast(0.9994), seed_measure=among_binding(column("ov2_mlp2_accuracy")),
    ),
    Claim(
        "every-binding-seed-attention", "attention",
        "The attention patterns are the same for all seeds that bind: in 99 % of sequences with any pair of numbers and any slots.",
        "all initialisations", rule=AtLeast(0.99),
        seed_measure=among_binding(final([f"{p} ({n}-var)" for p in PATTERNS for n in (0, 1, 2)])),
        comment="The lowest of the three patterns' rates, over 0, 1 and 2 variables.",
    ),
    Claim(
        "every-binding-seed-attention-training-law", "ours",
        "The attention patterns are the same for all seeds that bind: in 99 % of the sequences that training could show.",
        "all initialisations", rule=AtLeast(0.99),
        seed_measure=among_binding(final([f"{p} ({n}-var, {TRAINING_LAW})" for p in PATTERNS for n in (0, 1, 2)])),
    ),
    *(
        Claim(
            f"every-binding-seed-{p.replace('_', '-')}-{n}-var", "ours",
            f"One pattern and number of variables alone: {p}, {n} variables, in 99 % of the sequences of every seed that binds.",
            "all initialisations", rule=AtLeast(0.99), seed_measure=among_binding(final([f"{p} ({n}-var)"])),
        )
        for p in PATTERNS for n in (0, 1, 2)
    ),
    Claim(
        "every-binding-seed-identity", "qk0pos_and_qk1", "The identity under QK2 is there in all seeds that bind.",
        "expected", rule=AtLeast(1), seed_measure=among_binding(column("qk2_ov1_var_identity")),
    ),
)  # fmt: skip

ORDER = (
    Claim(
        "every-seed-addition-first-train", "section 1",
        "Addition comes before binding in every seed that binds: trained sums of literals before trained sums with variables, at 95 %.",
        "prior to", rule=AtLeast(1), seed_measure=in_order(["0-var train"], TRAINED_SETS),
    ),
    Claim(
        "every-seed-addition-first-held-out", "section 1",
        "The same for held-out pairs: sums of literals before sums with variables, at 95 %.",
        "prior to", rule=AtLeast(1), seed_measure=in_order([ADDITION_SET], HELD_OUT_SETS),
    ),
    Claim(
        "every-seed-binding-first", "progress_measures",
        "Binding comes before refinement in every seed that gets there: trained pairs, slots as trained before banned slots, at 95 %.",
        "in this order", rule=AtLeast(1), seed_measure=in_order(TRAINED_SETS, REFINEMENT_SETS),
    ),
    Claim(
        "every-seed-stays-refined", "accuracies",
        "A seed that once handled every banned slot (95 %) for 1,000 steps still does at the end.",
        "not discussed", rule=AtLeast(0.95), seed_measure=stays_refined,
    ),
    Claim(
        "every-seed-late-variable", "late", "Where a variable comes late, it is one in a banned slot.",
        "b, and k in another run", rule=AtLeast(1), seed_measure=late_is_banned,
        comment="By chance it would be in 4 of 24 combinations of variable and slot.",
    ),
)  # fmt: skip

CLASSES = (
    *(
        Claim(
            f"every-seed-{slug(s.name)}", "ours",
            f"Every seed that binds reaches 95 % on one class of held-out pairs: {HELD_OUT_CLASSES[s.pair]}, {s.n_vars} variables.",
            "over 98 % over all held-out pairs", rule=AtLeast(0.95), seed_measure=among_binding(final_class(s)),
            comment="Intervals are over pairs, n + m and m + n as one: too few pairs to tell 98 % from 100 %.",
        )
        for s in CLASS_SETS
    ),
    Claim(
        "doubles-of-binding-seeds", "ours", "The median seed that binds fails on held-out doubles n + n of literals: at most 90 %.",
        "not reported", rule=AtMost(0.9), measured=median_final("0-var doubles", True),
    ),
    Claim(
        "every-binding-seed-fails-doubles", "ours", "Every seed that binds fails on held-out doubles n + n of literals: under 98 %.",
        "not reported", rule=AtMost(0.98), seed_measure=among_binding(final_class(CLASS_SETS[2])),
    ),
    Claim(
        "doubles-of-other-seeds", "ours", "The median seed that does not bind answers held-out doubles n + n of literals: at least 98 %.",
        "not reported", rule=AtLeast(0.98), measured=median_final("0-var doubles", False),
    ),
    Claim(
        "neither-order-of-binding-seeds", "ours",
        "The median seed that binds answers literal sums held out in both orders, n different from m: at least 99 %.",
        "not reported", rule=AtLeast(0.99), measured=median_final("0-var neither order", True),
    ),
)  # fmt: skip

DATA_NEEDED = (
    *_thresholds(
        "pair-threshold", "fraction", "0-var held out", "Held-out literal sums need about a quarter of all pairs in training.",
        "f about 0.25", ABOUT_A_QUARTER,
    ),
    *_thresholds(
        "two-var-threshold", "two_var", "2-var test", "Two-variable sums need about one two-variable sequence for five literal ones.",
        "r about 0.2", ABOUT_A_FIFTH,
    ),
    *(
        threshold
        for name, what, test in (
            ("held-out", "held-out pairs, slots as trained", "2-var test held out"),
            ("one-banned", "one operand in a banned slot", "2-var test banned (1)"),
            ("both-banned", "both operands in banned slots", "2-var test banned (2)"),
        )
        for threshold in _thresholds(
            f"two-var-threshold-{name}", "two_var", test, f"The same on one part of the two-variable test: {what}.",
            "r about 0.2 over all parts", ABOUT_A_FIFTH,
        )
    ),
    *(
        Claim(
            f"{id}-binding-{100 * level:.0f}", "ours", f"The same with {level:.0%} for success: the level decides where it is.",
            paper, rule=rule, measured=crossing(sweep, test, True, level), sweep=sweep,
        )
        for id, sweep, test, paper, rule in (
            ("pair-threshold", "fraction", "0-var held out", "f about 0.25", ABOUT_A_QUARTER),
            ("two-var-threshold", "two_var", "2-var test", "r about 0.2", ABOUT_A_FIFTH),
        )
        for level in (0.9, 0.98)
    ),
)  # fmt: skip

POPULATION = (*INITIALISATIONS, *ORDER, *CLASSES, *DATA_NEEDED)
