"""Claims on answers without names (`measures.nameless`): of networks that do not bind, and along the way to binding.

Networks that add but do not bind answer as a reader without names would. Along the trajectories of a census, sums with
variables are compared with a product of adding and binding: `adding` is the accuracy on literal sums (of held-out
pairs), `binding` that on trained sums with one variable divided by that on trained literal sums. If the two are
independent skills,

    one variable, held-out pair   adding x binding
    two variables, trained pair   accuracy on literal sums x binding^2

Binding can also be measured without answers: `attending`, the share of trained sums with one variable in which the top
two keys of `=` in the last layer are the two values. Then

    one variable, trained pair    accuracy on literal sums x attending

Below 95 % binding is not a skill that is there or not: a network that does not bind still guesses. With g and h the
accuracies of these guesses on trained and held-out pairs, `bound` = (binding - g) / (1 - g), and

    one variable, held-out pair   adding x bound + h (1 - bound)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from assignadd.claims.evidence import Evidence
from assignadd.claims.measured import Measured, difference, mean_of
from assignadd.claims.record import NOT_REPORTED, OURS, Claim, Measure
from assignadd.dynamics.phases import ADDITION_SET, ADDITION_THRESHOLD, BINDING_SET, BINDING_THRESHOLD, Curves
from assignadd.measures.nameless import (
    BANNED,
    HELD_OUT,
    RULE_SEQUENCES,
    TRAINED,
    TWO,
    Nameless,
    has_rule,
    name_attention,
    nameless_accuracy,
)
from assignadd.measures.progress import TRAINING_LAW
from assignadd.sweeps.population import Populations, SeedCurves
from assignadd.task.evalsets import EVAL_SETS
from assignadd.verdicts import AtLeast, AtMost, Between

LITERALS, ADDS = "0-var train", 0.95


def is_stuck(e: Evidence) -> bool:
    """Whether a network adds the literal pairs of its training but does not bind variables."""
    sets = {LITERALS, BINDING_SET} <= set(e.accuracies) and has_rule(e.config.task)
    return sets and e.accuracies[LITERALS].accuracy >= ADDS and not e.learned_binding


def on_set(e: Evidence, name: str) -> Nameless | None:
    """The answers of a network that does not bind on an evaluation set; None for other networks."""
    return e.nameless.get(name) if is_stuck(e) else None


def share(field: str, name: str = TRAINED, only: str = "") -> Measure:
    """The share of answers on a set that are as a field of `Nameless` says: of all, or of `errors` or `clear` ones."""

    def measure(e: Evidence) -> Measured | None:
        if (found := on_set(e, name)) is None:
            return None
        chosen = {"errors": ~found.correct, "clear": found.clear}.get(only)
        agree = getattr(found, field) if chosen is None else getattr(found, field)[chosen]
        return Measured.share(int(agree.sum()), len(agree), "sequences") if len(agree) else None

    return measure


def explained(e: Evidence) -> Measured | None:
    """The share of the residual's variance that the literal and the mean of the values explain."""
    if not is_stuck(e):
        return None
    return Measured.exactly(e.mean_of_values.explained, len(e.mean_of_values.same_answer), "sequences")


def attention_to_name(e: Evidence) -> Measured | None:
    """The mean attention of `=` to the variable's slot in layer 1."""
    return mean_of(name_attention(e.stack, e.config, e.seen, e.n), "sequences") if is_stuck(e) else None


def by_chance(e: Evidence) -> Measured | None:
    """How often a uniform choice among the allowed answers is the network's."""
    found = on_set(e, TRAINED)
    return None if found is None else mean_of(found.by_chance.double(), "sequences")


def same_answer(e: Evidence) -> Measured | None:
    """How often MLP2 gives the same answer for the fitted residual."""
    if not is_stuck(e):
        return None
    same = e.mean_of_values.same_answer
    return Measured.share(int(same.sum()), len(same), "sequences")


