"""What a quantity may need of an architecture, and the error where a network does not have it.

The paper's formulas multiply matrices (QK, OV) of one head and skip the other parts of the network. A function that
computes one is decorated with what this takes, such as `@needs(ONE_HEAD, NO_NORM)`. On another network it raises
`NotDefined`: the ledger, the report and the commands then list the quantity by name, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from assignadd.config import Config, Model
from assignadd.config.errors import UserError
from assignadd.model.stack import Stack

P = ParamSpec("P")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Need:
    """A property of an architecture: its name in words, and whether an architecture has it."""

    words: str
    met: Callable[[Model], bool]


TWO_LAYERS = Need("two layers", lambda m: m.n_layers == 2)
SECOND_LAYER = Need("at least two layers", lambda m: m.n_layers >= 2)
ONE_HEAD = Need("one head per layer", lambda m: m.n_heads == 1)
NO_MLP_1 = Need("no MLP after layer 1", lambda m: m.d_mlp[0] is None)
LAST_MLP = Need("an MLP after the last layer", lambda m: m.d_mlp[-1] is not None)
RELU = Need("the activation ReLU", lambda m: m.activation == "relu")
DIRECT_PATH = Need("a direct path around the last MLP", lambda m: m.direct_path)
NO_NORM = Need("no norm", lambda m: m.norm == "none")
NO_BIASES = Need("no biases", lambda m: not m.biases)
# What must hold for: scores of layer 1 to be products of embeddings with QK1; scores of layer 2 to be products of what
# layer 1 copies with QK2; every formula of the paper. And for the tables of `model/table.py`.
QK1_NEEDS = (ONE_HEAD, NO_NORM, NO_BIASES)
QK2_NEEDS = (SECOND_LAYER, NO_MLP_1, *QK1_NEEDS)
PAPER_NEEDS = (TWO_LAYERS, ONE_HEAD, NO_MLP_1, LAST_MLP, RELU, DIRECT_PATH, NO_NORM, NO_BIASES)
TABLE_NEEDS = tuple(need for need in PAPER_NEEDS if need is not ONE_HEAD)


class NotDefined(UserError, ValueError):
    """A quantity that has no meaning for a network's architecture; the `reason` is such as "needs two layers"."""

    def __init__(self, quantity: str, reason: str):
        super().__init__(f"{quantity} is not defined for this network: it {reason}")
        self.reason = reason


def lacking(config: Config, *required: Need) -> str:
    """Which of these properties the architecture does not have, as in "needs two layers"; empty if it has all."""
    if config.model.file is not None:
        return f"needs the package's transformer, not {config.model.file.name}"
    missing = [need.words for need in required if not need.met(config.model)]
    if not missing:
        return ""
    *others, last = missing
    return f"needs {', '.join(others)} and {last}" if others else f"needs {last}"


def require(config: Config, quantity: str, *required: Need) -> None:
    """Raises `NotDefined` for a quantity, named in words, where the architecture lacks a property that it requires.

    By default all properties of the paper's architecture are required.
    """
    if reason := lacking(config, *(required or PAPER_NEEDS)):
        raise NotDefined(quantity, reason)


def needs(
    *required: Need,
) -> Callable[[Callable[Concatenate[Stack, P], Result]], Callable[Concatenate[Stack, P], Result]]:
    """A decorator for a function of a stack: it raises `NotDefined` for an architecture without these properties."""

    def decorate(function: Callable[Concatenate[Stack, P], Result]) -> Callable[Concatenate[Stack, P], Result]:
        @wraps(function)
        def checked(stack: Stack, *args: P.args, **kwargs: P.kwargs) -> Result:
            require(stack.config, function.__name__, *required)
            return function(stack, *args, **kwargs)

        return checked

    return decorate
