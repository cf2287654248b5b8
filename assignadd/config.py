"""The settings of a study: frozen dataclasses, their checks, and the presets.

Every number a run depends on is a field here. Flags, JSON files and Python pass the same checks: a bad value raises a
ConfigError whose one line names the field, its value and what is accepted. No value is adjusted silently.
"""

from __future__ import annotations

import dataclasses
import math
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from assignadd.errors import ConfigError as ConfigError
from assignadd.errors import UserError as UserError
from assignadd.member import Member as Member

LETTERS = string.ascii_lowercase
SUFFIX = 4  # `+ first second =` closes every sequence


def _ranged(default: Any, low: float, high: float) -> Any:
    return field(default=default, metadata={"low": low, "high": high})


@dataclass(frozen=True)
class Task:
    """Variable assignment and addition mod N (paper, section 3)."""

    modulus: int = _ranged(59, 2, 997)
    """N: numbers are 0..N-1 and sums are taken mod N."""
    n_vars: int = _ranged(12, 1, 26)
    """V: variables, named a, b, c, ..."""
    length: int = _ranged(16, 6, 256)
    """T: tokens in a sequence; the last four are `+ first second =`."""
    max_assignments: int = _ranged(6, 1, 26)
    """Assignments in a sequence are uniform on 1..this."""
    seen_fraction: float = _ranged(0.7, 0.0, 1.0)
    """f: share of the N^2 ordered pairs of numbers that training may add; the others are held out."""
    banned_first: str = "ab"
    """Variables that are never the first operand in training."""
    banned_second: str = "gh"
    """Variables that are never the second operand in training."""
    one_var_ratio: float = _ranged(20 / 12, 0.0, 1000.0)
    """One-variable sequences per zero-variable sequence, half with the variable first."""
    two_var_ratio: float = _ranged(10 / 12, 0.0, 1000.0)
    """r: two-variable sequences per zero-variable sequence."""

    @property
    def prefix(self) -> int:
        """Positions before `+`: assignments and padding."""
        return self.length - SUFFIX

    @property
    def variables(self) -> str:
        return LETTERS[: self.n_vars]

    @property
    def variable_counts(self) -> range:
        """How many of the two operands may be variables: 0, 1 and, where a sequence may assign two, 2."""
        return range(1 + min(2, self.max_assignments))

    @property
    def n_seen(self) -> int:
        # The small addend keeps products such as 0.29 * 100, which floats put just below a whole number, whole.
        return math.floor(self.seen_fraction * self.modulus**2 + 1e-9)

    @property
    def mix(self) -> tuple[float, float, float, float]:
        """Shares of the kinds: no variable, variable first, variable second, two variables."""
        weights = (1.0, self.one_var_ratio / 2, self.one_var_ratio / 2, self.two_var_ratio)
        return tuple(w / sum(weights) for w in weights)  # type: ignore[return-value]


@dataclass(frozen=True)
class Model:
    """The transformer (paper, section 3)."""

    n_layers: int = _ranged(2, 1, 16)
    """Layers, each with attention and, where d_mlp says so, an MLP."""
    n_heads: int = _ranged(1, 1, 64)
    """Attention heads in each layer."""
    d_model: int = _ranged(128, 1, 4096)
    """Width of the residual stream."""
    d_head: int = _ranged(128, 1, 4096)
    """Width of a head."""
    d_mlp: tuple[int | None, ...] = (None, 512)
    """MLP width after each layer; None where a layer has no MLP."""
    activation: Literal["relu", "gelu"] = "relu"
    """Activation function of the MLPs."""
    norm: Literal["none", "layer", "rms"] = "none"
    """Normalisation before attention, MLPs and unembedding."""
    biases: bool = False
    """Biases in attention, MLPs and unembedding."""
    init_scale: float = _ranged(0.8, 1e-6, 100.0)
    """Every matrix starts as N(0, (init_scale / sqrt(d_model))^2)."""


