"""Accuracy on every evaluation set (figure accuracies) and with each variable in each slot (section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.model.accuracy import Exam, end_exam, end_of_training
from assignadd.model.stack import Stack
from assignadd.network import Network, per_network
from assignadd.runs.folder import Run
from assignadd.stats import Interval, wilson
from assignadd.task.evalsets import HELD_OUT_CLASSES, EvalSet, all_sets
from assignadd.task.positions import operand_names
from assignadd.task.sampler import EmptySetError
from assignadd.task.splits import pair_mask

SLOTS = ("first", "second")


@dataclass(frozen=True)
class Accuracy:
    """The accuracy on one evaluation set, with its 95 % interval."""

    accuracy: float
    n: int
    """Number of sequences."""
    interval: Interval
    pairs: int | None = None
    """Number of pairs of numbers that the interval is over, n + m and m + n as one; None if it is over sequences."""


def set_accuracies(
    stack: Stack, configs: Sequence[Config], seen: Tensor, n: int, sets: Sequence[EvalSet] | None = None
) -> list[dict[str, Accuracy]]:
    """For each model, the accuracy on `n` sequences of every set that is not empty; by default of all sets."""
    sets = all_sets(stack.config.task) if sets is None else sets
    by_name = {evalset.name: evalset for evalset in sets}
    results = []
    for model, config, seen_of_model in zip(stack, configs, seen, strict=True):
        exam = Exam([config], seen_of_model[None], sets, n)
        accuracies = {}
        for name, share in exam.accuracies(model)[0].items():  # of the only model
            n_pairs = _sampled_pairs(n, by_name[name], seen_of_model)
            n_independent = n_pairs or n  # sequences that add the same pair are not independent
            accuracies[name] = Accuracy(share, n, wilson(share * n_independent, n_independent), n_pairs)
        results.append(accuracies)
    return results


def accuracies_by_index(run: Run, stack: Stack, indices: Sequence[int], n: int) -> dict[int, dict[str, Accuracy]]:
    """For each of these models of a run, by its index: its accuracies on `n` sequences of every set (`set_accuracies`).

    `stack` has all models of the run at one step.
    """
    if not indices:
        return {}
    configs = run.configs
    accuracies = set_accuracies(stack.models(indices), [configs[i] for i in indices], run.seen[indices], n)
    return dict(zip(indices, accuracies, strict=True))


def _sampled_pairs(n: int, evalset: EvalSet, seen: Tensor) -> int | None:
    """The number of pairs of numbers in a set of held-out pairs, if it is below n; None if not, and for other sets.

    Many sequences that add the same pair say little about other pairs: with fewer pairs, the interval is over these.
    """
    if evalset.pair not in HELD_OUT_CLASSES:
        return None
    n_pairs = int(pair_mask(seen, evalset.pair).sum())
    if evalset.pair == "neither_order":  # it has n + m and m + n of each pair
        n_pairs //= 2
    return n_pairs if n_pairs < n else None


@per_network(slow=True)
def accuracies_of(network: Network) -> dict[str, Accuracy]:
    """The accuracies of a network at its last step, by evaluation set."""
    return set_accuracies(network.stack, [network.config], network.seen[None], network.n)[0]


# The least number of sequences of each set at each of the last evaluations, unless fewer are requested.
END_SEQUENCES = 2000
ANY_PAIR_BANNED = EvalSet("1-var banned slot, any pair", n_vars=1, pair="any", n_banned=1)
# Its place among the sets of an exam at the end, which decides its sequences: the last of 100 (see `end_exam`).
ANY_PAIR_PLACE = 99


@dataclass(frozen=True)
class EndAccuracy:
    """The accuracies on one evaluation set at the last evaluations of a network, in the order of the steps."""

    shares: tuple[float, ...]
    n: int
    """Number of fresh sequences at each of them."""
    pairs: int | None = None
    """As in `Accuracy`."""


def end_steps(network: Network) -> list[int]:
    """The checkpoints that decide what a network achieves: the last ones, or the one that was requested."""
    return end_of_training(network.steps) if network.step == network.steps[-1] else [network.step]


def end_accuracies(network: Network, sets: Sequence[EvalSet], first: int = 0) -> dict[str, EndAccuracy]:
    """The accuracies at a network's last checkpoints, at each on fresh sequences, for every set that is not empty.

    The network's number of sequences is divided among the checkpoints, with at least 2,000 for each. `first` is the
    place of the first set in the list of all sets of an exam, which decides its sequences.
    """
    steps = end_steps(network)
    n = min(network.n, max(END_SEQUENCES, network.n // len(steps)))
    shares: dict[str, list[float]] = {}
    # Exams are counted from the end: `n_later` is the number of steps after this one.
    for n_later, step in zip(reversed(range(len(steps))), steps, strict=True):
        exam = end_exam([network.config], network.seen[None], sets, n, n_later, first)
        for name, share in exam.accuracies(network.stack_at(step))[0].items():  # of the only model
            shares.setdefault(name, []).append(share)
    pairs = {evalset.name: _sampled_pairs(n, evalset, network.seen) for evalset in sets}
    return {name: EndAccuracy(tuple(of_set), n, pairs[name]) for name, of_set in shares.items()}


@per_network(slow=True)
def end_accuracies_of(network: Network) -> dict[str, EndAccuracy]:
    """The accuracies of a network at its last checkpoints (`end_steps`), by evaluation set."""
    if len(end_steps(network)) == 1:
        at_step = accuracies_of(network)
        return {name: EndAccuracy((result.accuracy,), result.n, result.pairs) for name, result in at_step.items()}
    return end_accuracies(network, all_sets(network.config.task))


@per_network(slow=True)
def banned_slot_accuracy(network: Network) -> EndAccuracy | None:
    """The accuracies at the last checkpoints on one-variable sums of any numbers with the variable in a banned slot.

    None if the task has no such sums.
    """
    try:
        return end_accuracies(network, [ANY_PAIR_BANNED], ANY_PAIR_PLACE)[ANY_PAIR_BANNED.name]
    except EmptySetError:
        return None


def variable_sets(task: Task) -> list[EvalSet]:
    """An evaluation set for each slot and variable, such as `b second`: sums with this variable in this slot.

    They have as many variables as the task allows, and no variable but this one is in a slot that is banned for it.
    """
    most_variables = task.variable_counts[-1]
    sets = []
    for slot, name in enumerate(operand_names(task)):
        for v, letter in enumerate(task.variables):
            in_slots = (None,) * slot + (v,)  # any operand in the slots before
            n_banned = int(letter in task.bans[slot])
            sets.append(EvalSet(f"{letter} {name}", most_variables, n_banned=n_banned, in_slots=in_slots))
    return sets


def variable_exam(configs: Sequence[Config], seen: Tensor, n: int) -> Exam:
    """An exam of `n` sequences for each variable and slot (`variable_sets`)."""
    return Exam(configs, seen, variable_sets(configs[0].task), n, seen.device)


def variable_accuracy(stack: Stack, exam: Exam) -> Float[Tensor, "M k V"]:
    """Accuracy with each variable in each of the k operand slots in a `variable_exam`; NaN without such sums."""
    names = [evalset.name for evalset in variable_sets(stack.config.task)]
    accuracy = stack.flat.new_full((len(stack), len(names)), torch.nan)
    columns = [names.index(name) for name in exam.names]  # an exam leaves out sets without sequences
    share_correct = exam.count_correct(stack).to(accuracy.dtype) / exam.n  # (M, columns); 0 where nothing is offered
    accuracy[:, columns] = share_correct.where(exam.offered.to(accuracy.device), torch.nan)
    return accuracy.view(len(stack), stack.config.task.operands, -1)  # the sets are in this order: slot by slot
