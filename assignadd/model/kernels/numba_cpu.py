"""The kernels for a CPU: attention, loss and update by compiled functions (`numba_...`), the products by torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from assignadd.model.kernels import blas, numba_backward, numba_functions, numba_update
from assignadd.model.kernels.adamw import Moments
from assignadd.model.kernels.calls import bind, has_threads, phases, series
from assignadd.model.kernels.tensor import TensorKernels, collect


class CompiledKernels(TensorKernels):
    """Attention, loss and update by compiled functions."""

    name = "numba"
    has_series = blas.available()

    def layer_1(self, scores: Tensor, tokens: Tensor, usage: Tensor) -> Tensor:
        attention, factors = usage.new_zeros(*tokens.shape, self.T), scores.new_empty(scores.shape)
        # exp(score) is a product of four entries: 8,100 exponentials for a table instead of 70,000 for a batch.
        _for_each_model(partial(numba_functions.factors_of, T=self.T), scores, factors)
        _for_each_model(numba_functions.layer_1_usage, scores, factors, tokens, attention, usage)
        return attention

    def layer_2(self, scores: Tensor, tokens: Tensor, attention_1: Tensor, usage: Tensor) -> tuple[Tensor, Tensor]:
        attention_2, copied = (usage.new_empty(tokens.shape) for _ in range(2))
        _for_each_model(numba_functions.layer_2_usage, scores, tokens, attention_1, attention_2, copied, usage)
        return attention_2, copied

    def after_layer_1(self, embeddings: Tensor, copied: Tensor, tokens: Tensor, attention_1: Tensor) -> Tensor:
        after = embeddings.new_empty(*tokens.shape, embeddings.shape[-1])
        _for_each_model(numba_functions.after_layer_1, embeddings, copied, tokens, attention_1, after)
        return after

    def layer_2_backward(
        self, g_usage: Tensor, tokens: Tensor, attention_1: Tensor, attention_2: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        g_both, (g_scores, g_passed_on) = self.matrix(tokens, 2 * self.C, g_usage), g_usage.new_empty(2, *tokens.shape)
        layer_2_backward, g_used = partial(numba_backward.layer_2_backward, C=self.C), self._g_used(g_usage, tokens)
        _for_each_model(layer_2_backward, g_used, tokens, attention_1, attention_2, g_scores, g_passed_on, g_both)
        return g_both, g_scores, g_passed_on

    def layer_1_backward(
        self,
        g_usage: Tensor,
        tokens: Tensor,
        attention_1: Tensor,
        attention_2: Tensor,
        copied_scores: Tensor,
        g_position_scores: Tensor,
        g_passed_on: Tensor,
    ) -> Tensor:
        g_table, g_used = g_usage.new_zeros(*tokens.shape[:-2], self.C, self.C), self._g_used(g_usage, tokens)
        _for_each_model(
            numba_backward.layer_1_backward,
            g_used, tokens, attention_1, attention_2, copied_scores, g_position_scores, g_passed_on, g_table,
        )  # fmt: skip
        return g_table

    def _g_used(self, g_usage: Tensor, tokens: Tensor) -> Tensor:
        """The gradient of what `=` gets from each position, from that of the rows: in layer 2 twice, and in layer 1."""
        parts = *g_usage[..., self.C + 1 :].split(self.C, -1), g_usage[..., : self.C]
        return torch.cat([collect(part, tokens) for part in parts], -1)

    def cross_entropy(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        losses, grad = logits.new_empty(labels.shape), torch.empty_like(logits)
        _for_each_model(partial(numba_functions.cross_entropy, n_all=labels.shape[-1]), logits, labels, losses, grad)
        return losses.mean(-1), grad

    def adamw_of(
        self, flat: Tensor, grad: Tensor, moments: Moments, loss: Tensor, diverged_at: Tensor, count: Tensor
    ) -> Callable[[], None]:
        o, threads = moments, torch.get_num_threads() if has_threads() else 1
        updates = []
        for i in range(len(flat)):
            settings = o.rate[i], o.decay[i], o.averaging[i], loss[i], diverged_at[i], count
            for some in zip(*(x[i].tensor_split(threads) for x in (flat, grad, o.mean, o.square)), strict=True):
                update = bind(numba_update.update, [*some, *settings], some[0].numel(), doubles=[o.betas[i]])
                updates.append(update)
        then = bind(numba_update.count_update, [loss, diverged_at, count], len(flat))
        return phases(updates, [then]) if threads > 1 else series(*updates, then)


def _for_each_model(function: Callable[..., None], *tensors: Tensor) -> None:
    """Calls a compiled function with the arrays of one model, or of each model of a stack.

    The first tensor is a matrix for one model.
    """
    arrays: list[Any] = [t.contiguous().numpy() for t in tensors]
    if arrays[0].ndim == 2:
        function(*arrays)
    else:
        for own in zip(*arrays, strict=True):
            function(*own)
