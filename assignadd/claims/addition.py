"""Claims of section 5.1, addition: one circuit for literals and variables, in Fourier features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from assignadd.claims.evidence import Evidence
from assignadd.claims.generalisation import VARIABLES
from assignadd.claims.measured import Measured
from assignadd.claims.record import NOT_REPORTED, OURS, Claim, Measure
from assignadd.measures.addition import (
    circuit_waves,
    network_frequencies,
    ov2_mlp2_accuracy,
    preactivation_spectrum,
    wrong_pairs,
)
from assignadd.measures.similarity import PAIRS_OF_TYPES, Cosine
from assignadd.model.architecture import LAST_MLP, RELU, require
from assignadd.verdicts import AtLeast, AtMost

CLOSE_TO_ONE, LOWER = "very close to 1", "significantly lower"
# "Very close to 1" can be read as either.
NEAR_ONE, VERY_NEAR_ONE = AtLeast(0.9), AtLeast(0.98)


def needs_two_variables(measure: Measure) -> Measure:
    """The same measure, None for a task without two-variable sums."""
    return lambda e: measure(e) if len(e.types) > 2 else None


def over_all_pairs(accuracy: Callable[[Evidence], Tensor]) -> Measure:
    """A share of all pairs of numbers."""
    return lambda e: Measured.exactly(accuracy(e).item(), e.config.task.modulus**2, "pairs")


circuit_accuracy = over_all_pairs(lambda e: ov2_mlp2_accuracy(e.stack))


def pairs_it_gets_wrong(e: Evidence) -> str:
    """The pairs of numbers that the circuit adds wrongly, in words."""
    wrong = [f"{n}+{m}" for n, m in wrong_pairs(e.stack)[0]]
    listed = f", {', '.join(wrong[:12])}" if wrong else ""
    return f"wrong on {len(wrong)} pairs{listed}{' and more' if len(wrong) > 12 else ''}"


def probe(stage: str, which: str = "test", by_row: bool = False) -> Measure:
    """Test accuracy of a linear probe for the answer: on other pairs, or (`by_row`) on the same in other contexts."""

    def measure(e: Evidence) -> Measured:
        found = e.probes_by_row if by_row else e.probes
        if stage not in found.stages:
            require(e.config, f"a probe {stage}", LAST_MLP, RELU)
        share = getattr(found, which)[0, found.stages.index(stage)].item()
        return Measured.share(round(share * found.n_test), found.n_test, "sequences" if by_row else "held-out pairs")

    return needs_two_variables(measure)


def cosine(choose: Callable[[Evidence], Cosine]) -> Measure:
    """A mean cosine over random contexts."""

    def measure(e: Evidence) -> Measured:
        found = choose(e)
        return Measured.mean(found.mean.item(), found.std.item(), int(found.n), "pairs of vectors")

    return needs_two_variables(measure)


def template(kind: str) -> Measure:
    """A mean cosine on the fixed template; exact, because it is over all pairs of numbers."""

    def measure(e: Evidence) -> Measured:
        found: Cosine = getattr(e.on_template, kind)
        return Measured.exactly(found.mean.item(), int(found.n), "pairs of vectors")

    return needs_two_variables(measure)


def across(x: int, y: int, kind: str) -> Measure:
    """The mean cosine between sums with x and with y variables."""
    return cosine(lambda e: getattr(e.across_types[x, y], kind))


def against_ov2(n_vars: int, vector: str, kind: str) -> Measure:
    """The mean cosine with OV2(a) + OV2(b)."""
    return cosine(lambda e: getattr(getattr(e.against_ov2[n_vars], vector), kind))


def over_neurons(number: Callable[[Tensor], Tensor], circuit: bool = False) -> Measure:
    """A number of the neurons' shares of variance in one frequency: in contexts, or with OV2(n) + OV2(m) as input."""

    def measure(e: Evidence) -> Measured:
        share = (circuit_waves(e.stack) if circuit else e.waves).share
        return Measured.exactly(number(share).item(), share.shape[-1], "neurons")

    return measure


def power_in_frequencies(e: Evidence) -> Measured:
    """The share of the preactivations' power in the network's frequencies."""
    own = network_frequencies(e.stack)
    return Measured.exactly(preactivation_spectrum(e.stack)[own].sum().item(), int(own.sum()), "frequencies")


CIRCUIT = (
    Claim("ov-mlp-99.94", "ov-mlp", "The circuit W_U MLP2(OV2(a) + OV2(b)) alone adds 99.94 % of all pairs correctly.",
          "99.94 %", circuit_accuracy, AtLeast(0.9994), detail=pairs_it_gets_wrong),
    Claim("ov-mlp-near-perfect", "ov-mlp",
          "The circuit W_U MLP2(OV2(a) + OV2(b)) alone adds 99 % of all pairs correctly.",
          "nearly perfectly", circuit_accuracy, AtLeast(0.99)),
    Claim("probe-before-mlp", "probes", "A linear probe cannot read the answer from the residual before MLP2.",
          "fails", probe("before MLP"), AtMost(0.1),
          "The probe, the exact minimiser of its loss, is tested on pairs that it was not trained on; chance is 1/N."),
    Claim("probe-before-mlp-rows", "probes",
          "A linear probe cannot read the answer from the residual before MLP2, even for pairs it was trained on.",
          "fails", probe("before MLP", by_row=True), AtMost(0.1),
          "Test sequences have the trained pairs in other contexts."),
    Claim("probe-neurons-before-relu", OURS,
          "A linear probe cannot read the answer from MLP2's neurons before their ReLU.",
          NOT_REPORTED, probe("neurons before ReLU"), AtMost(0.1), "They are linear in the residual before MLP2."),
    Claim("probe-neurons", OURS, "A linear probe can read the answer from MLP2's neurons after their ReLU.",
          NOT_REPORTED, probe("neurons after ReLU"), AtLeast(0.95)),
    Claim("probe-after-mlp", "probes", "A linear probe can read the answer from the residual after MLP2.",
          "succeeds", probe("after MLP"), AtLeast(0.95)),
    Claim("probe-control", OURS, "Control: a probe after MLP2 fails if the labels are shuffled among the pairs.",
          NOT_REPORTED, probe("after MLP", "control"), AtMost(0.1)),
)  # fmt: skip

