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

from assignadd.config import Config
from assignadd.dynamics.curves import Onset, first_lasting, onset
from assignadd.dynamics.trajectory import Listener, Read, binds
from assignadd.measures.addition import at_frequencies, network_frequencies, number_outputs
from assignadd.measures.scores import variable_outputs
from assignadd.model.architecture import LAST_MLP, PAPER_NEEDS, SECOND_LAYER, lacking, require
from assignadd.model.forward import CHUNK
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import Stack, initial_stack
from assignadd.model.trace import Trace
from assignadd.network import Network, per_network
from assignadd.paper.causes.pairs import Outcome, Pairs, prompts, query_pairs, tag_pairs, value_pairs
from assignadd.task.positions import Positions
from assignadd.task.randomness import Stream, normals

ALIGNMENTS = ("binding tag", "operand query", "query in QK2", "first value", "second value", "values", "sum")
QUERY_AND_TAG = "query and tag"
VARIANTS = ("whole", "named", "random", "elsewhere")
PAIRS = 4000
RANDOM_SEED = 7
# Singular values below this fraction of the largest are treated as zero.
RANK_TOLERANCE = 1e-4
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


class Exchange(NamedTuple):
    """An activation of the base that is replaced by that of the source."""

    difference: Callable[[LastLayer, Side, Side], Tensor]
    """The activation of the source minus that of the base, (rows, d)."""
    logits: Callable[[LastLayer, Side, Tensor], Tensor]
    """The answer logits of the base with a difference added to the activation, (B, N)."""


def _layer_1(*names: str) -> Exchange:
    """Exchanges layer 1's output at the tokens of these roles, which are the rows of the difference."""

    def written(layer: LastLayer, side: Side, where: Tensor) -> Tensor:
        return side.before[where] - layer.embedded_at(side.trace.tokens, where)

    def difference(layer: LastLayer, base: Side, source: Side) -> Tensor:
        where = base.positions.any_of(names)
        return written(layer, source, where) - written(layer, base, where)

    def logits(layer: LastLayer, base: Side, added: Tensor) -> Tensor:
        before = base.before.clone()
        before[base.positions.any_of(names)] += added
        return layer.answer(before)

    return Exchange(difference, logits)


def _value(operand: str, before: int = 0) -> Exchange:
    """Exchanges layer 2's output at `=` from the position of an operand's value, or from `before` positions earlier."""

    def output(layer: LastLayer, side: Side) -> Tensor:
        at = side.positions.position(f"{operand}_value") - before
        rows = torch.arange(len(side.before))
        weight = side.trace.attention(layer.stack.config.model.n_layers)[rows, :, -1, at] * (at >= 0)[:, None]
        return layer.attention_output(weight[..., None], side.before[rows, at, None])

    return Exchange(lambda layer, base, source: output(layer, source) - output(layer, base), _with_mid)


def _with_mid(layer: LastLayer, base: Side, added: Tensor) -> Tensor:
    return layer.logits(base.trace.resid_mid + added)


def _with_query(layer: LastLayer, base: Side, added: Tensor) -> Tensor:
    at_equals = base.before[:, -1]
    pattern = layer.pattern(base.before, at_equals + added)
    return layer.logits(at_equals + layer.attention_output(pattern, base.before))


QUERY = Exchange(lambda _, base, source: source.before[:, -1] - base.before[:, -1], _with_query)
VALUES = Exchange(lambda _, base, source: source.trace.attention_output - base.trace.attention_output, _with_mid)
SUM = Exchange(
    lambda _, base, source: source.trace.mlp_out - base.trace.mlp_out,
    lambda layer, base, added: layer.unembedded(base.trace.resid_post + added),
)
EQUALS, SLOTS = _layer_1("equals"), _layer_1("first", "second")
# For each alignment, the exchange of its activation and that of the `elsewhere` control.
EXCHANGES: dict[str, tuple[Exchange, Exchange]] = {
    "binding tag": (_layer_1("assigned"), _layer_1("variables")),
    "operand query": (EQUALS, SLOTS),
    "query in QK2": (QUERY, SLOTS),
    "first value": (_value("first"), _value("first", before=1)),
    "second value": (_value("second"), _value("second", before=1)),
    "values": (VALUES, EQUALS),
    "sum": (SUM, EQUALS),
    QUERY_AND_TAG: (_layer_1("equals", "second"), _layer_1("first")),
}
# Alignments whose pairs have the same prompts; each prompt is traced once for all of them.
SAME_PROMPTS = (
    ("binding tag",), ("operand query", "query in QK2", QUERY_AND_TAG),
    ("first value", "second value", "values", "sum"),
)  # fmt: skip


