"""The kernels for traces on a CPU: attention by the compiled functions of a training step, the products by torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from assignadd.model.kernels import numba_functions as functions
from assignadd.model.kernels.tensor import TensorKernels


class CompiledKernels(TensorKernels):
    """Attention by compiled functions; loss, gradients and update in tensor operations.

    A model that trains alone has them compiled too, in `model/cpu_step.py`.
    """

    name = "numba"
    has_step = True

    def layer_1(self, scores: Tensor, tokens: Tensor, usage: Tensor) -> Tensor:
        attention, used = usage.new_zeros(*tokens.shape, self.T), usage.new_zeros(*tokens.shape[:-1], 3 * self.T + 1)

        def of_model(scores: Any, factors: Any, tokens: Any, attention: Any, used: Any, usage: Any) -> None:
            functions.factors_of(scores, factors, self.T)
            functions.layer_1(scores, factors, tokens, attention.reshape(-1, self.T), used)
            functions.spread(used, tokens, usage, 2 * self.T, 0, self.C)

        _for_each_model(of_model, scores, scores.new_empty(scores.shape), tokens, attention, used, usage)
        usage[..., self.C] = 1
        return attention

    def layer_2(self, scores: Tensor, tokens: Tensor, attention_1: Tensor, usage: Tensor) -> tuple[Tensor, Tensor]:
        attention_2, copied = usage.new_empty(2, *tokens.shape)
        used = usage.new_empty(*tokens.shape[:-1], 2 * self.T)

        def of_model(
            scores: Any, tokens: Any, attention_1: Any, attention_2: Any, copied: Any, used: Any, usage: Any
        ) -> None:
            mixed = attention_1.reshape(-1, self.T)
            functions.layer_2(scores, tokens, mixed, attention_2, copied, used, self.C)
            functions.spread(used, tokens, usage, 0, self.C + 1, self.C)
            functions.spread(used, tokens, usage, self.T, 2 * self.C + 1, self.C)

        _for_each_model(of_model, scores, tokens, attention_1, attention_2, copied, used, usage)
        return attention_2, copied

    def after_layer_1(self, embeddings: Tensor, copied: Tensor, tokens: Tensor, attention_1: Tensor) -> Tensor:
        d = embeddings.shape[-1]
        after, written = embeddings.new_empty(*tokens.shape, d), embeddings.new_empty(self.T, d).numpy()

        def of_model(embeddings: Any, copied: Any, tokens: Any, attention: Any, after: Any) -> None:
            rows = attention.reshape(-1, self.T), after.reshape(-1, d)
            functions.after_layer_1(embeddings, copied, tokens, *rows, written)

        _for_each_model(of_model, embeddings, copied, tokens, attention_1, after)
        return after


def _for_each_model(function: Callable[..., None], *tensors: Tensor) -> None:
    """Calls a function with the arrays of one model, or of each model of a stack.

    The first tensor is a matrix for one model.
    """
    arrays: list[Any] = [t.contiguous().numpy() for t in tensors]
    if arrays[0].ndim == 2:
        function(*arrays)
    else:
        for arrays_of_model in zip(*arrays, strict=True):
            function(*arrays_of_model)
