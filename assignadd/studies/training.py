"""Studies of the other settings of training: does the share of seeds that bind depend on them?"""

from __future__ import annotations

from typing import Any

from assignadd.studies.study import PAPER, Cell, Hypothesis, Study, slug
from assignadd.verdicts import AtLeast, AtMost

DECAY, WARMUP, BATCH = (0.0, 0.1, 0.5), (500, 2000), (128, 256, 1024)
# Sequences for each literal one; the paper has 1.67 with one variable and .83 with two.
ONE_VAR, TWO_VAR = (0.4, 0.8, 3.3), (0.3, 1.7)
INIT = (0.4, 1.2)
FACTORS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "decay": ("optim.weight_decay", DECAY),
    "warm-up": ("optim.warmup", WARMUP),
    "batch": ("optim.batch", BATCH),
    "one-variable ratio": ("task.one_var_ratio", ONE_VAR),
    "two-variable ratio": ("task.two_var_ratio", TWO_VAR),
    "initial scale": ("model.init_scale", INIT),
}


def label(factor: str, value: float) -> str:
    """The name of a cell, such as "batch 128"."""
    return f"{factor} {value:g}"


def _than_paper(factor: str, value: float, more: bool) -> Hypothesis:
    """More seeds bind than with the paper's settings, or fewer."""
    cell = label(factor, value)
    claim = f"With {cell}, {'more' if more else 'fewer'} seeds bind than with the paper's settings."
    rule = AtLeast(0) if more else AtMost(0)
    return Hypothesis(f"study-training-{slug(cell)}", claim, "binds", cell, rule, versus=PAPER)


def _half(factor: str, value: float) -> Hypothesis:
    cell = label(factor, value)
    claim = f"With {cell}, at least half of the seeds bind."
    return Hypothesis(f"study-training-{slug(cell)}", claim, "binds", cell, AtLeast(0.5))


TRAINING = Study(
    name="training",
    title="Decay, warm-up, batch, mix and initial scale",
    question="How does the share of seeds that learn to bind depend on the settings of training other than the rate?",
    method=(
        "The paper's task, network and settings; one setting differs at a time: weight decay (the paper's is 0.02), "
        "steps of linear warm-up (none), sequences in a batch (512), sequences with one variable (1.67) and with two "
        "(0.83) for each literal one, or the scale of the initial weights (0.8)."
    ),
    cells=(
        Cell(PAPER),
        *(Cell(label(factor, v), {name: v}) for factor, (name, values) in FACTORS.items() for v in values),
    ),
    seeds=32,
    hypotheses=(
        *(_than_paper("one-variable ratio", ratio, more=True) for ratio in (0.4, 0.8)),
        _than_paper("one-variable ratio", 3.3, more=False),
        *(_than_paper("warm-up", steps, more=True) for steps in WARMUP),
        Hypothesis(
            "study-training-decay-0.5", "With decay 0.5, at most a fifth of the seeds bind.",
            "binds", label("decay", 0.5), AtMost(0.2),
        ),
        _than_paper("decay", 0.1, more=False),
        _half("decay", 0.0),
        *(_half("batch", batch) for batch in BATCH),
        *(_half("two-variable ratio", ratio) for ratio in TWO_VAR),
        *(_half("initial scale", scale) for scale in INIT),
    ),
)  # fmt: skip


SCALES = (0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.2, 1.6, 2.4)
PAPER_SCALE = 0.8


def scale_label(scale: float) -> str:
    """The name of a cell, such as "scale 0.8"."""
    return f"scale {scale:g}"


SCALE = Study(
    name="scale",
    title="Size of the initial weights",
    question="Is the paper's initial scale one at which few seeds bind, with larger shares on both sides?",
    method=(
        "The paper's task, network and settings, except for the scale of all initial weights (the paper's is 0.8). In "
        "the study `training` more seeds bound at 0.4 and at 1.2 than at 0.8; these seeds, 2000 to 2031, are others."
    ),
    cells=tuple(
        Cell(scale_label(scale), {} if scale == PAPER_SCALE else {"model.init_scale": scale}) for scale in SCALES
    ),
    seeds=32,
    first_seed=2000,
    numbers=("addition at", "binding at", "frequencies"),
    hypotheses=tuple(
        Hypothesis(
            f"study-scale-{scale:g}", f"With initial scale {scale:g}, more seeds bind than with the paper's 0.8.",
            "binds", scale_label(scale), AtLeast(0), versus=scale_label(PAPER_SCALE),
        )
        for scale in (0.4, 1.2)
    ),
)  # fmt: skip
