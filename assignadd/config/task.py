"""The settings of the task: which member of the family of tasks a study trains on (docs/tasks.md), and their checks."""

import math
import re
import string
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, combinations
from typing import Any

from assignadd.config.errors import ConfigError

LETTERS = string.ascii_lowercase
# Operations by name, each with the sign that stands between operands in the text form. `affine P Q` is P x + Q y.
SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "affine": "@", "dihedral": "@", "table": "@"}
# The operations that need no file, as error messages list them.
OPERATIONS = ", ".join([*(name for name in SIGNS if name not in ("affine", "table")), "'affine P Q'"])
AFFINE = re.compile(r"affine (0|[1-9][0-9]*) (0|[1-9][0-9]*)")
# The most evaluation sets of a task of the user's own; an exam has as many steps of the evaluation stream.
MOST_SETS = 100
# The most tuples of numbers: they are listed, and each is seen or held out.
MOST_TUPLES = 1 << 20
# For each of the four operand slots, the setting with the letters that are banned from it.
BANS = ("banned_first", "banned_second", "banned_further", "banned_further")
# The table of answers that `_check_operation` accepted last, and its N: thousands of models may have the same table.
_last_table: list[Any] = [None, 0]
# Settings that only two operands have, with the values that change nothing.
FOR_PAIRS = {"unordered_split": False, "seen_doubles": None, "held_out_distance": None, "doubles_weight": 1}


def setting(
    default: Any, low: float | None = None, high: float | None = None, *, added_later: bool = False,
    per_model: bool = False, from_file: bool = False,
) -> Any:  # fmt: skip
    """A field of the settings; `low` and `high` are the limits of a number.

    `added_later`: the first version did not have it, and documents leave it out where it has its default.
    `per_model`: models of one stack may differ in it; it changes neither a tensor's shape nor the program of a step.
    `from_file`: it describes a file of the user's, and no option of the command line sets it.
    """
    about = {"low": low, "high": high, "added_later": added_later, "per_model": per_model, "from_file": from_file}
    return field(default=default, metadata=about)


@dataclass(frozen=True)
class TaskFile:
    """A task of the user's own as a run remembers it: its file, its sizes, and what its sequences are recognised by."""

    name: str = field(compare=False)
    """The name of the file."""
    sha256: str
    """The hash of the file's text."""
    first_draws: str
    """The hash of the first sequences of every set: a task with other parameters has others."""
    n_tokens: int
    length: int
    n_answers: int
    everywhere: bool
    """Whether answers may be at any position; if not, they are at the last one."""
    sets: tuple[str, ...]
    """The evaluation sets."""

    def __repr__(self) -> str:
        return f"{self.name} (sha256 {self.sha256[:12]}, first draws {self.first_draws[:6]})"