@dataclass(frozen=True)
class Optim:
    """AdamW without schedule, warm-up or clipping; fresh data every step."""

    lr: float = _ranged(1e-3, 0.0, 10.0)
    """Learning rate."""
    weight_decay: float = _ranged(0.02, 0.0, 100.0)
    """Decoupled weight decay, on every weight."""
    beta1: float = _ranged(0.9, 0.0, 0.999999)
    """Decay of the first moment."""
    beta2: float = _ranged(0.999, 0.0, 0.99999999)
    """Decay of the second moment."""
    eps: float = _ranged(1e-8, 1e-16, 1.0)
    """Added to the root of the second moment."""
    batch: int = _ranged(512, 1, 1 << 20)
    """Sequences in a step."""
    steps: int = _ranged(30_000, 0, 1 << 31)
    """Updates in all."""


@dataclass(frozen=True)
class Record:
    """What a run records, and how often."""

    eval_every: int = _ranged(100, 1, 1 << 31)
    """Steps between evaluations."""
    eval_sequences: int = _ranged(512, 1, 1 << 20)
    """Sequences per evaluation set while training (`assignadd eval` takes more)."""
    checkpoint_every: int = _ranged(100, 1, 1 << 31)
    """Steps between checkpoints, after the log-spaced ones 0, 1, 2, 5, 10, 20, 50."""
    state_every: int = _ranged(1000, 1, 1 << 31)
    """Steps between stored optimizer states, from which training can be repeated bit for bit."""
    measure_every: int = _ranged(0, 0, 1 << 31)
    """Steps between progress measures during training (sweeps record them); 0 for none."""
    final_sequences: int = _ranged(0, 0, 1 << 20)
    """Sequences per evaluation set in a larger evaluation at the end (sweeps record it); 0 for none."""


@dataclass(frozen=True)
class Seeds:
    """The seeds of each source of randomness; one that is None is the model's own seed."""

    init: int | None = _ranged(None, 0, 2**63 - 1)
    """The seed of the initial weights."""
    data: int | None = _ranged(None, 0, 2**63 - 1)
    """The seed of the training and evaluation sequences."""
    split: int | None = _ranged(None, 0, 2**63 - 1)
    """The seed of the permutation that chooses the held-out pairs."""


@dataclass(frozen=True)
class Numerics:
    """Number format and rounding."""

    dtype: Literal["float32", "float64"] = "float32"
    """Number format of weights, gradients and optimizer moments."""
    tf32: bool = False
    """Let an NVIDIA GPU round the inputs of matrix products to TF32."""


@dataclass(frozen=True)
class Config:
    """All settings of a run but the seeds of its models."""

    task: Task = field(default_factory=Task)
    model: Model = field(default_factory=Model)
    optim: Optim = field(default_factory=Optim)
    record: Record = field(default_factory=Record)
    seed: Seeds = field(default_factory=Seeds)
    numerics: Numerics = field(default_factory=Numerics)

    def __post_init__(self) -> None:
        validate(self)


def validate(config: Config) -> None:
    """Raises a ConfigError for the first field that is out of range or does not fit the others."""
    for section, (kind, _) in _fields(Config).items():
        for name, (of_field, limits) in _fields(kind).items():
            value = getattr(getattr(config, section), name)
            if not _within(value, of_field, limits):
                raise ConfigError(f"{section}.{name}", value, accepted(section, name) or "")
    _check_task(config.task)
    _check_model(config.model)


@cache
def _fields(section: Any) -> dict[str, tuple[Any, Mapping[str, Any]]]:
    """Type and range of every field of a dataclass; the range is empty where the field has none."""
    types = get_type_hints(section)
    return {f.name: (types[f.name], f.metadata) for f in dataclasses.fields(section)}


def accepted(section: str, name: str) -> str | None:
    """What the field `section.name` accepts, in words; None where a rule of its own decides or there is no field."""
    of_section, _ = _fields(Config).get(section, (None, {}))
    kind, limits = _fields(of_section).get(name, (None, {})) if of_section else (None, {})
    if limits:
        whole = int in (kind, *get_args(kind))
        return f"a {'whole ' * whole}number from {limits['low']} to {limits['high']}"
    if kind is bool:
        return "true or false"
    return "one of " + ", ".join(get_args(kind)) if get_origin(kind) is Literal else None