def above_level(name: str) -> Callable[[SeedCurves], Measured | None]:
    """A seed's accuracy on a set minus that of the rule without names; None for seeds that bind or do not add."""
    evalset = next(s for s in EVAL_SETS if s.name == name)

    def measure(seed: SeedCurves) -> Measured | None:
        able = has_rule(seed.task) and seed.has(name) and seed.has(LITERALS)
        if not able or seed.learned_binding or seed.final(LITERALS) < ADDS:
            return None
        n = seed.n_final(name)
        level = nameless_accuracy(seed.task, evalset)
        predicted = Measured.share(level * RULE_SEQUENCES, RULE_SEQUENCES, "sequences")
        return difference(Measured.share(seed.final(name) * n, n, "sequences"), predicted)

    return measure


NETWORK, ONE = "A network that adds but does not bind", "On trained sums with one variable"
RULE = "follow from which values its group of variables has, whatever their order and names"
LEVEL = "A uniform choice among the answers that the rule without names allows, with no parameter fitted."
PREDICTED = (
    "Predicted by the largest mean logit over 8 sequences with the same values in random order and all names permuted "
    "within their groups."
)
STUCK = tuple(replace(claim, if_binding=False) for claim in (
    Claim("stuck-names-by-group", OURS,
          f"{NETWORK} knows of a name only from which slots it is banned: another such name gets the same answer.",
          NOT_REPORTED, share("same_group"), AtLeast(0.95), f"{ONE}; the mean logit over 8 sequences."),
    Claim("stuck-allowed-answers", OURS, f"{NETWORK} gives an answer that the rule without names allows.",
          NOT_REPORTED, share("allowed"), AtLeast(0.95), f"{ONE}."),
    Claim("stuck-rule", OURS, f"{NETWORK}: its answers {RULE}.",
          NOT_REPORTED, share("predicted"), AtLeast(0.9), f"{ONE}. {PREDICTED}"),
    Claim("stuck-rule-control", OURS, "Control: a uniform choice among the answers that the rule without names allows.",
          NOT_REPORTED, by_chance, AtMost(0.7), f"{ONE}; the value is the share of the network's answers."),
    Claim("stuck-rule-errors", OURS, f"{NETWORK}: its wrong answers {RULE}.",
          NOT_REPORTED, share("predicted", only="errors"), AtLeast(0.9), f"{ONE}. {PREDICTED}"),
    Claim("stuck-rule-clear", OURS, f"{NETWORK}: its answers {RULE}, where the best two logits differ by more than 1.",
          NOT_REPORTED, share("predicted", only="clear"), AtLeast(0.99), f"{ONE}. {PREDICTED}"),
    *(
        Claim(f"stuck-rule-{id}", OURS, f"{NETWORK}: its answers to sums with {words} {RULE}.",
              NOT_REPORTED, share("predicted", name), AtLeast(0.9), PREDICTED)
        for id, name, words in (
            ("held-out", HELD_OUT, "one variable and a held-out pair"),
            ("banned", BANNED, "a variable in a banned slot"),
            ("two-variables", TWO, "two variables"),
        )
    ),
    Claim("stuck-twice-the-literal", OURS,
          f"{NETWORK} answers twice the literal if the variable is in the second slot and banned from it.",
          NOT_REPORTED, share("twice_the_literal", BANNED), AtLeast(0.9)),
    Claim("stuck-no-name-in-layer-1", OURS, f"{NETWORK}: in layer 1 `=` does not attend to the variable's slot.",
          "attends to both operands", attention_to_name, AtMost(0.05), f"{ONE}; the value is the mean weight."),
    Claim("stuck-mean-of-values", OURS,
          f"{NETWORK}: before MLP2, `=` has a vector for the literal plus the mean of a vector for each value.",
          NOT_REPORTED, explained, AtLeast(0.95), f"{ONE}; the value is the share of variance."),
    Claim("stuck-mean-of-values-answers", OURS,
          f"{NETWORK}: MLP2 gives the same answer for a vector for the literal plus the mean of those of the values.",
          NOT_REPORTED, same_answer, AtLeast(0.9), f"{ONE}."),
))  # fmt: skip
STUCK_SEEDS = tuple(
    Claim(f"stuck-level{id}", OURS,
          f"Every seed that adds but does not bind has the accuracy of the rule without names on {words} (difference).",
          NOT_REPORTED, rule=Between(-0.02, 0.02), seed_measure=above_level(name), comment=LEVEL)
    for id, name, words in (("", TRAINED, "trained sums with one variable"),
                            ("-held-out", HELD_OUT, "sums with one variable and a held-out pair"))
)  # fmt: skip


