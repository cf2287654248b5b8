"""What tags a number with its variable: the name of the variable, or its place (paper, section 5.2)?

In layer 1 an assigned number copies the embedding of the variable before it, a name and a position. Here the number
that is asked for and another assigned number exchange what they copied: of the names alone, or of the positions alone.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config
from assignadd.measures.sequences import sequences
from assignadd.model.architecture import PAPER_NEEDS, require
from assignadd.model.circuits import OV
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import Stack
from assignadd.task.arithmetic import answer_of
from assignadd.task.roles import Positions, roles

SEQUENCES = 2000
NAMES, PLACES = "names", "places"
# For each exchange, whether the answer is the one of the sequence, and whether it is the one with the other number.
Exchanged = dict[str, tuple[Bool[Tensor, " n"], Bool[Tensor, " n"]]]


@torch.no_grad()
def exchanged_tags(one: Stack, config: Config, seen: Bool[Tensor, "N N"], n: int = SEQUENCES) -> Exchanged:
    """The answers to trained sums with one variable, and two assigned numbers at least, after each exchange."""
    require(config, "the exchange of copied names and positions", *PAPER_NEEDS)
    task = config.task
    batch = sequences([config], seen[None], 1, n)
    several = roles(task, batch.tokens[0]).assigned.sum(1) > 1
    tokens, own = batch.tokens[0][several], batch.labels[0][several]
    positions = Positions(task, tokens)
    variable = positions.roles.is_variable.int().argmax(1, keepdim=True)
    asked = positions.roles.value_positions.gather(1, variable)  # (B, 1)
    other = positions.mask("distractors").int().argmax(1, keepdim=True)
    replaced = positions.roles.values.scatter(1, variable, tokens.gather(1, other))
    with_other = answer_of(task, replaced.unbind(1))
    model = LastLayer(one)
    trace = model.trace(tokens)
    before, OV1 = model.before(trace), OV(one, 1)[0]
    copied = {NAMES: (one.W_E[0] @ OV1)[tokens], PLACES: (one.W_pos[0] @ OV1).expand(*tokens.shape, -1)}
    found: Exchanged = {}
    for kind, rows in copied.items():
        tags = trace.attention(1)[:, 0] @ rows  # (B, T, d): what each position copied
        difference = _at(tags, other) - _at(tags, asked)
        index = torch.cat([asked, other], 1)[..., None].expand(-1, -1, tags.shape[-1])
        edited = before.scatter_add(1, index, torch.cat([difference, -difference], 1))
        answers, told_apart = model.answer(edited).argmax(-1), own != with_other
        found[kind] = (answers == own)[told_apart], (answers == with_other)[told_apart]
    return found


def _at(rows: Float[Tensor, "B T d"], position: Int[Tensor, "B 1"]) -> Float[Tensor, "B 1 d"]:
    return rows.gather(1, position[..., None].expand(-1, -1, rows.shape[-1]))