def _within(value: object, kind: Any, limits: Mapping[str, Any]) -> bool:
    if limits and value is None:
        return NoneType in get_args(kind)
    if limits:
        types = (int,) if int in (kind, *get_args(kind)) else (int, float)
        return isinstance(value, types) and not isinstance(value, bool) and limits["low"] <= value <= limits["high"]
    if kind is bool:
        return isinstance(value, bool)
    return value in get_args(kind) if get_origin(kind) is Literal else True


def _check_task(task: Task) -> None:
    V, most = task.n_vars, task.max_assignments
    for slot in ("banned_first", "banned_second"):
        letters = getattr(task, slot)
        if not isinstance(letters, str) or not set(letters) <= set(task.variables) or len(set(letters)) < len(letters):
            raise ConfigError(f"task.{slot}", letters, f"distinct letters among {task.variables}")
    first, second = V - len(task.banned_first), V - len(task.banned_second)
    in_both_slots = V - len(set(task.banned_first) | set(task.banned_second))
    no_ones, no_twos = task.one_var_ratio == 0, task.two_var_ratio == 0
    one_left = "a ban that leaves a variable to train on, or task.one_var_ratio = 0"
    pair_left = "a ban that leaves a pair of different variables, or task.two_var_ratio = 0"
    two = "at least 2 for two-variable additions, or task.two_var_ratio = 0"
    smallest = math.ceil(1e6 / task.modulus**2) / 1e6
    rules = (
        ("max_assignments", most <= V, f"at most task.n_vars = {V}, one per variable"),
        ("length", 2 * most <= task.prefix, f"at least {2 * most + SUFFIX} to hold {most} assignments"),
        ("seen_fraction", task.n_seen >= 1, f"at least {smallest:g}, one pair of numbers"),
        ("banned_first", no_ones or first > 0, one_left),
        ("banned_second", no_ones or second > 0, one_left),
        ("n_vars", no_twos or V >= 2, two),
        ("max_assignments", no_twos or most >= 2, two),
        ("banned_second", no_twos or first * second > in_both_slots, pair_left),
    )
    for name, holds, accepted in rules:
        if not holds:
            raise ConfigError(f"task.{name}", getattr(task, name), accepted)


def _check_model(model: Model) -> None:
    widths = model.d_mlp
    if not isinstance(widths, tuple) or len(widths) != model.n_layers:
        accepted = f"a tuple with one width or None for each of the {model.n_layers} layers"
        raise ConfigError("model.d_mlp", widths, accepted)
    if not all(w is None or (isinstance(w, int) and not isinstance(w, bool) and 1 <= w <= 65536) for w in widths):
        raise ConfigError("model.d_mlp", widths, "widths from 1 to 65536, or None")


PRESETS: dict[str, Config] = {
    # The paper's section 3, to the digit.
    "paper": Config(),
    # The paper's code and checkpoints, which differ from its text in the letters that are banned in each slot.
    "authors": Config(task=Task(banned_first="kl", banned_second="ab")),
    # Learns the whole task in about a minute on one core; nearly every seed binds.
    "tiny": Config(
        task=Task(
            modulus=23, n_vars=6, length=10, max_assignments=3, seen_fraction=0.8, banned_first="a", banned_second="b"
        ),
        model=Model(d_model=64, d_head=64, d_mlp=(None, 128)),
        optim=Optim(lr=4e-3, weight_decay=0.1, batch=128, steps=10_000),
    ),
    # Runs every part of the package in seconds; nothing is learned.
    "smoke": Config(
        task=Task(
            modulus=7, n_vars=4, length=8, max_assignments=2, seen_fraction=0.8, banned_first="a", banned_second="b"
        ),
        model=Model(d_model=16, d_head=16, d_mlp=(None, 32)),
        optim=Optim(batch=32, steps=60),
        record=Record(eval_every=20, eval_sequences=64, checkpoint_every=20, state_every=40),
    ),
}
