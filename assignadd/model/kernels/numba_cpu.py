"""The kernels for traces on a CPU: attention by the compiled functions of a training step, the products by torch.

`tensor.TensorKernels` says what each operation returns, `numba_functions` what their arrays are.
"""

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
        attention = usage.new_zeros(*tokens.shape, self.T)  # (..., B, T, T); 0 stays for keys after the query
        amounts = usage.new_zeros(*tokens.shape[:-1], 3 * self.T + 1)  # of each position's rows: (..., B, 3T + 1)

        def of_model(scores: Any, factors: Any, tokens: Any, attention: Any, amounts: Any, usage: Any) -> None:
            functions.factors_of(scores, factors, self.T)
            functions.layer_1(scores, factors, tokens, attention.reshape(-1, self.T), amounts)
            functions.spread(amounts, tokens, usage, 2 * self.T, 0, self.C)

        factors = scores.new_empty(scores.shape)
        _for_each_model(of_model, scores, factors, tokens, attention, amounts, usage)
        usage[..., self.C] = 1
        return attention

    def layer_2(self, scores: Tensor, tokens: Tensor, attention_1: Tensor, usage: Tensor) -> tuple[Tensor, Tensor]:
        attention_2 = usage.new_empty(tokens.shape)  # (..., B, T)
        copied_scores = usage.new_empty(tokens.shape)
        amounts = usage.new_empty(*tokens.shape[:-1], 2 * self.T)  # those that layer 2 uses

        def of_model(
            scores: Any, tokens: Any, attention_1: Any, attention_2: Any, copied_scores: Any, amounts: Any, usage: Any
        ) -> None:
            pattern_1 = attention_1.reshape(-1, self.T)
            functions.layer_2(scores, tokens, pattern_1, attention_2, copied_scores, amounts, self.C)
            functions.spread(amounts, tokens, usage, 0, self.C + 1, self.C)
            functions.spread(amounts, tokens, usage, self.T, 2 * self.C + 1, self.C)

        _for_each_model(of_model, scores, tokens, attention_1, attention_2, copied_scores, amounts, usage)
        return attention_2, copied_scores

    def after_layer_1(self, embeddings: Tensor, copied: Tensor, tokens: Tensor, attention_1: Tensor) -> Tensor:
        d = embeddings.shape[-1]
        after = embeddings.new_empty(*tokens.shape, d)  # (..., B, T, d)
        written = embeddings.new_empty(self.T, d).numpy()  # memory for one sequence

        def of_model(embeddings: Any, copied: Any, tokens: Any, attention: Any, after: Any) -> None:
            pattern, residual = attention.reshape(-1, self.T), after.reshape(-1, d)
            functions.after_layer_1(embeddings, copied, tokens, pattern, residual, written)

        _for_each_model(of_model, embeddings, copied, tokens, attention_1, after)
        return after


def _for_each_model(function: Callable[..., None], *tensors: Tensor) -> None:
    """Calls a function with the tensors of one model as arrays; for a stack, once with those of each model.

    It writes into them, so those that it writes have to be contiguous: of others, the array is a copy.
    """
    arrays: list[Any] = [t.contiguous().numpy() for t in tensors]
    is_one_model = arrays[0].ndim == 2  # all functions above have a matrix first
    if is_one_model:
        function(*arrays)
    else:
        for arrays_of_model in zip(*arrays, strict=True):
            function(*arrays_of_model)
