"""Claims about a network that binds: by name, and not by place or order."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from assignadd.dynamics import binds
from assignadd.ledger import AtLeast, AtMost, Between, Claim, Measured, Network, paired_difference, per_network

from . import cues
from .cues import SEQUENCES, Exchanged, cue_answers, exchanged_tags

Measure = Callable[[Network], Measured | None]


@per_network()
def cues_of(network: Network) -> dict[str, dict[str, Tensor]]:
    """The answers to sequences with contradictory cues, by layout."""
    return cue_answers(network.stack, network.config, network.seen, min(network.n, SEQUENCES))


@per_network()
def exchanged_tags_of(network: Network) -> Exchanged:
    return exchanged_tags(network.stack, network.config, network.seen, min(network.n, SEQUENCES))


def is_asked(network: Network) -> bool:
    """Whether the network binds, and its task has two operands and variables that are assigned a number, once."""
    task = network.config.task
    return binds(network) and task.operands == 2 and not task.hops and not task.rebinding


def answered(layout: str) -> Measure:
    """How often the answer is the sum with the number `x` of the layout."""

    def measure(network: Network) -> Measured | None:
        answers = cues_of(network).get(layout) if is_asked(network) else None
        return None if answers is None else Measured.share(int(answers["x"].sum()), len(answers["x"]), "sequences")

    return measure


def preferred(layout: str, number: str, over: str) -> Measure:
    """How much more often the answer is the sum with one number of the layout than with the other."""

    def measure(network: Network) -> Measured | None:
        answers = cues_of(network).get(layout) if is_asked(network) else None
        if answers is None:
            return None
        return paired_difference(answers[number].numpy(), answers[over].numpy(), "sequences")

    return measure


def after_exchange(kind: str, other: bool) -> Measure:
    """How often the answer is that with the other number, or stays that of the sequence, after an exchange."""

    def measure(network: Network) -> Measured | None:
        if not is_asked(network):
            return None
        answers = exchanged_tags_of(network)[kind][int(other)]
        return Measured.share(int(answers.sum()), len(answers), "sequences")

    return measure


def both_numbers(network: Network) -> str:
    """How often each number of a variable assigned twice is answered."""
    first, last = (cues_of(network)[cues.TWICE][number].double().mean() for number in ("x", "y"))
    return f"the first number is answered in {first:.3f}, the last in {last:.3f}"


IF_EXCHANGED = "If two assigned numbers exchange the"
CLAIMS = (
    Claim.ours("cue-name",
               f"{IF_EXCHANGED} names that layer 1 copied into them, the answer is the sum with the other.",
               after_exchange(cues.NAMES, other=True), AtLeast(0.95)),
    Claim.ours("cue-place", f"{IF_EXCHANGED} positions that layer 1 copied into them, the answer stays the same.",
               after_exchange(cues.PLACES, other=False), AtLeast(0.95)),
    Claim.ours("cue-order",
               "Of a variable assigned twice, the first and the last number are answered about equally often (the "
               "shares differ by at most 0.1).",
               preferred(cues.TWICE, "y", "x"), Between(-0.1, 0.1),
               "The value is how much more often the last one is.", detail=both_numbers),
    Claim.ours("cue-number-first", "A number that stands before its variable is not bound to it.",
               answered(cues.REVERSED), AtMost(0.2)),
    Claim.ours("cue-one-pad", "A number is bound to its variable with one PAD between them.",
               answered(cues.ONE_PAD), AtLeast(0.5)),
    Claim.ours("cue-two-pads", "A number is not bound to its variable with two PADs between them.",
               answered(cues.TWO_PADS), AtMost(0.5)),
    Claim.ours("cue-nearest-name", "A number is not bound to a variable with another variable between them.",
               answered(cues.FARTHER_NAME), AtMost(0.2)),
    Claim.ours("cue-nearest-number", "Of two numbers after a variable, the nearer one is answered more often.",
               preferred(cues.TWO_NUMBERS, "x", "y"), AtLeast(0.0), "The value is the difference."),
)  # fmt: skip
