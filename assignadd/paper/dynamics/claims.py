"""Claims of sections 1 and 4 and appendix B: the order of the skills, and the routing measures between the spikes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from assignadd.dynamics.of_network import column_of, curves_of, followed, phases_of, trajectory_of
from assignadd.dynamics.phases import (
    ADDITION_SET,
    APART,
    HELD_OUT_SETS,
    LITERAL_SETS,
    REFINEMENT_SETS,
    THRESHOLD,
    TRAINED_SETS,
)
from assignadd.ledger.claim import Claim, Measure, Reading, uses
from assignadd.measures.accuracies import end_accuracies_of
from assignadd.measures.probes import TRAIN_SHARE, probe_l1_var_from_num
from assignadd.measures.progress import SEQUENCES, TRAINING_LAW
from assignadd.network import Network
from assignadd.paper.dynamics.along_training import (
    AFTER,
    BEFORE,
    Steps,
    accuracy_at,
    along,
    around_first_spike,
    at_first_spike,
    exam,
    in_steps,
    recorded,
    skill_delay,
    trajectory_at,
)
from assignadd.paper.generalisation.claims import OVER_THE_END, achieved, beside, lowest_on
from assignadd.stats.measured import Measured, lowest
from assignadd.stats.verdicts import FAILS, HOLDS, AtLeast, AtMost, Between
from assignadd.task.evalsets import EVAL_SETS, EvalSet

TRAINED_LITERALS = "0-var train"
ONE_VARIABLE = EvalSet("1-var train", n_vars=1)
# 100 %, rounded to the whole percent as in the paper.
ROUNDED = 0.995


def in_order(earlier: Sequence[str], later: Sequence[str]) -> Measure:
    """Steps from the onset of some sets to that of others, both at 95 %; None where the later one never came."""

    @along
    def measure(e: Network) -> Measured | None:
        if not followed(e):
            return None
        return in_steps(skill_delay(curves_of(e), earlier, later), len(curves_of(e).steps), "evaluations")

    return measure


def before_binding(sets: Sequence[str]) -> Measure:
    """The lowest accuracy of some sets just before the first spike, or at the end of training where there is none.

    Accuracy is measured on new sequences at the last checkpoint before the spike. Without a checkpoint near it, it is
    that of the last evaluation, which may have too few sequences to tell 99 % from 100 %.
    """

    @uses(lambda e: (around_first_spike(e) or (e.step,))[:1])
    def measure(e: Network) -> Measured | None:
        if not followed(e):
            return None
        spike, steps = phases_of(e).first_spike, around_first_spike(e)
        if spike is None:
            return lowest(achieved(end_accuracies_of(e).get(name)) for name in sets)
        asked = [s for s in EVAL_SETS if s.name in sets and s.name in curves_of(e).accuracy]
        if steps is None:
            return lowest(recorded(e, s.name, spike.before) for s in asked)
        return lowest(accuracy_at(e, s, steps[BEFORE]) for s in asked)

    return measure


@along
def phases_found(e: Network) -> Measured | None:
    """The number of phases found; the lower end counts those that are certain in spite of evaluation noise."""
    if not followed(e):
        return None
    found = [p for p in (phases_of(e).addition, phases_of(e).binding, phases_of(e).refinement) if p is not None]
    return Measured(len(found), sum(p.high is not None for p in found), len(found), 3, "phases looked for")


@at_first_spike
def circuit_before_binding(e: Network, steps: Steps) -> Measured:
    """The share of all pairs of numbers that the OV-MLP circuit adds just before the first spike."""
    accuracy = trajectory_at(e, "ov2_mlp2_accuracy", steps[BEFORE])
    return Measured.exactly(accuracy, e.config.task.modulus**2, "pairs")


def after_second_phase(e: Network) -> int | None:
    """The first checkpoint from the end of the second phase on; None without one near it."""
    end = phases_of(e).trained if followed(e) else None
    return next((s for s in e.steps if end and end.step <= s <= end.step + APART), None)


def first_checkpoint(e: Network) -> int | None:
    """The first checkpoint; None where it is not before the first spike."""
    spike = phases_of(e).first_spike if followed(e) else None
    return e.steps[0] if spike and e.steps[0] < spike.begin else None


def beside_first_spike(when: int) -> Callable[[Network], int | None]:
    """The checkpoint before or after the first spike; None without one near it."""
    return lambda e: None if (steps := around_first_spike(e)) is None else steps[when]


def probe(where: Callable[[Network], int | None], training_steps: int | None) -> Measure:
    """Test accuracy of the probe for the variable at assigned numbers, at one checkpoint.

    Counted by sequences. Each has several numbers, so the interval is conservative (see `measures.columns`).
    """

    @uses(lambda e: [step for step in [where(e)] if step is not None])
    def measure(e: Network) -> Measured | None:
        step = where(e)
        if step is None:
            return None
        tested = e.n - int(TRAIN_SHARE * e.n)
        share = float(probe_l1_var_from_num(e.stack_at(step), exam(e, ONE_VARIABLE).tokens, training_steps))
        return Measured.share(round(share * tested), tested, "sequences")

    return measure


ONSET = f"An onset is the start of 1,000 steps with at least {100 * THRESHOLD:.0f} % on each of the sets."
NEVER_BIND = "The value is that at the end of training for seeds that never bind."

FOUR_STEPS = 4  # of training in the paper's code
PROBE = "a linear probe reads the variable at assigned numbers with"
CONVERGED = "a converged probe"
TAUGHT = (
    "The paper trains its probe for four steps, so that its accuracy is partly how far four steps get. The readings "
    "ask a converged probe: where it finds the variable before the spike, the way from 80 % to 100 % is the probe's "
    "own training, and says nothing of what the network has learned."
)
PHASES = (
    Claim("addition-first-train", "section 1",
          "Trained sums of literals are learned before trained sums with variables (steps between the onsets).",
          "prior to", in_order([TRAINED_LITERALS], TRAINED_SETS), AtLeast(1), ONSET),
    Claim("addition-first-held-out", "section 1",
          "Held-out sums of literals are learned before held-out sums with variables (steps between the onsets).",
          "prior to", in_order([ADDITION_SET], HELD_OUT_SETS), AtLeast(1), ONSET),
    Claim("addition-independent", "section 1",
          "Addition is learned independently: accuracy on held-out sums of literals is 95 % before the first spike.",
          "near-perfect", before_binding([ADDITION_SET]), AtLeast(0.95), NEVER_BIND, if_binding=False,
          readings=(Reading("strict", "It is 99 % before the first spike.", AtLeast(0.99)),)),
    Claim("addition-100", "progress_measures",
          "At the end of the first phase, accuracy on trained sums of literals is 100 %, rounded to the whole percent.",
          "100 %", before_binding([TRAINED_LITERALS]), AtLeast(ROUNDED), NEVER_BIND, if_binding=False,
          readings=(
              Reading("strict", "No trained sum is wrong (a sample can only refute it).", AtLeast(1.0)),
              Reading("all", "It is so on held-out sums too.", AtLeast(ROUNDED), before_binding(LITERAL_SETS)),
          )),
    Claim("three-phases", "progress_measures", "Training has three phases: addition, binding and refinement.",
          "three", phases_found, AtLeast(3)),
    Claim("binding-before-refinement", "progress_measures",
          "Sums with variables in trained slots are learned before sums with banned slots (steps between onsets).",
          "in this order", in_order(TRAINED_SETS, REFINEMENT_SETS), AtLeast(1),
          f"{ONSET} Both have trained pairs of numbers."),
    Claim("circuit-in-first-phase", "progress_measures",
          "The OV-MLP circuit adds 95 % of all pairs before the first spike.",
          "rises sharply in the first phase", circuit_before_binding, AtLeast(0.95)),
    Claim("probe-80", "progress_measures", f"Before the first spike, {PROBE} 80 % accuracy, if trained for four steps.",
          "reaching 80 %", probe(beside_first_spike(BEFORE), FOUR_STEPS), AtLeast(0.8), TAUGHT,
          readings=(
              Reading("not-yet", f"The variable is not yet there for {CONVERGED} (at most 90 %).", AtMost(0.9),
                      probe(beside_first_spike(BEFORE), None)),
              Reading("first-checkpoint", f"Nor at the first checkpoint, for {CONVERGED} (at most 90 %).", AtMost(0.9),
                      probe(first_checkpoint, None)),
          )),
    Claim("probe-100", "progress_measures",
          f"At the end of the second phase, {PROBE} 100 % accuracy (rounded), if trained for four steps.",
          "reaching 100 %", probe(after_second_phase, FOUR_STEPS), AtLeast(ROUNDED),
          "Measured at the first checkpoint with 95 % on trained sums of one and of two variables.",
          readings=(
              Reading("after-spike", "It does just after the first spike.", AtLeast(ROUNDED),
                      probe(beside_first_spike(AFTER), FOUR_STEPS)),
              Reading("converged", f"So does {CONVERGED}.", AtLeast(ROUNDED), probe(after_second_phase, None)),
          )),
    Claim("over-99-all-sets", "progress_measures", "In the end, accuracy exceeds 99 % on all nine evaluation sets.",
          "> 99 % across all benchmarks", lowest_on(EVAL_SETS), AtLeast(0.99),
          f"The value and its interval are those of the lowest set. {OVER_THE_END}",
          detail=beside([s.name for s in EVAL_SETS])),
)  # fmt: skip


def _inside(e: Network) -> np.ndarray:
    """Which checkpoints are from the end of the first spike to the beginning of the second; none without both."""
    first, second, steps = phases_of(e).first_spike, phases_of(e).second_spike, trajectory_of(e)["step"]
    if not followed(e) or first is None or second is None:
        return np.zeros(len(steps), dtype=bool)
    return (steps >= first.end) & (steps <= second.begin)


def between_spikes(measure: Callable[[Network, np.ndarray], Measured | None]) -> Measure:
    """`measure(e, inside)` with the checkpoints between the spikes; None where there are none."""

    @uses(lambda e: trajectory_of(e)["step"][_inside(e)].tolist())
    def ask(e: Network) -> Measured | None:
        return measure(e, inside) if (inside := _inside(e)).any() else None

    return ask


PLATEAU = Between(0.8, 0.99)


def staying(rates: Sequence[float], n: int | None) -> Measured:
    """The share of checkpoints with a rate from 80 % to 99 %; the interval has those that surely and that perhaps are.

    `n` is the number of sequences behind a rate, None for one without noise.
    """
    found = [Measured.exactly(r, 1, "") if n is None else Measured.share(r * n, n, "sequences") for r in rates]
    verdicts = [PLATEAU.verdict(m) for m in found]
    value = sum(PLATEAU.low <= r <= PLATEAU.high for r in rates)
    surely, perhaps = verdicts.count(HOLDS), len(verdicts) - verdicts.count(FAILS)
    return Measured(value / len(found), surely / len(found), perhaps / len(found), len(found), "checkpoints")


def _rates(e: Network, pattern: str, inside: np.ndarray, law: str = "") -> np.ndarray:
    """The mean rate of a pattern over sums with one and with two variables, at each of these checkpoints."""
    return np.mean([column_of(e, f"{pattern} ({n}-var{law})")[inside] for n in (1, 2)], axis=0)


def pattern_stays(pattern: str) -> Measure:
    """The share of checkpoints with a rate on the plateau; None for a task without two-variable sums."""

    @between_spikes
    def measure(e: Network, inside: np.ndarray) -> Measured | None:
        return staying(_rates(e, pattern, inside).tolist(), 2 * SEQUENCES) if len(e.types) > 2 else None

    return measure


@between_spikes
def identity_stays(e: Network, inside: np.ndarray) -> Measured:
    """The share of checkpoints at which 80 to 99 % of the variables match themselves best under QK2."""
    return staying(column_of(e, "qk2_ov1_var_identity")[inside].tolist(), None)


@between_spikes
def missed_outside_training(e: Network, inside: np.ndarray) -> Measured | None:
    """A lower bound on the share, among the sequences that layer 2 misses, of those that training could not show.

    It is a lower bound because the rate of misses on training sequences is applied to all sequences.
    """
    if len(e.types) <= 2:
        return None
    missed, in_training = (
        1 - float(np.median(_rates(e, "attn_l2_equal_to_values", inside, law))) for law in ("", f", {TRAINING_LAW}")
    )
    n = round(missed * 2 * SEQUENCES)
    return Measured.share(max(0.0, 1 - in_training / missed) * n, n, "missed sequences") if n else None


STAYS = "The value is the share of the checkpoints between the spikes; all of them must be there."
ROUTING_PLATEAU = (
    *(
        Claim(f"routing-plateau-{id}", "progress_measures",
              f"Between the two spikes, {words} stays between 80 % and 99 %.",
              "80 % to 99 %", measure, AtLeast(1.0), comment)
        for id, words, measure, comment in (
            ("attn-l1-equal-to-operands", "the rate of attention from `=` to the operands in layer 1",
             pattern_stays("attn_l1_equal_to_operands"), f"{STAYS} Any pair of numbers and any slots."),
            ("attn-l2-equal-to-values", "the rate of attention from `=` to the values in layer 2",
             pattern_stays("attn_l2_equal_to_values"), f"{STAYS} Any pair of numbers and any slots."),
            ("qk2-identity", "the share of variables that match themselves best under QK2", identity_stays, STAYS),
        )
    ),
    Claim("routing-plateau-due-to-banned-slots", "progress_measures",
          "Between the two spikes, most sequences in which layer 2 misses a value cannot occur in training.",
          "not yet able to route b", missed_outside_training, AtLeast(0.5)),
)  # fmt: skip
