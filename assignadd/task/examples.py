"""The sequences the paper shows, and their like for tasks of another size."""

from __future__ import annotations

from assignadd.config import Task
from assignadd.task.text import ParseError, assignments, parse
from assignadd.task.vocabulary import Vocabulary

PAPER = Task()
TOKEN_SEQS = (
    "PAD PAD PAD PAD c 1 PAD f 17 a 42 PAD + f 19 =",
    "b 2 PAD g 8 PAD c 53 PAD PAD e 14 + 17 32 =",
    "a 3 c 58 PAD d 19 f 6 b 47 PAD + b f =",
)
ATTENTION = "PAD PAD PAD b 7 PAD e 5 PAD d 2 PAD + b 9 ="
PADDING = 3  # a seed: where the PADs of a sequence fall that is not the paper's own


def fitted(text: str, task: Task) -> list[int] | None:
    """The paper's sequence where the task has room for it; else its addition with fewer assignments, numbers mod N.

    None where the task cannot have such an addition: two variables, but only one assignment.
    """
    try:
        return parse(text, task)
    except ParseError:
        shorter = _shortened(text, task)
        return None if shorter is None else parse(shorter, task, PADDING)


def exchanged(tokens: list[int], one: int, other: int) -> list[int]:
    """The same sequence with every `one` replaced by `other` and the reverse."""
    return [{one: other, other: one}.get(token, token) for token in tokens]


def _shortened(text: str, task: Task) -> str | None:
    tokens, paper = parse(text, PAPER), Vocabulary(PAPER)
    values, operands = assignments(tokens, PAPER), tokens[PAPER.prefix + 1 : PAPER.prefix + 3]
    most = min(task.max_assignments, max(2, task.prefix // 3))  # a third of the room is left to PADs
    kept = sorted(values, key=lambda v: v not in operands)[:most]  # the operands' own first
    if any(paper.is_variable(x) and x not in kept for x in operands):
        return None
    letters = dict(zip(kept, _letters([paper.name(v) for v in kept], task), strict=True))
    named = [letters[x] if paper.is_variable(x) else str(x % task.modulus) for x in operands]
    return "".join(f"{letters[v]}={values[v] % task.modulus}, " for v in values if v in kept) + "+".join(named) + "=?"


def _letters(wanted: list[str], task: Task) -> list[str]:
    """Each letter that the task has, and another of the task's in place of one that it has not."""
    free = [letter for letter in task.variables if letter not in wanted]
    return [letter if letter in task.variables else free.pop(0) for letter in wanted]


def names(tokens: list[int], task: Task) -> list[str]:
    """The tokens as they are written under a figure, PAD in full."""
    vocabulary = Vocabulary(task)
    return ["PAD" if token == vocabulary.pad else vocabulary.name(token) for token in tokens]
