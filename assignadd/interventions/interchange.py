"""Interchange interventions (Geiger et al., 2021), which test whether an activation holds a variable of the program.

Each variable of the program (paper, section 5) is aligned with an activation:

    binding tag     the variable that a number is assigned to: layer 1's output at the assigned numbers
    operand query   the variables to look up: layer 1's output at `=`
    query in QK2    the same, exchanged only for the queries of layer 2's scores
    first value, second value    an operand's value: layer 2's output at `=` from the position of that value
    values          both values: layer 2's output at `=`
    sum             MLP2's output at `=`
    query and tag   the operand query and layer 1's output at the second operand slot

The activation is taken from the source prompt, the rest of the network runs on the base prompt, and the answer is
compared with the program's (`pairs`). Controls: exchanging only the directions that the paper names (`named`), as many
random directions (`random`), and another activation that should not hold the variable (`elsewhere`, see `EXCHANGES`).
`subspaces.Search` trains the directions instead.

In a network with more layers, layer 2 and MLP2 above are the last layer and its MLP, and layer 1's output is what all
layers before the last wrote into the residual stream. With several heads an output is that of all heads.

The last alignment is not one of `ALIGNMENTS`. It explains why exchanging the operand query fails on some sums with one
variable: layer 1 makes a literal in the second slot attend to a variable in the first, as it makes an assigned number
attend to its variable. The literal therefore has the tag of that variable, and a query for another one does not match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.dynamics.onsets import first_lasting
from assignadd.dynamics.trajectory import Listener, Read
from assignadd.interventions.pairs import Outcome, Pairs, prompts, query_pairs, tag_pairs, value_pairs
from assignadd.interventions.subspaces import copied_variables, fetched_values, random_directions, read_answers, within
from assignadd.model.architecture import LAST_MLP, PAPER_NEEDS, SECOND_LAYER, lacking, require
from assignadd.model.forward import CHUNK
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import Stack, single_models
from assignadd.model.trace import Trace
from assignadd.task.roles import Positions

ALIGNMENTS = ("binding tag", "operand query", "query in QK2", "first value", "second value", "values", "sum")
QUERY_AND_TAG = "query and tag"
VARIANTS = ("whole", "named", "random", "elsewhere")
PAIRS = 4000
RANDOM_SEED = 7
# Pairs for each checkpoint (the standard error of an accuracy of one half is about .02), and checkpoints of a run.
PAIRS_OVER_TIME, CHECKPOINTS = 1000, 60
# An interchange accuracy or a measure counts as present from the step after which it stays above this value.
THRESHOLD = 0.5
# The paper's progress measure (App. B) for each variable of the program, by its column in a measured trajectory.
PAPER_MEASURES = {
    "binding tag": "probe_l1_var_from_num",
    "operand query": "attn_l1_equal_to_operands (1-var)",
    "query in QK2": "qk2_ov1_var_identity",
    "values": "attn_l2_equal_to_values (1-var)",
    "sum": "ov2_mlp2_accuracy",
}


class Side(NamedTuple):
    """The base or the source prompts of a chunk of pairs."""

    positions: Positions
    trace: Trace
    before: Float[Tensor, "B T d"]
    """The residual of every position before the last layer."""
    written: Float[Tensor, "B T d"]
    """What the layers before the last wrote into it."""


# Returns the answer logits of the base with an activation taken from the source, in the span of a basis if given.
Exchange = Callable[[LastLayer, Side, Side, "Tensor | None"], Tensor]


def _layer_1(*names: str) -> Exchange:
    """Exchanges layer 1's output at the tokens of these roles."""

    def exchange(model: LastLayer, base: Side, source: Side, basis: Tensor | None) -> Tensor:
        here = base.positions.any_of(names)[..., None]
        return model.answer(base.before + here * within(source.written - base.written, basis))

    return exchange


