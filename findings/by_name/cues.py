"""What binds a number to a variable: its name, its place, or their order.

First, answers to sequences in which the three contradict each other. A layout describes the unusual part of a
sequence: `v` is the variable that is asked for, `w` another one, `x` and `y` numbers, `.` PAD, and `|` separates parts
between which other tokens may stand. The rest is as in training: further assignments of other variables, PADs in random
gaps, and a sum of the variable and a literal.

Second, answers after an exchange of tags. In layer 1 an assigned number copies the embedding of the variable before it,
a name and a position. The number that is asked for and another assigned number exchange what they copied: the names
alone, or the positions alone.
"""

import random
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool
from torch import Tensor

from assignadd import Config
from assignadd.measures import sequences
from assignadd.model import OV, LastLayer, Stack, answer_logits, answers, require
from assignadd.task import Positions, Task, Vocabulary, answer_of, roles

SEQUENCES, SEED = 2000, 0
USUAL, TWICE, TWO_NUMBERS, REVERSED = "v x", "v x | v y", "v x y", "x v"
ONE_PAD, TWO_PADS, FARTHER_NAME, BETWEEN = "v . x", "v . . x", "v w x", "x v y"
LAYOUTS = {
    USUAL: "as in training",
    TWICE: "the variable assigned twice",
    TWO_NUMBERS: "two numbers after it",
    ONE_PAD: "one PAD before its number",
    TWO_PADS: "two PADs before its number",
    REVERSED: "its number before it",
    BETWEEN: "between two numbers",
    FARTHER_NAME: "another name before its number",
}
"""Layouts and their names in plain words."""
NAMES, PLACES = "names", "places"
Partners = list[list[list[int]]]
"""By the slot of the variable and the literal: the numbers that form a seen pair with the literal."""


@dataclass(frozen=True)
class AfterExchange:
    """Which answers to sequences are which after an exchange of tags."""

    unchanged: Bool[Tensor, " n"]
    """The answer is that of the sequence."""
    with_other: Bool[Tensor, " n"]
    """The answer is that with the other number instead of the one that is asked for."""


def cue_answers(
    model: Stack, config: Config, seen: Bool[Tensor, "N N"], n: int = SEQUENCES
) -> dict[str, dict[str, Bool[Tensor, " n"]]]:
    """By layout, for `x` and where it is there `y`: whether the answer is the sum with this number."""
    task, by_layout = config.task, {}
    partners = [[row.nonzero()[:, 0].tolist() for row in pairs] for pairs in (seen.T, seen)]
    for layout in LAYOUTS:
        rng = random.Random(SEED)
        rows = [sequence(task, partners, layout, rng) for _ in range(n)]
        tokens = torch.tensor([tokens for tokens, _ in rows], device=seen.device)
        answered = answer_logits(model, tokens[None])[0].argmax(-1).cpu()
        by_layout[layout] = {
            number: answered == torch.tensor([sums[number] for _, sums in rows])
            for number in ("x", "y")
            if number in layout
        }
    return by_layout


