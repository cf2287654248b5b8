"""How far a network answers as a reader without names would, and what its residual then contains.

Such a reader knows of a variable's name only from which slots it is banned. Variables that are banned from the same
slots form a group: the common ones, banned from none, and one group for each slot. A reader without names cannot tell
the assignments of a group apart. The rule for its answers: if every variable of the sum is common, any common variable
may be meant, otherwise any assigned one; and a pair that training held out is an answer only where no other is left.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd import Config
from assignadd.model import Exam, LastLayer, Stack, answer_logits, require
from assignadd.task import EVAL_SETS, Sampler, Task, Vocabulary, answer_of, operand_slots, pair_split, roles

DRAWS = range(9000, 10_000)
"""Steps of the evaluation stream that this finding draws its sequences from."""
SEQUENCES, RULE_SEQUENCES, FITTED, CHANGED, SEED, RIDGE = 4000, 20_000, 30_000, 8, 0, 1e-2
TRAINED, HELD_OUT, BANNED = "1-var train", "1-var add-restricted", "1-var var-restricted"
SETS = tuple(s for s in EVAL_SETS if s.name in (TRAINED, HELD_OUT, BANNED))


def has_rule(task: Task) -> bool:
    """Whether the rule is about this task: two operands, and every variable assigned a number, once."""
    return task.operands == 2 and not task.hops and not task.rebinding


def name_groups(task: Task) -> list[list[int]]:
    """The tokens of the variables by the slots that they are banned from; the common ones come first."""
    groups: dict[tuple[bool, ...], list[int]] = {tuple(False for _ in task.bans): []}
    for letter in task.variables:
        banned = tuple(letter in letters for letters in task.bans)
        groups.setdefault(banned, []).append(Vocabulary(task).variable(letter))
    return list(groups.values())


def considered(task: Task, tokens: Int[Tensor, "B T"]) -> tuple[Bool[Tensor, "B T"], Bool[Tensor, " B"]]:
    """A mask of the numbers that a variable of the sum may have by the rule; whether all variables of it are common."""
    role, operands = roles(task, tokens), tokens[:, list(operand_slots(task))]
    common = torch.tensor(name_groups(task)[0], dtype=tokens.dtype)
    all_common = (torch.isin(operands, common) | ~role.is_variable).all(1)
    return role.assigned & (torch.isin(tokens.roll(1, 1), common) | ~all_common[:, None]), all_common


def allowed_answers(task: Task, seen: Bool[Tensor, "N N"], tokens: Int[Tensor, "B T"]) -> Bool[Tensor, "B N"]:
    """The answers to each sequence that the rule without names allows."""
    used, is_variable = considered(task, tokens)[0], roles(task, tokens).is_variable
    at = torch.arange(task.length)
    # The positions of the numbers that may be meant by each operand: a literal stands in its own slot.
    may = [torch.where(is_variable[:, [k]], used, at == slot) for k, slot in enumerate(operand_slots(task))]
    first, second = tokens[:, :, None].clamp(max=task.modulus - 1), tokens[:, None].clamp(max=task.modulus - 1)
    ways = may[0][:, :, None] & may[1][:, None] & (at[:, None] != at)  # (B, T, T)
    trained = ways & seen[first, second]
    ways = torch.where(trained.any((1, 2), keepdim=True), trained, ways)
    answers = answer_of(task, (first, second)).expand_as(ways)
    return torch.zeros(len(tokens), task.modulus).scatter_add_(1, answers.flatten(1), ways.flatten(1).float()) > 0


@lru_cache(maxsize=16)
def rule_accuracy(task: Task, name: str, split: int = 0) -> float:
    """The accuracy on an evaluation set of a uniform choice among the allowed answers, for the split of this seed."""
    evalset, seen = next(s for s in EVAL_SETS if s.name == name), pair_split(task, split)
    batch = Sampler([task], seen[None], [split], evalset).sample(DRAWS[-1], RULE_SEQUENCES)
    allowed = allowed_answers(task, seen, batch.tokens[0])
    hit = allowed.gather(1, batch.labels[0][:, None])[:, 0]
    return float((hit / allowed.sum(1).clamp(min=1)).mean())


def with_other_names(task: Task, tokens: Int[Tensor, "B T"], generator: torch.Generator) -> Int[Tensor, "B T"]:
    """The sequences with every variable of the sum replaced by another one of its group, assigned or not."""
    names = torch.arange(Vocabulary(task).size).repeat(len(tokens), 1)
    for group in map(torch.tensor, filter(None, name_groups(task))):
        shift = torch.randint(1, max(len(group), 2), (len(tokens), 1), generator=generator)
        names[:, group] = group[(torch.arange(len(group)) + shift) % len(group)]
    return _with_operands(task, tokens, names.gather(1, tokens))


def rearranged(task: Task, tokens: Int[Tensor, "B T"], generator: torch.Generator) -> Int[Tensor, "B T"]:
    """The sequences with the assignments in random order, and all names permuted within their groups.

    The names in the prefix and those of the sum are permuted independently, so that nothing connects them.
    """
    starts = (tokens >= Vocabulary(task).first_variable)[:, : task.prefix]
    at = torch.arange(task.prefix).expand(starts.shape)
    order = torch.where(starts, torch.rand(starts.shape, generator=generator), 2.0 + at).argsort(1)
    places = torch.where(starts, at, task.prefix + at).argsort(1)
    source = at.scatter(1, places, order)  # of a variable or PAD; a number follows its variable
    source = torch.where(starts.roll(1, 1), source.roll(1, 1) + 1, source)
    moved = torch.cat([tokens[:, : task.prefix].gather(1, source), tokens[:, task.prefix :]], 1)
    prefix, operands = (_permuted_names(task, len(tokens), generator).gather(1, moved) for _ in range(2))
    return _with_operands(task, prefix, operands)


def _permuted_names(task: Task, n: int, generator: torch.Generator) -> Int[Tensor, "n K"]:
    """All tokens, with the variables of each group in random order."""
    names = torch.arange(Vocabulary(task).size).repeat(n, 1)
    for group in map(torch.tensor, filter(None, name_groups(task))):
        names[:, group] = group[torch.rand(n, len(group), generator=generator).argsort(1)]
    return names


def _with_operands(task: Task, tokens: Int[Tensor, "B T"], source: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The sequences `tokens` with the operands of `source`."""
    slots = list(operand_slots(task))
    return tokens.index_copy(1, torch.tensor(slots), source[:, slots])