@dataclass(frozen=True)
class Task:
    """A member of the family of tasks; the defaults are variable assignment and addition mod N (paper, section 3)."""

    modulus: int = setting(59, 2, 997)
    """N: numbers are 0..N-1 and sums are taken mod N."""
    n_vars: int = setting(12, 1, 26)
    """V: variables, named a, b, c, ..."""
    length: int = setting(16, 6, 256)
    """T: tokens in a sequence; the last are the operator, the operands and `=`."""
    max_assignments: int = setting(6, 1, 26)
    """Assignments in a sequence are uniform on 1..this."""
    seen_fraction: float = setting(0.7, 0.0, 1.0, per_model=True)
    """f: share of the N^k ordered tuples of numbers (pairs for k = 2 operands) that training may combine; the others
    are held out."""
    banned_first: str = "ab"
    """Variables that are never the first operand in training."""
    banned_second: str = "gh"
    """Variables that are never the second operand in training; not used with one operand."""
    one_var_ratio: float = setting(20 / 12, 0.0, 1000.0, per_model=True)
    """Sequences with one variable per sequence without variables; each operand slot has it equally often."""
    two_var_ratio: float = setting(10 / 12, 0.0, 1000.0, per_model=True)
    """r: sequences with two variables per sequence without; as many with three, and with four, where there are as many
    operands. Each choice of slots is equally frequent."""
    operation: str = setting("add", added_later=True)
    """What is done with the operands, from left to right: add, subtract, multiply (mod N), `affine P Q` (P x + Q y mod
    N), dihedral (the dihedral group of order N, N even), or a file with N rows of N answers, stored as task.table."""
    table: tuple[int, ...] = setting((), added_later=True)
    """The answers of operation `table`, row by row: the first operand is the row, the second the column."""
    operands: int = setting(2, 1, 4, added_later=True)
    """k: operands in a sequence; with one, a sequence only looks a value up."""
    banned_further: str = setting("", added_later=True)
    """Variables that are never the third or the fourth operand in training."""
    hops: int = setting(0, 0, 25, added_later=True)
    """h: an assignment may refer to a variable that is assigned earlier (`c=5, b=c`); an operand's variable is 0..h
    such links away from its number, uniformly as far as the number of assignments allows."""
    rebinding: float = setting(0.0, 0.0, 1.0, added_later=True)
    """rho: probability that a variable is assigned twice, where it fits; the last assignment counts."""
    unordered_split: bool = setting(False, added_later=True, per_model=True)
    """Whether (n, m) and (m, n) are always both seen or both held out; for two operands."""
    seen_doubles: float | None = setting(None, 0.0, 1.0, added_later=True, per_model=True)
    """Share of the pairs (n, n) that are seen; if None, they are drawn with the other pairs. For two operands."""
    held_out_distance: int | None = setting(None, 0, 996, added_later=True, per_model=True)
    """All pairs whose numbers are this far apart (mod N) are held out, in both orders; 0 for the pairs (n, n). None for
    no further pairs. For two operands."""
    shuffled_distance: bool = setting(False, added_later=True, per_model=True)
    """Whether held_out_distance counts along a random order of the numbers: each is in as many held-out pairs."""
    doubles_weight: int = setting(1, 1, 64, added_later=True, per_model=True)
    """How many times as often as another seen pair a pair (n, n) is drawn in training; for two operands."""
    random_padding: bool = setting(True, added_later=True)
    """Whether padding is before, between and after the assignments, at random; if not, all of it is before them."""
    file: TaskFile | None = setting(None, added_later=True, from_file=True)  # noqa: RUF009
    """A task of the user's own, given as a file; the other settings of the task are then not used."""

    @property
    def prefix(self) -> int:
        """Positions before the operator: assignments and padding."""
        return self.length - self.suffix

    @property
    def suffix(self) -> int:
        """Positions from the operator on: it, the operands, and `=`."""
        return self.operands + 2

    @property
    def sign(self) -> str:
        """The sign of the operation in the text form."""
        name = self.operation.partition(" ")[0]  # of `affine P Q` without its factors
        return SIGNS[name]

    @property
    def variables(self) -> str:
        """The letters of the variables, such as `abcd`."""
        return LETTERS[: self.n_vars]

    @property
    def bans(self) -> tuple[str, ...]:
        """For each operand slot, the variables that are never in it in training."""
        return tuple(getattr(self, name) for name in BANS[: self.operands])

    @property
    def variable_counts(self) -> range:
        """The possible numbers of variables among the operands: from 0 to all of them, if that many are assigned."""
        return range(1 + min(self.operands, self.max_assignments))

    @property
    def tuples(self) -> tuple[int, ...]:
        """The shape of a table with an entry for each tuple of numbers: N for each operand.

        No axis for a task of the user's own, which has no split.
        """
        return () if self.file else (self.modulus,) * self.operands

    @property
    def n_seen(self) -> int:
        """The number of tuples that training may combine."""
        # The small addend keeps products such as 0.29 * 100, which floats put just below a whole number, whole.
        return math.floor(self.seen_fraction * math.prod(self.tuples) + 1e-9)

    @property
    def mix(self) -> tuple[float, ...]:
        """The share of each kind of sequence in training. A kind is the set of operand slots that hold variables, as a
        binary number: for two operands, no variable, variable first, variable second, two variables.

        Sequences with n variables are `one_var_ratio` (n = 1) or `two_var_ratio` (n = 2, 3, 4) times as frequent as
        those without, in equal parts for the sets of n slots.
        """
        ratios = (1.0, self.one_var_ratio, self.two_var_ratio, self.two_var_ratio, self.two_var_ratio)
        weights = []
        for kind in range(2**self.operands):
            n_variables = kind.bit_count()
            n_kinds = math.comb(self.operands, n_variables)  # with as many variables
            weights.append(ratios[n_variables] / n_kinds)
        return tuple(weight / sum(weights) for weight in weights)


def named_operation(operation: str) -> bool:
    """Whether this is an operation by its name; any other text names a file."""
    if operation == "affine":  # needs its two factors
        return False
    return operation in SIGNS or AFFINE.fullmatch(operation) is not None


def check_task(task: Task) -> None:
    """Raises a ConfigError for the first setting that does not fit the others."""
    if task.file is not None:
        _check_file(task.file)
        return
    _check_bans(task)
    _check_operation(task)
    _check_sizes(task)
    _check_mix(task)


def _check_file(file: TaskFile) -> None:
    """Raises a ConfigError for sizes or sets that no task can have."""
    if not isinstance(file, TaskFile):
        raise ConfigError("task.file", file, "the description of a task that `--task FILE.py` writes")
    for name, most in (("n_tokens", 1 << 16), ("length", 1 << 12), ("n_answers", 1 << 16)):
        size = getattr(file, name)
        if type(size) is not int or not 1 <= size <= most:
            raise ConfigError(f"{name} of {file.name}", size, f"a whole number from 1 to {most}")
    sets = file.sets
    are_names = isinstance(sets, tuple) and all(isinstance(name, str) and name and name.isprintable() for name in sets)
    if not are_names or not 1 <= len(set(sets)) == len(sets) <= MOST_SETS:
        raise ConfigError(f"sets of {file.name}", sets, f"1 to {MOST_SETS} different names")


