"""Claims of section 5.1, addition: one circuit for literals and variables, in Fourier features."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor

from assignadd.config import PRESETS
from assignadd.ledger.claim import Claim, Measure, Reading
from assignadd.measures import addition
from assignadd.measures.addition import Waves, filtered_of, waves_of
from assignadd.measures.probes import answer_probes_of
from assignadd.model.architecture import LAST_MLP, RELU, require
from assignadd.network import Network
from assignadd.paper.addition.similarity import (
    PAIRS_OF_TYPES,
    CosineSummary,
    across_types_of,
    against_ov2_of,
    on_template_of,
)
from assignadd.paper.generalisation.claims import VARIABLES
from assignadd.stats import AtLeast, AtMost, Measured

CLOSE_TO_ONE, LOWER = "very close to 1", "significantly lower"  # the paper's words
# The neuron and the frequency of figure preacts.
NEURON, FREQUENCY = 70, 11
# "Very close to 1" can be read as either.
NEAR_ONE, VERY_NEAR_ONE = AtLeast(0.9), AtLeast(0.98)


def over_all_pairs(number: Callable[[Network], Tensor]) -> Measure:
    """The measure of a number over all N^2 pairs of numbers, such as the share that is added correctly; it is exact."""
    return lambda network: Measured.exactly(number(network).item(), network.config.task.modulus**2, "pairs")


def pairs_it_gets_wrong(network: Network) -> str:
    """How many pairs of numbers the circuit adds wrongly, and the first twelve of them, in words."""
    wrong = [f"{n}+{m}" for n, m in addition.wrong_pairs(network.stack)[0]]
    words = ", ".join([f"wrong on {len(wrong)} pairs", *wrong[:12]])
    return f"{words} and more" if len(wrong) > 12 else words


def has_two_variables(network: Network) -> bool:
    """Whether the task has sums with two variables, which the probes and cosines below need."""
    return 2 in network.types


def probe(network: Network, stage: str, same_pairs: bool = False) -> Measured | None:
    """The test accuracy of a linear probe for the answer at a stage, such as `after MLP`.

    The probe is tested on pairs of numbers that it was not trained on, or with `same_pairs` on those that it was
    trained on, in other sequences.
    """
    if not has_two_variables(network):
        return None
    probes = answer_probes_of(network, "row") if same_pairs else answer_probes_of(network)
    if stage not in probes.stages:
        require(network.config, f"a probe {stage}", LAST_MLP, RELU)  # raises `NotDefined`
    accuracy = probes.test[0, probes.stages.index(stage)].item()
    unit = "sequences" if same_pairs else "held-out pairs"
    return Measured.share(round(accuracy * probes.n_test), probes.n_test, unit)


def mean_cosine(summary_of: Callable[[Network], CosineSummary], over_all_values: bool = False) -> Measure:
    """The measure of a mean cosine between pairs of vectors, those that `summary_of(network)` summarises.

    Its interval is that of a mean over random sequences; with `over_all_values`, for cosines over all pairs of values
    on a fixed template, it is exact. The measure is None for a task without sums of two variables.
    """

    def measured_mean(network: Network) -> Measured | None:
        if not has_two_variables(network):
            return None
        cosines = summary_of(network)
        mean, n = cosines.mean.item(), int(cosines.n)
        if over_all_values:
            return Measured.exactly(mean, n, "pairs of vectors")
        return Measured.mean(mean, cosines.std.item(), n, "pairs of vectors")

    return measured_mean


def frequency_share(summary: Callable[[Tensor], Tensor]) -> Measure:
    """The measure of a `summary`, such as the median, of the shares of the neurons' variances that a wave explains."""

    def summary_of_neurons(network: Network) -> Measured:
        shares = waves_of(network).share  # (1, neurons)
        return Measured.exactly(summary(shares).item(), shares.shape[1], "neurons")

    return summary_of_neurons


