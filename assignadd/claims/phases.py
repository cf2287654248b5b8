"""Claims of sections 1 and 4 and appendix B: the order of the skills, and the routing measures between the spikes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from assignadd.claims.along_training import (
    AFTER,
    BEFORE,
    Steps,
    accuracy_at,
    around_first_spike,
    at_first_spike,
    exam,
    in_steps,
    recorded,
    skill_delay,
    trajectory_at,
)
from assignadd.claims.evidence import Evidence
from assignadd.claims.generalisation import counted, lowest_on
from assignadd.claims.measured import Measured, lowest
from assignadd.claims.record import OURS, Claim, Measure
from assignadd.dynamics.phases import (
    ADDITION_SET,
    APART,
    HELD_OUT_SETS,
    LITERAL_SETS,
    REFINEMENT_SETS,
    THRESHOLD,
    TRAINED_SETS,
)
from assignadd.measures.probes import TRAIN_SHARE, probe_l1_var_from_num
from assignadd.measures.progress import SEQUENCES, TRAINING_LAW
from assignadd.task.evalsets import EVAL_SETS, EvalSet
from assignadd.verdicts import AtLeast, Between

TRAINED_LITERALS = "0-var train"
ONE_VARIABLE = EvalSet("1-var train", n_vars=1)
# 100 %, rounded to the whole percent as in the paper.
ROUNDED = 0.995


def in_order(earlier: Sequence[str], later: Sequence[str]) -> Measure:
    """Steps from the onset of some sets to that of others, both at 95 %; None where the later one never came."""

    def measure(e: Evidence) -> Measured | None:
        if not e.followed:
            return None
        return in_steps(skill_delay(e.curves, earlier, later), len(e.curves.steps), "evaluations")

    return measure


def before_binding(sets: Sequence[str]) -> Measure:
    """The lowest accuracy of some sets just before the first spike, or at the end of training where there is none.

    Accuracy is measured on new sequences at the last checkpoint before the spike. Without a checkpoint near it, it is
    that of the last evaluation, which may have too few sequences to tell 99 % from 100 %.
    """

    def measure(e: Evidence) -> Measured | None:
        if not e.followed:
            return None
        spike, steps = e.phases.first_spike, around_first_spike(e)
        if spike is None:
            return lowest(counted(e.accuracies.get(name)) for name in sets)
        asked = [s for s in EVAL_SETS if s.name in sets and s.name in e.curves.accuracy]
        if steps is None:
            return lowest(recorded(e, s.name, spike.before) for s in asked)
        return lowest(accuracy_at(e, s, steps[BEFORE]) for s in asked)

    return measure


def phases_found(e: Evidence) -> Measured | None:
    """The number of phases found; the lower end counts those that are certain in spite of evaluation noise."""
    if not e.followed:
        return None
    found = [p for p in (e.phases.addition, e.phases.binding, e.phases.refinement) if p is not None]
    return Measured(len(found), sum(p.high is not None for p in found), len(found), 3, "phases looked for")


@at_first_spike
def circuit_before_binding(e: Evidence, steps: Steps) -> Measured:
    """The share of all pairs of numbers that the OV-MLP circuit adds just before the first spike."""
    accuracy = trajectory_at(e, "ov2_mlp2_accuracy", steps[BEFORE])
    return Measured.exactly(accuracy, e.config.task.modulus**2, "pairs")


def after_binding(e: Evidence) -> int | None:
    """The first checkpoint from the onset of binding on; None without one near it."""
    binding = e.phases.binding if e.followed else None
    return next((s for s in e.steps if binding and binding.step <= s <= binding.step + APART), None)


def beside_first_spike(when: int) -> Callable[[Evidence], int | None]:
    """The checkpoint before or after the first spike; None without one near it."""
    return lambda e: None if (steps := around_first_spike(e)) is None else steps[when]


def probe(where: Callable[[Evidence], int | None], training_steps: int | None) -> Measure:
    """Test accuracy of the probe for the variable at assigned numbers, at one checkpoint.

    Counted by sequences. Each has several numbers, so the interval is conservative (see `measures.columns`).
    """

    def measure(e: Evidence) -> Measured | None:
        step = where(e)
        if step is None:
            return None
        tested = e.n - int(TRAIN_SHARE * e.n)
        share = float(probe_l1_var_from_num(e.stack_at(step), exam(e, ONE_VARIABLE).tokens, training_steps))
        return Measured.share(round(share * tested), tested, "sequences")

    return measure


ONSET = f"An onset is the start of 1,000 steps with at least {100 * THRESHOLD:.0f} % on each of the sets."
NEVER_BIND = "The value is that at the end of training for seeds that never bind."

PHASES = (
    Claim("addition-first-train", "section 1",
          "Trained sums of literals are learned before trained sums with variables (steps between the onsets).",
          "prior to", in_order([TRAINED_LITERALS], TRAINED_SETS), AtLeast(1), ONSET),
    Claim("addition-first-held-out", "section 1",
          "Held-out sums of literals are learned before held-out sums with variables (steps between the onsets).",
          "prior to", in_order([ADDITION_SET], HELD_OUT_SETS), AtLeast(1), ONSET),
    Claim("addition-independent", "section 1",
          "Addition is learned independently: accuracy on held-out sums of literals is 95 % before the first spike.",
          "near-perfect", before_binding([ADDITION_SET]), AtLeast(0.95), NEVER_BIND),
    Claim("addition-independent-strict", OURS,
          "Addition is learned independently: accuracy on held-out sums of literals is 99 % before the first spike.",
          "near-perfect", before_binding([ADDITION_SET]), AtLeast(0.99), NEVER_BIND),
    Claim("addition-100", "progress_measures", "At the end of the first phase, no trained sum of literals is wrong.",
          "100 %", before_binding([TRAINED_LITERALS]), AtLeast(1.0),
          "A sample can refute this claim but not confirm it."),
    Claim("addition-100-rounded", "progress_measures",
          "At the end of the first phase, accuracy on trained sums of literals is 100 %, rounded to the whole percent.",
          "100 %", before_binding([TRAINED_LITERALS]), AtLeast(ROUNDED)),
    Claim("addition-100-all", "progress_measures",
          "At the end of the first phase, accuracy on all sums of literals is 100 %, rounded to the whole percent.",
          "100 % on 0-variable sequences", before_binding(LITERAL_SETS), AtLeast(ROUNDED),
          "The value is the lower of trained and held-out pairs."),
    Claim("three-phases", "progress_measures", "Training has three phases: addition, binding and refinement.",
          "three", phases_found, AtLeast(3)),
    Claim("binding-before-refinement", "progress_measures",
          "Sums with variables in trained slots are learned before sums with banned slots (steps between onsets).",
          "in this order", in_order(TRAINED_SETS, REFINEMENT_SETS), AtLeast(1),
          f"{ONSET} Both have trained pairs of numbers."),
    Claim("circuit-in-first-phase", "progress_measures",
          "The OV-MLP circuit adds 95 % of all pairs before the first spike.",
          "rises sharply in the first phase", circuit_before_binding, AtLeast(0.95)),
    *(
        Claim(f"{id}{suffix}", label, f"{when}, {which} reads the variable at assigned numbers with {words} accuracy.",
              paper, probe(where, training_steps), rule, comment)
        for id, label, when, words, paper, where, rule, comment in (
            ("probe-80", "progress_measures", "Before the first spike", "80 %", "reaching 80 %",
             beside_first_spike(BEFORE), AtLeast(0.8), ""),
            ("probe-100", "progress_measures", "At the end of the second phase", "100 % (rounded)", "reaching 100 %",
             after_binding, AtLeast(ROUNDED), "Measured at the first checkpoint after the onset of binding."),
            ("probe-100-after-spike", OURS, "Just after the first spike", "100 % (rounded)", "reaching 100 %",
             beside_first_spike(AFTER), AtLeast(ROUNDED), ""),
        )
        for suffix, which, training_steps in (
            ("", "a converged linear probe", None),
            ("-four-steps", "a linear probe trained for four steps (as in the paper's code)", 4),
        )
    ),
    Claim("over-99-all-sets", "progress_measures", "At the end, accuracy exceeds 99 % on all nine evaluation sets.",
          "> 99 % across all benchmarks", lowest_on(EVAL_SETS), AtLeast(0.99),
          "The value and its interval are those of the lowest set."),
)  # fmt: skip


def between_spikes(measure: Callable[[Evidence, np.ndarray], Measured | None]) -> Measure:
    """`measure(e, inside)` with the checkpoints from the end of the first spike to the start of the second.

    None without both spikes or without a checkpoint between them.
    """

    def ask(e: Evidence) -> Measured | None:
        first, second = e.phases.first_spike, e.phases.second_spike
        if not e.followed or first is None or second is None:
            return None
        inside = (e.trajectory["step"] >= first.after) & (e.trajectory["step"] <= second.before)
        return measure(e, inside) if inside.any() else None

    return ask


def _rate(e: Evidence, pattern: str, inside: np.ndarray, law: str = "") -> float:
    """The median over these checkpoints of the pattern's mean rate over sums with one and with two variables."""
    return float(np.median(np.mean([e.column(f"{pattern} ({n}-var{law})")[inside] for n in (1, 2)], axis=0)))


