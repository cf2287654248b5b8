"""Claims of section 5.1, addition: one circuit for literals and variables, in Fourier features."""

from __future__ import annotations

from collections.abc import Callable

from assignadd.claims.evidence import Evidence
from assignadd.claims.record import AtLeast, AtMost, Claim, Measured
from assignadd.measures.addition import ov2_mlp2_accuracy, wrong_pairs
from assignadd.measures.fourier import circuit_waves, network_frequencies, preactivation_spectrum
from assignadd.measures.probes import STAGES
from assignadd.measures.similarity import PAIRS_OF_TYPES, Cosine

# A reader may take "very close to 1" for either.
NEAR_ONE, VERY_NEAR_ONE = AtLeast(0.9), AtLeast(0.98)
Measure = Callable[[Evidence], Measured | None]


def circuit_accuracy(evidence: Evidence) -> Measured:
    return Measured.exactly(ov2_mlp2_accuracy(evidence.stack).item(), evidence.config.task.modulus**2, "pairs")


def pairs_it_gets_wrong(evidence: Evidence) -> str:
    wrong = [f"{n}+{m}" for n, m in wrong_pairs(evidence.stack)[0]]
    return (
        f"wrong on {len(wrong)} pairs"
        + (f", {', '.join(wrong[:12])}" if wrong else "")
        + (" and more" if len(wrong) > 12 else "")
    )


def cosine(choose: Callable[[Evidence], Cosine]) -> Measure:
    def measure(evidence: Evidence) -> Measured | None:
        if len(evidence.types) < 3:  # a task without two-variable sums
            return None
        found = choose(evidence)
        return Measured.mean(found.mean.item(), found.std.item(), int(found.n), "pairs of vectors")

    return measure


def template(kind: str) -> Measure:
    """A cosine on the fixed template: over all pairs of numbers, so that nothing is sampled."""

    def measure(evidence: Evidence) -> Measured | None:
        if len(evidence.types) < 3:
            return None
        found: Cosine = getattr(evidence.on_template, kind)
        return Measured.exactly(found.mean.item(), int(found.n), "pairs of vectors")

    return measure


def across(x: int, y: int, kind: str) -> Measure:
    return cosine(lambda e: getattr(e.across_types[x, y], kind))


def against(n_vars: int, vector: str, kind: str) -> Measure:
    return cosine(lambda e: getattr(getattr(e.against_ov2[n_vars], vector), kind))


def probe(stage: str, which: str = "test", by_row: bool = False) -> Measure:
    def measure(evidence: Evidence) -> Measured | None:
        if len(evidence.types) < 3:
            return None
        found = evidence.probes_by_row if by_row else evidence.probes
        share = getattr(found, which)[0, STAGES.index(stage)].item()
        return Measured.share(round(share * found.n_test), found.n_test, "sequences" if by_row else "held-out pairs")

    return measure


def best_share(e: Evidence) -> Measured:
    return Measured.exactly(e.waves.share.amax().item(), e.waves.share.shape[-1], "neurons")


def median_share(e: Evidence) -> Measured:
    return Measured.exactly(e.waves.share.median().item(), e.waves.share.shape[-1], "neurons")


def median_share_of_circuit(e: Evidence) -> Measured:
    share = circuit_waves(e.stack).share
    return Measured.exactly(share.median().item(), share.shape[-1], "neurons")


def clean_neurons(e: Evidence) -> Measured:
    return Measured.exactly((e.waves.share >= 0.9).float().mean().item(), e.waves.share.shape[-1], "neurons")


def power_in_frequencies(e: Evidence) -> Measured:
    own = network_frequencies(e.stack)
    return Measured.exactly(preactivation_spectrum(e.stack)[own].sum().item(), int(own.sum()), "frequencies")


def filtered(which: str) -> Measure:
    return lambda e: Measured.exactly(getattr(e.filtered, which).item(), e.config.task.modulus**2, "pairs")


CIRCUIT = (
    Claim(
        "ov-mlp-99.94", "ov-mlp", "W_U MLP2(OV2(a) + OV2(b)) alone adds 99.94 % of all pairs.",
        "99.94 %", circuit_accuracy, AtLeast(0.9994), detail=pairs_it_gets_wrong,
    ),
    Claim(
        "ov-mlp-near-perfect", "ov-mlp", "W_U MLP2(OV2(a) + OV2(b)) alone nearly recovers the network: 99 % of all pairs.",
        "nearly perfectly", circuit_accuracy, AtLeast(0.99),
    ),
    Claim(
        "probe-before-mlp", "probes", "A linear probe cannot read the answer from the residual before MLP2 (pairs split).",
        "fails", probe("before MLP"), AtMost(0.1), comment="Chance is 1/N. The probe is the exact minimiser of its loss.",
    ),
    Claim(
        "probe-before-mlp-rows", "probes", "The same where test sequences add pairs that the probe was trained on, in other contexts.",
        "fails", probe("before MLP", by_row=True), AtMost(0.1),
    ),
    Claim(
        "probe-neurons-before-relu", "ours", "Nor from the neurons before their ReLU, which are linear in that residual.",
        "not reported", probe("neurons before ReLU"), AtMost(0.1),
    ),
    Claim("probe-neurons", "ours", "It can from the neurons after their ReLU.", "not reported", probe("neurons after ReLU"), AtLeast(0.95)),
    Claim("probe-after-mlp", "probes", "It can from the residual after MLP2.", "succeeds", probe("after MLP"), AtLeast(0.95)),
    Claim(
        "probe-control", "ours", "Control: with the labels shuffled among the pairs the probe after MLP2 fails.",
        "not reported", probe("after MLP", "control"), AtMost(0.1),
    ),
)  # fmt: skip

