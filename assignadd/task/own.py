"""Tasks of the user's own: their definition, their random numbers, and how a run recognises them.

    class Copying:
        n_tokens, length, n_answers = 9, 8, 8
        sets = ("test",)

        def draw(self, words, set):
            letters = words.below(8, self.length - 1)  # (B, 7)
            ...
            return tokens, answers  # (B, 8), and (B,) or (B, 8) with -1 where there is no answer

A configuration describes a task of the user's (`TaskFile`); the object itself is known to this process alone, once the
user has named it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from assignadd.config import Task, UserError
from assignadd.config.task import TaskFile, check_task
from assignadd.task.evalsets import EvalSet
from assignadd.task.randomness import Stream, words
from assignadd.task.sampler import Batch, Sampler
from assignadd.user_file import register, registered, user_object

NAME = "TASK"  # the name that a file gives its task
ATTRIBUTES = ("n_tokens", "length", "n_answers", "sets", "draw")
TRAIN = "train"  # the set of the training sequences
ROWS_TRIED = 8  # sequences of each set that are drawn when a task is registered


class RandomWords:
    """Random numbers for `rows` sequences: a function of the seed, the step and the row alone.

    Each call returns fresh numbers. Sequences that take all randomness from here are the same whenever they are drawn.
    `rows` says how many sequences there are, or the number of each one's row; seeds and steps broadcast with the rows.
    """

    def __init__(
        self, rows: int | Tensor, seed: int | Tensor = 0, step: int | Tensor = 0, stream: Stream = Stream.DATA
    ):
        row = rows if isinstance(rows, Tensor) else torch.arange(rows)
        step = torch.as_tensor(step, device=row.device)
        row, seeds, steps = torch.broadcast_tensors(row, torch.as_tensor(seed), step)
        self._row, self._seed, self._step = row.flatten(), seeds.flatten(), steps.flatten()  # (B,) each
        self._stream = stream
        self._blocks_drawn = 0  # how many blocks of four random words each sequence has used

    def __len__(self) -> int:
        """The number of sequences, B."""
        return len(self._row)

    @property
    def device(self) -> torch.device:
        """Where the numbers are."""
        return self._row.device

    def below(self, bound: int, *shape: int) -> Tensor:
        """Whole numbers from 0 to bound - 1, each equally likely: (B,), or (B, ...) of this shape."""
        if not 1 <= bound <= 1 << 31:
            raise UserError(f"words.below({bound}): expected a bound from 1 to 2^31")
        return ((self._next(math.prod(shape)) * bound) >> 32).view(len(self), *shape)

    def permutations(self, n: int) -> Tensor:
        """(B, n): the numbers 0 to n - 1 in a random order for each sequence."""
        return self._next(n).argsort(dim=-1, stable=True)

    def in_fixed_order(self, n: int, places: range | None = None) -> Tensor:
        """(B,): order[places[r % len(places)]] for the sequence in row r; without `places`, order[r % n].

        `order` is a random order of the numbers 0 to n - 1 that depends on the seed alone. So a set whose sequences
        are made of this alone is fixed: the same at every step.
        """
        places = range(n) if places is None else places
        if not places or not 0 <= min(places) <= max(places) < n:
            raise UserError(f"words.in_fixed_order({n}, {places}): expected places from 0 to {n - 1}")
        seeds, seed_of_row = self._seed.unique(return_inverse=True)
        numbers = torch.arange(n, device=self.device)
        (word_of_number,) = words(seeds[:, None], Stream.SPLIT, step=0, row=numbers, n=1)  # (seeds, n)
        orders = word_of_number.argsort(dim=-1, stable=True)
        place_of_row = places.start + places.step * (self._row % len(places))  # (B,)
        return orders[seed_of_row, place_of_row]

    def _next(self, n: int) -> Tensor:
        """The next n random words of each sequence, (B, n)."""
        first_block = self._blocks_drawn
        self._blocks_drawn += math.ceil(n / 4)
        return words(self._seed, self._stream, self._step, self._row, n, first_block).T.contiguous()


@runtime_checkable
class OwnTask(Protocol):
    """A task of the user's: its sizes, the names of its evaluation sets, and a function that draws sequences."""

    n_tokens: Any  # token ids are 0..n_tokens-1
    length: Any  # tokens in a sequence
    n_answers: Any  # answers are 0..n_answers-1
    sets: Any  # the names of the evaluation sets

    def draw(self, words: RandomWords, set: str, /) -> tuple[Tensor, Tensor]:
        """len(words) sequences of training ("train") or of an evaluation set: tokens (B, T), answers (B,) or (B, T)."""


