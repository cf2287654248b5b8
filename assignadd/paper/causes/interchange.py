"""Interchange interventions (Geiger et al., 2021): whether an activation holds a variable of the program.

The program is the algorithm of the paper's section 5: look up the first operand, look up the second, add. An alignment
is one of its variables with the activation that should hold it. That activation is taken from the source prompt, the
rest of the network runs on the base prompt, and the answer is compared with the program's, which is its answer to a
third prompt, the hybrid:

    alignment       activation                                       hybrid
    binding tag     layer 1's output at the assigned numbers         the base with the source's assigned variables
    operand query   layer 1's output at `=`                          the base with the source's variables as operands
    query in QK2    the same, for the queries of layer 2 alone       the same
    first value, second value    layer 2's output at `=` from there  the base with this operand value of the source
    values          layer 2's output at `=`                          the base with the source's operand values
    sum             MLP2's output at `=`                             the source

Pairs whose hybrid has the base's answer are left out: a network that ignores the intervention would be right. In a
network with more layers, layer 2 and MLP2 above are the last layer and its MLP, and layer 1's output is what all layers
before the last wrote into the residual stream, all heads together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.measures.sequences import sequences
from assignadd.model.architecture import LAST_MLP, SECOND_LAYER, lacking, require
from assignadd.model.forward import CHUNK
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import Stack, initial_stack
from assignadd.model.trace import Trace
from assignadd.network import Network, per_network
from assignadd.task.positions import Positions, answers, count_variables, operand_slots, roles, with_values
from assignadd.task.randomness import EvalSteps, Stream, TrainingLawDraws, digit, words
from assignadd.task.vocabulary import Vocabulary


@dataclass(frozen=True)
class Pairs:
    """Pairs of prompts, and the answer that the program predicts for each."""

    base: Int[Tensor, "n T"]
    source: Int[Tensor, "n T"]
    answer: Int[Tensor, " n"]
    """The answer to the hybrid."""


def prompts(config: Config, seen: Bool[Tensor, "N N"], n: int) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """About n base prompts and as many source prompts, unrelated training sequences.

    There are equally many of each of the nine pairs of types, which are the numbers of variables 0, 1 and 2.
    """
    types = config.task.variable_counts
    n_each = max(1, n // len(types) ** 2)

    def draw(n_vars: int, number: int) -> Tensor:
        """Sequences with `n_vars` variables, (n_each, T); each `number` gives other sequences."""
        return sequences([config], seen[None], n_vars, n_each, TrainingLawDraws.INTERCHANGE[number]).tokens[0]

    base: list[Tensor] = []
    source: list[Tensor] = []
    for base_type, source_type in product(types, types):  # the same sequences for no two pairs of types
        base.append(draw(base_type, number=source_type))  # with three types, 0 to 2
        source.append(draw(source_type, number=len(types) + base_type))  # 3 to 5
    return torch.cat(base), torch.cat(source)


def pairs_with(task: Task, base: Tensor, source: Tensor, hybrid: Tensor) -> Pairs:
    """The pairs whose hybrid has another answer than the base; all prompts are (B, T)."""
    answer = answers(task, hybrid)
    differs = answer != answers(task, base)
    return Pairs(base[differs], source[differs], answer[differs])


def value_pairs(task: Task, base: Tensor, source: Tensor, operands: tuple[bool, bool]) -> Pairs:
    """Pairs whose hybrid is the base with the source's values for the operands (first, second) marked True."""
    values = torch.where(torch.tensor(operands), roles(task, source).values, roles(task, base).values)
    return pairs_with(task, base, source, with_values(task, base, values))


