"""Random sequences of the task, for a stack of models and on any device (paper, section 3; docs/tasks.md).

A sequence is a function of (seed, stream, step, row): see `randomness`. These are drawn, in this order:

    kind           which operands are variables: by the mix in training, equally often in an evaluation set
    assignments    how many there are, and which of them each variable among the operands has
    operands       their variables, and their values: a tuple that is seen, or held out
    PADs           the gap between assignments that each of them falls into
    distractors    the variables of the other assignments, and their values

The tensor operations here say what a sequence is. `numba_sampler` and `triton_sampler` draw the same integers in
compiled code. Tokens are returned as (..., B, T); the operations keep B as the last axis, along which they are fast.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from assignadd.config import Task
from assignadd.task.arithmetic import answer_of, tuple_values
from assignadd.task.chains import Chains
from assignadd.task.evalsets import LITERAL, EvalSet, PairKind, kinds, operand_choices
from assignadd.task.randomness import Digits, Stream, word_of_each_draw, words
from assignadd.task.splits import EmptySetError as EmptySetError
from assignadd.task.splits import pair_masks
from assignadd.task.vocabulary import Vocabulary


@dataclass(frozen=True)
class Batch:
    """Sequences and their answers: tokens (..., B, T), labels (..., B).

    A task of the user's own may have labels (..., B, T), -1 where there is no answer.
    """

    tokens: Int[Tensor, "*M B T"]
    labels: Int[Tensor, "*M_B_or_M_B_T"]


class Sampler:
    """Draws training sequences, or those of an evaluation set, for a stack of models.

    `tasks` has one task per model, which may differ in the operation, the fractions and the mix; `seen` is the mask of
    the seen tuples of each, (M, N, N), with an axis N for each operand. Sequences are those of `evalset`, or training
    sequences if it is None. `literals` has an entry for each model: False where none of its sequences is without
    variables. If it is None, there may be such sequences for all models.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        seen: Tensor,
        seeds: Sequence[int],
        evalset: EvalSet | None = None,
        device: str | torch.device = "cpu",
        literals: Sequence[bool] | None = None,
    ):
        """Raises an EmptySetError where there is no such sequence.

        Shapes: k operands, n choices of operands (`operand_choices`), P tuples of values, or as many as any model has.
        """
        task = self.task = tasks[0]  # those of the others differ only in the shares of kinds, the tuples and answers
        self.vocabulary = Vocabulary(task)
        self.seeds = torch.tensor(list(seeds), device=device)
        self.stream = Stream.DATA if evalset is None else Stream.EVAL
        self.chains = Chains(task, evalset) if task.hops or task.rebinding else None
        self._per_variable = self.chains.per_variable if self.chains else 1
        """The least number of assignments for each operand that is a variable."""
        places_of_kinds, choices = _choices_of_kinds(task, evalset, self._per_variable)
        n_pairs, pairs = _pairs(tasks, seen, evalset.pair if evalset else "seen", weighted=evalset is None)
        has_choices = places_of_kinds[:, 1] > 0
        self.thresholds = _thresholds(tasks, has_choices, evalset, literals).to(device)
        """(M, kinds - 1): the kind of a sequence is the number of thresholds that its first random word reaches."""
        self.kinds = places_of_kinds.to(device)
        """(kinds, 2): for each kind, where it begins in `choices`, and how many of them it has."""
        self.choices = choices.to(device)
        """(n, 2 k), for each choice: the numbers of its variables in increasing order (`n_vars` where there are fewer
        than k), then the tokens of the operands (not used for a literal)."""
        self.n_pairs = n_pairs.to(device)  # (M,): the number of tuples of values of each model
        self.pairs = pairs.to(device)  # (M, P, k + 1): the values of each tuple, and its answer
        self.new_words = word_of_each_draw(self._bounds(len(choices)))

    def _bounds(self, n_choices: int) -> list[int]:
        """The largest bound of every draw, in the order in which `_assemble` draws."""
        N, V, k, most = self.task.modulus, self.task.n_vars, self.task.operands, self.task.max_assignments
        pad_gaps = [most + 1] * (self.task.prefix - 2)  # as many PADs as beside a single assignment
        distractors = range(V, V - most, -1)  # one variable fewer is left at each draw
        if self.chains:
            return [most, n_choices, N**k, *pad_gaps, *distractors, *self.chains.bounds]
        operand_slots = [most] * k
        numbers = [N] * most
        return [most, *operand_slots, n_choices, N**k, *pad_gaps, *distractors, *numbers]

    def sample(self, step: Tensor | int, rows: int, first_row: int = 0) -> Batch:
        """`rows` sequences for each model and step, (M, B, T), or (S, M, B, T) for steps of shape (S, 1, 1)."""
        # Compiled code takes steps that all models share.
        one_for_all_models = not isinstance(step, Tensor) or step.dim() == 0 or step.shape[1:] == (1, 1)
        if one_for_all_models and self._compiled is not None:
            return Batch(*self._compiled.sample(step, rows, first_row))
        return self._sample_in_tensors(step, rows, first_row)

    @cached_property
    def _compiled(self) -> Any:
        """The sampler in compiled code, which does not cover subclasses; None without a compiler."""
        compiler = {"cpu": "numba", "cuda": "triton"}.get(self.seeds.device.type)
        if type(self) is not Sampler or compiler is None or find_spec(compiler) is None:
            return None
        return importlib.import_module(f"assignadd.task.{compiler}_sampler").CompiledSampler(self)

    def _sample_in_tensors(self, step: Tensor | int, rows: int, first_row: int = 0) -> Batch:
        """The sequences of `sample` by tensor operations, on any device; the compiled code must return the same."""
        device = self.seeds.device
        row = torch.arange(first_row, first_row + rows, device=device)
        step = torch.as_tensor(step, device=device)
        n_words = 1 + max(self.new_words)  # word 0 is for the kind
        random_words = words(self.seeds[:, None], self.stream, step, row, n_words)  # (words, ..., M, B)
        kind = (random_words[0].unsqueeze(-1) >= self.thresholds[:, None]).sum(-1)  # (..., M, B)
        return self._assemble(kind, Digits(random_words, self.new_words), row)

    def _assemble(self, kind: Int[Tensor, "*M B"], draw: Digits, row: Int[Tensor, " B"]) -> Batch:
        """The sequences of these kinds; each draw is made once, in the order at the top of this file.

        `row` are the numbers of the rows, which only subclasses read.
        """
        task = self.task
        k, T = task.operands, task.length
        n = self._n_assignments(kind, draw)  # (..., M, B), of assignments
        slots = [] if self.chains else self._operand_slots(kind, n, draw)  # chains have an order of their own

        # Operands: each kind has rows of its own in `choices`, from `first_choice` on; a sequence gets one of them. It
        # has the numbers of the k variables in increasing order, which `_distractors` reads, then the k tokens.
        first_choice, n_choices = self.kinds[kind].unbind(-1)
        choice = first_choice + self._choice(draw.below(n_choices), row)
        in_order, operands = self.choices[choice].unflatten(-1, (2, k)).unbind(-2)  # (..., B, k) each
        operand_tokens = operands.unbind(-1)  # k tensors (..., M, B)
        pair = self._pair(draw.below(self.n_pairs[:, None]), row)
        model = torch.arange(len(self.pairs), device=pair.device)[:, None]
        *values, answer = self.pairs[model, pair].unbind(-1)

        starts = self._assignment_starts(n, draw)
        distractors = self._distractors(in_order.unbind(-1), draw)
        if self.chains:
            left, right = self.chains.draw_assignments(n, operand_tokens, values, distractors, draw)
        else:
            left, right = self._assignments(slots, operand_tokens, values, distractors, draw)

        # Two spare positions after the sequence hold the assignments from the n-th on.
        tokens = torch.full((*n.shape[:-1], T + 2, n.shape[-1]), self.vocabulary.pad, device=n.device)
        tokens.scatter_(-2, starts, left)
        tokens.scatter_(-2, starts + 1, right)
        tokens[..., task.prefix, :] = self.vocabulary.plus
        for i in range(k):
            is_variable = ((kind >> i) & 1) > 0
            tokens[..., task.prefix + 1 + i, :] = torch.where(is_variable, operand_tokens[i], values[i])
        tokens[..., T - 1, :] = self.vocabulary.equals
        return Batch(tokens[..., :T, :].mT, answer)

    def _choice(self, drawn: Tensor, row: Tensor) -> Tensor:
        """The place of each row's operands among the choices of its kind: a random one; subclasses list all."""
        return drawn

    def _pair(self, drawn: Tensor, row: Tensor) -> Tensor:
        """The place of each row's values among the tuples of its model: a random one; subclasses list all."""
        return drawn

    def _n_assignments(self, kind: Tensor, draw: Digits) -> Int[Tensor, "*M B"]:
        """The number of assignments: in training uniform on 1..most, then raised to what the variables need.

        In an evaluation set it is uniform on the possible numbers.
        """
        n_variables = torch.stack([(kind >> i) & 1 for i in range(self.task.operands)]).sum(0)
        most = self.task.max_assignments
        least = (n_variables * self._per_variable).clamp(min=1)
        is_training = self.stream == Stream.DATA
        if is_training:
            return torch.maximum(1 + draw.below(most), least)
        return least + draw.below(most + 1 - least)

    def _operand_slots(self, kind: Tensor, n: Tensor, draw: Digits) -> list[Int[Tensor, "*M B"]]:
        """Which of the n assignments each operand has: a free one, uniformly; `most`, past the end, for a literal."""
        most = self.task.max_assignments
        n_taken = torch.zeros_like(n)
        slots: list[Tensor] = []
        for i in range(self.task.operands):
            slot = draw.below((n - n_taken).clamp(min=1))  # a literal draws too: where no slot is free, from one
            # The drawn number counts the free slots alone, so it moves up past each taken one, from the first on.
            for taken_slot in torch.stack(slots).sort(0).values if slots else ():
                slot = slot + (slot >= taken_slot)
            is_variable = (kind >> i) & 1
            slots.append(torch.where(is_variable > 0, slot, most))
            n_taken = n_taken + is_variable
        return slots

    def _assignment_starts(self, n: Tensor, draw: Digits) -> Int[Tensor, "*M most B"]:
        """The position where each assignment begins; T for assignments from the n-th on.

        There are n + 1 gaps before, between and after the assignments. Each of the prefix - 2 n PADs is in one of them,
        drawn uniformly if `task.random_padding`, or else in the first. Before assignment i are 2 i tokens of other
        assignments and the PADs of gaps 0..i.
        """
        most, prefix = self.task.max_assignments, self.task.prefix
        assignment = torch.arange(most, device=n.device)[:, None]
        starts = (2 * assignment).expand(*n.shape[:-1], most, n.shape[-1]).clone()  # (..., most, B)
        most_pads = prefix - 2  # with one assignment; a sequence with more does not use the last draws
        for i in range(most_pads):
            gap = draw.below(n + 1)
            if not self.task.random_padding:
                gap = torch.zeros_like(gap)
            exists = i < prefix - 2 * n
            starts += (gap.unsqueeze(-2) <= assignment) & exists.unsqueeze(-2)
        return torch.where(assignment < n.unsqueeze(-2), starts, self.task.length)

    def _distractors(self, in_order: Sequence[Tensor], draw: Digits) -> Int[Tensor, "*M most B"]:
        """Tokens of different variables other than the operands, as many as a sequence has assignments.

        They are the first cards of a shuffled deck of the other variables (Fisher-Yates). `in_order` are the operands'
        variables in increasing order, and V for literals.
        """
        V, most = self.task.n_vars, self.task.max_assignments
        n_literals = torch.stack([variable == V for variable in in_order]).sum(0)
        n_others = V - (self.task.operands - n_literals)  # variables that are no operand
        deck = torch.arange(V, device=n_others.device)[:, None]
        deck = deck.expand(*n_others.shape[:-1], V, n_others.shape[-1]).clone()  # (..., V, B)
        dealt = []
        for i in range(most):
            # Deals card j, a random one of i..n_others-1, and puts card i, which is still to be dealt, in its place.
            # Where there is none left, it deals one that no assignment uses.
            j = (i + draw.below((n_others - i).clamp(min=1))).unsqueeze(-2)
            dealt.append(deck.gather(-2, j))
            deck.scatter_(-2, j, deck[..., i : i + 1, :].clone())
        variables = torch.cat(dealt, -2)  # (..., most, B), counted without the operands
        for operand in in_order:  # a variable moves up past each operand, from the first on
            variables += variables >= operand.unsqueeze(-2)
        return variables + self.vocabulary.first_variable

    def _assignments(
        self,
        slots: Sequence[Tensor],
        operand_tokens: Sequence[Tensor],
        values: Sequence[Tensor],
        distractors: Tensor,
        draw: Digits,
    ) -> tuple[Int[Tensor, "*M most B"], Int[Tensor, "*M most B"]]:
        """Variable and number of each assignment: those of the operands in their `slots`, distractors in the others.

        `slots`, `operand_tokens` and `values` have an entry (*M, B) for each operand.
        """
        most = self.task.max_assignments
        assignment = torch.arange(most, device=distractors.device)[:, None]
        n_operands_before = torch.stack([slot.unsqueeze(-2) < assignment for slot in slots]).sum(0)  # (..., most, B)
        left = distractors.gather(-2, assignment - n_operands_before)
        right = torch.stack([draw.below(self.task.modulus) for _ in range(most)], -2)
        for slot, variable, value in zip(slots, operand_tokens, values, strict=True):
            is_operand = slot.unsqueeze(-2) == assignment  # nowhere for a literal, whose slot is past the end
            left = torch.where(is_operand, variable.unsqueeze(-2), left)
            right = torch.where(is_operand, value.unsqueeze(-2), right)
        return left, right


