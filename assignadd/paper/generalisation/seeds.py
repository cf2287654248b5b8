"""Claims about populations of seeds: all initialisations of a census, and how much data is needed (section 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from assignadd.dynamics.phases import ADDITION_SET, HELD_OUT_SETS, REFINEMENT_SETS, TRAINED_SETS
from assignadd.ledger.claim import Claim, Reading, SeedMeasure
from assignadd.paper.binding.claims import PATTERNS
from assignadd.paper.dynamics.claims import skill_delay
from assignadd.paper.generalisation.claims import (
    IN_BEST_WINDOW,
    INTERVAL_OF_LOWEST,
    OVER_THE_END,
    SIX_SETS,
    TEST_SETS,
    in_words,
    six_sets_in_best_window,
    slug,
)
from assignadd.stats import AtLeast, Between, Measured, Rule, lowest, threshold
from assignadd.sweeps.population import Populations, SeedCurves
from assignadd.task.evalsets import CLASS_SETS, EVAL_SETS

NINE_SETS = [evalset.name for evalset in EVAL_SETS]
DOUBLES = next(evalset for evalset in CLASS_SETS if evalset.name == "0-var doubles")


def binds(seed: SeedCurves) -> Measured:
    """Whether a seed binds in the end, as 1 or 0."""
    return Measured.exactly(float(seed.binds), 1, "network")


def lowest_of(measure: Callable[[SeedCurves, str], Measured], names: Sequence[str]) -> SeedMeasure:
    """The measure of the lowest `measure(seed, name)` over these columns; it is None where a seed lacks one of them."""

    def lowest_of_columns(seed: SeedCurves) -> Measured | None:
        if not all(seed.has(name) for name in names):
            return None
        return lowest(measure(seed, name) for name in names)

    return lowest_of_columns


def achieved(seed: SeedCurves, name: str) -> Measured:
    """The accuracy that a seed achieves on a set: the median over its last evaluations."""
    shares, n = seed.along_the_end(name)  # at each of the last evaluations, on n sequences
    return Measured.over_evaluations(shares, n * len(shares))


def in_final_exam(seed: SeedCurves, name: str) -> Measured:
    """An accuracy or a rate of attention in the exam after the last step."""
    n = seed.n_final(name)
    return Measured.share(seed.final(name) * n, n, "sequences")


def without_noise(seed: SeedCurves, name: str) -> Measured:
    """A number at the end of training without sampling error, such as one over all pairs."""
    return Measured.exactly(seed.final(name), 1, "network")


def achieved_on_doubles(seed: SeedCurves) -> Measured | None:
    """The accuracy of a seed on held-out doubles of literals, the interval over these; None if it was not tested."""
    if seed.n_doubles == 0 or not seed.has(DOUBLES.name):
        return None
    at_last_evaluations, _ = seed.along_the_end(DOUBLES.name)
    return Measured.over_evaluations_and_pairs(at_last_evaluations, seed.n_doubles)


def learning_delay(earlier: Sequence[str], later: Sequence[str]) -> SeedMeasure:
    """The measure of the steps from when a seed learned the `earlier` sets to when it learned the `later` ones."""
    return lambda seed: skill_delay(seed.curves, earlier, later)


def late_is_banned(seed: SeedCurves) -> Measured | None:
    """Whether the variable that is learned last is in a banned slot, as 1 or 0; None without such a variable."""
    late = seed.late_variable
    return None if late is None else Measured.exactly(float(late.banned), 1, "network")


def _every(
    id: str, label: str, claim: str, paper: str, measure: SeedMeasure, rule: Rule, comment: str = "",
    only_binding: bool = True, readings: Sequence[Reading] = (),
) -> Claim:  # fmt: skip
    """A claim about every seed that binds, or with `only_binding=False` about every seed.

    Its readings are about the same seeds. For a seed that the claim is not about, the measures return None.
    """

    def restricted(measure: SeedMeasure) -> SeedMeasure:
        """The measure for seeds that the claim is about, None for others."""
        return lambda seed: measure(seed) if seed.binds or not only_binding else None

    return Claim(
        id, label, claim, paper, rule=rule, seed_measure=restricted(measure), comment=comment,
        readings=tuple(replace(reading, measure=restricted(reading.measure)) for reading in readings),
    )  # fmt: skip


EVERY_SET = f"{OVER_THE_END} {INTERVAL_OF_LOWEST}"
LOWEST_RATE = "The value of a seed is the lowest rate of the three patterns over sums with 0, 1 and 2 variables."
RATES = [f"{pattern} ({n_vars}-var)" for pattern in PATTERNS for n_vars in (0, 1, 2)]
ON_DOUBLES = Reading(
    "doubles", f"Every seed that binds achieves 95 % on {in_words(DOUBLES)}.", AtLeast(0.95), achieved_on_doubles
)

INITIALISATIONS = (
    _every("every-seed-adds", "section 3", "Every seed learns held-out sums of literals (95 %).",
           "expected", lowest_of(achieved, [ADDITION_SET]), AtLeast(0.95), only_binding=False),
    _every("every-seed-binds", "section 3", "Every seed learns to bind variables by the end of training.",
           "expected", binds, AtLeast(1), "Binding is 95 % on trained sums with one variable.", only_binding=False),
    _every("every-seed-refines", "section 3",
           "Every seed that binds learns sums with variables in banned slots (95 %).",
           "expected", lowest_of(achieved, REFINEMENT_SETS), AtLeast(0.95), EVERY_SET),
    *(
        _every(f"every-seed-{slug(evalset.name)}", "section 3",
               f"Every seed that binds achieves over 98 % on {in_words(evalset)}.",
               "over 98 %", lowest_of(achieved, [evalset.name]), AtLeast(0.98), OVER_THE_END,
               readings=[ON_DOUBLES] if evalset.name == ADDITION_SET else [])
        for evalset in TEST_SETS
    ),
    _every("every-seed-over-98-at-once", "section 3",
           "Every seed that binds achieves over 98 % on all six test sets.",
           "over 98 %", lowest_of(achieved, SIX_SETS), AtLeast(0.98), EVERY_SET,
           readings=[Reading("best-window", IN_BEST_WINDOW, AtLeast(0.98),
                             lambda seed: six_sets_in_best_window(seed.curves))]),
    _every("every-seed-over-99-at-once", "progress_measures",
           "Every seed that binds achieves over 99 % on all nine sets.",
           "> 99 % across all benchmarks", lowest_of(achieved, NINE_SETS), AtLeast(0.99), EVERY_SET),
    _every("every-seed-ov-mlp-99.94", "ov-mlp",
           "In every seed that binds, W_U MLP2(OV2(a) + OV2(b)) alone ends with 99.94 % of all pairs correct.",
           "99.94 %", lowest_of(without_noise, ["ov2_mlp2_accuracy"]), AtLeast(0.9994)),
    _every("every-binding-seed-attention", "attention",
           "The three attention patterns are present in 99 % of the sequences of every seed that binds, with any pair "
           "of numbers and any slots.",
           "all initialisations", lowest_of(in_final_exam, RATES), AtLeast(0.99), LOWEST_RATE),
    _every("every-binding-seed-identity", "qk0pos_and_qk1",
           "In every seed that binds, each copied variable matches itself best under QK2.",
           "expected", lowest_of(without_noise, ["qk2_ov1_var_identity"]), AtLeast(1)),
)  # fmt: skip

ORDER = (
    _every("every-seed-addition-first-train", "section 1",
           "In every seed that binds, trained sums of literals are learned before those with variables (95 %).",
           "prior to", learning_delay(["0-var train"], TRAINED_SETS), AtLeast(1)),
    _every("every-seed-addition-first-held-out", "section 1",
           "In every seed that binds, held-out sums of literals are learned before those with variables (95 %).",
           "prior to", learning_delay([ADDITION_SET], HELD_OUT_SETS), AtLeast(1)),
    _every("every-seed-binding-first", "progress_measures",
           "In every seed that learns both, variables are learned in trained slots before banned slots (95 %).",
           "in this order", learning_delay(TRAINED_SETS, REFINEMENT_SETS), AtLeast(1),
           "Both have trained pairs of numbers."),
    _every("every-seed-late-variable", "late",
           "In every seed with a variable that is learned late, it is in a banned slot.",
           "b, and k in another run", late_is_banned, AtLeast(1),
           "By chance, this is so for 4 of 24 combinations of variable and slot."),
)  # fmt: skip

# A seed of a sweep succeeds with this accuracy on the paper's test at the end.
SUCCESS = 0.95
# The sweeps of `Populations`, and the setting of the task that each varies: f and r of the paper.
SWEEPS = {"fraction": "seen_fraction", "two_var": "two_var_ratio"}
# The paper's sentence on f is a lower bound ("at least"), from a grid with points at .257 and .306; on r it names a
# value, read off a figure in steps of 0.05.
AT_LEAST_A_QUARTER = AtLeast(0.25)
ABOUT_A_FIFTH = Between(0.175, 0.225)


@lru_cache(maxsize=32)
def sweep_threshold(populations: Populations, sweep: str, test: str, only_binding: bool = False) -> Measured | None:
    """The setting of a sweep (`fraction` or `two_var`) from which on seeds reach 95 % on a test at the end.

    It is fitted to the shares of successful seeds (`stats.threshold`) among all seeds, or with `only_binding` among
    those that bind. None without this sweep, or where the share does not rise.
    """
    population = getattr(populations, sweep)
    if population is None:
        return None
    settings, accuracy = population.finals(SWEEPS[sweep], test)  # (settings,); (settings, seeds), NaN: no network
    counted = np.isfinite(accuracy)
    if only_binding:
        counted &= population.binds(SWEEPS[sweep])
    return threshold(settings, accuracy >= SUCCESS, counted)  # NaN is no success


AMONG_BINDING = "Among the networks that bind."
THRESHOLD = (
    f"The threshold is where the share of successful seeds ({100 * SUCCESS:.0f} % on the final test) is half of its "
    "maximum; the interval is from resampled seeds."
)
DATA_NEEDED = (
    Claim("pair-threshold", "generalization_combined",
          "Held-out literal sums are learned from no less than a quarter of all pairs in training.",
          "at least f = 0.25", rule=AT_LEAST_A_QUARTER, comment=THRESHOLD, sweep="fraction",
          population_measure=partial(sweep_threshold, sweep="fraction", test="0-var held out"),
          readings=(Reading("binding", AMONG_BINDING, AT_LEAST_A_QUARTER,
                            partial(sweep_threshold, sweep="fraction", test="0-var held out", only_binding=True)),)),
    Claim("two-var-threshold", "generalization_combined",
          "Two-variable sums are learned from about one two-variable sequence for five literal ones.",
          "r about 0.2", rule=ABOUT_A_FIFTH, comment=THRESHOLD, sweep="two_var",
          population_measure=partial(sweep_threshold, sweep="two_var", test="2-var test"),
          readings=(Reading("binding", AMONG_BINDING, ABOUT_A_FIFTH,
                            partial(sweep_threshold, sweep="two_var", test="2-var test", only_binding=True)),)),
)  # fmt: skip

POPULATION = (*INITIALISATIONS, *ORDER, *DATA_NEEDED)
