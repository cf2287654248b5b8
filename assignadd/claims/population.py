"""Claims about populations of seeds: all initialisations of a census, and how much data is needed (section 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np

from assignadd.claims.along_training import in_steps, skill_delay
from assignadd.claims.generalisation import OVER_PAIRS, TEST_SETS, VARIABLES, in_words, slug
from assignadd.claims.measured import Measured, lowest
from assignadd.claims.mechanism import PATTERNS
from assignadd.claims.record import NOT_REPORTED, OURS, Claim
from assignadd.dynamics.phases import ADDITION_SET, HELD_OUT_SETS, REFINEMENT_SETS, TRAINED_SETS
from assignadd.measures.progress import TRAINING_LAW
from assignadd.stats import Threshold, threshold
from assignadd.sweeps.population import Populations, SeedCurves
from assignadd.task.evalsets import CLASS_SETS, EVAL_SETS, EvalSet
from assignadd.verdicts import AtLeast, AtMost, Between, Rule

SeedMeasure = Callable[[SeedCurves], Measured | None]
PopulationMeasure = Callable[[Populations], Measured | None]


def binds(seed: SeedCurves) -> Measured:
    """Whether a seed learned to bind variables."""
    return Measured.exactly(float(seed.learned_binding), 1, "network")


def final(names: Sequence[str]) -> SeedMeasure:
    """The lowest of these accuracies or attention rates in the final exam; None where one is missing."""

    def measure(seed: SeedCurves) -> Measured | None:
        if not all(map(seed.has, names)):
            return None
        return lowest(Measured.share(seed.final(n) * seed.n_final(n), seed.n_final(n), "sequences") for n in names)

    return measure


def final_class(s: EvalSet) -> SeedMeasure:
    """The accuracy on a class of held-out pairs at the end, with the interval over its pairs."""

    def measure(seed: SeedCurves) -> Measured | None:
        n = seed.n_pairs(s.pair)
        return Measured.share(seed.final(s.name) * n, n, "pairs") if n and seed.has(s.name) else None

    return measure


def exact(name: str) -> SeedMeasure:
    """A number at the end of training without sampling error, such as one over all pairs."""
    return lambda seed: Measured.exactly(seed.final(name), 1, "network") if seed.has(name) else None


def in_order(earlier: Sequence[str], later: Sequence[str]) -> SeedMeasure:
    """Steps from the onset of some sets to that of others, both at 95 %; None where the later one never came."""
    return lambda seed: in_steps(skill_delay(seed.curves, earlier, later), 1, "network")


def stays_refined(seed: SeedCurves) -> Measured | None:
    """The lowest set with a banned slot at the end; None where they never all reached 95 % for 1,000 steps."""
    return None if seed.phases.refinement is None else final(REFINEMENT_SETS)(seed)


def late_is_banned(seed: SeedCurves) -> Measured | None:
    """Whether the variable that is learned last is in a banned slot."""
    late = seed.late_variable
    return None if late is None else Measured.exactly(float(late.banned), 1, "network")


def median_final(name: str, binding: bool) -> PopulationMeasure:
    """The median of an accuracy at the end, over the seeds that bind or over those that do not."""

    def measured(populations: Populations) -> Measured | None:
        values = [s.final(name) for s in populations.seeds if s.learned_binding == binding and s.has(name)]
        return Measured.median(values, "seeds")

    return measured


def rates(patterns: Sequence[str], types: Sequence[int], law: str = "") -> SeedMeasure:
    """The lowest rate of these attention patterns over sums with these numbers of variables."""
    return final([f"{p} ({n}-var{law})" for p in patterns for n in types])


def _every(
    id: str, label: str, claim: str, paper: str, measure: SeedMeasure, rule: Rule, comment: str = "",
    binding: bool = True,
) -> Claim:  # fmt: skip
    """A claim about every seed, or about every seed that binds."""

    def ask(seed: SeedCurves) -> Measured | None:
        return measure(seed) if seed.learned_binding or not binding else None

    return Claim(id, label, claim, paper, rule=rule, seed_measure=ask, comment=comment)


ALL = "all initialisations"
SAME_PATTERNS = "The three attention patterns are present in 99 % of"
LOWEST_RATE = "The value of a seed is the lowest rate of the three patterns over sums with 0, 1 and 2 variables."
TYPES = (0, 1, 2)

INITIALISATIONS = (
    _every("every-seed-adds", "section 3", "Every seed learns held-out sums of literals (95 %).",
           "expected", final([ADDITION_SET]), AtLeast(0.95), binding=False),
    _every("every-seed-binds", "section 3", "Every seed learns to bind variables by the end of training.",
           "expected", binds, AtLeast(1), "Binding is 95 % on trained sums with one variable.", binding=False),
    _every("every-seed-refines", "section 3",
           "Every seed that binds learns sums with variables in banned slots (95 %).",
           "expected", final(REFINEMENT_SETS), AtLeast(0.95)),
    *(
        _every(f"every-seed-{slug(s.name)}", "section 3",
               f"Every seed that binds ends with over 98 % on {in_words(s)}.",
               "over 98 %", final([s.name]), AtLeast(0.98))
        for s in TEST_SETS
    ),
    _every("every-seed-over-98-at-once", "section 3", "Every seed that binds ends with over 98 % on all six test sets.",
           "over 98 %", final([s.name for s in TEST_SETS]), AtLeast(0.98)),
    _every("every-seed-over-99-at-once", "progress_measures",
           "Every seed that binds ends with over 99 % on all nine sets.",
           "> 99 % across all benchmarks", final([s.name for s in EVAL_SETS]), AtLeast(0.99)),
    _every("every-seed-ov-mlp-99.94", "ov-mlp",
           "In every seed that binds, W_U MLP2(OV2(a) + OV2(b)) alone ends with 99.94 % of all pairs correct.",
           "99.94 %", exact("ov2_mlp2_accuracy"), AtLeast(0.9994)),
    _every("every-binding-seed-attention", "attention",
           f"{SAME_PATTERNS} the sequences of every seed that binds, with any pair of numbers and any slots.",
           ALL, rates(tuple(PATTERNS), TYPES), AtLeast(0.99), LOWEST_RATE),
    _every("every-binding-seed-attention-training-law", OURS,
           f"{SAME_PATTERNS} the sequences that training could show, in every seed that binds.",
           ALL, rates(tuple(PATTERNS), TYPES, f", {TRAINING_LAW}"), AtLeast(0.99), LOWEST_RATE),
    *(
        _every(f"every-binding-seed-{p.replace('_', '-')}-{n}-var", OURS,
               f"{says} in 99 % of the sums with {VARIABLES[n, 0]}, in every seed that binds.", ALL, rates([p], [n]),
               AtLeast(0.99))
        for p, says in PATTERNS.items() for n in TYPES
    ),
    _every("every-binding-seed-identity", "qk0pos_and_qk1",
           "In every seed that binds, each copied variable matches itself best under QK2.",
           "expected", exact("qk2_ov1_var_identity"), AtLeast(1)),
)  # fmt: skip

ORDER = (
    _every("every-seed-addition-first-train", "section 1",
           "In every seed that binds, trained sums of literals are learned before those with variables (95 %).",
           "prior to", in_order(["0-var train"], TRAINED_SETS), AtLeast(1), binding=False),
    _every("every-seed-addition-first-held-out", "section 1",
           "In every seed that binds, held-out sums of literals are learned before those with variables (95 %).",
           "prior to", in_order([ADDITION_SET], HELD_OUT_SETS), AtLeast(1), binding=False),
    _every("every-seed-binding-first", "progress_measures",
           "In every seed that learns both, variables are learned in trained slots before banned slots (95 %).",
           "in this order", in_order(TRAINED_SETS, REFINEMENT_SETS), AtLeast(1), "Both have trained pairs of numbers.",
           binding=False),
    _every("every-seed-stays-refined", "accuracies",
           "Every seed that has 95 % on all sets with banned slots for 1,000 steps still has it at the end.",
           "not discussed", stays_refined, AtLeast(0.95), binding=False),
    _every("every-seed-late-variable", "late",
           "In every seed with a variable that is learned late, it is in a banned slot.",
           "b, and k in another run", late_is_banned, AtLeast(1),
           "By chance, this is so for 4 of 24 combinations of variable and slot.", binding=False),
)  # fmt: skip

DOUBLES = next(s for s in CLASS_SETS if s.name == "0-var doubles")
CLASSES = (
    *(
        _every(f"every-seed-{slug(s.name)}", OURS, f"Every seed that binds ends with at least 95 % on {in_words(s)}.",
               "over 98 % over all held-out pairs", final_class(s), AtLeast(0.95), OVER_PAIRS)
        for s in CLASS_SETS
    ),
    Claim("doubles-of-binding-seeds", OURS,
          "The median accuracy of seeds that bind is at most 90 % on held-out doubles n + n of literals.",
          NOT_REPORTED, rule=AtMost(0.9), measured=median_final(DOUBLES.name, True)),
    _every("every-binding-seed-fails-doubles", OURS,
           "Every seed that binds has less than 98 % on held-out doubles n + n of literals.",
           NOT_REPORTED, final_class(DOUBLES), AtMost(0.98)),
    Claim("doubles-of-other-seeds", OURS,
          "The median accuracy of seeds that do not bind is at least 98 % on held-out doubles n + n of literals.",
          NOT_REPORTED, rule=AtLeast(0.98), measured=median_final(DOUBLES.name, False)),
    Claim("neither-order-of-binding-seeds", OURS,
          "The median accuracy of seeds that bind is at least 99 % on literals n != m held out in both orders.",
          NOT_REPORTED, rule=AtLeast(0.99), measured=median_final("0-var neither order", True)),
)  # fmt: skip

# A seed of a sweep succeeds with this accuracy on the paper's test at the end.
SUCCESS = 0.95
SWEEPS = {"fraction": "seen_fraction", "two_var": "two_var_ratio"}
# The paper reads its thresholds off a figure, in steps of 0.05.
ABOUT_A_QUARTER, ABOUT_A_FIFTH = Between(0.225, 0.275), Between(0.175, 0.225)


@lru_cache(maxsize=32)
def sweep_threshold(
    populations: Populations, sweep: str, test: str, binding: bool, level: float = SUCCESS
) -> Threshold | None:
    """Where the share of seeds that reach a level on a test rises; only among those that bind if `binding`."""
    population = getattr(populations, sweep)
    if population is None:
        return None
    settings, accuracy = population.finals(SWEEPS[sweep], test)
    asked = np.isfinite(accuracy) & (population.binds(SWEEPS[sweep]) | (not binding))
    return threshold(settings, np.nan_to_num(accuracy) >= level, asked)


def crossing(sweep: str, test: str, binding: bool, level: float = SUCCESS) -> PopulationMeasure:
    """That threshold as a measured number."""

    def measured(populations: Populations) -> Measured | None:
        found = sweep_threshold(populations, sweep, test, binding, level)
        if found is None:
            return None
        return Measured(found.value, found.interval.low, found.interval.high, found.n, "networks")

    return measured


def _thresholds(id: str, sweep: str, test: str, claim: str, paper: str, rule: Between) -> tuple[Claim, Claim]:
    """The threshold over all seeds, with a lapse rate for those that fail at any setting, and over seeds that bind."""
    comment = (
        f"The threshold is where the share of successful seeds ({100 * SUCCESS:.0f} % on the final test) is half of "
        "its maximum; the interval is from resampled seeds."
    )
    label = "generalization_combined"
    return (
        Claim(id, label, f"{claim}.", paper, rule=rule,
              comment=comment, sweep=sweep, measured=crossing(sweep, test, False)),
        Claim(f"{id}-binding", label, f"Among seeds that bind, {claim[0].lower()}{claim[1:]}.", paper, rule=rule,
              comment=comment, sweep=sweep, measured=crossing(sweep, test, True)),
    )  # fmt: skip


# id, sweep, test, claim, the paper's value, rule
PAIRS_NEEDED = (
    "pair-threshold", "fraction", "0-var held out",
    "Held-out literal sums are learned from about a quarter of all pairs in training", "f about 0.25", ABOUT_A_QUARTER,
)  # fmt: skip
TWO_VAR = "are learned from about one two-variable sequence for five literal ones"
TWO_VAR_NEEDED = (
    "two-var-threshold",
    "two_var",
    "2-var test",
    f"Two-variable sums {TWO_VAR}",
    "r about 0.2",
    ABOUT_A_FIFTH,
)
PARTS_NEEDED = tuple(
    (f"two-var-threshold-{id}", "two_var", test, f"Two-variable sums {words} {TWO_VAR}",
     "r about 0.2 over all parts", ABOUT_A_FIFTH)
    for id, words, test in (
        ("held-out", "of held-out pairs, in trained slots,", "2-var test held out"),
        ("one-banned", "with one variable in a banned slot", "2-var test banned (1)"),
        ("both-banned", "with both variables in banned slots", "2-var test banned (2)"),
    )
)  # fmt: skip

DATA_NEEDED = (
    *chain.from_iterable(_thresholds(*row) for row in (PAIRS_NEEDED, TWO_VAR_NEEDED, *PARTS_NEEDED)),
    *(
        Claim(f"{id}-binding-{100 * level:.0f}", OURS,
              f"Among seeds that bind, with {100 * level:.0f} % as success, {claim[0].lower()}{claim[1:]}.",
              paper, rule=rule, measured=crossing(sweep, test, True, level), sweep=sweep)
        for id, sweep, test, claim, paper, rule in (PAIRS_NEEDED, TWO_VAR_NEEDED)
        for level in (0.9, 0.98)
    ),
)  # fmt: skip

POPULATION = (*INITIALISATIONS, *ORDER, *CLASSES, *DATA_NEEDED)