def named_neuron(network: Network, waves: Callable[[Network], Waves]) -> Measured | None:
    """The share of neuron 70's variance that a wave of frequency 11 explains; 0 if another frequency fits it better.

    None for any network but the paper's own, whose neuron this is.
    """
    if not network.imported or network.config.model != PRESETS["authors"].model:
        return None
    fitted = waves(network)
    share = fitted.share[0, NEURON].item() if fitted.frequency[0, NEURON] == FREQUENCY else 0.0
    return Measured.exactly(share, network.config.task.modulus**2, "pairs")


CIRCUIT = (
    Claim("ov-mlp-99.94", "ov-mlp", "The circuit W_U MLP2(OV2(a) + OV2(b)) alone adds 99.94 % of all pairs correctly.",
          "99.94 %", over_all_pairs(lambda network: addition.ov2_mlp2_accuracy(network.stack)), AtLeast(0.9994),
          detail=pairs_it_gets_wrong,
          readings=(Reading("near-perfect", "It adds 99 % of all pairs (\"nearly perfectly\").", AtLeast(0.99)),)),
    Claim("probe-before-mlp", "probes", "A linear probe cannot read the answer from the residual before MLP2.",
          "fails", partial(probe, stage="before MLP"), AtMost(0.1),
          "The probe, the exact minimiser of its loss, is tested on pairs that it was not trained on; chance is 1/N.",
          readings=(
              Reading("same-pairs", "Nor for pairs it was trained on, in other contexts.", AtMost(0.1),
                      partial(probe, stage="before MLP", same_pairs=True)),
              Reading("neurons-before-relu", "Nor from MLP2's neurons before their ReLU.", AtMost(0.1),
                      partial(probe, stage="neurons before ReLU")),
          )),
    Claim("probe-after-mlp", "probes", "A linear probe can read the answer from the residual after MLP2.",
          "succeeds", partial(probe, stage="after MLP"), AtLeast(0.95), if_binding=False,
          readings=(
              Reading("neurons", "It can from MLP2's neurons after their ReLU.", AtLeast(0.95),
                      partial(probe, stage="neurons after ReLU")),
          )),
)  # fmt: skip

VECTOR = "The residual of `=` before MLP2"
STRICT = "The cosine is at least 0.98."
TEMPLATE = "The paper does not give its template."
SIMILARITY = (
    *(
        Claim(f"cosine-matched-{x}v-{y}v", "cosine_sim_combined",
              f"{VECTOR} is nearly the same for the same pair with {VARIABLES[x, 0]} and with {VARIABLES[y, 0]}.",
              CLOSE_TO_ONE, mean_cosine(lambda network, types=(x, y): across_types_of(network)[types].matched),
              NEAR_ONE, readings=(Reading("strict", STRICT, VERY_NEAR_ONE),))
        for x, y in PAIRS_OF_TYPES
    ),
    *(
        Claim(f"cosine-mismatched-{x}v-{y}v", "cosine_sim_combined",
              f"{VECTOR} differs for different pairs with {VARIABLES[x, 0]} and with {VARIABLES[y, 0]}.",
              LOWER, mean_cosine(lambda network, types=(x, y): across_types_of(network)[types].mismatched),
              AtMost(0.5))
        for x, y in PAIRS_OF_TYPES
    ),
    Claim("cosine-matched-template", "cosine_sim_combined",
          f"{VECTOR} is nearly the same for the same pair as literals and as variables, on one fixed template.",
          CLOSE_TO_ONE, mean_cosine(lambda network: on_template_of(network).matched, over_all_values=True), NEAR_ONE,
          TEMPLATE),
    Claim("cosine-mismatched-template", "cosine_sim_combined",
          f"{VECTOR} differs for different pairs as literals and as variables, on one fixed template.",
          LOWER, mean_cosine(lambda network: on_template_of(network).mismatched, over_all_values=True), AtMost(0.5),
          TEMPLATE),
    *(
        Claim(f"cosine-ov2-residual-{n}v", "cosine_sim_combined",
              f"{VECTOR} is nearly parallel to OV2(a) + OV2(b) on sums with {VARIABLES[n, 0]}.",
              CLOSE_TO_ONE, mean_cosine(lambda network, n=n: against_ov2_of(network)[n].residual.matched), NEAR_ONE,
              readings=(Reading("strict", STRICT, VERY_NEAR_ONE),))
        for n in (0, 1, 2)
    ),
    Claim("cosine-ov2-attention", "cosine_sim_combined",
          "The output of layer 2's attention alone is nearly parallel to OV2(a) + OV2(b) on sums of literals.",
          CLOSE_TO_ONE, mean_cosine(lambda network: against_ov2_of(network)[0].attention_output.matched), NEAR_ONE),
    Claim("cosine-ov2-second-shuffled", "cosine_sim_combined",
          "Baseline: the cosine with OV2(a) + OV2(b) is much lower if the second operand is shuffled.",
          "much lower", mean_cosine(lambda network: against_ov2_of(network)[0].attention_output.second_shuffled),
          AtMost(0.6),
          "Half of the sum stays correct, so about 0.5 is expected."),
)  # fmt: skip

