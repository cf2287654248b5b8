"""Interchange interventions (Geiger et al., 2021): whether an activation holds a variable of the program.

The program is the algorithm of the paper's section 5. An alignment is one of its variables with the activation that
should hold it:

    binding tag     the variable that a number is assigned to: layer 1's output at the assigned numbers
    operand query   the variables to look up: layer 1's output at `=`
    query in QK2    the same, exchanged only for the queries of layer 2's scores
    first value, second value    an operand's value: layer 2's output at `=` from the position of that value
    values          both values: layer 2's output at `=`
    sum             MLP2's output at `=`

The activation is taken from the source prompt, the rest of the network runs on the base prompt, and the answer is
compared with the program's (`pairs`). In a network with more layers, layer 2 and MLP2 above are the last layer and its
MLP, and layer 1's output is what all layers before the last wrote into the residual stream, all heads together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config
from assignadd.model.architecture import LAST_MLP, SECOND_LAYER, lacking, require
from assignadd.model.forward import CHUNK
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import Stack, initial_stack
from assignadd.model.trace import Trace
from assignadd.network import Network, per_network
from assignadd.paper.causes.pairs import Pairs, prompts, query_pairs, tag_pairs, value_pairs
from assignadd.task.positions import Positions, count_variables


class Side(NamedTuple):
    """The forward pass on the base or the source prompts of some pairs."""

    positions: Positions
    trace: Trace
    before: Float[Tensor, "B T d"]
    """The residual of every position before the last layer."""
    layer_1: Float[Tensor, "B T d"]
    """What layer 1 wrote into it."""


Exchange = Callable[[LastLayer, Side, Side], Float[Tensor, "B N"]]
"""The answer logits of the base (first side) with one of its activations taken from the source (second side)."""


def layer_1_output(layer: LastLayer, base: Side, source: Side, roles: tuple[str, ...]) -> Float[Tensor, "B N"]:
    """The exchange of layer 1's output at the positions that the tokens of these roles have in the base."""
    mask = base.positions.any_of(roles)
    before = base.before.clone()
    before[mask] += (source.layer_1 - base.layer_1)[mask]
    return layer.answer(before)


def query_in_qk2(layer: LastLayer, base: Side, source: Side) -> Float[Tensor, "B N"]:
    """The exchange of the residual of `=` before the last layer, but only as the query of the last layer's scores."""
    pattern = layer.pattern(base.before, query=source.before[:, -1])
    return layer.logits(base.before[:, -1] + layer.attention_output(pattern, base.before))


def value(layer: LastLayer, base: Side, source: Side, operand: str, earlier: int = 0) -> Float[Tensor, "B N"]:
    """The exchange of layer 2's output at `=` from the position `earlier` places to the left of an operand's value."""
    outputs = []
    for side in (base, source):
        position = side.positions.position(f"{operand}_value") - earlier  # (B,); if below 0, the weight is 0
        sequence = torch.arange(len(side.before))
        pattern = side.trace.attention(layer.stack.config.model.n_layers)  # (B, head, query, key); the last is `=`
        weight = pattern[sequence, :, -1, position] * (position >= 0)[:, None]  # (B, head)
        # The output of attention to this position alone.
        outputs.append(layer.attention_output(weight[..., None], side.before[sequence, position, None]))
    of_base, of_source = outputs
    return layer.logits(base.trace.resid_mid + (of_source - of_base))


def values(layer: LastLayer, base: Side, source: Side) -> Float[Tensor, "B N"]:
    """The exchange of layer 2's output at `=`."""
    return layer.logits(base.trace.resid_mid + (source.trace.attention_output - base.trace.attention_output))


def mlp2_output(layer: LastLayer, base: Side, source: Side) -> Float[Tensor, "B N"]:
    """The exchange of MLP2's output at `=`."""
    return layer.unembedded(base.trace.resid_post + (source.trace.mlp_out - base.trace.mlp_out))


# The exchange of each alignment and, as a control, that of another activation, which should not hold the variable.
EXCHANGES: dict[str, Exchange] = {
    "binding tag": partial(layer_1_output, roles=("assigned",)),
    "operand query": partial(layer_1_output, roles=("equals",)),
    "query in QK2": query_in_qk2,
    "first value": partial(value, operand="first"),
    "second value": partial(value, operand="second"),
    "values": values,
    "sum": mlp2_output,
}
ELSEWHERE: dict[str, Exchange] = {
    "binding tag": partial(layer_1_output, roles=("variables",)),
    "operand query": partial(layer_1_output, roles=("first", "second")),
    "query in QK2": partial(layer_1_output, roles=("first", "second")),
    "first value": partial(value, operand="first", earlier=1),
    "second value": partial(value, operand="second", earlier=1),
    "values": partial(layer_1_output, roles=("equals",)),
    "sum": partial(layer_1_output, roles=("equals",)),
}