def tag_pairs(task: Task, base: Tensor) -> Pairs:
    """Pairs whose hybrid is the base with its variables moved cyclically to the next assignment.

    The source is the hybrid with new random values for the assigned numbers.
    """
    positions = Positions(task, base)
    is_variable = positions.mask("variables")  # (B, T), as all below
    n_variables = is_variable.sum(1, keepdim=True)  # (B, 1)
    rank = is_variable.cumsum(1) - 1  # at a variable, how many are to the left of it
    variables_first = (~is_variable).byte().argsort(dim=1, stable=True)  # positions, those of variables first
    position_of_next = variables_first.gather(1, (rank + 1) % n_variables)  # no meaning where no variable is
    hybrid = torch.where(is_variable, base.gather(1, position_of_next), base)
    token_index = torch.arange(base.numel()).view(base.shape)  # over all sequences
    step = torch.tensor(EvalSteps.INTERCHANGE_VALUES.start)
    random_words = words(torch.tensor(0), Stream.EVAL, step, token_index, 1)[0]  # (B, T), with seed 0
    new_values, _ = digit(random_words, task.modulus)
    source = torch.where(positions.mask("assigned"), new_values, hybrid)
    return pairs_with(task, base, source, hybrid)


def query_pairs(task: Task, base: Tensor, unrelated: Tensor) -> Pairs:
    """Pairs whose hybrid is the base with each variable operand replaced by another variable.

    The new variables are assigned in the base, and are not banned from their slots. The source is made from an
    `unrelated` prompt for each base: its variables are renamed, such that its operands are the hybrid's variables in
    the same slots. The prompt must have as many variable operands as the base; if they are in other slots, its operands
    are exchanged.
    """
    slots = list(operand_slots(task))
    is_variable = roles(task, base).is_variable  # (B, 2)
    in_other_slots = (roles(task, unrelated).is_variable != is_variable).any(1, keepdim=True)  # (B, 1)
    source = unrelated.clone()
    source[:, slots] = torch.where(in_other_slots, unrelated[:, slots[::-1]], unrelated[:, slots])
    new_variables, has_new = _other_variables(task, base, is_variable)  # (B, 2), (B,)
    hybrid = base.clone()
    for i, slot in enumerate(slots):
        # In the source, its operand and the new variable exchange their names wherever they occur; none for a literal.
        old_name = source[:, slot, None]  # (B, 1)
        new_name = torch.where(is_variable[:, i], new_variables[:, i], source[:, slot])[:, None]
        source = torch.where(source == old_name, new_name, torch.where(source == new_name, old_name, source))
        hybrid[:, slot] = torch.where(is_variable[:, i], new_variables[:, i], base[:, slot])
    has_hybrid = has_new & (count_variables(task, unrelated) == is_variable.sum(1))
    hybrid = torch.where(has_hybrid[:, None], hybrid, base)  # without one, the base, whose pair is left out
    return pairs_with(task, base, source, hybrid)


def _other_variables(task: Task, base: Tensor, is_variable: Tensor) -> tuple[Int[Tensor, "B 2"], Bool[Tensor, " B"]]:
    """For each variable operand another variable that the base assigns, and whether there is one for each.

    The two differ, and each is chosen at random among those allowed in its slot. The entry of a literal (`is_variable`
    is False) has no meaning.
    """
    variables = torch.tensor(Vocabulary(task).variables)  # tokens, (V,)
    is_left_side = Positions(task, base).mask("variables")[..., None]  # of an assignment, (B, T, 1)
    is_assigned = ((base[..., None] == variables) & is_left_side).any(1)  # (B, V)
    sequence = torch.arange(len(base))  # the index of each base
    step = torch.tensor(EvalSteps.INTERCHANGE_QUERIES.start)
    # For each slot, base and variable a random number, with seed 0, (2, B, V).
    random = words(torch.tensor(0), Stream.EVAL, step, sequence, 2 * task.n_vars).view(2, task.n_vars, -1).mT
    has_new = is_variable.any(1)
    chosen: list[Tensor] = []  # for each slot, (B,)
    for i, (slot, banned) in enumerate(zip(operand_slots(task), (task.banned_first, task.banned_second), strict=True)):
        is_allowed = torch.tensor([letter not in banned for letter in task.variables])  # (V,)
        candidates = is_assigned & is_allowed & (variables != base[:, slot, None])  # (B, V)
        if chosen:  # the second differs from the first, if that is a variable
            candidates &= ~(is_variable[:, :1] & (variables == chosen[0][:, None]))
        best = torch.where(candidates, random[i], -1).max(1)  # the candidate with the largest random number, or -1
        chosen.append(variables[best.indices])
        has_new = has_new & ((best.values >= 0) | ~is_variable[:, i])
    return torch.stack(chosen, 1), has_new