def _choices_of_kinds(task: Task, evalset: EvalSet | None, per_variable: int) -> tuple[Tensor, Tensor]:
    """The tables `kinds` and `choices` of a `Sampler`; a kind has no choices if task or set have no such sequences."""
    by_kind = []
    for kind in kinds(task):
        n_vars = kind.bit_count()
        fits = n_vars * per_variable <= task.max_assignments
        is_possible = fits and (evalset is None or n_vars == evalset.n_vars)
        choices = operand_choices(task, kind, evalset.n_banned if evalset else 0) if is_possible else []
        by_kind.append([choice for choice in choices if evalset is None or evalset.allows(choice)])
    counts = torch.tensor([len(of_kind) for of_kind in by_kind])  # (kinds,)
    first_choices = counts.cumsum(0) - counts  # of each kind, in the list of all choices
    operands = torch.tensor([choice for of_kind in by_kind for choice in of_kind]).view(-1, task.operands)  # (n, k)
    in_order = torch.where(operands == LITERAL, task.n_vars, operands).sort(1).values  # literals last
    tokens = operands + Vocabulary(task).first_variable  # without meaning for a literal
    return torch.stack([first_choices, counts], 1), torch.cat([in_order, tokens], 1)


def _pairs(tasks: Sequence[Task], seen: Tensor, kind: PairKind, weighted: bool) -> tuple[Tensor, Tensor]:
    """The number of tuples of values of each model, (M,), and the values and the answer of each tuple, (M, P, k + 1).

    P is the largest of these numbers; a model with fewer tuples does not use its last rows. If `weighted`, a pair
    (n, n) is in as many rows as `doubles_weight` says.
    """
    masks = pair_masks(seen.cpu(), kind).flatten(1)  # (M, N * N)
    all_codes = masks.nonzero()[:, 1]  # N n + m of each pair, those of the first model before those of the next
    codes_of_models = []
    for task, codes in zip(tasks, all_codes.split(masks.sum(1).tolist()), strict=True):
        if weighted and task.doubles_weight != 1:
            n, m = tuple_values(codes, task.modulus, 2)
            codes = codes.repeat_interleave(torch.where(n == m, task.doubles_weight, 1))
        if codes.numel() == 0:
            raise EmptySetError(f"no pair of numbers of the kind {kind} at task.seen_fraction = {task.seen_fraction}")
        codes_of_models.append(codes)
    n_pairs = torch.tensor([codes.numel() for codes in codes_of_models])
    padded = pad_sequence(codes_of_models, batch_first=True)  # (M, P)
    values = torch.stack(tuple_values(padded, tasks[0].modulus, tasks[0].operands), -1)  # (M, P, k)
    answers = torch.empty_like(padded)
    for task in set(tasks):  # nearly always one: models of a stack differ in their pairs
        of_task = torch.tensor([other == task for other in tasks])
        answers[of_task] = answer_of(task, values[of_task].unbind(-1))
    return n_pairs, torch.cat([values, answers[..., None]], -1)


