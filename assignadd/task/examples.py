"""The example sequences of the paper (figures token-seqs, attention), adapted to tasks of another size."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from assignadd.config import ConfigError, Task
from assignadd.task.arithmetic import tuple_values
from assignadd.task.positions import fixed_positions, operand_slots
from assignadd.task.randomness import Stream, digit, words
from assignadd.task.text import ParseError, assignments, parse
from assignadd.task.vocabulary import Vocabulary

PAPER = Task()
TOKEN_SEQS = (
    "PAD PAD PAD PAD c 1 PAD f 17 a 42 PAD + f 19 =",
    "b 2 PAD g 8 PAD c 53 PAD PAD e 14 + 17 32 =",
    "a 3 c 58 PAD d 19 f 6 b 47 PAD + b f =",
)
ATTENTION = "PAD PAD PAD b 7 PAD e 5 PAD d 2 PAD + b 9 ="
PADDING = 3  # the seed for the positions of PADs in an adapted sequence


def fitted(text: str, task: Task) -> list[int] | None:
    """The tokens of a sequence of the paper, with fewer assignments and numbers mod N if the task is too small for it.

    In a task with one operand, the paper's second operand is left out; with three or four, the further ones are the
    numbers 1 and 2. None if the task cannot assign all variables of the addition.
    """
    try:
        return parse(text.replace("+", task.sign), task)
    except ParseError:  # the task is another one than the paper's
        pass
    paper = Vocabulary(PAPER)
    tokens = parse(text, PAPER)
    values = assignments(tokens, PAPER)  # the token of the number that each variable, a token, is assigned
    operands = [*(tokens[slot] for slot in operand_slots(PAPER)), 1, 2][: task.operands]
    most_assignments = min(task.max_assignments, max(2, task.prefix // 3))  # of two tokens: a third is left for PADs
    operands_first = sorted(values, key=lambda variable: variable not in operands)
    variables = operands_first[:most_assignments]
    if any(paper.is_variable(operand) and operand not in variables for operand in operands):
        return None
    letters = [paper.name(variable) for variable in variables]
    unused_letters = iter([letter for letter in task.variables if letter not in letters])
    word_of = {number: str(number % task.modulus) for number in paper.numbers}  # for each token of the paper
    for variable, letter in zip(variables, letters, strict=True):
        word_of[variable] = letter if letter in task.variables else next(unused_letters)
    assigned = [f"{word_of[token]}={word_of[number]}" for token, number in values.items() if token in variables]
    question = f"{task.sign.join(word_of[operand] for operand in operands)}=?"
    return padded(parse(", ".join([*assigned, question]), task), task, PADDING)


def padded(tokens: list[int], task: Task, seed: int) -> list[int]:
    """The sequence with each PAD in a random gap between assignments, uniformly and independently, as in training."""
    pad, prefix = Vocabulary(task).pad, tokens[: task.prefix]
    assigned = [token for token in prefix if token != pad]
    pads = torch.arange(len(prefix) - len(assigned))
    (word_of_each_pad,) = words(seed, Stream.PADDING, step=0, row=pads, n=1)
    n_gaps = len(assigned) // 2 + 1  # before each assignment, of two tokens, and after the last
    gap_of_each_pad, _ = digit(word_of_each_pad, bound=n_gaps)  # what remains of the words is not needed
    for gap in sorted(gap_of_each_pad.tolist(), reverse=True):  # so that what is before the gap is in its place
        assigned.insert(2 * gap, pad)
    return assigned + tokens[task.prefix :]


def exchanged(tokens: list[int], a: int, b: int) -> list[int]:
    """The sequence with token `a` instead of `b`, and `b` instead of `a`."""
    exchange = {a: b, b: a}
    return [exchange.get(token, token) for token in tokens]


def names(tokens: list[int], task: Task) -> list[str]:
    """The names of the tokens as in figures, with PAD written in full."""
    vocabulary = Vocabulary(task)
    return ["PAD" if token == vocabulary.pad else vocabulary.name(token) for token in tokens]


def template(task: Task) -> tuple[Int[Tensor, "N2 T"], Int[Tensor, "N2 T"]]:
    """`a 1 b n c 2 d 3 PAD PAD PAD PAD + b m =` and the same context with `+ n m =`, for all pairs (n, m).

    The letters are the first four that are allowed in the first slot in training (c, d, e, f in the preset `paper`); a
    smaller task has fewer assignments.
    """
    if task.operands != 2:
        raise ConfigError("task.operands", task.operands, "2 for sequences with every pair of numbers")
    vocabulary, N = Vocabulary(task), task.modulus
    letters = [letter for letter in task.variables if letter not in task.banned_first] or list(task.variables)
    assigned = [vocabulary.variable(letter) for letter in letters[: min(4, task.max_assignments)]]
    index_of_n = min(1, len(assigned) - 1)  # n is assigned to the second variable, or to the only one
    n, m = tuple_values(torch.arange(N * N), N)  # (N^2,) each: all pairs
    literal = torch.full((N * N, task.length), vocabulary.pad)
    numbers = iter((1, 2, 3))  # of the other variables
    for i, variable in enumerate(assigned):
        literal[:, 2 * i] = variable
        literal[:, 2 * i + 1] = n if i == index_of_n else next(numbers) % N
    suffix: dict[str, Tensor | int] = {"plus": vocabulary.plus, "first": n, "second": m, "equals": vocabulary.equals}
    for role, position in fixed_positions(task).items():
        literal[:, position] = suffix[role]
    variable_first = literal.clone()
    variable_first[:, fixed_positions(task)["first"]] = assigned[index_of_n]
    return variable_first, literal
