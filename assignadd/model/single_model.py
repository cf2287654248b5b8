"""The passes of `TableForward` for one model on a CPU, in memory that is allocated once, on one thread or several.

As nothing moves, a pass is a series of calls that is made once. With Python and torch between the products, whose code
and data the products push out of the caches, a training step takes a tenth longer. Each thread has a part of the
sequences (`part_of_batch`), up to the gradients of what all of them share; this file has what comes before and after. A
test holds logits and gradients equal to those of `TableForward`, which explains the formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from assignadd.model.kernels import numba_elementwise as elementwise
from assignadd.model.kernels import numba_functions as functions
from assignadd.model.kernels.blas import keeps_to_one_thread, on_one_thread, product, products
from assignadd.model.kernels.calls import Call, bind, has_threads, phases, repeated, series
from assignadd.model.part_of_batch import Gradients, Part, Shared
from assignadd.model.table import Tables, Weights

# Sequences that a part has at least: small products are slow, and each part's gradients are added to the first's.
FEWEST_SEQUENCES = 64


def parts_of(batch: int) -> int:
    """Into how many parts a batch of this size is divided: as many as torch has threads.

    That is faster than to divide each product among the threads, as the library would. It is one part where the library
    does so in any case.
    """
    parts = min(torch.get_num_threads(), batch // FEWEST_SEQUENCES)
    return parts if parts > 1 and has_threads() and keeps_to_one_thread() else 1


class SingleModelForward:
    """The forward pass for batches of one size. The weights have to stay where they are in memory."""

    def __init__(self, w: Weights, batch: int, equals: int, scale: float):
        C, T, N = len(w.E) + len(w.pos), len(w.pos), w.U.shape[1]
        self._batch, self._n_parts = batch, parts_of(batch)
        self._t = t = Tables.empty(w)
        self._shared = shared = Shared.of(w, t)
        # In place of t.QK2: for the paper's sizes, products with C + 1 rows need fewer operations than Q2 K2^T.
        self._equal_Q2 = equal_Q2 = w.E.new_empty(C + 1, w.Q2.shape[1])
        self._tokens, self._logits = torch.zeros(batch, T, dtype=torch.int64), w.E.new_empty(batch, N)
        self._answers = torch.zeros(batch, dtype=torch.int64)
        rooms = zip(*(x.tensor_split(self._n_parts) for x in (self._tokens, self._logits, self._answers)), strict=True)
        self._parts = [Part(self._shared, *own) for own in rooms]
        self._read_tokens = _read(self._tokens)
        self._write_embeddings = [
            _copy(w.E, t.embeddings[:-T]),
            _copy(w.pos, t.embeddings[-T:]),
            _add(w.E[equals], w.pos[-1], t.constant[0]),
        ]
        self._write_tables = [
            series(
                products(
                    (t.embeddings, w.V1, t.values_1),
                    (t.values_1, w.O1, t.outputs_1),
                    (w.V2, w.O2, t.OV2),
                    (t.equal_rows, w.Q2, equal_Q2, scale),
                    (equal_Q2, w.T.K2, t.queries_2),
                    (t.both, t.OV2, t.outputs_2),
                    (t.queries_2, t.T.both, shared.scores_2_T[:, : 2 * C]),
                ),
                *(_copy(rows, part) for rows, part in _of_positions(t.outputs, shared.positions)),
            ),
            series(
                product(t.embeddings, w.Q1, t.queries_1),
                product(t.embeddings, w.K1, t.keys_1),
                product(t.queries_1, t.T.keys_1, shared.scores_1[0], scale),
                bind(functions.factors_call, list(shared.scores_1), C, T),
                product(w.W_out, w.U, shared.read_out),
            ),
        ]
        self.write_tables = self._in_phases(self._write_embeddings, self._write_tables)
        """Prepares `logits` and `answers`, for the weights as they are now."""
        self._write_logits = self._in_phases([self._read_tokens], [part.forward for part in self._parts])
        self._write_answers = self._in_phases(
            [self._read_tokens], [series(part.forward, part.answer) for part in self._parts]
        )

    def logits(self, tokens: Tensor) -> Tensor:
        """Logits (n, N) of any number of sequences."""
        return self._for_all(tokens, self._write_logits, self._logits)

    def answers(self, tokens: Tensor) -> Tensor:
        """Where each sequence has its largest logit, (n,), the first of several; NaN counts as the largest."""
        return self._for_all(tokens, self._write_answers, self._answers)

    def _for_all(self, tokens: Tensor, write: Call, room: Tensor) -> Tensor:
        """What is written for a batch of sequences at a time.

        In a smaller last batch, the other rows keep the tokens of the batch before, and are not returned.
        """
        found, (batch, T) = room.new_empty(len(tokens), *room.shape[1:]), self._tokens.shape
        if tokens.shape[1:] != (T,):
            raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected sequences of {T} tokens")
        for some, out in zip(tokens.split(batch), found.split(batch), strict=True):
            kept = _given(self._read_tokens, some, self._tokens[: len(some)])
            write()
            out.copy_(room[: len(kept)])
        return found

    def _in_phases(self, *each: Sequence[Call]) -> Call:
        """Phases one after the other, the calls of a phase at once if a batch has several parts."""
        if self._n_parts == 1:
            return series(*chain(*each))
        return phases(*([on_one_thread(call) for call in calls] for calls in each))


class SingleModelPasses(SingleModelForward):
    """Loss and gradient for batches of one size. Gradients, too, have to stay where they are in memory."""

    def __init__(self, w: Weights, grads: Weights, batch: int, equals: int, scale: float, loss_in_double: bool = False):
        super().__init__(w, batch, equals, scale)
        t, (h, d), dh, new = self._t, w.W_out.shape, w.Q1.shape[1], w.E.new_empty
        (K, _), C = w.E.shape, len(t.embeddings)
        self._labels, losses = torch.zeros(batch, dtype=torch.int64), new(batch)
        sums = [Gradients(self._shared, new(d, h) if i else grads.W_in) for i in range(self._n_parts)]
        rooms = zip(self._parts, *(x.tensor_split(self._n_parts) for x in (self._labels, losses)), sums, strict=True)
        passes = [part.passes(*own, batch, loss_in_double) for part, *own in rooms]
        g, g_rows, g_through_scores = sums[0], new(2 * C, d), new(C, d)
        (g_queries_1, g_keys_1, g_values_1), g_OV2 = new(3, C, dh), new(d, d)
        g_queries_2, g_equal_Q2 = new(C + 1, d), new(C + 1, dh)
        g_equal, g_out2, g_scores_2_T = g.outputs[: C + 1], g.outputs[C + 1 :], g.scores_2_T[:, : 2 * C]
        g_embeddings, g_outputs_1 = g_rows.split(C)
        to_tables = [
            series(
                *(_copy(part, rows) for rows, part in _of_positions(g.outputs, g.positions)),
                products(
                    (t.T.both, g_out2, g_OV2),
                    (g_OV2, w.T.O2, grads.V2),
                    (w.T.V2, g_OV2, grads.O2),
                    (g_out2, t.T.OV2, g_rows),
                    (g_scores_2_T.mT, t.queries_2, g_rows, 1, 1),
                    (g_scores_2_T, t.both, g_queries_2),
                    (g_queries_2.mT, self._equal_Q2, grads.K2),
                    (g_queries_2, w.K2, g_equal_Q2, scale),
                    (t.T.equal_rows, g_equal_Q2, grads.Q2),
                    (g_equal_Q2, w.T.Q2, g_equal, 1, 1),
                ),
            ),
            products(
                (g.read_out_T.mT, w.T.U, grads.W_out),
                (g.read_out_T, w.W_out, g.U_T, 1, 1),
                (g.scores_1, t.keys_1, g_queries_1, scale),
                (g.scores_1.mT, t.queries_1, g_keys_1, scale),
                (t.T.embeddings, g_queries_1, grads.Q1),
                (t.T.embeddings, g_keys_1, grads.K1),
                (g_queries_1, w.T.Q1, g_through_scores),
                (g_keys_1, w.T.K1, g_through_scores, 1, 1),
            ),
        ]
        to_weights = series(
            _add(g_outputs_1, g_equal[:C], g_outputs_1),
            *(_add(row, g_equal[C], row) for row in (g_embeddings[equals], g_embeddings[-1])),  # `=` and its position
            products(
                (t.T.values_1, g_outputs_1, grads.O1),
                (g_outputs_1, w.T.O1, g_values_1),
                (t.T.embeddings, g_values_1, grads.V1),
                (g_values_1, w.T.V1, g_embeddings, 1, 1),
            ),
            _add(g_embeddings[:K], g_through_scores[:K], grads.E),
            _add(g_embeddings[K:], g_through_scores[K:], grads.pos),
        )
        self._read_labels, self._write_loss = _read(self._labels), bind(elementwise.mean, [losses, losses], batch)
        self.run = self._in_phases(
            [*self._write_embeddings, self._read_tokens, self._read_labels],
            self._write_tables,
            passes,
            *(g.plus(more) for more in sums[1:]),
            to_tables,
            [to_weights, series(self._write_loss, bind(elementwise.transpose, [g.U_T, grads.U], *g.U_T.shape))],
        )
        """Both passes of a batch, called only by `__call__` and `train`, which say where the batch is."""

    def fits(self, batch: int) -> bool:
        """Whether these are the passes of such a batch, also after torch was given more or fewer threads."""
        return batch == self._batch and self._n_parts == parts_of(batch)

    def __call__(self, tokens: Tensor, labels: Tensor, loss: Tensor) -> None:
        """Writes the mean cross entropy of a batch into `loss`, of one element, and its gradient."""
        kept = _given(self._read_tokens, tokens, self._tokens), _given(self._read_labels, labels, self._labels)
        self._write_loss.numbers[1] = loss.data_ptr()
        self.run()
        del kept  # which was read until here

    def train(self, tokens: Tensor, labels: Tensor, loss: Tensor, update: Call, ended: Tensor) -> None:
        """The same for several batches, (n, B, T) and (n, B), with `update` after each, until `ended` is 0 or more."""
        tokens, labels = (x.to(torch.int64).contiguous() for x in (tokens, labels))
        if len(tokens) != len(labels):
            raise ValueError(f"tokens of {len(tokens)} batches, labels of {len(labels)}")
        read = (self._read_tokens, tokens, self._tokens), (self._read_labels, labels, self._labels)
        moving = []
        for call, source, room in read:
            _given(call, source[0], room)
            moving.append((call, 0, room.nbytes))
        self._write_loss.numbers[1] = loss.data_ptr()
        repeated(series(self.run, update), len(tokens), ended, moving)()


def _of_positions(outputs: Tensor, positions: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The rows (3C + 1, d) that all sequences have, in three parts, and the same parts of `positions`, (3T + 1, d)."""
    C, T = len(outputs) // 3, len(positions) // 3
    parts, ends = positions.split([T, T, T + 1]), (2 * C + 1, 3 * C + 1, C + 1)
    return [(outputs[end - len(part) : end], part) for end, part in zip(ends, parts, strict=True)]


def _read(room: Tensor) -> Call:
    """Copies integers into this tensor, from the one that it is `_given`."""
    return bind(elementwise.copy_integers, [room, room], room.numel())


def _given(read: Call, source: Tensor, room: Tensor) -> Tensor:
    """Has `read` copy this tensor, with or without an axis of one model, into `room`.

    Returns what has to be kept until then.
    """
    if source.shape[-room.dim() :] != room.shape or source.numel() != room.numel():  # it would be read past its end
        raise ValueError(f"a batch of shape {tuple(source.shape)}: expected {tuple(room.shape)}")
    if source.dtype != torch.int64 or not source.is_contiguous():
        source = source.to(torch.int64).contiguous()
    read.numbers[0], read.numbers[2] = source.data_ptr(), source.numel()
    return source


def _copy(x: Tensor, out: Tensor) -> Call:
    """out = x"""
    assert x.shape == out.shape
    return bind(elementwise.copy, [x, out], out.numel())


def _add(x: Tensor, y: Tensor, out: Tensor) -> Call:
    """out = x + y"""
    assert x.shape == y.shape == out.shape
    return bind(elementwise.add, [x, y, out], out.numel())