def defined_alignments(config: Config) -> list[str]:
    """The names of the alignments that an architecture has: without an MLP after the last layer there is no `sum`."""
    return [name for name in EXCHANGES if name != "sum" or not lacking(config, LAST_MLP)]


@dataclass(frozen=True)
class Outcome:
    """For one alignment and one model, whether the network gave the program's answer on each pair of prompts."""

    hits: Bool[Tensor, " n"]
    base_vars: Int[Tensor, " n"]
    """Number of variables in the sum of the base."""
    source_vars: Int[Tensor, " n"]

    @property
    def n(self) -> int:
        """The number of pairs."""
        return len(self.hits)

    @property
    def count(self) -> int:
        """The number of pairs answered as the program does."""
        return int(self.hits.sum())

    @property
    def accuracy(self) -> float:
        """Interchange accuracy: the share of pairs answered as the program does; NaN without pairs."""
        return self.count / self.n if self.n else float("nan")

    def where(self, chosen: Bool[Tensor, " n"]) -> Outcome:
        """The outcome on the chosen pairs."""
        return Outcome(self.hits[chosen], self.base_vars[chosen], self.source_vars[chosen])

    def with_variables(self, n_vars: int) -> Outcome:
        """The outcome on pairs whose base is a sum with `n_vars` variables."""
        return self.where(self.base_vars == n_vars)


class Interchange:
    """Interchange interventions on models that share a task and a split, on about n pairs of prompts per alignment."""

    def __init__(self, config: Config, seen: Bool[Tensor, "N N"], n: int):
        task = config.task
        base, source = prompts(config, seen, n)
        both_values = value_pairs(task, base, source, (True, True))
        query = query_pairs(task, base, base.roll(1, 0))  # the previous prompt, nearly always of the same type
        self.pairs: dict[str, Pairs] = {
            "binding tag": tag_pairs(task, base),
            "operand query": query,
            "query in QK2": query,
            "first value": value_pairs(task, base, source, (True, False)),
            "second value": value_pairs(task, base, source, (False, True)),
            "values": both_values,
            "sum": both_values,
        }

    @torch.no_grad()
    def __call__(self, model: Stack, exchanges: Mapping[str, Exchange] = EXCHANGES) -> dict[str, Outcome]:
        """The outcomes of these exchanges for one model (a stack with M = 1), by alignment."""
        require(model.config, "interchange", SECOND_LAYER)
        layer = LastLayer(model)
        task = model.config.task
        outcomes = {}
        for name in [name for name in defined_alignments(model.config) if name in exchanges]:
            pairs = self.pairs[name]
            hits = answers_after(layer, exchanges[name], pairs) == pairs.answer
            outcomes[name] = Outcome(hits, count_variables(task, pairs.base), count_variables(task, pairs.source))
        return outcomes


def answers_after(layer: LastLayer, exchange: Exchange, pairs: Pairs) -> Int[Tensor, " n"]:
    """The answers to the base prompts with an activation taken from the source prompts."""
    chunks = zip(pairs.base.split(CHUNK), pairs.source.split(CHUNK), strict=True)
    logits = [exchange(layer, side(layer, base), side(layer, source)) for base, source in chunks]
    return torch.cat(logits).argmax(-1)


def side(layer: LastLayer, tokens: Int[Tensor, "B T"]) -> Side:
    """The forward pass on these prompts."""
    trace = layer.trace(tokens)
    before = layer.before(trace)
    return Side(Positions(layer.stack.config.task, tokens), trace, before, before - layer.embedded(tokens))


PROMPTS = 5000  # pairs of prompts: 95 % intervals are within .014


@per_network()
def _interchange(network: Network) -> Interchange:
    """The pairs of prompts for a network, ready to be called with its weights."""
    return Interchange(network.config, network.seen, min(network.n, PROMPTS))


@per_network(slow=True)
def interchange_of(network: Network) -> dict[str, Outcome]:
    """The outcome of every alignment, by its name."""
    return _interchange(network)(network.stack)


@per_network()
def elsewhere_of(network: Network) -> dict[str, Outcome]:
    """The outcomes of the exchanges in `ELSEWHERE`, a control, by alignment."""
    return _interchange(network)(network.stack, ELSEWHERE)


@per_network()
def untrained_interchange(network: Network) -> dict[str, Outcome]:
    """The outcomes on the weights that training of this network started from, another control, by alignment."""
    return _interchange(network)(untrained(network.config))


def untrained(config: Config) -> Stack:
    """The model that training with this configuration starts from."""
    return initial_stack(config, [config.seed.init or 0])
