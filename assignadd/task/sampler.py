"""Random sequences of the task, in batches and on any device (paper, section 3).

A sequence is a function of (seed, stream, step, row): see `randomness`. Tokens are returned as (..., B, T). The tensor
operations here keep B as the last axis, along which they are fast; `numba_sampler` and `triton_sampler` draw the same
in compiled code, except for tasks with hops or rebinding (`chains`), which tensor operations draw on every device. A
test compares the sampler with `tests/task/plain_sampler.py`, which draws one row in plain Python.
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

from assignadd.config import Task
from assignadd.task.arithmetic import answer_of, tuple_values
from assignadd.task.chains import Chains, has_chains
from assignadd.task.evalsets import EvalSet, PairKind
from assignadd.task.randomness import Digits, Stream, word_of_each_draw, words
from assignadd.task.sampling_tables import LITERAL, SamplingTables, choice_table, kinds, operand_choices
from assignadd.task.splits import EmptySetError as EmptySetError
from assignadd.task.splits import pair_codes
from assignadd.task.vocabulary import Vocabulary


@dataclass(frozen=True)
class Batch:
    """Sequences and their answers: tokens (..., B, T), labels (..., B)."""

    tokens: Int[Tensor, "*M B T"]
    labels: Int[Tensor, "*M B"]


class Sampler:
    """Draws sequences of one kind for a stack of models, each with its own split, mix and seed.

    `tasks` has one task per model, which may differ in the operation, the fractions and the mix; `seen` is (M, N, N),
    with an axis N for each operand. Sequences are those of `evalset`, or training sequences if it is None; `literals`
    says for each model whether there are sequences without variables among them (if None, there are).
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
        task = self.task = tasks[0]
        self.vocabulary = Vocabulary(task)
        self.stream = Stream.DATA if evalset is None else Stream.EVAL
        self.seeds = torch.tensor(list(seeds), device=device)[:, None]  # (M, 1)
        self._chains = Chains(task, evalset) if has_chains(task) else None
        self._of_operand = self._chains.of_operand if self._chains else 1
        """The least number of assignments of each operand that is a variable."""
        self._load_pairs(tasks, seen, evalset.pair if evalset else "seen", device)
        self._load_operands(tasks, evalset, device, literals)
        # 0, 1, ... for counting assignments and PADs, in int16 to save memory.
        self._counting = torch.arange(task.prefix, dtype=torch.int16, device=device)[:, None]
        N, V, n, k, pads = task.modulus, task.n_vars, task.max_assignments, task.operands, task.prefix - 2
        slots, numbers = ([], self._chains.bounds) if self._chains else ([n] * k, [N] * n)
        self._bounds = [n, *slots, len(self.operands), N**k, *[n + 1] * pads, *range(V, V - n, -1), *numbers]
        self._word_of_draw = word_of_each_draw(self._bounds)

    def _load_pairs(self, tasks: Sequence[Task], seen: Tensor, kind: PairKind, device: str | torch.device) -> None:
        codes = [pair_codes(s, kind) for s in seen.cpu()]
        if self.stream == Stream.DATA:
            codes = [_weighted(t, c) for t, c in zip(tasks, codes, strict=True)]
        for task, c in zip(tasks, codes, strict=True):
            if not len(c):
                raise EmptySetError(
                    f"no pair of numbers of the kind {kind} at task.seen_fraction = {task.seen_fraction}"
                )
        self.n_pairs = torch.tensor([[len(c)] for c in codes], device=device)  # (M, 1)
        pairs = torch.nn.utils.rnn.pad_sequence(codes, batch_first=True)  # (M, most)
        answers = [answer_of(t, tuple_values(c, t.modulus, t.operands)) for t, c in zip(tasks, pairs, strict=True)]
        self.pairs, self.answers = pairs.to(device), torch.stack(answers).to(device)
        self._pair_base = torch.arange(len(codes), device=device)[:, None] * self.pairs.shape[1]

    def _load_operands(
        self,
        tasks: Sequence[Task],
        evalset: EvalSet | None,
        device: str | torch.device,
        literals: Sequence[bool] | None,
    ) -> None:
        """Sets the table of operand choices, ordered by kind, and the cumulative shares of the kinds for each model."""
        task, most = self.task, self.task.max_assignments
        choices: list[list[tuple[int, ...]]] = []
        for kind in kinds(task):
            n_vars = kind.bit_count()
            wanted = n_vars * self._of_operand <= most and (evalset is None or n_vars == evalset.n_vars)
            some = operand_choices(task, kind, evalset.n_banned if evalset else 0) if wanted else []
            choices.append([c for c in some if evalset is None or evalset.allows(c)])
        shares = torch.tensor([t.mix if evalset is None else [1.0] * len(choices) for t in tasks], dtype=torch.float64)
        shares[:, [not some for some in choices]] = 0
        shares[[not has for has in literals or ()], 0] = 0
        if not (shares.sum(1) > 0).all():
            name = evalset.name if evalset else "training"
            names = ("banned_first", "banned_second", "banned_further")[: task.operands]
            bans = ", ".join(f"{ban}={getattr(task, ban)!r}" for ban in names)
            raise EmptySetError(f"no {name} sequence exists with n_vars={task.n_vars}, max_assignments={most}, {bans}")
        shares /= shares.sum(1, keepdim=True)
        self.thresholds = (shares.cumsum(1)[:, :-1] * 2**32).round().long().to(device)  # (M, kinds - 1)
        counts = [len(some) for some in choices]
        self.counts = torch.tensor(counts, device=device)
        self.starts = torch.tensor([sum(counts[:kind]) for kind in kinds(task)], device=device)
        self.operands = torch.tensor([c for some in choices for c in some], device=device)  # (choices, k)

    def sample(self, step: Tensor | int, rows: int, first_row: int = 0) -> Batch:
        """`rows` sequences for each model and step, (M, B, T), or (S, M, B, T) for steps of shape (S, 1, 1)."""
        plain = not isinstance(step, Tensor) or step.dim() == 0 or step.shape[1:] == (1, 1)
        if plain and self._compiled is not None:
            return Batch(*self._compiled.sample(step, rows, first_row))
        return self._sample_in_tensors(step, rows, first_row)

    def _sample_in_tensors(self, step: Tensor | int, rows: int, first_row: int = 0) -> Batch:
        """The same sequences in tensor operations, on any device; the compiled code must return the same."""
        device = self.seeds.device
        step = torch.as_tensor(step, device=device)
        row = torch.arange(first_row, first_row + rows, device=device)
        random_words = words(self.seeds, self.stream, step, row, 1 + max(self._word_of_draw))  # (words, ..., M, B)
        kind = (random_words[0].unsqueeze(-1) >= self.thresholds[:, None]).sum(-1)
        return self._assemble(kind, Digits(random_words[1:]), row)

    @cached_property
    def _compiled(self) -> Any:
        """The sampler in compiled code, by Numba or, on a GPU, Triton.

        None for subclasses, for tasks with hops or rebinding, and without a compiler.
        """
        compiler = {"cpu": "numba", "cuda": "triton"}.get(self.seeds.device.type)
        if type(self) is not Sampler or self._chains or compiler is None or find_spec(compiler) is None:
            return None
        module = importlib.import_module(f"assignadd.task.{compiler}_sampler")
        tables = SamplingTables(
            self.task,
            self.stream,
            self.seeds.flatten(),
            self.thresholds,
            torch.stack([self.starts, self.counts], 1),
            choice_table(self.operands, self.vocabulary),
            self.n_pairs.flatten(),
            torch.stack([*tuple_values(self.pairs, self.task.modulus, self.task.operands), self.answers], -1),
            self._word_of_draw,
        )
        return module.CompiledSampler(tables)

    def _assemble(self, kind: Tensor, draw: Digits, row: Tensor) -> Batch:
        task, vocabulary = self.task, self.vocabulary
        N, most = task.modulus, task.max_assignments

        # The number of assignments, and which of them are the operands' (`most`, past the end, for a literal).
        n = self._assignments(kind, draw)
        slots = self._operand_slots(kind, n, draw) if self._chains is None else []

        # The operands: their variables, and their values.
        choice = self.starts[kind] + self._choice(draw.below(self.counts[kind], len(self.operands)), row)
        operands = self.operands[choice].unbind(-1)
        pair = self._pair_base + self._pair(draw.below(self.n_pairs, N**task.operands), row)
        values = tuple_values(self.pairs.view(-1)[pair], N, task.operands)

        tokens = torch.full((*n.shape[:-1], task.length + 2, n.shape[-1]), vocabulary.pad, device=n.device)
        starts = self._assignment_starts(n, draw)  # (..., most + 1, B)
        dealt = self._distractors(operands, draw)  # (..., most, B)
        if self._chains:
            left, right = self._chains.assignments(n, operands, values, dealt, draw)
        else:
            left = dealt.gather(-2, self._ranks(slots)) + vocabulary.first_variable
            right = torch.stack([draw.below(N, N) for _ in range(most)], -2)
        tokens.scatter_(-2, starts[..., :most, :], left).scatter_(-2, starts[..., :most, :] + 1, right)
        for variable, slot, value in zip(operands, slots, values, strict=False):
            start, token = starts.gather(-2, slot.unsqueeze(-2)), variable + vocabulary.first_variable
            tokens.scatter_(-2, start, token.unsqueeze(-2)).scatter_(-2, start + 1, value.unsqueeze(-2))
        for i, (variable, value) in enumerate(zip(operands, values, strict=True), task.prefix + 1):
            tokens[..., i, :] = torch.where(variable == LITERAL, value, variable + vocabulary.first_variable)
        tokens[..., task.prefix, :] = vocabulary.plus
        tokens[..., task.length - 1, :] = vocabulary.equals
        return Batch(tokens[..., : task.length, :].mT, self.answers.view(-1)[pair])

    def _choice(self, drawn: Tensor, row: Tensor) -> Tensor:
        """The index of the operands of each row."""
        return drawn

    def _pair(self, drawn: Tensor, row: Tensor) -> Tensor:
        """The index of the pair of values of each row."""
        return drawn

    def _assignments(self, kind: Tensor, draw: Digits) -> Tensor:
        """The number of assignments: in training uniform on 1..most, then raised to what the variables need.

        In an evaluation set it is uniform on the possible numbers, as for the reference accuracies.
        """
        n_variables = torch.stack([kind >> i & 1 for i in range(self.task.operands)]).sum(0)
        most, least = self.task.max_assignments, (n_variables * self._of_operand).clamp(min=1)
        if self.stream == Stream.DATA:
            return torch.maximum(1 + draw.below(most, most), least)
        return least + draw.below(most + 1 - least, most)

    def _operand_slots(self, kind: Tensor, n: Tensor, draw: Digits) -> list[Tensor]:
        """Which of the n assignments each operand has: a free one, uniformly; `most`, past the end, for a literal."""
        most, taken = self.task.max_assignments, torch.zeros_like(n)
        slots: list[Tensor] = []
        for i in range(self.task.operands):
            drawn = draw.below((n - taken).clamp(min=1), most)
            for slot in torch.stack(slots).sort(0).values if slots else ():
                drawn = drawn + (drawn >= slot)
            is_variable = kind >> i & 1
            slots.append(torch.where(is_variable > 0, drawn, most))
            taken = taken + is_variable
        return slots

    def _assignment_starts(self, n: Tensor, draw: Digits) -> Tensor:
        """The position where each assignment begins, with each PAD uniformly in one of the n + 1 gaps.

        Before assignment i there are 2 i tokens of earlier assignments and the PADs of gaps 0..i. Assignments from the
        n-th on, and the additional last one, begin at T: two spare rows after the sequence that are cut off later.
        """
        task, most = self.task, self.task.max_assignments
        gaps = torch.empty((*n.shape[:-1], task.prefix - 2, n.shape[-1]), dtype=torch.int16, device=n.device)
        for i in range(gaps.shape[-2]):
            gaps[..., i, :] = draw.below(n + 1, most + 1)
        n = n.to(torch.int16).unsqueeze(-2)
        gaps.add_(self._counting[: task.prefix - 2] >= task.prefix - 2 * n, alpha=most)  # surplus PADs: at the end
        # clamp(gap, i, i + 1) is i for a PAD before assignment i and i + 1 for one after it. The sum over all PADs is
        # therefore i + 1 each, less the number of PADs before. Comparing would take twice as long.
        clamped = torch.stack([gaps.clamp(i, i + 1).sum(-2, dtype=torch.int16) for i in range(most + 1)], -2)
        assignment = self._counting[: most + 1]
        starts = (task.prefix - 2) * (assignment + 1) - clamped + 2 * assignment
        return starts.add_(assignment >= n, alpha=task.length).clamp_(max=task.length).long()

    def _distractors(self, operands: Sequence[Tensor], draw: Digits) -> Tensor:
        """Distinct variables other than the operands, as many as a sequence has assignments."""
        V, most, first = self.task.n_vars, self.task.max_assignments, operands[0]
        n_operands = torch.stack([x != LITERAL for x in operands]).sum(0)
        deck = torch.arange(V, device=first.device, dtype=torch.int16)[:, None]
        deck = deck.expand(*first.shape[:-1], V, first.shape[-1]).clone()
        dealt = []
        for i in range(most):  # a partial Fisher-Yates shuffle of the numbers 0..V-n_operands-1
            j = (i + draw.below((V - n_operands - i).clamp(min=1), V - i)).unsqueeze(-2)
            dealt.append(deck.gather(-2, j))
            deck.scatter_(-2, j, deck[..., i : i + 1, :].clone())
        # These numbers count the variables without the operands.
        variables = torch.cat(dealt, -2)
        for operand in torch.stack([torch.where(x == LITERAL, V, x) for x in operands]).sort(0).values:
            variables += variables >= operand.to(torch.int16).unsqueeze(-2)
        return variables.long()

    def _ranks(self, slots: Sequence[Tensor]) -> Tensor:
        """Which distractor each assignment takes: i less the number of operands' assignments before it."""
        rank = assignment = self._counting[: self.task.max_assignments]
        for slot in slots:
            rank = rank - (assignment - slot.to(torch.int16).unsqueeze(-2)).clamp_(0, 1)
        return rank.long()


def _weighted(task: Task, codes: Tensor) -> Tensor:
    """The codes of pairs with each (n, n) as many times as it is drawn for another pair."""
    if task.doubles_weight == 1:
        return codes
    n, m = tuple_values(codes, task.modulus, 2)
    return codes.repeat_interleave(torch.where(n == m, task.doubles_weight, 1))


class EveryAddition(Sampler):
    """Draws every pair with every choice of operands: row r has pair r // choices and operands r % choices."""

    @property
    def n_rows(self) -> Tensor:
        """The number of rows of each model, (M, 1); later rows repeat the last pair."""
        return self.n_pairs * len(self.operands)

    def _choice(self, drawn: Tensor, row: Tensor) -> Tensor:
        return (row % len(self.operands)).expand_as(drawn)

    def _pair(self, drawn: Tensor, row: Tensor) -> Tensor:
        return (row // len(self.operands)).expand_as(drawn).minimum(self.n_pairs - 1)


class EveryPair(Sampler):
    """Draws every pair in turn: row r adds pair r modulo the number of pairs, with random operands and assignments."""

    def _pair(self, drawn: Tensor, row: Tensor) -> Tensor:
        return (row % self.n_pairs).expand_as(drawn)