WAVE = "a cosine of n plus a cosine of m with one frequency"
STRICT_WAVE = "One frequency explains at least 0.95."
EXPLAINED = "The value is the share of a neuron's variance that one frequency explains."
FOURIER = (
    Claim("fourier-neuron-70", "preacts",
          f"The preactivation of neuron {NEURON} of the paper's network over (n, m) is {WAVE}, {FREQUENCY}.",
          "near-perfect match (neuron 70, k = 11)", partial(named_neuron, waves=waves_of), AtLeast(0.9), EXPLAINED,
          readings=(
              Reading("strict", STRICT_WAVE, AtLeast(0.95)),
              Reading("circuit", "At least 0.9 with OV2(n) + OV2(m) alone as its input.", AtLeast(0.9),
                      partial(named_neuron, waves=lambda network: addition.circuit_waves(network.stack))),
          )),
    Claim("fourier-best-neuron", "preacts", f"The preactivation of the best neuron over (n, m) is {WAVE}.",
          "near-perfect match", frequency_share(Tensor.amax), AtLeast(0.9), EXPLAINED,
          readings=(
              Reading("strict", STRICT_WAVE, AtLeast(0.95)),
              Reading("median", "So is that of the median neuron.", AtLeast(0.9), frequency_share(Tensor.median)),
              Reading("half", "At least half of the neurons have 90 % of their variance in one frequency.",
                      AtLeast(0.5), frequency_share(lambda share: (share >= 0.9).float().mean())),
          )),
    Claim("fourier-relies", "section 5.1",
          "The circuit relies on the network's frequencies: without them it no longer adds.",
          "relies on this periodic mechanism",
          over_all_pairs(lambda network: filtered_of(network).excluded), AtMost(0.1),
          "A frequency is the network's if it has at least half of an equal share of the preactivations' power.",
          readings=(Reading("enough", "With these frequencies alone it still adds.", AtLeast(0.95),
                            over_all_pairs(lambda network: filtered_of(network).restricted)),)),
)  # fmt: skip

APPENDIX_C = Claim(
    "mlp-prefers-doubles",
    "thm:c1",
    "The trained MLP2 prefers 2n and 2m to other wrong answers to n + m, as the theory's MLP does.",
    "M_k = 2 1{k = n + m} + 1{k = 2n} + 1{k = 2m}",
    over_all_pairs(lambda network: addition.double_preference(network.stack)),
    AtLeast(0.1),
    "The value is the advantage of their logits over those of other wrong answers, divided by that of the right "
    "answer: 0.5 in M_k. On n + n both terms of M_k fall on the right answer, yet held-out doubles are what networks "
    "that bind answer worst.",
)
ADDITION = (*CIRCUIT, *SIMILARITY, *FOURIER)
