"""Conversion between tokens and typed sequences in two forms (paper, figure token-seqs).

The text form is `c=1, b=17, b+19=?`. The token form lists the tokens, `c 1 . b 17 + b 19 =`, with `.` for PAD. Other
operations have another sign (`SIGNS` of config/task.py), other tasks another number of operands: `a-b-3=?`, `b=?`. With
hops a variable may be on the right of an assignment, `c=5, b=c, b+3=?`, with rebinding it may be assigned again.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence

from assignadd.config import Task, UserError
from assignadd.task.arithmetic import answer_of
from assignadd.task.vocabulary import Vocabulary

PADS = (".", "PAD")
TEXT_WORD = re.compile(r"[A-Za-z]+|[0-9]+|\S")
TOKEN_WORD = re.compile(r"\S+")
# Found only in the text form: a comma, `v=n`, or the operation's sign without spaces.
TEXT_FORM = r",|[^\W\d]\s*=\s*[^\s?]|\w{}\w"


class ParseError(UserError, ValueError):
    """An error with the column (from 1) of the first mistake, what is expected there, and what was found."""

    def __init__(self, column: int, expected: str, got: str):
        self.column, self.expected = column, expected
        shown = repr(got if len(got) <= 20 else got[:20] + "...") if got else "the end"
        super().__init__(f"column {column}: expected {expected}, got {shown}")


def parse(text: str, task: Task = Task(), padding: int | None = None) -> list[int]:  # noqa: B008 (Task is frozen)
    """The T tokens of a sequence in either form.

    PADs are added at the front if there are fewer than T tokens. In the text form `padding` can be a seed; each PAD is
    then in one of the gaps between assignments, uniformly and independently, as in training.
    """
    if not text.strip():
        raise ParseError(1, f"a sequence such as a=1, {task.sign.join(['a', *'0' * (task.operands - 1)])}=?", "")
    if re.search(TEXT_FORM.format(re.escape(task.sign)), text):
        return _read_text(_Reader(text, TEXT_WORD, task), padding)
    return _read_tokens(_Reader(text, TOKEN_WORD, task))


def render(tokens: Sequence[int], task: Task) -> str:
    """The text form of T tokens, without the positions of PADs."""
    name = Vocabulary(task).name
    assigned = [f"{name(variable)}={name(right)}" for variable, right in _assigned(tokens, task)]
    return ", ".join([*assigned, f"{task.sign.join(map(name, _operands(tokens, task)))}=?"])


def render_tokens(tokens: Sequence[int], task: Task) -> str:
    """The token form of T tokens."""
    return " ".join(map(Vocabulary(task).name, tokens))


def answer(tokens: Sequence[int], task: Task) -> int:
    """The answer to the sequence."""
    return answer_of(task, operand_values(tokens, task))


def operand_values(tokens: Sequence[int], task: Task) -> tuple[int, ...]:
    """The numbers that the sequence adds, as literals or as values of variables."""
    value_of = {number: number for number in Vocabulary(task).numbers} | assignments(tokens, task)
    return tuple(value_of[token] for token in _operands(tokens, task))


def _operands(tokens: Sequence[int], task: Task) -> Sequence[int]:
    """The tokens of the operands."""
    return tokens[task.prefix + 1 : task.prefix + 1 + task.operands]


def assignments(tokens: Sequence[int], task: Task) -> dict[int, int]:
    """The number of each variable after all assignments, in the order of the prefix."""
    values: dict[int, int] = {}
    for variable, right in _assigned(tokens, task):
        values[variable] = values.get(right, right)
    return values


def _assigned(tokens: Sequence[int], task: Task) -> Iterator[tuple[int, int]]:
    """The variable and the right side, a number or a variable, of each assignment."""
    prefix = iter(tokens[: task.prefix])
    return ((token, next(prefix)) for token in prefix if Vocabulary(task).is_variable(token))


class _Reader:
    """Reads the words of a text one after another, each checked against what is allowed next."""

    def __init__(self, text: str, word: re.Pattern[str], task: Task):
        self.task, self.vocabulary = task, Vocabulary(task)
        self.numbers = {self.vocabulary.name(token): token for token in self.vocabulary.numbers}
        self.variables = {self.vocabulary.name(token): token for token in self.vocabulary.variables}
        self.assigned: dict[str, int] = {}
        self._links: dict[str, int] = {}  # how many links each assigned variable is away from its number
        self._n_assignments = 0
        self.query = "the addition" if task.sign == "+" and task.operands > 1 else "the question"
        end = (len(text.rstrip()) + 1, "")
        words = [(match.start() + 1, match.group()) for match in word.finditer(text)]
        self._words = [*words, end, end, end]  # two words are looked ahead
        self._at = 0

    @property
    def word(self) -> str:
        """The next word."""
        return self._words[self._at][1]

    @property
    def at_addition(self) -> bool:
        """Whether `x+y` begins here, and not `v=n`: decided by the operator or, without one, by the next word.

        With one operand there is no operator: `v=?` begins here if `=` is followed by `?` or the end.
        """
        second, third = self._words[self._at + 1][1], self._words[self._at + 2][1]
        if self.task.operands == 1 and second == "=":
            return third in ("?", "")
        is_operand = self.word in self.numbers or self.word in self.assigned
        return second == self.task.sign or (second != "=" and is_operand)

    def error(self, expected: str) -> ParseError:
        """The error that the next word is not what is expected."""
        column, word = self._words[self._at]
        return ParseError(column, expected, word)

    def take(self, accepted: Container[str], expected: str) -> str:
        """The next word, which must be accepted; moves on to the word after it."""
        word = self.word
        if word not in accepted:
            raise self.error(expected)
        self._at += 1
        return word

    def assignment(self, sign: str | None) -> list[int]:
        """The two tokens of an assignment, with `sign` between them in the text form.

        The variable must be new (except with rebinding), and its assignment must fit into the prefix. On the right is a
        number or, with hops, another variable.
        """
        if self.word in self.assigned and not self.task.rebinding:
            raise self.error("a variable that is not assigned yet")
        most = min(self.task.max_assignments, self.task.prefix // 2)
        if self._n_assignments == most and self.word in self.variables:
            raise self.error(f"{self.query} after at most {most} assignments")
        name = self.take(self.variables, f"a variable among {self.task.variables}")
        if sign is not None:
            self.take([sign], f"'{sign}'")
        links = {variable: 1 + n for variable, n in self._links.items() if n < self.task.hops and variable != name}
        expected = f"a number from 0 to {self.task.modulus - 1}"
        if links:
            expected += f" or a variable assigned before, at most {self.task.hops} links from its number"
        right = self.take([*self.numbers, *links], expected)
        self.assigned[name] = self.variables[name]
        self._links[name] = links.get(right, 0)
        self._n_assignments += 1
        return [self.variables[name], {**self.numbers, **self.variables}[right]]

    def query_tokens(self, sign: str | None) -> list[int]:
        """The tokens from the operator on, read from the first operand on: numbers or different assigned variables.

        In the text form `sign` stands between the operands.
        """
        operands: list[int] = []
        for i in range(self.task.operands):
            if i and sign is not None:
                self.take([sign], f"'{sign}'")
            taken = [self.vocabulary.name(token) for token in operands if self.vocabulary.is_variable(token)]
            accepted = self.numbers | {name: token for name, token in self.assigned.items() if name not in taken}
            expected = f"a number from 0 to {self.task.modulus - 1} or an assigned variable"
            if taken:
                expected += f" other than {' and '.join(taken)}"
            operands.append(accepted[self.take(accepted, expected)])
        self.take(["="], "'='")
        return [self.vocabulary.plus, *operands, self.vocabulary.equals]


def _read_text(reader: _Reader, padding: int | None) -> list[int]:
    """The tokens of the text form `v=n, v=n, ..., x+y=?`."""
    assigned: list[list[int]] = []
    while not reader.at_addition:
        assigned.append(reader.assignment("="))
        reader.take([","], f"',' and then {reader.query}")
    if not assigned:
        raise reader.error(f"an assignment such as a=1 before {reader.query}")
    query = reader.query_tokens(reader.task.sign)
    reader.take(["?", ""], "'?' or the end")
    reader.take([""], f"nothing after {reader.query}")
    prefix: list[int] = []
    gaps = _gaps(reader.task.prefix - 2 * len(assigned), len(assigned) + 1, padding)
    for gap, assignment in zip(gaps, [*assigned, []], strict=True):
        prefix += [reader.vocabulary.pad] * gap + assignment
    return prefix + query


def _gaps(n_pads: int, n_gaps: int, padding: int | None) -> list[int]:
    """The number of PADs before each assignment and after the last: all in the first gap, or random with a seed."""
    if padding is None:
        return [n_pads] + [0] * (n_gaps - 1)
    import torch  # imported here, so that torch is not loaded without a padding seed

    from assignadd.task.randomness import Stream, digit, words

    word = words(torch.tensor(padding), Stream.PADDING, torch.tensor(0), torch.arange(n_pads), 1)[0]
    return torch.bincount(digit(word, n_gaps)[0], minlength=n_gaps).tolist()


def _read_tokens(reader: _Reader) -> list[int]:
    """The tokens of the token form `v n . v n ... + x y =`."""
    prefix: list[int] = []
    sign, most, pad = reader.task.sign, reader.task.prefix, reader.vocabulary.pad
    while reader.word != sign:
        too_long = reader.error(f"'{sign}' after at most {most} tokens")
        if reader.word in PADS:
            reader.take(PADS, "'.'")
            prefix.append(pad)
        else:
            prefix += reader.assignment(None)
        if len(prefix) > most:
            raise too_long
    if not reader.assigned:
        raise reader.error(f"an assignment such as a 1 before {reader.query}")
    reader.take([sign], f"'{sign}'")
    query = reader.query_tokens(None)
    reader.take([""], f"nothing after {reader.query}")
    return [pad] * (most - len(prefix)) + prefix + query