VECTOR = "The residual of `=` before MLP2"
SIMILARITY = (
    *(
        Claim(f"cosine-{kind}-{x}v-{y}v{suffix}", label,
              f"{VECTOR} {says.format(VARIABLES[x, 0], VARIABLES[y, 0])}.", paper, across(x, y, kind), rule)
        for kind, suffix, label, says, paper, rule in (
            ("matched", "", "cosine_sim_combined",
             "is nearly the same for the same pair with {} and with {}", CLOSE_TO_ONE, NEAR_ONE),
            ("matched", "-strict", OURS,
             "has a cosine of at least 0.98 for the same pair with {} and with {}",
             CLOSE_TO_ONE, VERY_NEAR_ONE),
            ("mismatched", "", "cosine_sim_combined", "differs for different pairs with {} and with {}",
             LOWER, AtMost(0.5)),
        )
        for x, y in PAIRS_OF_TYPES
    ),
    Claim("cosine-matched-template", "cosine_sim_combined",
          f"{VECTOR} is nearly the same for the same pair as literals and as variables, on one fixed template.",
          CLOSE_TO_ONE, template("matched"), NEAR_ONE, "The paper does not give its template."),
    Claim("cosine-mismatched-template", "cosine_sim_combined",
          f"{VECTOR} differs for different pairs as literals and as variables, on one fixed template.",
          LOWER, template("mismatched"), AtMost(0.5), "The paper does not give its template."),
    *(
        Claim(f"cosine-ov2-residual-{n}v{suffix}", label,
              f"{VECTOR} {says} OV2(a) + OV2(b) on sums with {VARIABLES[n, 0]}.",
              CLOSE_TO_ONE, against_ov2(n, "residual", "matched"), rule)
        for suffix, label, says, rule in (
            ("", "cosine_sim_combined", "is nearly parallel to", NEAR_ONE),
            ("-strict", OURS, "has a cosine of at least 0.98 with", VERY_NEAR_ONE),
        )
        for n in (0, 1, 2)
    ),
    Claim("cosine-ov2-attention", "cosine_sim_combined",
          "The output of layer 2's attention alone is nearly parallel to OV2(a) + OV2(b) on sums of literals.",
          CLOSE_TO_ONE, against_ov2(0, "attention_output", "matched"), NEAR_ONE),
    Claim("cosine-ov2-second-shuffled", "cosine_sim_combined",
          "Baseline: the cosine with OV2(a) + OV2(b) is much lower if the second operand is shuffled.",
          "much lower", against_ov2(0, "attention_output", "second_shuffled"), AtMost(0.6),
          "Half of the sum stays correct, so about 0.5 is expected."),
    Claim("cosine-ov2-both-shuffled", OURS,
          "Baseline: the cosine with OV2(a) + OV2(b) is close to 0 if both operands are shuffled.",
          NOT_REPORTED, against_ov2(0, "attention_output", "both_shuffled"), AtMost(0.2)),
)  # fmt: skip

WAVE = "a cosine of n plus a cosine of m with one frequency"
EXPLAINED = "The value is the share of a neuron's variance that one frequency explains."
FOURIER = (
    Claim("fourier-best-neuron", "preacts", f"The preactivation of the best neuron over (n, m) is {WAVE}.",
          "near-perfect match (neuron 70)", over_neurons(Tensor.amax), AtLeast(0.95), EXPLAINED),
    Claim("fourier-median-neuron", OURS, f"The preactivation of the median neuron over (n, m) is {WAVE}.",
          "near-perfect match", over_neurons(Tensor.median), AtLeast(0.95), EXPLAINED),
    Claim("fourier-median-neuron-circuit", OURS,
          f"With OV2(n) + OV2(m) alone as its input, the preactivation of the median neuron is {WAVE}.",
          "near-perfect match", over_neurons(Tensor.median, circuit=True), AtLeast(0.95), EXPLAINED),
    Claim("fourier-clean-neurons", OURS, "At least half of the neurons have 90 % of their variance in one frequency.",
          "near-perfect match", over_neurons(lambda share: (share >= 0.9).float().mean()), AtLeast(0.5)),
    Claim("fourier-power", OURS, "The network's frequencies, which are few, hold 95 % of the preactivations' power.",
          NOT_REPORTED, power_in_frequencies, AtLeast(0.95),
          "A frequency is the network's if it has at least half of an equal share of the power."),
    Claim("fourier-restricted", OURS, "The circuit still adds if only the network's frequencies are kept.",
          NOT_REPORTED, over_all_pairs(lambda e: e.filtered.restricted), AtLeast(0.95)),
    Claim("fourier-excluded", OURS, "The circuit no longer adds if the network's frequencies are removed.",
          NOT_REPORTED, over_all_pairs(lambda e: e.filtered.excluded), AtMost(0.1)),
)  # fmt: skip

ADDITION = tuple(replace(claim, of_last_layer=True) for claim in (*CIRCUIT, *SIMILARITY, *FOURIER))
