"""Interchange of the binding tag and of the query: layer 1's output at some positions comes from another sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.independent.network import CHUNK, Network, layer_1, layer_2
from tests.independent.sequences import (
    FIRST_VARIABLE,
    LAST,
    LITERAL,
    PREFIX,
    N,
    Sequences,
    T,
    V,
    draw,
    random_sequences,
)


@dataclass(frozen=True)
class Exchange:
    """Base and source sequences, the positions that are exchanged, and the answer expected after the exchange."""

    base: np.ndarray  # (B, T)
    source: np.ndarray  # (B, T)
    positions: np.ndarray  # (B, T), booleans
    answers: np.ndarray  # (B,)

    def only(self, rows: np.ndarray) -> Exchange:
        """The same with these rows only."""
        return Exchange(self.base[rows], self.source[rows], self.positions[rows], self.answers[rows])


def value_of(tokens: np.ndarray, variables: np.ndarray) -> np.ndarray:
    """The number that follows a variable (B,) in the prefix of its sequence; -1 where the variable is not assigned."""
    here = tokens[:, :PREFIX] == FIRST_VARIABLE + variables[:, None]
    return np.where(here.any(1), tokens[np.arange(len(tokens)), here.argmax(1) + 1], -1)


def operand_sum(tokens: np.ndarray, batch: Sequences, variables: np.ndarray) -> np.ndarray:
    """Answers if these variables (B, 2) replace the variables of `batch`; its literals stay."""
    is_literal = batch.variables == LITERAL
    values = [np.where(is_literal[:, s], batch.pairs[:, s], value_of(tokens, variables[:, s])) for s in (0, 1)]
    return (values[0] + values[1]) % N


def tag_exchange(rng: np.random.Generator, batch: Sequences) -> Exchange:
    """The exchange of tags. The source has the base's layout, every variable moved to the next assignment, new numbers.

    With the source's tags, each number of the base belongs to the variable that precedes it in the source.
    """
    base, renamed = batch.tokens, batch.tokens.copy()
    is_variable = (base >= FIRST_VARIABLE) & (np.arange(T) < PREFIX)
    for row, own in zip(renamed, is_variable, strict=True):
        row[own] = np.roll(row[own], -1)
    source = np.where(batch.assigned, rng.integers(N, size=base.shape), renamed)
    exchange = Exchange(base, source, batch.assigned, operand_sum(renamed, batch, batch.variables))
    return exchange.only(exchange.answers != batch.answers)


def query_exchange(rng: np.random.Generator, batch: Sequences, allowed: np.ndarray, even: bool = False) -> Exchange:
    """The exchange of queries. The source asks for other variables of the base, in the same slots, allowed there."""
    letters = np.arange(V)
    assigned = (batch.tokens[:, :PREFIX, None] == FIRST_VARIABLE + letters).any(1)  # (B, V)
    wanted, defined = np.full_like(batch.variables, LITERAL), np.ones(len(assigned), dtype=bool)
    for slot in (0, 1):
        asks = batch.variables[:, slot] != LITERAL
        free = assigned & allowed[slot] & (letters != batch.variables[:, slot, None]) & (letters != wanted[:, 0, None])
        luck = np.where(free, rng.random(free.shape), -1)
        wanted[:, slot] = np.where(asks, luck.argmax(1), LITERAL)
        defined &= ~asks | free.any(1)
    base, wanted = batch.tokens[defined], wanted[defined]
    kept = Sequences(base, batch.variables[defined], batch.pairs[defined], batch.value_positions[defined])
    source = draw(rng, rng.integers(N, size=(len(base), 2)), wanted, even).tokens
    at_equals = np.tile(np.arange(T) == LAST, (len(base), 1))
    exchange = Exchange(base, source, at_equals, operand_sum(base, kept, wanted))
    return exchange.only(exchange.answers != kept.answers)


def exchange_accuracy(net: Network, exchange: Exchange) -> tuple[float, int]:
    """Share of sequences whose answer follows the exchange, and how many there are."""
    hits = []
    for i in range(0, len(exchange.base), CHUNK):
        part = exchange.only(np.arange(i, min(i + CHUNK, len(exchange.base))))
        x, pattern, output = layer_1(net, part.base)
        _, _, other = layer_1(net, part.source)
        changed = np.where(part.positions[:, :, None], other, output)
        hits.append(layer_2(net, x, pattern, changed).logits.argmax(1) == part.answers)
    return float(np.concatenate(hits).mean()), len(exchange.base)


def exchange_rates(
    net: Network, rng: np.random.Generator, n_vars: int, B: int, allowed: np.ndarray, even: bool = False
) -> dict[str, tuple[float, int]]:
    """Accuracy and number of sequences for both exchanges, on those of B sequences whose answer they change."""
    for_tags, for_queries = (random_sequences(rng, n_vars, B, allowed, even) for _ in range(2))
    return {
        "binding tag": exchange_accuracy(net, tag_exchange(rng, for_tags)),
        "operand query": exchange_accuracy(net, query_exchange(rng, for_queries, allowed, even)),
    }
