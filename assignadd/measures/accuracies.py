"""Accuracy on every evaluation set, for every pair of numbers and for each variable.

Evaluation sets are those of figure accuracies, variables in each slot those of section 6 and figure late.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.model.accuracy import Exam, end_exam, end_of_training
from assignadd.model.stack import Stack, single_models
from assignadd.network import Network, per_network
from assignadd.stats import Interval, wilson
from assignadd.task.evalsets import HELD_OUT_CLASSES, EvalSet, all_sets
from assignadd.task.positions import operand_names
from assignadd.task.sampler import EmptySetError
from assignadd.task.splits import distinct_sums

SLOTS = ("first", "second")


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

    The sets are by default all of the task's. With `only`, sets with other names are not evaluated; the rest have the
    sequences that they have among all.

    For a class of held-out pairs with fewer pairs than sequences, the sample size of the interval is the number of
    pairs, since many sequences that add the same pair say little about other pairs of the class.
    """
    sets = all_sets(stack.config.task) if sets is None else sets
    by_name = {evalset.name: evalset for evalset in sets}
    results = []
    for model, config, split in zip(single_models(stack), configs, seen, strict=True):
        exam = Exam([config], split[None], sets, n)
        exam = exam if only is None else exam.only(only)
        counts = zip(exam.names, exam.count_correct(model)[0].tolist(), strict=True)
        results.append({name: _accuracy(correct, n, by_name[name], split) for name, correct in counts})
    return results


def _accuracy(correct: int, n: int, evalset: EvalSet, seen: Tensor) -> Accuracy:
    """The accuracy from the number of correct answers, with its interval."""
    pairs = _sampled_pairs(n, evalset, seen)
    interval = wilson(correct, n) if pairs is None else wilson(correct / n * pairs, pairs)
    return Accuracy(correct / n, n, interval, pairs)


def _sampled_pairs(n: int, evalset: EvalSet, seen: Tensor) -> int | None:
    """The number of pairs in a class of held-out pairs, if it is smaller than that of the sequences; else None."""
    pairs = distinct_sums(seen, evalset.pair) if evalset.pair in HELD_OUT_CLASSES else n
    return pairs if pairs < n else None


@per_network(slow=True)
def accuracies_of(network: Network) -> dict[str, Accuracy]:
    """Accuracy of a network on every evaluation set, at its last step."""
    return set_accuracies(network.stack, [network.config], network.seen[None], network.n)[0]


# Sequences of each set at each of the last evaluations, if as many are requested at all.
END_SEQUENCES = 2000
ANY_PAIR_BANNED = EvalSet("1-var banned slot, any pair", n_vars=1, pair="any", n_banned=1)
ANY_PAIR_PLACE = 99  # among the sets of an exam at the end: behind all others


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
    each = min(n, max(END_SEQUENCES, n // len(steps)))
    shares: dict[str, list[float]] = {}
    for place, step in enumerate(steps, 1):
        exam = end_exam([config], seen[None], sets, each, len(steps) - place, first)
        for name, share in exam.accuracies(read([step]))[0].items():
            shares.setdefault(name, []).append(share)
    pairs = {evalset.name: _sampled_pairs(each, evalset, seen) for evalset in sets}
    return {name: EndAccuracy(tuple(of_set), each, pairs[name]) for name, of_set in shares.items()}


def end_steps(network: Network) -> list[int]:
    """The checkpoints that decide what a network achieves: the last ones, or the one that was requested."""
    return end_of_training(network.steps) if network.step == network.steps[-1] else [network.step]


@per_network(slow=True)
def end_accuracies_of(network: Network) -> dict[str, EndAccuracy]:
    """The accuracies at these checkpoints, by evaluation set."""
    steps = end_steps(network)
    if len(steps) == 1:
        return {name: EndAccuracy((a.accuracy,), a.n, a.pairs) for name, a in accuracies_of(network).items()}
    return end_accuracies(network.checkpoints, network.config, network.seen, steps, network.n)


@per_network(slow=True)
def in_banned_slots(network: Network) -> EndAccuracy | None:
    """The same for sums of any two numbers with one variable, in a banned slot; None where a task has none."""
    sets, steps = [ANY_PAIR_BANNED], end_steps(network)
    try:
        accuracies = end_accuracies(
            network.checkpoints, network.config, network.seen, steps, network.n, sets, ANY_PAIR_PLACE
        )
        return accuracies[ANY_PAIR_BANNED.name]
    except EmptySetError:
        return None


def variable_sets(task: Task) -> list[EvalSet]:
    """An evaluation set for each slot and variable, in which no other operand is in a slot banned for it.

    Sums have as many variables as the task allows.
    """
    sets = []
    for slot, name in enumerate(operand_names(task)):
        for v, letter in enumerate(task.variables):
            n_banned = int(letter in task.bans[slot])
            in_slots = (*[None] * slot, v)
            sets.append(EvalSet(f"{letter} {name}", task.variable_counts[-1], n_banned=n_banned, in_slots=in_slots))
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
