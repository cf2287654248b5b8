"""Interchange interventions: does a place in the network hold a variable of the program (Geiger et al., 2021)?

The program's variables, each aligned to a place:

    binding tag     which variable an assigned number belongs to: layer 1's output at the assigned numbers
    operand query   which variables are asked for: layer 1's output at `=`
    query in QK2    the same, where only layer 2's scores read it, and not MLP2
    first value, second value    the operand's value: what layer 2 brings to `=` from where that value stands
    values          both of them: layer 2's output at `=`
    sum             MLP2's output at `=`
    query and tag   the operand query, and layer 1's output at the second operand slot

The last one is not among `ALIGNMENTS`, which are the program's. It explains why the operand query alone fails on part of the
sums with one variable: layer 1 makes a literal in the second slot attend to a variable in the first, as it makes an assigned
number attend to its variable. The literal so carries that variable's tag, and a query for another variable does not match it.

The activation there is taken from the source, the rest of the network runs on the base, and the answer must be the
program's (`pairs`). Controls: only the directions that the paper names (`named`), as many random ones (`random`), and a
place where the program's variable should not be (`elsewhere`, see `ELSEWHERE`).

Directions that are searched for instead of named: `search`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from assignadd.config import Config
from assignadd.interventions.mixtures import Mixtures
from assignadd.interventions.pairs import Pairs, prompts, query_pairs, tag_pairs, value_pairs
from assignadd.interventions.places import Places
from assignadd.interventions.subspaces import copied_variables, fetched_values, random_directions, read_answers, within
from assignadd.model.forward import CHUNK
from assignadd.model.stack import Stack, single_models
from assignadd.model.table import require_covered
from assignadd.task.roles import roles

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

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


@dataclass(frozen=True)
class Outcome:
    """One alignment on one model: for every pair that counts, whether the answer was the program's."""

    hits: dict[str, Bool[Tensor, " n"]]
    """By variant."""
    base_vars: Int[Tensor, " n"]
    source_vars: Int[Tensor, " n"]
    first_is_variable: Bool[Tensor, " n"]
    """Whether the base's first operand is a variable."""

    @property
    def n(self) -> int:
        return len(self.base_vars)

    def count(self, variant: str = "whole") -> int:
        return int(self.hits[variant].sum())

    def accuracy(self, variant: str = "whole") -> float:
        return self.count(variant) / self.n if self.n else float("nan")

    def where(self, chosen: Bool[Tensor, " n"]) -> Outcome:
        """The outcome on some of the pairs."""
        hits = {variant: found[chosen] for variant, found in self.hits.items()}
        return Outcome(hits, self.base_vars[chosen], self.source_vars[chosen], self.first_is_variable[chosen])

    def with_variables(self, n_vars: int) -> Outcome:
        """The outcome on pairs whose base is a sum with so many variables."""
        return self.where(self.base_vars == n_vars)

    def by_types(self, variant: str = "whole") -> Float[Tensor, "3 3"]:
        """Accuracy by the numbers of variables in base (rows) and source (columns); NaN where no pair counts."""
        found = torch.full((3, 3), torch.nan)
        for i in range(3):
            for j in range(3):
                own = (self.base_vars == i) & (self.source_vars == j)
                if own.any():
                    found[i, j] = self.hits[variant][own].float().mean()
        return found


class Activations:
    """What a model has at the places of the alignments on a chunk of prompts; layer 2 is run when it is first asked for."""

    def __init__(self, model: Mixtures, places: Places):
        self.model, self.places = model, places
        self.tokens: Int[Tensor, "T B"] = places.tokens.T.contiguous()
        self.layer_1 = model.layer_1(self.tokens)

    @cached_property
    def own(self) -> Float[Tensor, "B d"]:
        """The residual of `=` before layer 2."""
        return self.model.residual(self.layer_1)

    @cached_property
    def pattern(self) -> Float[Tensor, "T B"]:
        """Layer 2's attention from `=`."""
        return self.model.pattern(self.own, self.tokens, self.layer_1)

    @cached_property
    def attn_out(self) -> Float[Tensor, "B d"]:
        return self.model.brought(self.pattern, self.tokens, self.layer_1)

    @property
    def mid(self) -> Float[Tensor, "B d"]:
        return self.own + self.attn_out

    @cached_property
    def mlp_out(self) -> Float[Tensor, "B d"]:
        return self.model.mlp(self.mid)

    def brought_from(self, position: Int[Tensor, " B"]) -> Float[Tensor, "B d"]:
        """What layer 2 brings to `=` from one position of each sequence."""
        here = torch.arange(len(self.tokens))[:, None] == position
        return self.model.brought(self.pattern * here, self.tokens, self.layer_1)