ATTENDING = f"attn_l2_equal_to_values (1-var, {TRAINING_LAW})"
# The sets whose curves are compared, in the order of `composition`.
NEEDED = ("0-var train", ADDITION_SET, BINDING_SET, "1-var add-restricted", "2-var train")


@dataclass(frozen=True)
class Composition:
    """Accuracy minus the prediction at each evaluation of one network from which on it adds held-out pairs."""

    one_variable: np.ndarray  # (evaluations,): the accuracy on trained sums with one variable
    bound: np.ndarray  # (evaluations,), bool: it is 95 % or more from here to the end
    held_out: np.ndarray  # (evaluations,): one variable, held-out pairs, less the product
    two_variables: np.ndarray  # (evaluations,): two variables less the product
    attending: np.ndarray  # (evaluations,): one variable, trained pairs, less the product with attention
    held_out_guessing: np.ndarray  # (evaluations,): one variable, held-out pairs, less the prediction with guesses


def composition(curves: Curves, attending: np.ndarray, guess: float, guess_held_out: float) -> Composition:
    """The residuals of the product along training.

    `attending` is (evaluations,) as the curves are, NaN if not measured; the guesses are the accuracies without names.
    """
    literals, adding, one, held_out, two = (curves.accuracy[name] for name in NEEDED)
    used = (literals > 0) & (np.maximum.accumulate(adding) >= ADDITION_THRESHOLD)
    literals, adding, one, held_out, two, attending = (
        x[used] for x in (literals, adding, one, held_out, two, attending)
    )
    binding = one / literals
    share = np.clip((binding - guess) / (1 - guess), 0, 1)
    stays = np.flip(np.logical_and.accumulate(np.flip(one >= BINDING_THRESHOLD)))
    guessing = adding * share + guess_held_out * (1 - share)
    return Composition(
        one_variable=one,
        bound=stays,
        held_out=held_out - adding * binding,
        two_variables=two - literals * binding**2,
        attending=one - literals * attending,
        held_out_guessing=held_out - guessing,
    )


def composition_of(seed: SeedCurves) -> Composition | None:
    """The residuals of one seed; None for a task without the sums, or that the rule without names is not about."""
    if not has_rule(seed.task) or not seed.curves.accuracy.keys() >= set(NEEDED):
        return None
    sets = {s.name: s for s in EVAL_SETS}
    attending = seed.columns.get(ATTENDING, np.full(len(seed.curves.steps), np.nan))
    return composition(
        seed.curves, attending, *(nameless_accuracy(seed.task, sets[name]) for name in (TRAINED, HELD_OUT))
    )


def median_residual(field: str, bound: bool, binding: bool = True) -> Callable[[Populations], Measured | None]:
    """The median over seeds of their mean residual while bound, or before, of seeds that bind in the end or never."""

    def measured(populations: Populations) -> Measured | None:
        values = []
        for seed in populations.seeds:
            found = composition_of(seed) if seed.learned_binding == binding else None
            own = np.array([]) if found is None else getattr(found, field)[found.bound == bound]
            if len(own) and np.isfinite(own).all():
                values.append(float(own.mean()))
        return Measured.median(values, "seeds")

    return measured


STAGES = (
    ("before", "Before a seed binds,", {"bound": False}),
    ("never", "In a seed that never binds,", {"bound": False, "binding": False}),
)
HELD = "the accuracy on sums with one variable and a held-out pair is"
PRODUCTS = (
    ("", "held_out", f"{HELD} that on literal sums times binding."),
    ("-two-variables", "two_variables",
     "the accuracy on sums with two variables is that on literal sums times binding squared."),
    ("-attention", "attending",
     "the accuracy on sums with one variable is that on literal sums times the share in which `=` attends to both "
     "values."),
    ("-guessing", "held_out_guessing", f"{HELD} that of a mixture of binding and of guesses without names."),
)  # fmt: skip
COMPOSITION = tuple(
    Claim(f"composition-{phase}{id}", OURS, f"{when} {says}", NOT_REPORTED, rule=Between(-0.05, 0.05),
          measured=median_residual(field, **of),
          comment="The value is the accuracy less the prediction, the median over seeds.")
    for id, field, says in PRODUCTS for phase, when, of in STAGES
)  # fmt: skip
