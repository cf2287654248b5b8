"""Study `fate`: does the initialisation, the order of the data, the split or rounding decide whether a seed binds?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

from assignadd.studies.fate_numbers import SOURCES, auc, both_outcomes, main_share, rounding_share
from assignadd.studies.rate import OF_THE_PAPER
from assignadd.studies.study import RECORD, Cell, ComputedHypothesis, Study, study_base
from assignadd.verdicts import AtLeast, AtMost

LEVELS = 8
FACTORIAL, REPEATED = "8 x 8 x 8", "repeated"
REPEATS = 8
STEPS_OF_PREDICTION = (500, 1000, 2000)
# What is known of a network at those steps: accuracies and measures that need no knowledge of its fate.
KNOWN = (
    "loss", "0-var train", "0-var add-restricted", "1-var train", "2-var train", "ov2_mlp2_accuracy",
    "qk1_num_to_prev_var", "qk2_ov1_var_identity", "qk2_ov1_var_margin", "attn_l1_num_to_prev (1-var)",
    "attn_l1_equal_to_operands (1-var)", "attn_l2_equal_to_values (1-var)",
)  # fmt: skip
WORDS = {"seed.init": "initialisation", "seed.data": "order of the data", "seed.split": "split"}
LEAST_AUC = {500: 0.7, 1000: 0.8, 2000: 0.9}

FATE = Study(
    name="fate",
    title="Initialisation, data, split and rounding",
    question=(
        "Does the initialisation, the order of the data, the split of the pairs or rounding decide whether a network "
        "binds, and how early can its fate be predicted?"
    ),
    method=(
        f"The paper's task, network and settings. Every combination of {LEVELS} initialisations, {LEVELS} orders of "
        f"the data and {LEVELS} splits is trained once; the {LEVELS} combinations with the same number for all three "
        f"are trained {REPEATS} more times, with learning rates that are 1 to {REPEATS} parts in a million higher. The "
        "share of a source is its variance component over the sum of all (random effects, one network a combination); "
        "intervals are from the jackknife over the levels. A network's fate is predicted by logistic regression on "
        f"{len(KNOWN)} accuracies and measures, fitted to networks that share neither initialisation nor data nor "
        "split with it; networks that bind by then are left out."
    ),
    # Measures of all networks every 500 steps.
    base=study_base(steps=30_000, record=replace(RECORD, eval_every=500, measure_every=500, checkpoint_every=10_000)),
    cells=(
        Cell(
            FACTORIAL,
            models=tuple(dict(zip(SOURCES, levels, strict=True)) for levels in product(range(LEVELS), repeat=3)),
        ),
        Cell(
            REPEATED,
            models=tuple(
                dict.fromkeys(SOURCES, level) | {"optim.lr": OF_THE_PAPER * (1 + parts * 1e-6)}
                for level in range(LEVELS) for parts in range(1, REPEATS + 1)
            ),
        ),
    ),
    seeds=LEVELS**3,
    outcomes=("adds", "binds", "refines"),
    numbers=("addition at", "binding at"),
    early_steps=STEPS_OF_PREDICTION,
    early=KNOWN,
    hypotheses=(
        *(
            ComputedHypothesis(
                f"study-fate-{source.partition('.')[2]}",
                f"The {WORDS[source]} alone carries at most a quarter of the variance of the fate.",
                AtMost(0.25), partial(main_share, FACTORIAL, source),
            )
            for source in SOURCES
        ),
        ComputedHypothesis(
            "study-fate-rounding",
            "Rounding carries at least a quarter of the variance of the fate of the repeated combinations.",
            AtLeast(0.25), partial(rounding_share, FACTORIAL, REPEATED),
        ),
        ComputedHypothesis(
            "study-fate-both-outcomes",
            "At least a quarter of the repeated combinations both bind and do not bind.",
            AtLeast(0.25), partial(both_outcomes, FACTORIAL, REPEATED),
        ),
        *(
            ComputedHypothesis(
                f"study-fate-auc-{step}",
                f"From its measures at step {step:,}, the fate of a network is predicted with an AUC of at least "
                f"{LEAST_AUC[step]:g}.",
                AtLeast(LEAST_AUC[step]), partial(auc, FACTORIAL, KNOWN, step),
            )
            for step in STEPS_OF_PREDICTION
        ),
    ),
)  # fmt: skip
