"""Conversion between tokens and typed sequences in two forms (paper, figure token-seqs).

The text form is `c=1, b=17, b+19=?`. The token form lists the tokens, `c 1 . b 17 + b 19 =`, with `.` for PAD. Tasks
differ in the sign (`SIGNS` of config/task.py) and in the number of operands: `a-b-3=?`, `b=?`. With hops a variable may
be on the right of an assignment, `c=5, b=c, b+3=?`, with rebinding it may be assigned again.
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
# Found only in the text form: a comma, `v=n`, or the operation's sign (which replaces the braces) without spaces.
TEXT_FORM = r",|[^\W\d]\s*=\s*[^\s?]|\w{}\w"


class ParseError(UserError, ValueError):
    """An error with the column (from 1) of the first mistake, what is expected there, and the word that is there."""

    def __init__(self, column: int, expected: str, word: str):
        self.column, self.expected = column, expected
        beginning = word if len(word) <= 20 else word[:20] + "..."
        super().__init__(f"column {column}: expected {expected}, got {repr(beginning) if word else 'the end'}")


def parse(text: str, task: Task = Task()) -> list[int]:  # noqa: B008 (Task is frozen)
    """The T tokens of a sequence in either form, with PADs at the front if there are fewer."""
    if not text.strip():
        operands = ["a", *["0"] * (task.operands - 1)]
        raise ParseError(1, f"a sequence such as a=1, {task.sign.join(operands)}=?", "")
    if re.search(TEXT_FORM.format(re.escape(task.sign)), text):
        return _read_text(_Reader(text, TEXT_WORD, task))
    return _read_tokens(_Reader(text, TOKEN_WORD, task))


def with_assignment(text: str, task: Task) -> str | None:
    """For two numbers alone, such as `17+19=?`, a sequence with their sum: `a=0, 17+19=?`. None for any other text.

    The assignment is there as every sequence has one.
    """
    addition = rf"\s*([0-9]+)\s*{re.escape(task.sign)}\s*([0-9]+)\s*(=\s*([?]\s*)?)?"
    match = re.fullmatch(addition, text, re.ASCII)
    if match is None or task.operands != 2:
        return None
    return f"{task.variables[0]}=0, {match[1]}{task.sign}{match[2]}=?"


def render(tokens: Sequence[int], task: Task) -> str:
    """The text form of T tokens, without the positions of PADs."""
    name = Vocabulary(task).name
    assigned = [f"{name(variable)}={name(right)}" for variable, right in _assigned(tokens, task)]
    operands = [name(token) for token in _operands(tokens, task)]
    return ", ".join([*assigned, f"{task.sign.join(operands)}=?"])


def render_tokens(tokens: Sequence[int], task: Task) -> str:
    """The token form of T tokens."""
    return " ".join(map(Vocabulary(task).name, tokens))


def answer(tokens: Sequence[int], task: Task) -> int:
    """The answer to the sequence of T tokens."""
    return answer_of(task, operand_values(tokens, task))


def operand_values(tokens: Sequence[int], task: Task) -> tuple[int, ...]:
    """The numbers that the sequence adds, as literals or as values of variables."""
    values = assignments(tokens, task)
    return tuple(values.get(token, token) for token in _operands(tokens, task))  # a number is its own token


def _operands(tokens: Sequence[int], task: Task) -> Sequence[int]:
    """The tokens between the operator and `=`."""
    return tokens[task.prefix + 1 : task.prefix + 1 + task.operands]


def assignments(tokens: Sequence[int], task: Task) -> dict[int, int]:
    """The number of each variable (by its token) after all assignments, in the order of the prefix."""
    values: dict[int, int] = {}
    for variable, right in _assigned(tokens, task):
        values[variable] = values.get(right, right)  # on the right is a variable with a number, or a number itself
    return values


def _assigned(tokens: Sequence[int], task: Task) -> Iterator[tuple[int, int]]:
    """The variable and the right side, a number or a variable, of each assignment."""
    prefix = iter(tokens[: task.prefix])
    for token in prefix:
        if Vocabulary(task).is_variable(token):  # any other token here is a PAD
            yield token, next(prefix)


class _Reader:
    """Reads the words of a text one after another, each checked against what is allowed next."""

    def __init__(self, text: str, word_pattern: re.Pattern[str], task: Task):
        self.task = task
        self.vocabulary = Vocabulary(task)
        self.numbers = {self.vocabulary.name(token): token for token in self.vocabulary.numbers}
        self.variables = {self.vocabulary.name(token): token for token in self.vocabulary.variables}
        self.tokens = self.numbers | self.variables
        self.n_links: dict[str, int] = {}
        """How many links each variable that is assigned so far is away from its number."""
        self._n_assignments = 0
        self.query_in_words = "the addition" if task.sign == "+" and task.operands > 1 else "the question"
        words = [(match.start() + 1, match.group()) for match in word_pattern.finditer(text)]
        end = (len(text.rstrip()) + 1, "")
        self._words = [*words, end, end, end]  # columns (from 1) and words; `is_at_query` looks two words ahead
        self._next = 0  # the index of the next word

    @property
    def word(self) -> str:
        """The next word; empty at the end."""
        return self._words[self._next][1]

    def is_at_query(self) -> bool:
        """Whether the question `x+y=` comes next, and not an assignment `v=n`.

        With one operand there is no operator: the question is `v=?`, with `?` or the end after `=`.
        """
        (_, first), (_, second), (_, third) = self._words[self._next : self._next + 3]
        if self.task.operands == 1 and second == "=":
            return third in ("?", "")
        is_assigned = first in self.n_links  # which has an entry for every variable that has a value so far
        is_operand = first in self.numbers or is_assigned
        return second == self.task.sign or (second != "=" and is_operand)

    def error(self, expected: str) -> ParseError:
        """The error that the next word is not what is expected."""
        column, word = self._words[self._next]
        return ParseError(column, expected, word)

    def take(self, accepted: Container[str], expected: str) -> str:
        """The next word, which must be accepted; moves on to the word after it."""
        word = self.word
        if word not in accepted:
            raise self.error(expected)
        self._next += 1
        return word

    def assignment(self, sign: str | None) -> list[int]:
        """The two tokens of the next assignment, with `sign` between them in the text form; None in the token form."""
        if self.word in self.n_links and not self.task.rebinding:
            raise self.error("a variable that is not assigned yet")
        most = min(self.task.max_assignments, self.task.prefix // 2)
        if self._n_assignments == most and self.word in self.variables:
            raise self.error(f"{self.query_in_words} after at most {most} assignments")
        name = self.take(self.variables, f"a variable among {self.task.variables}")
        if sign is not None:
            self.take([sign], f"'{sign}'")
        hops = self.task.hops
        linked = [variable for variable, n_links in self.n_links.items() if n_links < hops and variable != name]
        expected = f"a number from 0 to {self.task.modulus - 1}"
        if linked:
            expected += f" or a variable assigned before, at most {hops} links from its number"
        right = self.take([*self.numbers, *linked], expected)
        self.n_links[name] = self.n_links[right] + 1 if right in linked else 0
        self._n_assignments += 1
        return [self.tokens[name], self.tokens[right]]

    def query_tokens(self, sign: str | None) -> list[int]:
        """The tokens of the question: operator, operands, `=`. In the text form `sign` is between operands."""
        operands: list[int] = []
        used: list[str] = []  # the variables among the operands
        for i in range(self.task.operands):
            if i and sign is not None:
                self.take([sign], f"'{sign}'")
            expected = f"a number from 0 to {self.task.modulus - 1} or an assigned variable"
            if used:
                expected += f" other than {' and '.join(used)}"
            unused_variables = self.n_links.keys() - set(used)  # of those that are assigned
            word = self.take(self.numbers.keys() | unused_variables, expected)
            if word in self.variables:
                used.append(word)
            operands.append(self.tokens[word])
        self.take(["="], "'='")
        return [self.vocabulary.plus, *operands, self.vocabulary.equals]


def _read_text(reader: _Reader) -> list[int]:
    """The T tokens of a sequence in the text form `v=n, v=n, ..., x+y=?`."""
    assigned: list[int] = []
    while not reader.is_at_query():
        assigned += reader.assignment("=")
        reader.take([","], f"',' and then {reader.query_in_words}")
    if not assigned:
        raise reader.error(f"an assignment such as a=1 before {reader.query_in_words}")
    query = reader.query_tokens(reader.task.sign)
    reader.take(["?", ""], "'?' or the end")
    reader.take([""], f"nothing after {reader.query_in_words}")
    return [reader.vocabulary.pad] * (reader.task.prefix - len(assigned)) + assigned + query


def _read_tokens(reader: _Reader) -> list[int]:
    """The T tokens of a sequence in the token form `v n . v n ... + x y =`."""
    prefix: list[int] = []
    sign, prefix_length, pad = reader.task.sign, reader.task.prefix, reader.vocabulary.pad
    while reader.word != sign:
        # Made here, as it names the word that is next.
        too_long = reader.error(f"'{sign}' after at most {prefix_length} tokens")
        if reader.word in PADS:
            reader.take(PADS, "'.'")
            prefix.append(pad)
        else:
            prefix += reader.assignment(None)
        if len(prefix) > prefix_length:
            raise too_long
    if not reader.n_links:
        raise reader.error(f"an assignment such as a 1 before {reader.query_in_words}")
    reader.take([sign], f"'{sign}'")
    query = reader.query_tokens(None)
    reader.take([""], f"nothing after {reader.query_in_words}")
    return [pad] * (prefix_length - len(prefix)) + prefix + query