class Side(NamedTuple):
    """The forward pass on the base or the source prompts of some pairs."""

    positions: Positions
    trace: Trace
    before: Float[Tensor, "B T d"]
    """The residual of every position before the last layer."""
    layer_1: Float[Tensor, "B T d"]
    """What layer 1 wrote into that residual."""


Exchange = Callable[[LastLayer, Side, Side], Float[Tensor, "B N"]]
"""The answer logits of the base (first side) with one of its activations taken from the source (second side)."""


def layer_1_output(layer: LastLayer, base: Side, source: Side, at: tuple[str, ...]) -> Float[Tensor, "B N"]:
    """The exchange of layer 1's output at the positions of the base's tokens with these roles (see `Positions`)."""
    mask = base.positions.any_of(at)
    before = base.before.clone()
    before[mask] += (source.layer_1 - base.layer_1)[mask]
    return layer.answer(before)


def query_in_qk2(layer: LastLayer, base: Side, source: Side) -> Float[Tensor, "B N"]:
    """The exchange of the residual of `=` before the last layer, but only as the query of the last layer's scores."""
    pattern = layer.pattern(base.before, query=source.before[:, -1])
    return layer.logits(base.before[:, -1] + layer.attention_output(pattern, base.before))


def output_from_value(
    layer: LastLayer, base: Side, source: Side, operand: str, earlier: int = 0
) -> Float[Tensor, "B N"]:
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


def layer_2_output(layer: LastLayer, base: Side, source: Side) -> Float[Tensor, "B N"]:
    """The exchange of layer 2's output at `=`."""
    return layer.logits(base.trace.resid_mid + (source.trace.attention_output - base.trace.attention_output))


def mlp2_output(layer: LastLayer, base: Side, source: Side) -> Float[Tensor, "B N"]:
    """The exchange of MLP2's output at `=`."""
    return layer.unembedded(base.trace.resid_post + (source.trace.mlp_out - base.trace.mlp_out))


# The exchange of each alignment and, as a control, that of another activation, which should not hold the variable.
EXCHANGES: dict[str, Exchange] = {
    "binding tag": partial(layer_1_output, at=("assigned",)),
    "operand query": partial(layer_1_output, at=("equals",)),
    "query in QK2": query_in_qk2,
    "first value": partial(output_from_value, operand="first"),
    "second value": partial(output_from_value, operand="second"),
    "values": layer_2_output,
    "sum": mlp2_output,
}
ELSEWHERE: dict[str, Exchange] = {
    "binding tag": partial(layer_1_output, at=("variables",)),
    "operand query": partial(layer_1_output, at=("first", "second")),
    "query in QK2": partial(layer_1_output, at=("first", "second")),
    "first value": partial(output_from_value, operand="first", earlier=1),
    "second value": partial(output_from_value, operand="second", earlier=1),
    "values": partial(layer_1_output, at=("equals",)),
    "sum": partial(layer_1_output, at=("equals",)),
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
        for name in defined_alignments(model.config):
            if name not in exchanges:
                continue
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
    layer_1 = before - layer.embedded(tokens)
    return Side(Positions(layer.stack.config.task, tokens), trace, before, layer_1)


PROMPTS = 5000  # pairs of prompts: 95 % intervals are within .014


@per_network()
def _interchange(network: Network) -> Interchange:
    """The pairs of prompts for a network, ready to be called with its weights."""
    return Interchange(network.config, network.seen, min(network.n, PROMPTS))


@per_network(slow=True)
def interchange_of(network: Network) -> dict[str, Outcome]:
    """The outcome of every alignment, by its name."""
    return _interchange(network)(network.stack)


def controls_of(network: Network) -> tuple[dict[str, Outcome], dict[str, Outcome]]:
    """The outcomes of two controls, by alignment: exchanges in `ELSEWHERE`, and weights that training started from."""
    initial = initial_stack(network.config, [network.config.seed.init or 0])
    return _interchange(network)(network.stack, ELSEWHERE), _interchange(network)(initial)