def _thresholds(
    tasks: Sequence[Task],
    has_choices: Tensor,
    evalset: EvalSet | None,
    literals: Sequence[bool] | None,
) -> Int[Tensor, "M kinds_1"]:
    """For each model, the cumulative shares of the kinds of sequences, times 2^32; without the last one, which is 2^32.

    The number of thresholds that a random word below 2^32 reaches is the number of a kind, that of the sequence.
    """
    shares = torch.tensor([task.mix for task in tasks], dtype=torch.float64)  # (M, kinds)
    if evalset is not None:
        shares[:] = 1
    shares[:, ~has_choices] = 0  # no sequences of that kind
    if literals is not None:
        shares[[not has_literals for has_literals in literals], 0] = 0  # kind 0 has no variables
    if not (shares.sum(1) > 0).all():
        bans = ("banned_first", "banned_second", "banned_further")[: tasks[0].operands]
        fields = ("n_vars", "max_assignments", *bans)
        settings = ", ".join(f"{field}={getattr(tasks[0], field)!r}" for field in fields)
        raise EmptySetError(f"no {evalset.name if evalset else 'training'} sequence exists with {settings}")
    shares /= shares.sum(1, keepdim=True)
    return (shares.cumsum(1)[:, :-1] * 2**32).round().long()


class EveryAddition(Sampler):
    """Draws every pair with every choice of operands, for an evaluation set of one kind of sequences.

    Row r has pair r // n and operands r % n, where n is the number of choices of operands.
    """

    @property
    def n_rows(self) -> Tensor:
        """The number of rows of each model, (M, 1); later rows repeat the last pair."""
        return self.n_pairs[:, None] * len(self.choices)

    def _choice(self, drawn: Tensor, row: Tensor) -> Tensor:
        """The choice of operands whose turn it is, whatever was drawn."""
        return (row % len(self.choices)).expand_as(drawn)

    def _pair(self, drawn: Tensor, row: Tensor) -> Tensor:
        """The pair whose turn it is; the last pair for rows from `n_rows` on."""
        last_pair = self.n_pairs[:, None] - 1
        return (row // len(self.choices)).expand_as(drawn).minimum(last_pair)


class EveryPair(Sampler):
    """Draws every pair in turn: row r adds pair r modulo the number of pairs, with random operands and assignments."""

    def _pair(self, drawn: Tensor, row: Tensor) -> Tensor:
        """The pair whose turn it is, whatever was drawn."""
        return (row % self.n_pairs[:, None]).expand_as(drawn)
