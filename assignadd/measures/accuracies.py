"""Accuracy on every evaluation set, for every pair of numbers and for each variable; and saturated answers.

Evaluation sets are those of figure accuracies, variables in each slot those of section 6 and figure late. An answer is
saturated if its probability rounds to 1, so that the gradient there is exactly 0. Thilak et al. (2022) and Prieto et
al. (2025) trace instabilities late in training to this limit of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.measures.scores import qk2_ov1_var_identity, qk2_ov1_var_margin
from assignadd.measures.sequences import every_pair
from assignadd.model.accuracy import Exam, end_exam
from assignadd.model.forward import answer_logits, answers
from assignadd.model.kernels.tensor import cross_entropy
from assignadd.model.stack import Stack, single_models
from assignadd.stats import Interval, wilson
from assignadd.task.evalsets import HELD_OUT_CLASSES, EvalSet, all_sets
from assignadd.task.randomness import REFERENCE_STEP
from assignadd.task.roles import operand_names
from assignadd.task.sampler import Sampler
from assignadd.task.sampling_tables import LITERAL, count_banned
from assignadd.task.splits import distinct_sums

# Number of sequences in which each pair of numbers is added.
CONTEXTS = 24
SLOTS = ("first", "second")
SATURATION_SEQUENCES = 512
SATURATED, SATURATED_OWN, LOSS = "saturated", "saturated in double precision", "reference loss"
QK2_IDENTITY, QK2_MARGIN = "qk2_ov1_var_identity", "qk2_ov1_var_margin"


@dataclass(frozen=True)
class Accuracy:
    """The accuracy on one evaluation set, with its 95 % interval."""

    accuracy: float
    n: int
    """Number of sequences."""
    interval: Interval
    pairs: int | None = None
    """Number of pairs of numbers, if the interval is for a sample of pairs and not of sequences; n + m and m + n count
    as one pair."""


def set_accuracies(
    stack: Stack,
    configs: Sequence[Config],
    seen: Tensor,
    n: int,
    sets: Sequence[EvalSet] | None = None,
    only: Collection[str] | None = None,
) -> list[dict[str, Accuracy]]:
    """For each model, the accuracy on `n` sequences of every set that is not empty (figure accuracies).

    The sets are all of the task's unless given. With `only`, sets with other names are not evaluated; those that are
    have the sequences that they have among all.

    For a class of held-out pairs with fewer pairs than sequences, the sample size of the interval is the number of
    pairs, since many sequences that add the same pair say little about other pairs of the class.
    """
    sets = all_sets(stack.config.task) if sets is None else sets
    results, by_name = [], {s.name: s for s in sets}
    for model, config, own_seen in zip(single_models(stack), configs, seen.unsqueeze(1), strict=True):
        exam = Exam([config], own_seen, sets, n)
        exam = exam if only is None else exam.only(only)
        counts = exam.count_correct(model)[0].tolist()
        results.append(
            {name: _accuracy(k, n, by_name[name], own_seen[0]) for name, k in zip(exam.names, counts, strict=True)}
        )
    return results


def _accuracy(correct: int, n: int, evalset: EvalSet, seen: Tensor) -> Accuracy:
    """The accuracy from the number of correct answers, with its interval."""
    pairs = distinct_sums(seen, evalset.pair) if evalset.pair in HELD_OUT_CLASSES else n
    if pairs >= n:
        return Accuracy(correct / n, n, wilson(correct, n))
    return Accuracy(correct / n, n, wilson(correct / n * pairs, pairs), pairs)


# Sequences of each set at each of the last evaluations, if as many are asked for at all.
END_SEQUENCES = 2000


@dataclass(frozen=True)
class EndAccuracy:
    """The accuracies on one evaluation set at the last evaluations of a network, in the order of the steps."""

    shares: tuple[float, ...]
    n: int
    """Number of fresh sequences at each of them."""
    pairs: int | None = None
    """As in `Accuracy`."""


def end_accuracies(
    read: Callable[[Sequence[int]], Stack], config: Config, seen: Tensor, steps: Sequence[int], n: int,
    sets: Sequence[EvalSet] | None = None, first: int = 0,
) -> dict[str, EndAccuracy]:  # fmt: skip
    """One network's accuracy at its last evaluations, on fresh sequences each, for every set that is not empty.

    `n` is the number of sequences in all, shared out to the steps, with at least 2,000 for each; `read` returns the
    checkpoints, `first` is the place of the first set in an exam.
    """
    sets = all_sets(config.task) if sets is None else sets
    each, by_name = min(n, max(END_SEQUENCES, n // len(steps))), {s.name: s for s in sets}
    shares: dict[str, list[float]] = {}
    for back, step in reversed([*enumerate(reversed(steps))]):
        for name, share in end_exam([config], seen[None], sets, each, back, first).accuracies(read([step]))[0].items():
            shares.setdefault(name, []).append(share)
    return {
        name: EndAccuracy(tuple(found), each, _accuracy(0, each, by_name[name], seen).pairs)
        for name, found in shares.items()
    }


def pair_accuracy(one: Stack, config: Config, n_vars: int, contexts: int = CONTEXTS) -> Float[Tensor, "N N"]:
    """One model's accuracy on each pair (n, m), over `contexts` sequences with `n_vars` variables in any slot."""
    N = config.task.modulus
    all_pairs = torch.ones(1, N, N, dtype=torch.bool, device=one.flat.device)
    batch = every_pair([config], all_pairs, n_vars, contexts)
    correct = answers(one, batch.tokens)[0] == batch.labels[0]
    return correct.view(contexts, N, N).float().mean(0)


