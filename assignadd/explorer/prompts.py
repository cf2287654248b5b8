"""The sequences that the page carries: a fixed exam, a reference set for interventions, and prompts to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from assignadd.config import Config
from assignadd.explorer.tables import whole_numbers
from assignadd.interventions.apply import reference_sequences
from assignadd.interventions.edits import shuffled
from assignadd.model.accuracy import Exam
from assignadd.model.forward import answer_logits
from assignadd.model.stack import Stack
from assignadd.task.evalsets import ALL_SETS, EVAL_SETS, EvalSet
from assignadd.task.randomness import EvalSteps
from assignadd.task.sampler import EmptySetError, Sampler
from assignadd.task.text import render, render_tokens

EXAM = 512
# Where a wrong answer is looked for: so many sequences of every evaluation set.
SEARCHED = 400
# The example of the paper's section 3, where the task has these letters and numbers.
PAPER = "c=1, b=17, a=42, b+19=?"


@dataclass(frozen=True)
class Example:
    """A prompt to begin with: what it shows, and its text (in the token form where the padding matters)."""

    label: str
    text: str


def exam(config: Config, seen: Tensor) -> dict[str, Any]:
    """The first sequences of every evaluation set in training, as many of each, 512 in all."""
    made = Exam([config], seen[None], EVAL_SETS, -(-EXAM // len(EVAL_SETS)))
    per_set = -(-EXAM // len(made.names))
    if per_set != made.n:
        made = Exam([config], seen[None], EVAL_SETS, per_set)
    sets = [[name, min(i * per_set, EXAM), min((i + 1) * per_set, EXAM)] for i, name in enumerate(made.names)]
    return {
        "tokens": whole_numbers(made.tokens[0, :EXAM]),
        "labels": whole_numbers(made.labels[0, :EXAM]),
        "sets": sets,
    }


def reference(config: Config) -> dict[str, Any]:
    """The reference of the package's interventions: training sequences, and the order in which they are resampled."""
    tokens = reference_sequences(config)
    return {"tokens": whole_numbers(tokens), "order": shuffled(len(tokens)).tolist()}


def examples(config: Config, seen: Tensor, one: Stack) -> list[Example]:
    """Prompts of every kind, and one that the network gets wrong."""
    wanted = (
        ("one variable", EvalSet("", 1)),
        ("two variables", EvalSet("", 2)),
        ("held-out pair", EvalSet("", 2, pair="held_out")),
        ("banned slot", EvalSet("", 1, n_banned=1)),
        ("both slots banned", EvalSet("", 2, n_banned=2)),
        ("numbers only", EvalSet("", 0, pair="held_out")),
    )
    found = [Example("from the paper", PAPER)] if _is_paper(config) else []
    for i, (label, evalset) in enumerate(wanted):
        tokens = _sample(config, seen, evalset, EvalSteps.EXPLORER_EXAMPLES[i], 1)
        if tokens is not None:
            found.append(Example(label, render(tokens[0].tolist(), config.task)))
    wrong = wrong_answer(config, seen, one)
    return found if wrong is None else [*found, Example("answered wrong", wrong)]


def wrong_answer(
    config: Config, seen: Tensor, one: Stack, sets: Sequence[EvalSet] = ALL_SETS, later: Stack | None = None
) -> str | None:
    """The prompt of these sets that the network gets wrong by the most (and `later`, if given, gets right)."""
    made = Exam([config], seen[None], sets, SEARCHED)
    logits, labels = answer_logits(one, made.tokens)[0], made.labels[0]
    margin = logits.amax(1) - logits.gather(1, labels[:, None])[:, 0]
    if later is not None:
        margin[answer_logits(later, made.tokens)[0].argmax(1) != labels] = 0
    worst = int(margin.argmax())
    return render_tokens(made.tokens[0, worst].tolist(), config.task) if float(margin[worst]) > 0 else None


def _is_paper(config: Config) -> bool:
    return config.task.modulus == 59 and config.task.length == 16 and config.task.n_vars >= 3


def _sample(config: Config, seen: Tensor, evalset: EvalSet, step: int, n: int) -> Tensor | None:
    try:
        return Sampler([config.task], seen[None], [config.seed.data or 0], evalset).sample(step, n).tokens[0]
    except EmptySetError:
        return None