@dataclass(frozen=True)
class WithoutNames:
    """One model on the sequences of one evaluation set; each field is true where the answer is as said."""

    correct: Bool[Tensor, " n"]
    allowed: Bool[Tensor, " n"]
    """One of those that the rule without names allows."""
    by_chance: Float[Tensor, " n"]
    """The probability that a uniform choice among those is the same."""
    same_group: Bool[Tensor, " n"]
    """Predicted from the same sequences with other names of the same groups in the sum."""
    predicted: Bool[Tensor, " n"]
    """Predicted from the same values in random order, with all names permuted within their groups."""
    clear: Bool[Tensor, " n"]
    """Not nearly a tie: the logits of the best two answers differ by more than 1."""


@torch.no_grad()
def without_names(
    model: Stack, config: Config, seen: Bool[Tensor, "N N"], n: int = SEQUENCES
) -> dict[str, WithoutNames]:
    """By evaluation set, how one model answers sums with variables, and how well rules without names predict it.

    A prediction is the answer with the largest mean logit over `CHANGED` changed sequences. The change removes all that
    could connect the names of the sum with an assigned number, so that no network that binds is predicted.
    """
    task, exam = config.task, Exam([config], seen[None], SETS, n, first_step=DRAWS[0])
    by_set, generator = {}, torch.Generator().manual_seed(SEED)

    def from_changed(tokens: Tensor, change: Callable[..., Tensor]) -> Int[Tensor, " n"]:
        logits = [answer_logits(model, change(task, tokens, generator)[None])[0] for _ in range(CHANGED)]
        return torch.stack(logits).mean(0).argmax(-1)

    for name, tokens, labels in zip(exam.names, exam.tokens[0].split(n), exam.labels[0].split(n), strict=True):
        logits = answer_logits(model, tokens[None])[0]
        answers, best = logits.argmax(-1), logits.topk(2).values
        same_group = answers == from_changed(tokens, with_other_names)
        predicted = answers == from_changed(tokens, rearranged)
        options = allowed_answers(task, seen, tokens)
        allowed = options.gather(1, answers[:, None])[:, 0]
        by_set[name] = WithoutNames(
            correct=answers == labels,
            allowed=allowed,
            by_chance=allowed / options.sum(1).clamp(min=1),
            same_group=same_group,
            predicted=predicted,
            clear=best[:, 0] - best[:, 1] > 1,
        )
    return by_set