def pattern_rate(pattern: str) -> Measure:
    """The rate of an attention pattern between the spikes; None for a task without two-variable sums."""

    @between_spikes
    def measure(e: Evidence, inside: np.ndarray) -> Measured | None:
        n = 2 * SEQUENCES  # the same sequences at every checkpoint, so their number counts once
        return Measured.share(_rate(e, pattern, inside) * n, n, "sequences") if len(e.types) > 2 else None

    return measure


@between_spikes
def identity(e: Evidence, inside: np.ndarray) -> Measured:
    """The share of variables that match themselves best under QK2 between the spikes."""
    share = float(np.median(e.column("qk2_ov1_var_identity")[inside]))
    return Measured.exactly(share, e.config.task.n_vars, "variables")


@between_spikes
def missed_outside_training(e: Evidence, inside: np.ndarray) -> Measured | None:
    """A lower bound on the share, among the sequences that layer 2 misses, of those that training could not show.

    It is a lower bound because the rate of misses on training sequences is applied to all sequences.
    """
    if len(e.types) <= 2:
        return None
    missed, in_training = (1 - _rate(e, "attn_l2_equal_to_values", inside, law) for law in ("", f", {TRAINING_LAW}"))
    n = round(missed * 2 * SEQUENCES)
    return Measured.share(max(0.0, 1 - in_training / missed) * n, n, "missed sequences") if n else None


ROUTING_PLATEAU = (
    *(
        Claim(f"routing-plateau-{id}", "progress_measures",
              f"Between the two spikes, {words} stays between 80 % and 99 %.",
              "80 % to 99 %", measure, Between(0.8, 0.99), comment)
        for id, words, measure, comment in (
            ("attn-l1-equal-to-operands", "the rate of attention from `=` to the operands in layer 1",
             pattern_rate("attn_l1_equal_to_operands"),
             "Median over the checkpoints; any pair of numbers and any slots."),
            ("attn-l2-equal-to-values", "the rate of attention from `=` to the values in layer 2",
             pattern_rate("attn_l2_equal_to_values"),
             "Median over the checkpoints; any pair of numbers and any slots."),
            ("qk2-identity", "the share of variables that match themselves best under QK2", identity,
             "Median over the checkpoints."),
        )
    ),
    Claim("routing-plateau-due-to-banned-slots", "progress_measures",
          "Between the two spikes, most sequences in which layer 2 misses a value cannot occur in training.",
          "not yet able to route b", missed_outside_training, AtLeast(0.5)),
)  # fmt: skip