def register_task(task: OwnTask | str | Path) -> TaskFile:
    """The description of a task (an object, or TASK in a file, which is executed); a UserError if it is wrong."""
    user_task, source = user_object(task, NAME)
    if isinstance(user_task, type):
        kind = user_task.__name__
        raise UserError(f"{source.name}: expected a task, not the class {kind}: {NAME} = {kind}()")
    for attribute in ATTRIBUTES:
        if not hasattr(user_task, attribute):
            raise UserError(f"{source.name}: expected a task, with {', '.join(ATTRIBUTES)}; no {attribute} here")
    names = (user_task.sets,) if isinstance(user_task.sets, str) else tuple(user_task.sets)
    # A first draw, which shows whether answers are at the last position (B,) or everywhere (B, T).
    _, answers = _draw(user_task, source.name, RandomWords(1), TRAIN)
    file = TaskFile(
        name=source.name, sha256=source.sha256, first_draws="", n_tokens=user_task.n_tokens, length=user_task.length,
        n_answers=user_task.n_answers, everywhere=answers.dim() == 2, sets=names,
    )  # fmt: skip
    check_task(Task(file=file))
    digest = hashlib.sha256()  # of the first sequences of every set: a run recognises the task by it
    for name in dict.fromkeys((TRAIN, *names)):
        tokens_and_answers = _first_sequences(user_task, file, name)
        digest.update(b"".join(tensor.cpu().numpy().tobytes() for tensor in tokens_and_answers))
    file = replace(file, first_draws=digest.hexdigest()[:16])
    register(file, user_task, source)
    return file


def _first_sequences(task: OwnTask, file: TaskFile, name: str) -> tuple[Tensor, Tensor]:
    """The first sequences of a set; a UserError if they depend on more than the words of their row."""
    rows = torch.arange(ROWS_TRIED)
    drawn = _draw_checked(task, file, RandomWords(rows), name)
    # Drawn again, from the first row on and from the fourth on: the rows that both draws have must be equal.
    for start, advice in ((0, "take all random numbers from words"), (3, "compute each row from its own words")):
        again = _draw_checked(task, file, RandomWords(rows[start:]), name)
        if not all(torch.equal(before[start:], now) for before, now in zip(drawn, again, strict=True)):
            raise UserError(f"{file.name}: draw(words, {name!r}) returned other sequences for the same words: {advice}")
    return drawn


def _draw(task: OwnTask, name: str, random_words: RandomWords, set: str) -> tuple[Tensor, Tensor]:
    """Tokens and answers as the task draws them; a UserError, which names its file, where it returns something else."""
    try:
        drawn = task.draw(random_words, set)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{name}: draw(words, {set!r}) raised {type(error).__name__}: {error}") from error
    if not isinstance(drawn, tuple | list) or len(drawn) != 2 or not all(isinstance(part, Tensor) for part in drawn):
        returned = type(drawn).__name__
        raise UserError(f"{name}: draw(words, {set!r}) returned {returned}: expected tokens and answers, two tensors")
    return drawn[0], drawn[1]