def sequence(task: Task, partners: Partners, layout: str, rng: random.Random) -> tuple[list[int], dict[str, int]]:
    """A random sequence with this layout, and the sums with its numbers, which are all different and seen pairs."""
    vocabulary, slot = Vocabulary(task), rng.randrange(2)
    v = vocabulary.variable(rng.choice([c for c in task.variables if c not in task.bans[slot]]))
    w, *other_names = rng.sample([name for name in vocabulary.variables if name != v], task.n_vars - 1)
    literal = rng.choice([k for k in vocabulary.numbers if len(partners[slot][k]) > 1])
    x, y = rng.sample(partners[slot][literal], 2)
    words = {"v": v, "w": w, "x": x, "y": y, ".": vocabulary.pad}
    parts = [[words[word] for word in part.split()] for part in layout.split("|")]
    free = task.prefix - sum(map(len, parts))
    numbers = rng.sample([k for k in vocabulary.numbers if k not in (x, y)], min(len(other_names), free // 2))
    more = [[name, number] for name, number in zip(other_names, numbers, strict=False)][: rng.randint(0, free // 2)]
    prefix = _with_pads(task, _interleaved(parts, more, rng), rng)
    operands = {k: (number, literal) if slot == 0 else (literal, number) for k, number in words.items()}
    sums = {k: answer_of(task, operands[k]) for k in ("x", "y")}
    return [*prefix, vocabulary.plus, *operands["v"], vocabulary.equals], sums


def _interleaved(parts: list[list[int]], more: list[list[int]], rng: random.Random) -> list[list[int]]:
    """Both lists in one, the first in its order and at random places."""
    places = sorted(rng.sample(range(len(parts) + len(more)), len(parts)))
    for place, part in zip(places, parts, strict=True):
        more.insert(place, part)
    return more


def _with_pads(task: Task, parts: list[list[int]], rng: random.Random) -> list[int]:
    """The tokens of the prefix, each PAD in a random gap between the parts."""
    gaps = [0] * (len(parts) + 1)
    for _ in range(task.prefix - sum(map(len, parts))):
        gaps[rng.randrange(len(gaps))] += 1
    pads = [[Vocabulary(task).pad] * gap for gap in gaps]
    return [token for pair in zip(pads, [*parts, []], strict=True) for part in pair for token in part]


@torch.no_grad()
def exchanged_tags(
    model: Stack, config: Config, seen: Bool[Tensor, "N N"], n: int = SEQUENCES
) -> dict[str, AfterExchange]:
    """The answers to trained sums with one variable, and two assigned numbers at least, after each exchange."""
    require(config, "the exchange of copied names and positions")
    task = config.task
    batch = sequences([config], seen[None], 1, n)
    several = roles(task, batch.tokens[0]).assigned.sum(1) > 1
    tokens, labels = batch.tokens[0][several], batch.labels[0][several]
    positions = Positions(task, tokens)
    variable = positions.roles.is_variable.int().argmax(1, keepdim=True)
    asked = positions.roles.value_positions.gather(1, variable)  # (B, 1)
    other = positions.mask("distractors").int().argmax(1, keepdim=True)
    replaced = positions.roles.values.scatter(1, variable, tokens.gather(1, other))
    with_other = answer_of(task, replaced.unbind(1))
    layer = LastLayer(model)
    trace = layer.trace(tokens)
    before, OV1 = layer.before(trace), OV(model, 1)[0]
    copied = {NAMES: (model.W_E[0] @ OV1)[tokens], PLACES: (model.W_pos[0] @ OV1).expand(*tokens.shape, -1)}
    width = before.shape[-1]
    after: dict[str, AfterExchange] = {}
    for kind, rows in copied.items():
        tags = trace.attention(1)[:, 0] @ rows  # (B, T, d): what each position copied
        of_asked, of_other = (tags.gather(1, at[..., None].expand(-1, -1, width)) for at in (asked, other))
        change = torch.cat([of_other - of_asked, of_asked - of_other], 1)
        index = torch.cat([asked, other], 1)[..., None].expand(-1, -1, width)
        answered, told_apart = layer.answer(before.scatter_add(1, index, change)).argmax(-1), labels != with_other
        after[kind] = AfterExchange((answered == labels)[told_apart], (answered == with_other)[told_apart])
    return after


def by_assignments(model: Stack, config: Config, seen: Bool[Tensor, "N N"], n: int) -> dict[int, float]:
    """The accuracy on trained sums with one variable, by the number of assignments up to what fits, about n each."""
    most = config.task.prefix // 2
    task = replace(config.task, max_assignments=most)
    batch = sequences([replace(config, task=task)], seen[None], 1, most * n)
    right = (answers(model, batch.tokens) == batch.labels)[0].double()
    counts = roles(task, batch.tokens[0]).assigned.sum(1)
    return {k: float(right[counts == k].mean()) for k in range(1, most + 1)}