def _require(task: Task, name: str, holds: bool, accepted: str) -> None:
    """Raises a ConfigError about the setting `name` of the task, which says what is `accepted`, unless `holds`."""
    if not holds:
        raise ConfigError(f"task.{name}", getattr(task, name), accepted)


def _check_bans(task: Task) -> None:
    """Raises a ConfigError for bans that are not distinct letters of variables."""
    variables = set(task.variables)
    for name in dict.fromkeys(BANS):  # each of them once
        if name == "banned_second" and task.operands == 1:
            continue  # not used
        letters = getattr(task, name)
        distinct = isinstance(letters, str) and len(set(letters)) == len(letters)
        is_ban = distinct and variables.issuperset(letters)
        _require(task, name, is_ban, f"distinct letters among {task.variables}")


def _check_operation(task: Task) -> None:
    """Raises a ConfigError for an operation that does not exist, or that does not fit the modulus or the table."""
    N, operation, table = task.modulus, task.operation, task.table
    exists = isinstance(operation, str) and named_operation(operation)
    _require(task, "operation", exists, f"{OPERATIONS}, or a file with a table of answers")
    if affine := AFFINE.fullmatch(operation):
        factors_fit = int(affine[1]) < N and int(affine[2]) < N
        _require(task, "operation", factors_fit, f"factors from 0 to {N - 1} after affine")
    if operation == "dihedral":
        _require(task, "modulus", N % 2 == 0, "an even number, the order of a dihedral group")
    has_its_table = isinstance(table, tuple) and (operation == "table" or not table)
    _require(task, "table", has_its_table, "none, as task.operation is not table")
    # The many configurations of a sweep share one table, which is checked once: `_last_table` is the one accepted last.
    was_accepted = table is _last_table[0] and _last_table[1] == N
    if operation == "table" and not was_accepted:
        all_accepted = all(type(entry) is int and 0 <= entry < N for entry in table)  # True is no number here
        if len(table) != N * N or not all_accepted:
            accepted = f"{N} x {N} numbers from 0 to {N - 1} for task.modulus = {N}"
            raise ConfigError("task.table", f"{len(table)} numbers", accepted)
        _last_table[:] = table, N


def _check_sizes(task: Task) -> None:
    """Raises a ConfigError for sizes that do not fit each other, and for settings of pairs without two operands."""
    V, most = task.n_vars, task.max_assignments  # `most` assignments in a sequence
    n_tuples = math.prod(task.tuples)
    least_fraction = math.ceil(1e6 / n_tuples) / 1e6  # 1 / n_tuples, rounded up to six digits
    _require(task, "max_assignments", most <= V, f"at most task.n_vars = {V}, one per variable")
    _require(task, "length", 2 * most <= task.prefix, f"at least {2 * most + task.suffix} to hold {most} assignments")
    fewer = f"fewer, or a smaller task.modulus: N^operands is at most {MOST_TUPLES}"
    _require(task, "operands", n_tuples <= MOST_TUPLES, fewer)
    shorter = f"fewer than task.max_assignments = {most}, to hold a chain of that many links"
    _require(task, "hops", task.hops < most, shorter)
    _require(task, "rebinding", task.rebinding == 0 or most >= 2, "0, or task.max_assignments of at least 2")
    _require(task, "seen_fraction", task.n_seen >= 1, f"at least {least_fraction:g}, one tuple of numbers")
    if task.operands != 2:
        for name, default in FOR_PAIRS.items():
            _require(task, name, getattr(task, name) == default, f"{default}: it is for task.operands = 2")


def _check_mix(task: Task) -> None:
    """Raises a ConfigError if training has sequences with variables in its mix and the bans or sizes allow none."""
    k = task.operands
    if task.one_var_ratio > 0:
        one_left = "a ban that leaves a variable to train on, or task.one_var_ratio = 0"
        for setting_name, letters in zip(BANS, task.bans, strict=False):  # BANS has four slots, the task may have fewer
            _require(task, setting_name, len(letters) < task.n_vars, one_left)
    if task.two_var_ratio > 0 and k > 1:
        enough = f"at least {k} for sequences with {k} variables, or task.two_var_ratio = 0"
        _require(task, "n_vars", task.n_vars >= k, enough)
        _require(task, "max_assignments", task.max_assignments >= k, enough)
        different_left = f"a ban that leaves {k} different variables for the slots, or task.two_var_ratio = 0"
        # If all bans together are too strict, the error names that of the last slot.
        _require(task, BANS[k - 1], _can_differ(task.variables, task.bans), different_left)


@lru_cache(maxsize=64)
def _can_differ(variables: str, bans: tuple[str, ...]) -> bool:
    """Whether all operand slots can have different variables: by Hall's theorem, if any n slots allow n or more."""
    allowed = [set(variables) - set(banned) for banned in bans]  # for each operand slot
    groups = chain.from_iterable(combinations(allowed, size) for size in range(1, len(bans) + 1))
    return all(len(set().union(*group)) >= len(group) for group in groups)