def copied_variables(model: Stack) -> Float[Tensor, "r d"]:
    """A basis of the span of OV1(e_v), what layer 1 copies of a variable (section 5.2)."""
    return span(variable_outputs(model)[0])


def fetched_values(model: Stack) -> Float[Tensor, "r d"]:
    """A basis of the span of OV2(e_n) at the network's frequencies, what layer 2 copies of a number (section 5.1)."""
    return span(at_frequencies(number_outputs(model), network_frequencies(model)[0])[0])


def read_answers(model: Stack) -> Float[Tensor, "r d"]:
    """A basis of the span of W_U's columns at the network's frequencies, what the unembedding reads of the sum."""
    return span(at_frequencies(model.W_U.mT, network_frequencies(model)[0])[0])


def span(vectors: Float[Tensor, "n d"]) -> Float[Tensor, "r d"]:
    """An orthonormal basis, in rows, of the span of these vectors."""
    _, lengths, directions = torch.linalg.svd(vectors.double(), full_matrices=False)
    return directions[lengths > RANK_TOLERANCE * lengths[0]].to(vectors.dtype)


def random_directions(like: Float[Tensor, "r d"], seed: int) -> Float[Tensor, "r d"]:
    """As many orthonormal rows as `like` has, uniformly distributed."""
    rank, d = like.shape
    drawn = normals(seed, Stream.DIRECTIONS, torch.arange(rank * d)).view(d, rank)
    return torch.linalg.qr(drawn)[0].T.to(like)


def within(difference: Float[Tensor, "... d"], basis: Float[Tensor, "r d"] | None) -> Float[Tensor, "... d"]:
    """The projection of a difference onto a subspace; the difference itself if `basis` is None."""
    return difference if basis is None else (difference @ basis.T) @ basis


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
        self, model: Stack, variants: Sequence[str] = ("whole",), alignments: Sequence[str] = ALIGNMENTS
    ) -> dict[str, Outcome]:
        """The outcome of every alignment for one model (a stack with M = 1)."""
        require(model.config, "interchange", SECOND_LAYER)
        layer, task = LastLayer(model), model.config.task
        bases = {name: _bases(model, name, variants) for name in alignments}
        hits: dict[tuple[str, str], list[Tensor]] = {case: [] for case in product(alignments, variants)}
        groups = [[name for name in group if name in alignments] for group in SAME_PROMPTS]
        for names in filter(None, groups):
            counts = torch.stack([self.pairs[name].counts for name in names]).any(0)
            for rows in counts.nonzero()[:, 0].split(CHUNK):
                prompts_of = self.pairs[names[0]]
                base = _side(layer, Positions(task, prompts_of.base[rows]))
                source = _side(layer, Positions(task, prompts_of.source[rows]))
                for (name, variant), answers in _answers(layer, base, source, names, variants, bases).items():
                    pairs = self.pairs[name]
                    hits[name, variant].append((answers == pairs.answer[rows])[pairs.counts[rows]])
        return {
            name: self.pairs[name].outcome({v: torch.cat(hits[name, v]) for v in variants}, self.pairs[name].counts)
            for name in alignments
        }