def _query(model: LastLayer, base: Side, source: Side, basis: Tensor | None) -> Tensor:
    """Exchanges the residual of `=` as the query of layer 2's scores."""
    own = base.before[:, -1]
    pattern = model.pattern(base.before, own + within(source.before[:, -1] - own, basis))
    return model.logits(own + model.attention_output(pattern, base.before))


def _value(operand: str, before: int = 0) -> Exchange:
    """Exchanges layer 2's output at `=` from the position of an operand's value, or from `before` positions earlier."""

    def output(model: LastLayer, side: Side) -> Tensor:
        tokens, pattern = side.trace.tokens, side.trace.attention(model.one.config.model.n_layers)[:, :, -1]
        here = torch.arange(tokens.shape[1]) == side.positions.position(f"{operand}_value")[:, None] - before
        return model.attention_output(pattern * here[:, None], side.before)

    def exchange(model: LastLayer, base: Side, source: Side, basis: Tensor | None) -> Tensor:
        return model.logits(base.trace.resid_mid + within(output(model, source) - output(model, base), basis))

    return exchange


def _values(model: LastLayer, base: Side, source: Side, basis: Tensor | None) -> Tensor:
    """Exchanges layer 2's attention output at `=`."""
    difference = source.trace.attention_output - base.trace.attention_output
    return model.logits(base.trace.resid_mid + within(difference, basis))


def _sum(model: LastLayer, base: Side, source: Side, basis: Tensor | None) -> Tensor:
    """Exchanges MLP2's output at `=`."""
    own, other = base.trace.mlp_out, source.trace.mlp_out
    return model.logits(base.trace.resid_mid, other if basis is None else own + within(other - own, basis))


# For each alignment, the exchange of its activation and that of the `elsewhere` control.
EXCHANGES: dict[str, tuple[Exchange, Exchange]] = {
    "binding tag": (_layer_1("assigned"), _layer_1("variables")),
    "operand query": (_layer_1("equals"), _layer_1("first", "second")),
    "query in QK2": (_query, _layer_1("first", "second")),
    "first value": (_value("first"), _value("first", before=1)),
    "second value": (_value("second"), _value("second", before=1)),
    "values": (_values, _layer_1("equals")),
    "sum": (_sum, _layer_1("equals")),
    QUERY_AND_TAG: (_layer_1("equals", "second"), _layer_1("first")),
}
# The directions that the paper names for each alignment.
NAMED: dict[str, Callable[[Stack], Tensor]] = {
    "binding tag": copied_variables, "operand query": copied_variables, "query in QK2": copied_variables,
    "first value": fetched_values, "second value": fetched_values, "values": fetched_values, "sum": read_answers,
    QUERY_AND_TAG: copied_variables,
}  # fmt: skip


def defined_variants(config: Config) -> tuple[str, ...]:
    """The variants that are defined for an architecture: the paper names directions only for its own."""
    return ("whole", "elsewhere") if lacking(config, *PAPER_NEEDS) else VARIANTS


def defined_alignments(config: Config, alignments: Sequence[str] = ALIGNMENTS) -> tuple[str, ...]:
    """The alignments that are defined for an architecture: without an MLP after the last layer there is no `sum`."""
    return tuple(name for name in alignments if name != "sum" or not lacking(config, LAST_MLP))