# For base and source, the logits with a variable taken from the source: as it is aligned, and elsewhere.
Exchange = Callable[[Mixtures, Activations, Activations, "Tensor | None"], Tensor]


def _layer_1(*places: str) -> Exchange:
    def exchange(model: Mixtures, base: Activations, source: Activations, basis: Tensor | None) -> Tensor:
        where, rows = base.places.any_of(places).T, model.sent if basis is None else model.rows(within(model.sent.own, basis))
        layer_1 = base.layer_1, base.layer_1.weighted(-where.float(), rows), source.layer_1.weighted(where, rows)
        own = model.residual(*layer_1)
        return model.logits(own + model.brought(model.pattern(own, base.tokens, *layer_1), base.tokens, *layer_1))

    return exchange


def _asked(model: Mixtures, base: Activations, source: Activations, basis: Tensor | None) -> Tensor:
    pattern = model.pattern(base.own + within(source.own - base.own, basis), base.tokens, base.layer_1)
    return model.logits(base.own + model.brought(pattern, base.tokens, base.layer_1))


def _brought(operand: str, before: int = 0) -> Exchange:
    def exchange(model: Mixtures, base: Activations, source: Activations, basis: Tensor | None) -> Tensor:
        own, other = (a.brought_from(a.places.position(f"{operand}_value") - before) for a in (base, source))
        return model.logits(base.mid + within(other - own, basis))

    return exchange


def _values(model: Mixtures, base: Activations, source: Activations, basis: Tensor | None) -> Tensor:
    return model.logits(base.mid + within(source.attn_out - base.attn_out, basis))


def _sum(model: Mixtures, base: Activations, source: Activations, basis: Tensor | None) -> Tensor:
    mlp_out = source.mlp_out if basis is None else base.mlp_out + within(source.mlp_out - base.mlp_out, basis)
    return model.logits(base.mid, mlp_out)


EXCHANGES: dict[str, tuple[Exchange, Exchange]] = {
    "binding tag": (_layer_1("assigned"), _layer_1("variables")),
    "operand query": (_layer_1("equals"), _layer_1("first", "second")),
    "query in QK2": (_asked, _layer_1("first", "second")),
    "first value": (_brought("first"), _brought("first", before=1)),
    "second value": (_brought("second"), _brought("second", before=1)),
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
        self._first_is_variable = {name: roles(task, pairs.base.T).is_variable[0] for name, pairs in self.pairs.items()}

    @torch.no_grad()
    def __call__(
        self, stack: Stack, variants: Sequence[str] = ("whole",), alignments: Sequence[str] = ALIGNMENTS
    ) -> list[dict[str, Outcome]]:
        """For each model the outcome of every alignment."""
        require_covered(stack.config)
        return [self._outcomes(one, variants, alignments) for one in single_models(stack)]

    def _outcomes(self, one: Stack, variants: Sequence[str], alignments: Sequence[str]) -> dict[str, Outcome]:
        model, task, bases = Mixtures(one), one.config.task, {name: _bases(one, name, variants) for name in alignments}
        hits: dict[tuple[str, str], list[Tensor]] = {(name, variant): [] for name in alignments for variant in variants}
        for names in self._sharing(alignments):
            shared = self.pairs[names[0]]
            for part in torch.stack([self.pairs[name].counts for name in names]).any(0).nonzero()[:, 0].split(CHUNK):
                base, source = (Activations(model, Places(task, tokens[part])) for tokens in (shared.base, shared.source))
                for name, variant in product(names, variants):
                    pairs, exchange = self.pairs[name], EXCHANGES[name][variant == "elsewhere"]
                    answer = exchange(model, base, source, bases[name].get(variant)).argmax(-1)
                    hits[name, variant].append((answer == pairs.answer[part])[pairs.counts[part]])
        return {name: self._outcome(name, {v: torch.cat(hits[name, v]) for v in variants}) for name in alignments}

    def _sharing(self, alignments: Sequence[str]) -> list[list[str]]:
        """The alignments, those with the same source prompts together."""
        groups: dict[int, list[str]] = {}
        for name in alignments:
            groups.setdefault(id(self.pairs[name].source), []).append(name)
        return list(groups.values())

    def _outcome(self, name: str, hits: dict[str, Tensor]) -> Outcome:
        pairs = self.pairs[name]
        return Outcome(hits, *(x[pairs.counts] for x in (pairs.base_vars, pairs.source_vars, self._first_is_variable[name])))


def _bases(one: Stack, name: str, variants: Sequence[str]) -> dict[str, Tensor]:
    """The directions of the variants that have fewer than all."""
    if not {"named", "random"} & set(variants):
        return {}
    named = NAMED[name](one)
    return {"named": named, "random": random_directions(named, RANDOM_SEED)}