def variable_sets(task: Task) -> list[EvalSet]:
    """An evaluation set for each slot and variable, in which no other operand is in a slot banned for it.

    Sums have as many variables as the task allows.
    """
    sets, names = [], operand_names(task)
    for slot in names:
        for v, letter in enumerate(task.variables):
            n_banned = count_banned(task, *(v if name == slot else LITERAL for name in names))
            required: dict[str, Any] = {slot: v}
            sets.append(EvalSet(f"{letter} {slot}", task.variable_counts[-1], n_banned=n_banned, **required))
    return sets


def variable_exam(configs: Sequence[Config], seen: Tensor, n: int) -> Exam:
    """An exam of `n` sequences for each variable and slot."""
    return Exam(configs, seen, variable_sets(configs[0].task), n, seen.device)


def variable_accuracy(stack: Stack, exam: Exam) -> Float[Tensor, "M k V"]:
    """Accuracy with each variable in each operand slot; NaN if the task has no such sum."""
    names = [s.name for s in variable_sets(stack.config.task)]
    accuracy = stack.flat.new_full((len(stack), len(names)), torch.nan)
    accuracy[:, [names.index(name) for name in exam.names]] = exam.count_correct(stack).to(accuracy.dtype) / exam.n
    return accuracy.view(len(stack), stack.config.task.operands, -1)


class Saturation:
    """Measures of a stack on fixed sequences of each model's training distribution, and the paper's measure of QK2."""

    def __init__(self, configs: Sequence[Config], seen: Bool[Tensor, "M ..."], n: int = SATURATION_SEQUENCES):
        seeds = [c.seed.data or 0 for c in configs]
        self.batch = Sampler([c.task for c in configs], seen, seeds, device=seen.device).sample(REFERENCE_STEP, n)

    def __call__(self, stack: Stack) -> dict[str, Tensor]:
        """The share of saturated sequences in single and in double precision, the mean loss, and QK2's measures."""
        logits, labels = answer_logits(stack, self.batch.tokens), self.batch.labels
        return {
            SATURATED: _saturated(logits.float(), labels),
            SATURATED_OWN: _saturated(logits.double(), labels),
            LOSS: cross_entropy(logits.double(), labels)[0],
            QK2_IDENTITY: qk2_ov1_var_identity(stack),
            QK2_MARGIN: qk2_ov1_var_margin(stack).mean(1),
        }


def _saturated(logits: Tensor, labels: Tensor) -> Tensor:
    """The share of sequences (M,) whose gradient at the right answer is exactly 0 in the precision of the logits."""
    gradient = cross_entropy(logits, labels)[1].gather(-1, labels.unsqueeze(-1))
    return (gradient == 0).squeeze(-1).to(torch.float64).mean(-1)