def _answers(
    layer: LastLayer,
    base: Side,
    source: Side,
    names: Sequence[str],
    variants: Sequence[str],
    bases: Mapping[str, Mapping[str, Tensor]],
) -> dict[tuple[str, str], Int[Tensor, " B"]]:
    """The answers to the base prompts after each exchange, by alignment and variant."""
    answers: dict[tuple[str, str], Tensor] = {}
    whole: dict[Exchange, Tensor] = {}  # by the exchange, which alignments may share as a control
    for name, variant in product(names, variants):
        exchange = EXCHANGES[name][variant == "elsewhere"]
        basis = bases[name].get(variant)
        if basis is None and exchange in whole:
            answers[name, variant] = whole[exchange]
            continue
        added = within(exchange.difference(layer, base, source), basis)
        answers[name, variant] = exchange.logits(layer, base, added).argmax(-1)
        if basis is None:
            whole[exchange] = answers[name, variant]
    return answers


def _side(layer: LastLayer, positions: Positions) -> Side:
    """The forward pass on these prompts."""
    trace = layer.trace(positions.tokens)
    return Side(positions, trace, layer.before(trace))


def _bases(model: Stack, name: str, variants: Sequence[str]) -> dict[str, Tensor]:
    """The directions of the variants `named` and `random`, which exchange only a subspace."""
    if not {"named", "random"} & set(variants):
        return {}
    named = NAMED[name](model)
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
    interchange = Interchange(config, seen, n)
    outcomes = []
    for i, step in enumerate(steps):
        listener(i, len(steps))
        outcomes.append(interchange(read([step]), alignments=defined_alignments(config)))
    listener(len(steps), len(steps))
    accuracies = {name: np.array([outcome[name].accuracy() for outcome in outcomes]) for name in outcomes[0]}
    return {"step": np.array(steps), **accuracies}


def spread_steps(steps: Sequence[int], most: int = CHECKPOINTS) -> list[int]:
    """At most `most` of a run's steps, evenly spaced in their order and including the first and the last."""
    return [steps[i] for i in sorted({round(x) for x in np.linspace(0, len(steps) - 1, min(most, len(steps)))})]


def onset_steps(columns: Mapping[str, np.ndarray]) -> dict[str, int | None]:
    """The step from which each column stays above one half; None if it never does."""
    steps = columns["step"]
    above = {name: first_lasting(steps, values >= THRESHOLD) for name, values in columns.items() if name != "step"}
    return {name: None if index is None else int(steps[index]) for name, index in above.items()}


# Pairs of prompts for an intervention: 95 % intervals are within .014, and every verdict on the shipped networks is the
# one that 20,000 give.
PROMPTS = 5000
EXCHANGED = (*ALIGNMENTS, QUERY_AND_TAG)


@per_network()
def _interchange(network: Network) -> Interchange:
    return Interchange(network.config, network.seen, min(network.n, PROMPTS))


@per_network(slow=True)
def interchange_of(network: Network) -> dict[str, Outcome]:
    """The outcomes of every alignment, with its controls."""
    variants = defined_variants(network.config)
    return _interchange(network)(network.stack, variants, defined_alignments(network.config, EXCHANGED))


@per_network()
def untrained_interchange(network: Network) -> dict[str, Outcome]:
    """The outcomes of every alignment on this network's initial weights."""
    initial = initial_stack(network.stack.config, [network.config.seed.init or 0])
    return _interchange(network)(initial, alignments=defined_alignments(network.config, EXCHANGED))


@per_network(slow=True, only=binds)
def causes_over_time(network: Network) -> dict[str, np.ndarray]:
    """Interchange accuracies at some of the checkpoints, by column."""
    return causes_at(network.config, network.seen, spread_steps(network.steps), network.checkpoints)


@per_network()
def cause_onsets(network: Network) -> dict[str, Onset | None]:
    """When each alignment's accuracy rises above one half for 1,000 steps, with the uncertainty of that step."""
    columns = causes_over_time(network)
    pairs = Interchange(network.config, network.seen, PAIRS_OVER_TIME).pairs
    counts = {name: int(pairs[name].counts.sum()) for name in defined_alignments(network.config)}
    return {name: onset(columns["step"], columns[name], n, THRESHOLD) for name, n in counts.items()}
