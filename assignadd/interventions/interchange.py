"""Interchange interventions: does a place in the network hold a variable of the program (Geiger et al., 2021)?

The program's variables, each aligned to a place:

    binding tag     which variable an assigned number belongs to: layer 1's output at the assigned numbers
    operand query   which variables are asked for: layer 1's output at `=`
    query in QK2    the same, where only layer 2's scores read it, and not MLP2
    first value, second value    the operand's value: what layer 2 brings to `=` from where that value stands
    values          both of them: layer 2's output at `=`
    sum             MLP2's output at `=`
    query and tag   the operand query, and layer 1's output at the second operand slot

The last one is not among `ALIGNMENTS`, which are the program's. It explains why the operand query alone fails on part
of the sums with one variable: layer 1 makes a literal in the second slot attend to a variable in the first, as it makes
an assigned number attend to its variable. The literal so carries that variable's tag, and a query for another variable
does not match it.

The activation there is taken from the source, the rest of the network runs on the base, and the answer must be the
program's (`pairs`). Controls: only the directions that the paper names (`named`), as many random ones (`random`), and a
place where the program's variable should not be (`elsewhere`, see `ELSEWHERE`).

Directions that are searched for instead of named: `subspaces.Search`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.dynamics.onsets import first_lasting
from assignadd.dynamics.trajectory import Listener, Read
from assignadd.interventions.pairs import Outcome, Pairs, prompts, query_pairs, tag_pairs, value_pairs
from assignadd.interventions.subspaces import copied_variables, fetched_values, random_directions, read_answers, within
from assignadd.model.forward import CHUNK
from assignadd.model.stack import Stack, single_models
from assignadd.model.stages import Stages
from assignadd.model.table import require_covered
from assignadd.model.trace import Trace
from assignadd.runs.folder import Run
from assignadd.task.roles import Positions, roles

ALIGNMENTS = ("binding tag", "operand query", "query in QK2", "first value", "second value", "values", "sum")
QUERY_AND_TAG = "query and tag"
VARIANTS = ("whole", "named", "random", "elsewhere")
ELSEWHERE = {
    "binding tag": "layer 1's output at the assigned variables",
    "operand query": "layer 1's output at the operand slots",
    "query in QK2": "layer 1's output at the operand slots",
    "first value": "what layer 2 brings from the position before",
    "second value": "what layer 2 brings from the position before",
    "values": "layer 1's output at `=`",
    "sum": "layer 1's output at `=`",
    QUERY_AND_TAG: "layer 1's output at the first operand slot",
}
PAIRS = 4000
RANDOM_SEED = 7
# Pairs a checkpoint, which give one half to within .02 or so, and checkpoints of a run.
PAIRS_OVER_TIME, CHECKPOINTS = 1000, 60
# A cause (or a measure) is there from where it stays above one half.
THRESHOLD = 0.5
# The paper's measure of what each variable of the program needs, by its column in a measured trajectory.
MEASURES = {
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


# For base and source, the logits with a variable taken from the source: as it is aligned, and elsewhere.
Exchange = Callable[[Stages, Side, Side, "Tensor | None"], Tensor]


def _layer_1(*names: str) -> Exchange:
    """Layer 1's output at the tokens of these roles."""

    def exchange(model: Stages, base: Side, source: Side, basis: Tensor | None) -> Tensor:
        own, other = model.layer_1(base.trace), model.layer_1(source.trace)
        here = base.positions.any_of(names).to(own.weights.dtype)
        if basis is None:
            return model.after_layer_1(base.trace.tokens, own.scaled(1 - here), other.scaled(here))
        rows = model.rows(within(model.copied.own, basis))
        return model.after_layer_1(base.trace.tokens, own, own.scaled(-here, rows), other.scaled(here, rows))

    return exchange


def _query(model: Stages, base: Side, source: Side, basis: Tensor | None) -> Tensor:
    """The residual of `=` that layer 2's scores read."""
    own, trace, layer_1 = base.trace.resid_before_2, base.trace, model.layer_1(base.trace)
    pattern = model.pattern(own + within(source.trace.resid_before_2 - own, basis), trace.tokens, layer_1)
    return model.logits(own + model.attention_output(pattern, trace.tokens, layer_1))


def _value(operand: str, before: int = 0) -> Exchange:
    """What layer 2's attention writes into `=` from an operand's value, or from a position before it."""

    def written(model: Stages, side: Side) -> Tensor:
        trace = side.trace
        here = torch.arange(trace.tokens.shape[1]) == side.positions.position(f"{operand}_value")[:, None] - before
        return model.attention_output(trace.attention_2 * here, trace.tokens, model.layer_1(trace))

    def exchange(model: Stages, base: Side, source: Side, basis: Tensor | None) -> Tensor:
        return model.logits(base.trace.resid_mid + within(written(model, source) - written(model, base), basis))

    return exchange


def _values(model: Stages, base: Side, source: Side, basis: Tensor | None) -> Tensor:
    difference = source.trace.attention_output_2 - base.trace.attention_output_2
    return model.logits(base.trace.resid_mid + within(difference, basis))


