"""Claims about networks that add but do not bind, about such seeds of a census, and about seeds before they bind."""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from assignadd.dynamics import BINDING, binds
from assignadd.ledger import AtLeast, AtMost, Between, Claim, Measured, Network, per_network
from assignadd.measures import accuracies_of
from assignadd.sweeps import Populations, SeedCurves

from . import rule
from .composition import LITERALS, composition_of
from .rule import SEQUENCES, TRAINED, WithoutNames, has_rule, name_attention, rule_accuracy

ADDS = 0.95


def is_stuck(network: Network) -> bool:
    """Whether a network adds the literal pairs of its training but does not bind variables."""
    if not {LITERALS, BINDING.set} <= set(accuracies_of(network)) or not has_rule(network.config.task):
        return False
    return accuracies_of(network)[LITERALS].accuracy >= ADDS and not binds(network)


@per_network()
def without_names_of(network: Network) -> dict[str, WithoutNames]:
    """How far rules without names predict the answers, by evaluation set."""
    return rule.without_names(network.stack, network.config, network.seen, min(network.n, SEQUENCES))


def of_stuck(measure: Callable[[Network], Measured | None]) -> Callable[[Network], Measured | None]:
    """The measure for networks that add but do not bind; None for all others."""
    return lambda network: measure(network) if is_stuck(network) else None


def share(field: str, name: str = TRAINED, only: str = "") -> Callable[[Network], Measured | None]:
    """The share of answers on a set that are as a field of `WithoutNames` says; `only` "errors" or "clear" ones."""

    @of_stuck
    def measure(network: Network) -> Measured | None:
        answers = without_names_of(network).get(name)
        if answers is None:
            return None
        chosen = {"errors": ~answers.correct, "clear": answers.clear}.get(only)
        agree = getattr(answers, field) if chosen is None else getattr(answers, field)[chosen]
        return Measured.share(int(agree.sum()), len(agree), "sequences") if len(agree) else None

    return measure


def _mean(values: Tensor) -> Measured:
    return Measured.mean(float(values.mean()), float(values.std()), len(values), "sequences")


@of_stuck
def explained(network: Network) -> Measured:
    """The share of the residual's variance that the literal and the mean of the values explain."""
    n = min(network.n, SEQUENCES)
    value = rule.explained_by_mean_of_values(network.stack, network.config, network.seen, n)
    return Measured.exactly(value, n, "sequences")


@of_stuck
def attention_to_name(network: Network) -> Measured:
    """The mean attention of `=` to the variable's slot in layer 1."""
    return _mean(name_attention(network.stack, network.config, network.seen, network.n))


@of_stuck
def by_chance(network: Network) -> Measured:
    """How often a uniform choice among the allowed answers is the network's."""
    return _mean(without_names_of(network)[TRAINED].by_chance.double())


def above_level(name: str) -> Callable[[SeedCurves], Measured | None]:
    """A seed's accuracy on a set minus that of the rule without names; None for seeds that bind or do not add."""

    def measure(seed: SeedCurves) -> Measured | None:
        able = has_rule(seed.task) and seed.has(name) and seed.has(LITERALS)
        if not able or seed.binds or seed.final(LITERALS) < ADDS:
            return None
        n, level = seed.n_final(name), rule_accuracy(seed.task, name)
        predicted = Measured.share(level * rule.RULE_SEQUENCES, rule.RULE_SEQUENCES, "sequences")
        return Measured.share(seed.final(name) * n, n, "sequences").minus(predicted)

    return measure


def median_residual(field: str, binding: bool) -> Callable[[Populations], Measured | None]:
    """The median over seeds that bind in the end, or over those that never do, of their mean residual before it."""

    def measured(populations: Populations) -> Measured | None:
        means = []
        for seed in populations.seeds:
            residuals = composition_of(seed) if seed.binds == binding else None
            if residuals is not None and not residuals.bound.all():
                means.append(float(getattr(residuals, field)[~residuals.bound].mean()))
        return Measured.median(means, "seeds")

    return measured