@torch.no_grad()
def name_attention(model: Stack, config: Config, seen: Bool[Tensor, "N N"], n: int = SEQUENCES) -> Float[Tensor, " n"]:
    """The attention of `=` to the slot of the variable in layer 1, on trained sums with one variable."""
    require(config, "the attention of = to the variable's slot")
    tokens = _trained(config, seen, n)
    slots = torch.tensor(operand_slots(config.task))[roles(config.task, tokens).is_variable.int().argmax(1)]
    return LastLayer(model).trace(tokens).attention(1)[:, 0, -1].gather(1, slots[:, None])[:, 0]


@torch.no_grad()
def explained_by_mean_of_values(model: Stack, config: Config, seen: Bool[Tensor, "N N"], n: int = SEQUENCES) -> float:
    """The share of variance of the residual of `=` before MLP2 that a vector for the literal plus the mean of a vector
    for each value explains.

    The vectors are fitted to trained sums with one variable, by least squares on `FITTED` sequences, and tested on `n`
    others. The values are those of the common variables if the one in the sum is common, otherwise all assigned
    numbers. Each slot and group has vectors of its own, and a constant for each number of values.
    """
    tokens = _trained(config, seen, n + FITTED)
    residual, (design, kind) = LastLayer(model).trace(tokens).resid_mid.double(), _design(config.task, tokens)
    fitted, is_for_fit = torch.zeros_like(residual), torch.arange(len(tokens)) >= n
    for of_kind in (kind == k for k in kind.unique()):
        x, y = design[of_kind & is_for_fit], residual[of_kind & is_for_fit]
        vectors = torch.linalg.solve(x.T @ x + RIDGE * torch.eye(x.shape[1], dtype=x.dtype), x.T @ y)
        fitted[of_kind] = design[of_kind] @ vectors
    residual, fitted = residual[:n], fitted[:n]
    left = (residual - fitted).square().sum() / (residual - residual.mean(0)).square().sum()
    return 1 - float(left)


def _design(task: Task, tokens: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B F"], Int[Tensor, " B"]]:
    """What the vectors are multiplied with: literal, share of each value, number of values; and slot and group."""
    role, one_hot = roles(task, tokens), torch.nn.functional.one_hot
    slot = role.is_variable.int().argmax(1)
    literal = role.values.gather(1, 1 - slot[:, None])[:, 0]
    used, is_common = considered(task, tokens)
    counts = torch.zeros(len(tokens), task.modulus).scatter_add_(1, tokens * used, used.float())
    size = used.sum(1)
    parts = (one_hot(literal, task.modulus), counts / size[:, None], one_hot(size, task.max_assignments + 1))
    return torch.cat([part.double() for part in parts], 1), 2 * slot + is_common


def _trained(config: Config, seen: Bool[Tensor, "N N"], n: int) -> Int[Tensor, "n T"]:
    """Trained sums with one variable."""
    sets = [s for s in SETS if s.name == TRAINED]
    return Exam([config], seen[None], sets, n, first_step=DRAWS[-2]).tokens[0]