def _sum(model: Stages, base: Side, source: Side, basis: Tensor | None) -> Tensor:
    own, other = base.trace.mlp_out, source.trace.mlp_out
    return model.logits(base.trace.resid_mid, other if basis is None else own + within(other - own, basis))


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
NAMED: dict[str, Callable[[Stack], Tensor]] = {
    "binding tag": copied_variables, "operand query": copied_variables, "query in QK2": copied_variables,
    "first value": fetched_values, "second value": fetched_values, "values": fetched_values, "sum": read_answers,
    QUERY_AND_TAG: copied_variables,
}  # fmt: skip


class Interchange:
    """Fixed pairs of prompts for every alignment; called on a stack of models that share a task and a split."""

    def __init__(self, config: Config, seen: Bool[Tensor, "N N"], n: int = PAIRS):
        task = config.task
        base, source = prompts(config, seen, n)
        values = value_pairs(task, base, source, (True, True))
        query = query_pairs(task, base, base.roll(1, 0))  # a neighbour is of the same type
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
        self._first_is_variable = {
            name: roles(task, pairs.base).is_variable[:, 0] for name, pairs in self.pairs.items()
        }

    @torch.no_grad()
    def __call__(
        self, stack: Stack, variants: Sequence[str] = ("whole",), alignments: Sequence[str] = ALIGNMENTS
    ) -> list[dict[str, Outcome]]:
        """For each model the outcome of every alignment."""
        require_covered(stack.config)
        return [self._outcomes(one, variants, alignments) for one in single_models(stack)]

    def _outcomes(self, one: Stack, variants: Sequence[str], alignments: Sequence[str]) -> dict[str, Outcome]:
        model, bases = Stages(one), {name: _bases(one, name, variants) for name in alignments}
        hits: dict[tuple[str, str], list[Tensor]] = {(name, variant): [] for name in alignments for variant in variants}
        for shared, names in self._sharing(alignments):
            for part in torch.stack([self.pairs[name].counts for name in names]).any(0).nonzero()[:, 0].split(CHUNK):
                base, source = (_side(model, one.config.task, tokens[part]) for tokens in (shared.base, shared.source))
                for name, variant in product(names, variants):
                    pairs, exchange = self.pairs[name], EXCHANGES[name][variant == "elsewhere"]
                    answer = exchange(model, base, source, bases[name].get(variant)).argmax(-1)
                    hits[name, variant].append((answer == pairs.answer[part])[pairs.counts[part]])
        return {name: self._outcome(name, {v: torch.cat(hits[name, v]) for v in variants}) for name in alignments}

    def _sharing(self, alignments: Sequence[str]) -> list[tuple[Pairs, list[str]]]:
        """The alignments, those with the same source prompts together: they share the traces of their prompts."""
        groups: list[tuple[Pairs, list[str]]] = []
        for name in alignments:
            own = self.pairs[name]
            for pairs, names in groups:
                if pairs.source is own.source:
                    names.append(name)
                    break
            else:
                groups.append((own, [name]))
        return groups

    def _outcome(self, name: str, hits: dict[str, Tensor]) -> Outcome:
        pairs = self.pairs[name]
        return Outcome(
            hits, *(x[pairs.counts] for x in (pairs.base_vars, pairs.source_vars, self._first_is_variable[name]))
        )


def _side(model: Stages, task: Task, tokens: Int[Tensor, "B T"]) -> Side:
    return Side(Positions(task, tokens), model.trace(tokens))


def _bases(one: Stack, name: str, variants: Sequence[str]) -> dict[str, Tensor]:
    """The directions of the variants that have fewer than all."""
    if not {"named", "random"} & set(variants):
        return {}
    named = NAMED[name](one)
    return {"named": named, "random": random_directions(named, RANDOM_SEED)}


def causes_over_time(
    run: Run,
    model: int = 0,
    steps: Sequence[int] | None = None,
    n: int = PAIRS_OVER_TIME,
    listener: Listener = lambda done, total: None,
) -> dict[str, np.ndarray]:
    """Interchange accuracy of every alignment at every checkpoint (or at these steps), by column; `step` is one of
    them."""
    steps = run.steps if steps is None else list(steps)
    return causes_at(run.configs[model], run.seen[model], steps, lambda some: run.trajectory(some, model), n, listener)


def causes_at(
    config: Config,
    seen: Tensor,
    steps: Sequence[int],
    read: Read,
    n: int = PAIRS_OVER_TIME,
    listener: Listener = lambda done, total: None,
) -> dict[str, np.ndarray]:
    """The interchange accuracies of one model at these steps, by column; `read` returns the checkpoints."""
    interchange, found = Interchange(config, seen, n), []
    for i, step in enumerate(steps):
        listener(i, len(steps))
        found.append(interchange(read([step]))[0])
    listener(len(steps), len(steps))
    return {
        "step": np.array(steps),
        **{name: np.array([outcome[name].accuracy() for outcome in found]) for name in ALIGNMENTS},
    }


def spread_steps(steps: Sequence[int], most: int = CHECKPOINTS) -> list[int]:
    """At most so many of a run's checkpoints, evenly over training, the first and the last among them."""
    return [steps[i] for i in sorted({round(x) for x in np.linspace(0, len(steps) - 1, min(most, len(steps)))})]


def onset_steps(columns: Mapping[str, np.ndarray]) -> dict[str, int | None]:
    """For every column the step from which it stays above one half; None where that never comes."""
    steps = columns["step"]
    found = {name: first_lasting(steps, values >= THRESHOLD) for name, values in columns.items() if name != "step"}
    return {name: None if at is None else int(steps[at]) for name, at in found.items()}
