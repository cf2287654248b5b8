"""Accuracy on every evaluation set (figure accuracies) and with each variable in each slot (section 6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import torch
from jaxtyping import Float
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.model.accuracy import Exam, end_exam, end_of_training
from assignadd.model.stack import Stack
from assignadd.network import Network, per_network
from assignadd.stats import Interval, wilson
from assignadd.task.evalsets import HELD_OUT_CLASSES, EvalSet, all_sets
from assignadd.task.positions import operand_names
from assignadd.task.sampler import EmptySetError
from assignadd.task.splits import pair_mask

SLOTS = ("first", "second")


@dataclass(frozen=True)
class Accuracy:
    """The accuracies of one network on an evaluation set, at one evaluation or at several in the order of the steps."""

    shares: tuple[float, ...]
    n: int
    """Number of sequences at each evaluation."""
    pairs: int | None = None
    """Number of pairs of numbers that the interval is over, n + m and m + n as one; None if it is over sequences."""

    @property
    def accuracy(self) -> float:
        """The median over the evaluations."""
        return median(self.shares)

    @property
    def interval(self) -> Interval:
        """The 95 % interval of a single evaluation: sequences that add the same pair are not independent."""
        n_independent = self.pairs or self.n
        return wilson(self.accuracy * n_independent, n_independent)


def set_accuracies(
    model: Stack, config: Config, seen: Tensor, n: int, sets: Sequence[EvalSet] | None = None
) -> dict[str, Accuracy]:
    """The accuracy of one model on `n` sequences of every set that is not empty; by default of all sets."""
    sets = all_sets(config.task) if sets is None else sets
    return _accuracies([(Exam([config], seen[None], sets, n), model)], sets, seen, n)


def _accuracies(
    exams: Iterable[tuple[Exam, Stack]], sets: Sequence[EvalSet], seen: Tensor, n: int
) -> dict[str, Accuracy]:
    """The accuracies in several exams of `n` sequences of the same sets, each with the model at one step, by set."""
    shares: dict[str, list[float]] = {}
    for exam, model in exams:
        for name, share in exam.accuracies(model)[0].items():  # of the only model
            shares.setdefault(name, []).append(share)
    pairs = {evalset.name: _sampled_pairs(n, evalset, seen) for evalset in sets}
    return {name: Accuracy(tuple(of_set), n, pairs[name]) for name, of_set in shares.items()}


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
    return set_accuracies(network.stack, network.config, network.seen, network.n)


# The least number of sequences of each set at each of the last evaluations, unless fewer are requested.
END_SEQUENCES = 2000
ANY_PAIR_BANNED = EvalSet("1-var banned slot, any pair", n_vars=1, pair="any", n_banned=1)
# Its place among the sets of an exam at the end, which decides its sequences: the last of 100 (see `end_exam`).
ANY_PAIR_PLACE = 99


def end_steps(network: Network) -> list[int]:
    """The checkpoints that decide what a network achieves: the last ones, or the one that was requested."""
    return end_of_training(network.steps) if network.step == network.steps[-1] else [network.step]


def end_accuracies(network: Network, sets: Sequence[EvalSet], first: int = 0) -> dict[str, Accuracy]:
    """The accuracies at a network's last checkpoints, at each on fresh sequences, for every set that is not empty.

    The network's number of sequences is divided among the checkpoints, with at least 2,000 for each. `first` is the
    place of the first set in the list of all sets of an exam, which decides its sequences.
    """
    steps = end_steps(network)
    n = min(network.n, max(END_SEQUENCES, network.n // len(steps)))
    exams = (  # counted from the end: the last argument but one is the number of later steps
        (end_exam([network.config], network.seen[None], sets, n, len(steps) - i, first), network.stack_at(step))
        for i, step in enumerate(steps, 1)
    )
    return _accuracies(exams, sets, network.seen, n)


@per_network(slow=True)
def end_accuracies_of(network: Network) -> dict[str, Accuracy]:
    """The accuracies of a network at its last checkpoints (`end_steps`), by evaluation set."""
    if len(end_steps(network)) == 1:
        return accuracies_of(network)
    return end_accuracies(network, all_sets(network.config.task))


@per_network(slow=True)
def banned_slot_accuracy(network: Network) -> Accuracy | None:
    """The accuracies at the end on one-variable sums with the variable in a banned slot; None without such sums."""
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


def variable_accuracies(stack: Stack, exam: Exam) -> dict[str, Float[Tensor, " M"]]:
    """The accuracy with each variable in each operand slot in a `variable_exam`, by column; NaN without such sums."""
    share_correct = exam.count_correct(stack).to(stack.flat.dtype) / exam.n  # (M, sets); 0 where nothing is offered
    measured = share_correct.where(exam.offered.to(stack.flat.device), torch.nan)
    by_set = dict(zip(exam.names, measured.T, strict=True))  # an exam leaves out sets without sequences
    missing = stack.flat.new_full((len(stack),), torch.nan)
    names = [evalset.name for evalset in variable_sets(stack.config.task)]
    return {f"accuracy {name}": by_set.get(name, missing) for name in names}