def _draw_checked(task: OwnTask, file: TaskFile, random_words: RandomWords, set: str) -> tuple[Tensor, Tensor]:
    """Tokens (B, T) and answers of a draw; a UserError unless both have the shapes and ranges of the task's sizes."""
    tokens, answers = _draw(task, file.name, random_words, set)
    subject = f"{file.name}: draw(words, {set!r}) returned"
    shape = (len(random_words), file.length)
    _check_part(f"{subject} tokens", tokens, shape, range(file.n_tokens))
    if file.everywhere:
        _check_part(f"{subject} answers", answers, shape, range(-1, file.n_answers))
        if not bool((answers >= 0).any(1).all()):
            raise UserError(f"{subject} a sequence without an answer: expected at least one that is not -1")
    else:
        _check_part(f"{subject} answers", answers, shape[:1], range(file.n_answers))
    return tokens.long(), answers.long()


def _check_part(subject: str, tensor: Tensor, shape: tuple[int, ...], accepted: range) -> None:
    """Raises a UserError that begins with `subject` unless a tensor has this shape and holds accepted numbers alone."""
    if tensor.shape != shape or tensor.is_floating_point() or tensor.is_complex():
        raise UserError(f"{subject} {tuple(tensor.shape)} of {tensor.dtype}: expected whole numbers {shape}")
    low, high = int(tensor.min()), int(tensor.max())
    if low < accepted[0] or high > accepted[-1]:
        raise UserError(f"{subject} from {low} to {high}: expected {accepted[0]} to {accepted[-1]}")


class UserSampler:
    """Draws sequences of a task of the user's for a stack of models, each with its own seed, as `Sampler` does."""

    def __init__(self, file: TaskFile, seeds: Sequence[int], set: str | None, device: str | torch.device = "cpu"):
        """`set` is the name of an evaluation set, or None for training sequences."""
        self._file = file
        self._task, _ = registered(file)
        self._set = set or TRAIN
        self._stream = Stream.DATA if set is None else Stream.EVAL
        self.seeds = torch.tensor(list(seeds), device=device)
        # The batches for which no random numbers were drawn, the same at every step, (M, B, ...), by (rows, first row).
        self._fixed: dict[tuple[int, int], Batch] = {}

    def sample(self, step: Tensor | int, rows: int, first_row: int = 0) -> Batch:
        """`rows` sequences for each model and step, (M, B, T), or (S, M, B, T) for steps of shape (S, 1, 1)."""
        row = torch.arange(first_row, first_row + rows, device=self.seeds.device)
        seeds = self.seeds[:, None]
        axes = torch.broadcast_tensors(seeds, torch.as_tensor(step, device=row.device), row)[0].shape  # (..., M, B)
        if (rows, first_row) not in self._fixed:
            random_words = RandomWords(row, seeds, step, self._stream)  # for all steps, models and rows as one batch
            tokens, answers = _draw_checked(self._task, self._file, random_words, self._set)
            tokens, answers = tokens.view(*axes, -1), answers.view(*axes, *answers.shape[1:])
            if random_words._blocks_drawn:  # numbers were drawn: at another step they are others
                return Batch(tokens, answers)
            at_first_step = (0,) * (len(axes) - 2)  # an index for the axis of steps, where there is one
            self._fixed[rows, first_row] = Batch(tokens[at_first_step].clone(), answers[at_first_step].clone())
        fixed = self._fixed[rows, first_row]
        return Batch(fixed.tokens.expand(*axes, -1), fixed.labels.expand(*axes, *fixed.labels.shape[2:]))


def sampler_of(
    tasks: Sequence[Task], seen: Tensor, seeds: Sequence[int], evalset: EvalSet | None = None,
    device: str | torch.device = "cpu",
) -> Sampler | UserSampler:  # fmt: skip
    """The sampler of the sequences of these tasks: those of training, or of an evaluation set."""
    if tasks[0].file is not None:
        return UserSampler(tasks[0].file, seeds, evalset.name if evalset else None, device)
    return Sampler(tasks, seen, seeds, evalset, device)