class Interchange:
    """Interchange accuracies of models that share a task and a split, on fixed pairs of prompts for every alignment."""

    def __init__(self, config: Config, seen: Bool[Tensor, "N N"], n: int = PAIRS):
        task = config.task
        base, source = prompts(config, seen, n)
        values = value_pairs(task, base, source, (True, True))
        query = query_pairs(task, base, base.roll(1, 0))  # the previous prompt, nearly always of the same type
        self.pairs: dict[str, Pairs] = {
            "binding tag": tag_pairs(task, base),
            "operand query": query,
            "query in QK2": query,
            "first value": value_pairs(task, base, source, (True, False)),
            "second value": value_pairs(task, base, source, (False, True)),
            "values": values,
            "sum": values,
            QUERY_AND_TAG: query,
        }

    @torch.no_grad()
    def __call__(
        self, stack: Stack, variants: Sequence[str] = ("whole",), alignments: Sequence[str] = ALIGNMENTS
    ) -> list[dict[str, Outcome]]:
        """The outcome of every alignment, for each model."""
        require(stack.config, "interchange", SECOND_LAYER)
        return [self._outcomes(one, variants, alignments) for one in single_models(stack)]

    def _outcomes(self, one: Stack, variants: Sequence[str], alignments: Sequence[str]) -> dict[str, Outcome]:
        """The outcome of every alignment for one model."""
        model, bases = LastLayer(one), {name: _bases(one, name, variants) for name in alignments}
        hits: dict[tuple[str, str], list[Tensor]] = {(name, variant): [] for name in alignments for variant in variants}
        for shared, names in self._sharing(alignments):
            for part in torch.stack([self.pairs[name].counts for name in names]).any(0).nonzero()[:, 0].split(CHUNK):
                base, source = (_side(model, one.config.task, tokens[part]) for tokens in (shared.base, shared.source))
                for name, variant in product(names, variants):
                    pairs, exchange = self.pairs[name], EXCHANGES[name][variant == "elsewhere"]
                    answer = exchange(model, base, source, bases[name].get(variant)).argmax(-1)
                    hits[name, variant].append((answer == pairs.answer[part])[pairs.counts[part]])
        return {
            name: self.pairs[name].outcome({v: torch.cat(hits[name, v]) for v in variants}, self.pairs[name].counts)
            for name in alignments
        }

    def _sharing(self, alignments: Sequence[str]) -> list[tuple[Pairs, list[str]]]:
        """The alignments grouped by their source prompts, so that each prompt is traced once."""
        groups: dict[int, tuple[Pairs, list[str]]] = {}
        for name in alignments:
            pairs = self.pairs[name]
            groups.setdefault(id(pairs.source), (pairs, []))[1].append(name)
        return list(groups.values())


def _side(model: LastLayer, task: Task, tokens: Int[Tensor, "B T"]) -> Side:
    """The roles of these prompts and their forward pass."""
    trace = model.trace(tokens)
    before = model.before(trace)
    return Side(Positions(task, tokens), trace, before, before - model.embedded(tokens))


def _bases(one: Stack, name: str, variants: Sequence[str]) -> dict[str, Tensor]:
    """The directions of the variants `named` and `random`, which exchange only a subspace."""
    if not {"named", "random"} & set(variants):
        return {}
    named = NAMED[name](one)
    return {"named": named, "random": random_directions(named, RANDOM_SEED)}


def causes_at(
    config: Config,
    seen: Tensor,
    steps: Sequence[int],
    read: Read,
    n: int = PAIRS_OVER_TIME,
    listener: Listener = lambda done, total: None,
) -> dict[str, np.ndarray]:
    """Columns with the interchange accuracy of every alignment at these steps of a model, and with the steps.

    `read` returns the stack of the checkpoints at some steps.
    """
    interchange, outcomes = Interchange(config, seen, n), []
    for i, step in enumerate(steps):
        listener(i, len(steps))
        outcomes.append(interchange(read([step]), alignments=defined_alignments(config))[0])
    listener(len(steps), len(steps))
    accuracies = {name: np.array([outcome[name].accuracy() for outcome in outcomes]) for name in outcomes[0]}
    return {"step": np.array(steps), **accuracies}


def spread_steps(steps: Sequence[int], most: int = CHECKPOINTS) -> list[int]:
    """At most `most` of a run's steps, evenly spaced in their order and including the first and the last."""
    return [steps[i] for i in sorted({round(x) for x in np.linspace(0, len(steps) - 1, min(most, len(steps)))})]


def onset_steps(columns: Mapping[str, np.ndarray]) -> dict[str, int | None]:
    """The step from which each column stays above one half; None if it never does."""
    steps = columns["step"]
    found = {name: first_lasting(steps, values >= THRESHOLD) for name, values in columns.items() if name != "step"}
    return {name: None if at is None else int(steps[at]) for name, at in found.items()}