NETWORK, ONE = "A network that adds but does not bind", "On trained sums with one variable"
RULE = "follow from which values its group of variables has, whatever their order and names"
LEVEL = "A uniform choice among the answers that the rule without names allows, with no parameter fitted."
PREDICTED = (
    "Predicted by the largest mean logit over 8 sequences with the same values in random order and all names permuted "
    "within their groups."
)
STUCK = (
    Claim.ours("stuck-names-by-group",
               f"{NETWORK} knows of a name only from which slots it is banned: another such name gets the same answer.",
               share("same_group"), AtLeast(0.95), f"{ONE}; the mean logit over 8 sequences."),
    Claim.ours("stuck-allowed-answers", f"{NETWORK} gives an answer that the rule without names allows.",
               share("allowed"), AtLeast(0.95), f"{ONE}."),
    Claim.ours("stuck-rule", f"{NETWORK}: its answers {RULE}.",
               share("predicted"), AtLeast(0.9), f"{ONE}. {PREDICTED}"),
    Claim.ours("stuck-rule-control", "Control: a uniform choice among the answers that the rule without names allows.",
               by_chance, AtMost(0.7), f"{ONE}; the value is the share of the network's answers."),
    Claim.ours("stuck-rule-errors", f"{NETWORK}: its wrong answers {RULE}.",
               share("predicted", only="errors"), AtLeast(0.9), f"{ONE}. {PREDICTED}"),
    Claim.ours("stuck-rule-clear", f"{NETWORK}: its answers {RULE}, where the best two logits differ by more than 1.",
               share("predicted", only="clear"), AtLeast(0.99), f"{ONE}. {PREDICTED}"),
    *(
        Claim.ours(f"stuck-rule-{id}", f"{NETWORK}: its answers to sums with {words} {RULE}.",
                   share("predicted", name), AtLeast(0.9), PREDICTED)
        for id, name, words in (
            ("held-out", rule.HELD_OUT, "one variable and a held-out pair"),
            ("banned", rule.BANNED, "a variable in a banned slot"),
        )
    ),
    Claim.ours("stuck-no-name-in-layer-1", f"{NETWORK}: in layer 1 `=` does not attend to the variable's slot.",
               attention_to_name, AtMost(0.05), f"{ONE}; the value is the mean weight.",
               paper="attends to both operands"),
    Claim.ours("stuck-mean-of-values",
               f"{NETWORK}: before MLP2, `=` has a vector for the literal plus the mean of a vector for each value.",
               explained, AtLeast(0.95), f"{ONE}; the value is the share of variance."),
)  # fmt: skip
STUCK_SEEDS = tuple(
    Claim.ours(f"stuck-level{id}",
               f"Every seed that adds but does not bind has the accuracy of the rule without names on {words} "
               "(difference).",
               rule=Between(-0.02, 0.02), seed_measure=above_level(name), comment=LEVEL)
    for id, name, words in (("", TRAINED, "trained sums with one variable"),
                            ("-held-out", rule.HELD_OUT, "sums with one variable and a held-out pair"))
)  # fmt: skip
HELD = "the accuracy on sums with one variable and a held-out pair is"
PRODUCTS = (
    ("", "held_out", f"{HELD} that on literal sums times binding."),
    ("-guessing", "held_out_guessing", f"{HELD} that of a mixture of binding and of guesses without names."),
)
COMPOSITION = tuple(
    Claim.ours(f"composition-{phase}{id}", f"{when} {says}", rule=Between(-0.05, 0.05),
               population_measure=median_residual(field, binding),
               comment="The value is the accuracy minus the prediction, the median over seeds.")
    for id, field, says in PRODUCTS
    for phase, when, binding in (("before", "Before a seed binds,", True),
                                 ("never", "In a seed that never binds,", False))
)  # fmt: skip
CLAIMS = (*(replace(claim, if_binding=False) for claim in STUCK), *STUCK_SEEDS, *COMPOSITION)
