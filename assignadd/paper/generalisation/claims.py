"""Claims of section 4: the accuracy of the trained network on sums and positions that training did not show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from assignadd.ledger.claim import Claim, Measure, Reading, uses
from assignadd.measures.accuracies import EndAccuracy, end_accuracies_of, end_steps, in_banned_slots
from assignadd.network import Network
from assignadd.stats import AtLeast, Measured, lowest, wilson
from assignadd.task.evalsets import CLASS_SETS, EVAL_SETS, EvalSet

TEST_SETS = [s for s in EVAL_SETS if s.pair != "seen" or s.n_banned]
HELD_OUT_PAIRS = [s.name for s in EVAL_SETS if s.pair == "held_out"]
# The paper's tests have 512 sequences, so its percentages stand for ranges.
PAPER_SEQUENCES = 512
PAIRS = {
    "seen": "trained pairs",
    "held_out": "held-out pairs",
    "mirror_seen": "pairs held out in one order and trained in the other",
    "neither_order": "pairs n != m held out in both orders",
    "doubles": "held-out doubles n + n",
}
VARIABLES = {
    (0, 0): "no variables", (1, 0): "one variable", (2, 0): "two variables", (1, 1): "one variable in a banned slot",
    (2, 1): "two variables, one of them in a banned slot", (2, 2): "two variables, both in banned slots",
}  # fmt: skip


def in_words(s: EvalSet) -> str:
    """The plain name of an evaluation set."""
    return f"{PAIRS[s.pair]}{',' if s in CLASS_SETS else ''} with {VARIABLES[s.n_vars, s.n_banned or 0]}"


def slug(name: str) -> str:
    """The name of an evaluation set as a part of an id."""
    return name.replace(" (", "-").replace(")", "").replace(" ", "-")


def achieved(accuracy: EndAccuracy | None, over_pairs: bool = False) -> Measured | None:
    """What a network achieves on a set: the median over its last evaluations. None for None.

    The interval is over evaluations and sequences, or evaluations and pairs of numbers.
    """
    if accuracy is None:
        return None
    if over_pairs:
        return Measured.over_evaluations_and_pairs(accuracy.shares, accuracy.pairs or accuracy.n)
    return Measured.over_evaluations(accuracy.shares, accuracy.n * len(accuracy.shares))


def at_the_end(measure: Measure) -> Measure:
    """The same measure, marked as one of the last evaluations."""
    return uses(lambda network: end_steps(network))(measure)


def on_set(name: str) -> Measure:
    """Accuracy on one set; None where the split has no such sequences."""
    return at_the_end(lambda network: achieved(end_accuracies_of(network).get(name)))


def on_class(s: EvalSet) -> Measure:
    """Accuracy on one class of held-out pairs, with the interval over its pairs."""
    return at_the_end(lambda network: achieved(end_accuracies_of(network).get(s.name), over_pairs=True))


def lowest_on(sets: Sequence[EvalSet]) -> Measure:
    """The lowest accuracy among the sets that the split has, with its own interval."""
    return at_the_end(lambda network: lowest(achieved(end_accuracies_of(network).get(s.name)) for s in sets))


def mean_over_sets(network: Network, weights: Mapping[str, float]) -> Measured | None:
    """What a network achieves on a mixture of sets, from the weight of each; None where the split lacks a set."""
    accuracies = end_accuracies_of(network)
    if not all(name in accuracies for name in weights):
        return None
    of_sets = [accuracies[name] for name in weights]
    shares = np.average([a.shares for a in of_sets], axis=0, weights=list(weights.values()))  # (evaluations,)
    return Measured.over_evaluations(shares.tolist(), sum(a.n for a in of_sets) * len(shares))


@at_the_end
def trained_with_variables(network: Network) -> Measured | None:
    """Accuracy on trained sums with one and with two variables together."""
    return mean_over_sets(network, {"1-var train": 1, "2-var train": 1})


@at_the_end
def held_out_sums_of_any_form(network: Network) -> Measured | None:
    """Accuracy on held-out pairs with 0, 1 and 2 variables, weighted as in the training mix."""
    literals, variable_first, variable_second, two_variables = network.config.task.mix
    weights = (literals, variable_first + variable_second, two_variables)
    return mean_over_sets(network, dict(zip(HELD_OUT_PAIRS, weights, strict=True)))


@at_the_end
def new_positions(network: Network) -> Measured | None:
    """Accuracy on one-variable sums with the variable in a banned slot and any pair of numbers."""
    return achieved(in_banned_slots(network))


def _as_in_the_paper(share: float) -> AtLeast:
    """The lower end of the 95 % range that a percentage of the paper stands for."""
    return AtLeast(round(wilson(round(share * PAPER_SEQUENCES), PAPER_SEQUENCES).low, 4))


BANNED = "A banned slot is an operand slot in which training never puts this variable."
OVER_THE_END = "The value is the median over the last ten evaluated checkpoints, the interval over them and sequences."
RANGE = f"The paper counted it on {PAPER_SEQUENCES} sequences; the rule is the lower end of its 95 % range."
NEW_POSITIONS = "Sums with one variable, in a slot where training never puts it, are answered correctly"
ANY_FORM = "Sums of held-out pairs with 0, 1 or 2 variables, mixed as in training, are answered correctly"
CLASSES = tuple(
    Reading(s.pair.replace("_", "-"), f"Accuracy is at least 95 % on {in_words(s)} (interval over pairs).",
            AtLeast(0.95), on_class(s))
    for s in CLASS_SETS if not s.n_vars
)  # fmt: skip

GENERALISATION = (
    Claim("over-98-all-types", "accuracies",
          "Test accuracy exceeds 98 % on each of the six test sets (the lowest counts).",
          "over 98 %", lowest_on(TEST_SETS), AtLeast(0.98), OVER_THE_END),
    *(
        Claim(f"over-98-{slug(s.name)}", "accuracies", f"Test accuracy exceeds 98 % on {in_words(s)}.",
              "over 98 %", on_set(s.name), AtLeast(0.98), f"{OVER_THE_END} {BANNED if s.n_banned else ''}".strip(),
              if_binding=s.n_vars > 0)
        for s in TEST_SETS
    ),
    *(
        Claim(id, "section 4", f"{sentence} as often as the paper reports.", paper, measure, _as_in_the_paper(share),
              f"{RANGE} {OVER_THE_END}",
              readings=(Reading("strict", "At least as often as the paper reports.", AtLeast(share)), *more))
        for id, paper, share, sentence, measure, more in (
            ("new-positions-99.6", "99.6 %", 0.996, NEW_POSITIONS, new_positions, ()),
            ("held-out-pairs-99.4", "99.4 %", 0.994, ANY_FORM, held_out_sums_of_any_form, CLASSES),
        )
    ),
    Claim("no-first-mlp", "section 3",
          "A network without an MLP in its first layer learns sums with one and two variables.",
          "unnecessary", trained_with_variables, AtLeast(0.98), OVER_THE_END),
)  # fmt: skip
