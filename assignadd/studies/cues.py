"""Study `cues`: is a number bound to its variable by name, place or order, and in how many networks?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from jaxtyping import Bool
from torch import Tensor

from assignadd.config import Config
from assignadd.interventions.cues import FARTHER_NAME, NAMES, PLACES, REVERSED, TWICE, cue_answers, exchanged_tags
from assignadd.measures.sequences import sequences
from assignadd.model.forward import answers
from assignadd.model.stack import Stack, single_models
from assignadd.studies.study import PAPER, Cell, FinalMeasures, Hypothesis, Study, slug, study_base
from assignadd.sweeps.final_tests import final_column
from assignadd.task.roles import roles
from assignadd.verdicts import AtLeast, Between

FEW = "at most 3 assignments"
SEQUENCES = 1000
OTHER_NAME, OWN_PLACE = "names exchanged, the other number", "places exchanged, its own number"
LATER = f"{TWICE}, y less x"


def answered(layout: str, number: str) -> str:
    """The column with the share of sequences of a layout whose answer is the sum with x or y."""
    return f"{layout}, {number}"


def with_assignments(count: int) -> str:
    """The column with the accuracy on sums with one variable and this many assignments."""
    return f"{count} assignments"


def cue_columns(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, float]]:
    """For each model, how often it answers with which number in each layout, after exchanges, and with more variables.

    Shares of 1,000 sequences each.
    """
    found = []
    for one, config, own in zip(single_models(stack), configs, seen, strict=True):
        layouts = cue_answers(one, config, own, SEQUENCES)
        row = {answered(name, k): float(x.double().mean()) for name, shown in layouts.items() for k, x in shown.items()}
        exchanged = exchanged_tags(one, config, own, SEQUENCES)
        row[OTHER_NAME] = float(exchanged[NAMES][1].double().mean())
        row[OWN_PLACE] = float(exchanged[PLACES][0].double().mean())
        row[LATER] = row[answered(TWICE, "y")] - row[answered(TWICE, "x")]
        found.append(row | by_assignments(one, config, own))
    return found


def by_assignments(one: Stack, config: Config, seen: Bool[Tensor, "N N"]) -> dict[str, float]:
    """The accuracy of one model on trained sums with one variable, by the number of assignments, up to what fits."""
    most = config.task.prefix // 2
    task = replace(config.task, max_assignments=most)
    batch = sequences([replace(config, task=task)], seen[None], 1, most * SEQUENCES)
    right = (answers(one, batch.tokens) == batch.labels)[0].double()
    counts = roles(task, batch.tokens[0]).assigned.sum(1)
    return {with_assignments(k): float(right[counts == k].mean()) for k in range(1, most + 1)}


def _mean(id: str, cell: str, claim: str, column: str, rule: AtLeast | Between) -> Hypothesis:
    return Hypothesis(
        f"study-cues-{id}", f"With {cell}: in networks that bind, {claim}", final_column(column), cell, rule,
        among="binds",
    )  # fmt: skip


CUES_STUDY = Study(
    name="cues",
    title="Bound by name, place or order",
    question="What binds a number to its variable in networks that were not looked at before, and in how many?",
    method=(
        "The paper's task, network and settings, and the same with at most 3 assignments in training in place of 6. "
        "After the last step each network answers sequences in which name, place and order contradict each other, and "
        "sums after two assigned numbers exchange the names, or the positions, that layer 1 copied into them, as the "
        "claims `cue-...` of the ledger have them; and sums with one variable and 1 to 6 assignments. The layouts: v "
        "is the variable that is asked for, w another one, x and y are numbers, a dot is PAD. The seeds, 9300 to 9363, "
        "are used nowhere else."
    ),
    base=study_base(steps=20_000),
    cells=(Cell(PAPER), Cell(FEW, {"task.max_assignments": 3})),
    seeds=64,
    first_seed=9300,
    outcomes=("adds", "binds"),
    numbers=tuple(map(final_column, (OTHER_NAME, OWN_PLACE, LATER, with_assignments(3), with_assignments(6)))),
    shown=tuple(map(final_column, (OTHER_NAME, OWN_PLACE, answered(REVERSED, "x")))),
    shown_on="share of sequences",
    observe=partial(FinalMeasures, cue_columns),
    hypotheses=(
        *(
            statement
            for cell in (PAPER, FEW)
            for statement in (
                _mean(f"name-{slug(cell)}", cell, "the answer is the sum with the other number after names are "
                      "exchanged, in 95 % of the sequences on average.", OTHER_NAME, AtLeast(0.95)),
                _mean(f"place-{slug(cell)}", cell, "the answer stays the same after positions are exchanged, in 95 % "
                      "of the sequences on average.", OWN_PLACE, AtLeast(0.95)),
            )
        ),
        _mean("order", PAPER, "the shares of the first and of the last number of a variable assigned twice differ by "
              "at most .1 on average.", LATER, Between(-0.1, 0.1)),
        _mean("number-first", PAPER, "a number before its variable is answered in at most a fifth of the sequences.",
              answered(REVERSED, "x"), Between(0, 0.2)),
        _mean("nearest-name", PAPER, "a number is answered in at most a fifth of the sequences if another name stands "
              "between it and its variable.", answered(FARTHER_NAME, "x"), Between(0, 0.2)),
        _mean("more", FEW, "at least 90 % of the sums with 6 assignments are answered, twice as many as in training.",
              with_assignments(6), AtLeast(0.9)),
    ),
)  # fmt: skip