SIMILARITY = (
    *(
        Claim(
            f"cosine-matched-{x}v-{y}v", "cosine_sim_combined",
            f"Before MLP2, `=` holds nearly the same for the same sum with {x} and with {y} variables, in random contexts.",
            "very close to 1", across(x, y, "matched"), NEAR_ONE,
        )
        for x, y in PAIRS_OF_TYPES
    ),
    *(
        Claim(
            f"cosine-matched-{x}v-{y}v-strict", "ours", f"The same with {x} and with {y} variables, read more strictly.",
            "very close to 1", across(x, y, "matched"), VERY_NEAR_ONE,
        )
        for x, y in PAIRS_OF_TYPES
    ),
    *(
        Claim(
            f"cosine-mismatched-{x}v-{y}v", "cosine_sim_combined", f"For different sums with {x} and {y} variables it does not.",
            "significantly lower", across(x, y, "mismatched"), AtMost(0.5),
        )
        for x, y in PAIRS_OF_TYPES
    ),
    Claim(
        "cosine-matched-template", "cosine_sim_combined", "The same on one fixed template, literal against variable: matched.",
        "very close to 1", template("matched"), NEAR_ONE, comment="The paper does not write its template down.",
    ),
    Claim(
        "cosine-mismatched-template", "cosine_sim_combined", "The same on one fixed template, literal against variable: mismatched.",
        "significantly lower", template("mismatched"), AtMost(0.5),
    ),
    *(
        Claim(
            f"cosine-ov2-residual-{n_vars}v", "cosine_sim_combined",
            f"Before MLP2, `=` holds nearly OV2(a) + OV2(b): sums with {n_vars} variables.",
            "very close to 1", against(n_vars, "residual", "matched"), NEAR_ONE,
        )
        for n_vars in (0, 1, 2)
    ),
    *(
        Claim(
            f"cosine-ov2-residual-{n_vars}v-strict", "ours", f"The same for sums with {n_vars} variables, read more strictly.",
            "very close to 1", against(n_vars, "residual", "matched"), VERY_NEAR_ONE,
        )
        for n_vars in (0, 1, 2)
    ),
    Claim(
        "cosine-ov2-attention", "cosine_sim_combined", "The same for what layer 2's attention alone writes, literals only.",
        "very close to 1", against(0, "attention_output", "matched"), NEAR_ONE,
    ),
    Claim(
        "cosine-ov2-second-shuffled", "cosine_sim_combined", "Baseline: with the second operand shuffled the cosine is much lower.",
        "much lower", against(0, "attention_output", "second_shuffled"), AtMost(0.6),
        comment="Half of the sum stays right, so that about one half is what this baseline must show.",
    ),
    Claim(
        "cosine-ov2-both-shuffled", "ours", "Baseline: with both operands shuffled hardly any is left.",
        "not reported", against(0, "attention_output", "both_shuffled"), AtMost(0.2),
    ),
)  # fmt: skip

FOURIER = (
    Claim(
        "fourier-best-neuron", "preacts", "A neuron's preactivation over (n, m) is a cosine of n plus a cosine of m: the best neuron.",
        "near-perfect match (neuron 70)", best_share, AtLeast(0.95), comment="Share of its variance that one frequency explains.",
    ),
    Claim(
        "fourier-median-neuron", "ours", "The same for the median neuron: the form is that of the network, not of one neuron.",
        "near-perfect match", median_share, AtLeast(0.95),
    ),
    Claim(
        "fourier-median-neuron-circuit", "ours",
        "The same for the median neuron with OV2(n) + OV2(m) for its input, without a context's noise.",
        "near-perfect match", median_share_of_circuit, AtLeast(0.95),
    ),
    Claim(
        "fourier-clean-neurons", "ours", "Most neurons have one frequency: at least half of them with 90 % of their variance.",
        "near-perfect match", clean_neurons, AtLeast(0.5),
    ),
    Claim(
        "fourier-power", "ours", "A few frequencies hold the preactivations' power: 95 % in those of the network.",
        "not reported", power_in_frequencies, AtLeast(0.95), comment="A frequency is the network's with half an equal share of the power.",
    ),
    Claim(
        "fourier-restricted", "ours", "With these frequencies alone the circuit still adds.",
        "not reported", filtered("restricted"), AtLeast(0.95),
    ),
    Claim("fourier-excluded", "ours", "Without them it does not.", "not reported", filtered("excluded"), AtMost(0.1)),
)  # fmt: skip
