"""The kernels in tensor operations: what compiled ones must equal, and what runs where there are none.

Shapes: M models, B sequences of T tokens, H heads in each of two layers, tables of C = K + T rows, one for each token
and then one for each position. Patterns of attention are (query, key). g_x is the gradient of the loss by x.

A key of layer 2 is made of (1 + H) C rows: the embeddings, and what each head of layer 1 makes of them, its copies. The
columns of `usage` say how much `=` uses of each row: H C of the heads of layer 1, 1 of its residual before, and for
each head of layer 2 the (1 + H) C of its keys. docs/names.md, "Words of the fast pass", lists these words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from assignadd.config import Optim

# Returns the tensor itself, or a copy in memory that processes share.
ToMemory = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Moments:
    """What AdamW stores for M models of P weights: running means of the gradient and its square, and settings."""

    mean: Float[Tensor, "M P"]
    square: Float[Tensor, "M P"]
    optims: Sequence[Optim]
    rate_in_double: Float[Tensor, "M 1"]
    """Learning rate in double precision, which `fused_adamw` reads."""
    rate: Float[Tensor, "M 1"]
    """Learning rate in the precision of the weights, for the updates on a GPU, as are the next three."""
    decay: Float[Tensor, "M 1"]
    """Learning rate times weight decay, in the same precision."""
    coefficients: Float[Tensor, "M 4"]
    """1 - beta1, beta2, 1 - beta2 and eps, the columns in this order, in the same precision."""
    betas: Float[Tensor, "M 2"]
    """beta1 and beta2 in double precision: in float32, 1 - 0.999 has only five correct digits."""

    @classmethod
    def zeros(cls, flat: Tensor, optims: Sequence[Optim], to_memory: ToMemory = lambda tensor: tensor) -> Moments:
        """The moments before the first update of weights `flat`, (M, P), with these settings, one for each model.

        `to_memory` is called with both running means, which training changes, and returns the tensors to be stored.
        """
        single = partial(torch.tensor, dtype=flat.dtype, device=flat.device)
        double = partial(torch.tensor, dtype=torch.float64, device=flat.device)
        return cls(
            mean=to_memory(torch.zeros_like(flat)),
            square=to_memory(torch.zeros_like(flat)),
            optims=optims,
            rate_in_double=double([[o.lr] for o in optims]),
            rate=single([[o.lr] for o in optims]),
            decay=single([[o.lr * o.weight_decay] for o in optims]),
            coefficients=single([[1 - o.beta1, o.beta2, 1 - o.beta2, o.eps] for o in optims]),
            betas=double([[o.beta1, o.beta2] for o in optims]),
        )


class TensorKernels:
    """The large matrix products of the table forward, what lies between them, then loss and update.

    The axis M of a stack may be missing. On a GPU, work may be done *aside*: at the same time as the work that is
    called after it, and complete after `join`. Here everything is complete when a method returns.
    """

    name = "tensor operations"
    token_dtype = torch.int64
    """The type of number in which the tokens of a training batch are stored."""

    def __init__(self, n_tokens: int, length: int, device: torch.device, n_heads: int = 1):
        self.K, self.T, self.C, self.H = n_tokens, length, n_tokens + length, n_heads
        self.n_used_by_1 = n_heads * self.C + 1
        """The columns of `usage` before those of layer 2."""
        self.n_used = self.n_used_by_1 + n_heads * (1 + n_heads) * self.C
        self._future = torch.ones(length, length, dtype=torch.bool, device=device).triu(1)  # keys after the query

    def product(self, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        """a @ b, written into `out` if there is one."""
        return torch.matmul(a, b, out=out)

    def plus_product(self, total: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Adds a @ b to `total`, and returns it."""
        return total.addmm_(a, b) if total.dim() == 2 else total.baddbmm_(a, b)

    def added_product(self, total: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """total + a @ b, in memory of its own."""
        return total + a @ b

    def relu_product(self, a: Tensor, b: Tensor) -> Tensor:
        """relu(a @ b)."""
        return (a @ b).relu_()

    def gated_product(self, a: Tensor, b: Tensor, neurons: Tensor) -> Tensor:
        """a @ b where the neurons are greater than 0, and 0 elsewhere: the gradient before a ReLU."""
        grad = a @ b
        return torch.ops.aten.threshold_backward.grad_input(grad, neurons, 0, grad_input=grad)

    def product_aside(self, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        """`product`, aside: before `join` only other work aside may read the result, and the inputs must not change."""
        return torch.matmul(a, b, out=out)

    def aside(self, *used: Tensor) -> AbstractContextManager[None]:
        """A context for work aside: before `join` only work aside may read its results, and `used` must not change."""
        return nullcontext()

    def after_layer_1_backward(self, *used: Tensor) -> AbstractContextManager[None]:
        """The context, like `aside`, for work that reads the result of `layer_1_backward`."""
        return nullcontext()

    def join(self) -> None:
        """Waits for all work aside."""

    def matrix(self, tokens: Int[Tensor, "*M B T"], width: int, like: Tensor) -> Float[Tensor, "*M B width"]:
        """A matrix with a row for each sequence, not initialised, in the memory order these kernels read fastest."""
        return like.new_empty(*tokens.shape[:-1], width)

    def layer_1(
        self, scores: Float[Tensor, "*M H C C"], tokens: Int[Tensor, "*M B T"], usage: Float[Tensor, "*M B rows"]
    ) -> Float[Tensor, "*M B H T T"]:
        """Attention (query, key) of layer 1, from the score table (query row, key row) of each head.

        Writes the first H C + 1 columns of `usage`: how much attention `=` pays to each row, and then 1.
        """
        of_queries = self._at_positions(scores, tokens)  # (..., B, H, query, C)
        of_pairs = collect(of_queries, tokens[..., None, None, :])  # (..., B, H, query, key)
        attention = of_pairs.masked_fill_(self._future, -torch.inf).softmax(-1)
        of_equals = spread(attention[..., -1, :], tokens.unsqueeze(-2), self.C)  # (..., B, H, C)
        usage[..., : self.n_used_by_1 - 1] = of_equals.flatten(-2)
        usage[..., self.n_used_by_1 - 1] = 1
        return attention

    def layer_2(
        self,
        scores: Float[Tensor, "*M B all"],
        tokens: Int[Tensor, "*M B T"],
        attention_1: Float[Tensor, "*M B H T T"],
        usage: Float[Tensor, "*M B rows"],
    ) -> tuple[Float[Tensor, "*M B H T"], Float[Tensor, "*M B H copied_by T"]]:
        """Attention of `=` in layer 2, and the layer-2 score of what each head of layer 1 copies from each position.

        `scores` are those that each head gives to (1 + H) C rows: embeddings, and the copies of them by each head of
        layer 1. Writes the last H (1 + H) C columns of `usage`.
        """
        rows, of_sources = self._by_source(scores), tokens[..., None, None, :]  # (..., B, H, 1 + H, C)
        of_embeddings, copied_scores = collect(rows, of_sources).split([1, self.H], -2)  # (..., B, H, 1 or H, T)
        # What the copies in a key add to its score. In these sums, g is a head of layer 2 and h one of layer 1, q is a
        # key of layer 2, which was a query of layer 1, and k is a key of layer 1.
        of_copies = torch.einsum("...hqk,...ghk->...gq", attention_1, copied_scores)
        attention_2 = (of_embeddings.squeeze(-2) + of_copies).softmax(-1)  # (..., B, H, T)
        # How much of each position's copies reaches `=`.
        passed_on = torch.einsum("...gq,...hqk->...ghk", attention_2, attention_1)
        amounts = torch.cat([attention_2.unsqueeze(-2), passed_on], -2)  # (..., B, H, 1 + H, T)
        usage[..., self.n_used_by_1 :] = spread(amounts, of_sources, self.C).flatten(-3)
        return attention_2, copied_scores

    def after_layer_1(
        self,
        embeddings: Float[Tensor, "*M C d"],
        copied: Float[Tensor, "*M H C d"],
        tokens: Int[Tensor, "*M B T"],
        attention_1: Float[Tensor, "*M B H T T"],
    ) -> Float[Tensor, "*M B T d"]:
        """The residual of every position after layer 1; `copied` is what each head writes for each embedding."""
        written = attention_1.contiguous() @ self._at_positions(copied, tokens)  # (..., B, H, T, d)
        return self._at_positions(embeddings.unsqueeze(-3), tokens).squeeze(-3) + written.sum(-3)

    def layer_2_backward(
        self,
        g_usage: Float[Tensor, "*M B rows"],
        tokens: Int[Tensor, "*M B T"],
        attention_1: Float[Tensor, "*M B H T T"],
        attention_2: Float[Tensor, "*M B H T"],
    ) -> tuple[Float[Tensor, "*M B all"], Float[Tensor, "*M B H T"], Float[Tensor, "*M B H copied_by T"]]:
        """The gradients of three quantities of `layer_2`: `scores`, the softmax's input, and `passed_on`."""
        # `layer_2` line by line, from the end to the beginning.
        g_rows, of_sources = self._by_source(g_usage[..., self.n_used_by_1 :]), tokens[..., None, None, :]
        g_embeddings, g_passed_on = collect(g_rows, of_sources).split([1, self.H], -2)  # (..., B, H, 1 or H, T)
        g_of_copies = torch.einsum("...hqk,...ghk->...gq", attention_1, g_passed_on)
        g_position_scores = softmax_backward(g_embeddings.squeeze(-2) + g_of_copies, attention_2)  # (..., B, H, T)
        g_copied_scores = torch.einsum("...gq,...hqk->...ghk", g_position_scores, attention_1)
        g_amounts = torch.cat([g_position_scores.unsqueeze(-2), g_copied_scores], -2)
        return spread(g_amounts, of_sources, self.C).flatten(-3), g_position_scores, g_passed_on

    def layer_1_backward(
        self,
        g_usage: Float[Tensor, "*M B rows"],
        tokens: Int[Tensor, "*M B T"],
        attention_1: Float[Tensor, "*M B H T T"],
        attention_2: Float[Tensor, "*M B H T"],
        copied_scores: Float[Tensor, "*M B H copied_by T"],
        g_position_scores: Float[Tensor, "*M B H T"],
        g_passed_on: Float[Tensor, "*M B H copied_by T"],
    ) -> Float[Tensor, "*M H C C"]:
        """Gradients of layer 1's score tables, summed over the sequences, from those of all that its attention enters.

        Before `join`, only work in `after_layer_1_backward` may read them.
        """
        # Layer 1's attention enters three quantities; g is a head of layer 2 and h one of layer 1, q is a key of layer
        # 2, which was a query of layer 1, and k is a key of layer 1.
        #   passed_on[g, h, k] = sum over q of attention_2[g, q] attention_1[h, q, k]
        #   scores of keys[g, q] += sum over h and k of attention_1[h, q, k] copied_scores[g, h, k]
        #   usage[h] = spread of attention_1[h, query `=`]
        g_attention = torch.einsum("...gq,...ghk->...hqk", attention_2, g_passed_on)  # (..., B, H, query, key)
        g_attention += torch.einsum("...gq,...ghk->...hqk", g_position_scores, copied_scores)
        g_of_equals = g_usage[..., : self.n_used_by_1 - 1].unflatten(-1, (self.H, self.C))
        g_attention[..., -1, :] += collect(g_of_equals, tokens.unsqueeze(-2))
        g_pairs = softmax_backward(g_attention, attention_1)
        g_queries = spread(g_pairs, tokens[..., None, None, :], self.C)  # (..., B, H, query, C)
        g_queries = g_queries.movedim(-3, -4)  # (..., H, B, query, C)
        g_table = g_queries.new_zeros(*tokens.shape[:-2], self.H, self.C, self.C)
        # The rows of tokens: each query's gradient is added to the row of its token.
        query_tokens = tokens.flatten(-2)[..., None, :, None].expand(*g_table.shape[:-2], -1, self.C)  # (..., B T, C)
        g_table.scatter_add_(-2, query_tokens, g_queries.flatten(-3, -2))
        # The rows of positions, which all sequences have.
        g_table[..., self.K :, :] = g_queries.sum(-3)
        return g_table

    def cross_entropy(
        self, logits: Float[Tensor, "*M B N"], labels: Int[Tensor, "*M B"]
    ) -> tuple[Float[Tensor, "*M"], Float[Tensor, "*M B N"]]:
        """Mean cross entropy of each model, and its gradient; may overwrite the logits."""
        return cross_entropy(logits, labels)

    def adamw(
        self,
        flat: Float[Tensor, "M P"],
        grad: Float[Tensor, "M P"],
        moments: Moments,
        loss: Float[Tensor, " M"],
        diverged_at: Int[Tensor, " M"],
        count: Int[Tensor, ""],
    ) -> None:
        """Makes AdamW update number `count` (Loshchilov and Hutter, 2019) of the weights `flat` and of their `moments`.

        A model whose `loss` is not finite, now or earlier, keeps its weights. At the first time this step, `count` - 1,
        replaces -1 in `diverged_at`.
        """
        if flat.device.type == "cpu":
            fused_adamw(flat, grad, moments, loss, diverged_at, count)
        else:
            stacked_adamw(flat, grad, moments, loss, diverged_at, count)

    def _at_positions(self, table: Tensor, tokens: Tensor) -> Tensor:
        """The row of its token plus the row of the position, for every position: (..., B, heads, T, d).

        `table` (..., heads, C, d) has a table for each head.
        """
        tables = table.flatten(0, -3)  # (M heads, C, d), or (heads, C, d) of one model
        tokens_of_heads = tokens.unsqueeze(-3).expand(*table.shape[:-2], *tokens.shape[-2:])  # (..., heads, B, T)
        which_table = torch.arange(len(tables), device=table.device)[:, None, None]
        rows_of_tokens = tables[which_table, tokens_of_heads.flatten(0, -3)]  # (M heads, B, T, d)
        of_tokens = rows_of_tokens.unflatten(0, table.shape[:-2])  # (..., heads, B, T, d)
        return (of_tokens + table[..., None, self.K :, :]).movedim(-4, -3)

    def _by_source(self, rows: Float[Tensor, "*M B all"]) -> Float[Tensor, "*M B H sources C"]:
        """The (1 + H) C rows of each head of layer 2 by where they come from: the embeddings, each head of layer 1."""
        return rows.unflatten(-1, (self.H, 1 + self.H, self.C))


def spread(amounts: Tensor, tokens: Tensor, n_rows: int) -> Tensor:
    """How much of each of C = `n_rows` rows is used, (..., C).

    Every position uses its amount, of `amounts` (..., T), of the row of its token and of the position's own row, which
    is one of the last T.
    """
    rows = amounts.new_zeros(*amounts.shape[:-1], n_rows).scatter_add_(-1, tokens.expand(amounts.shape), amounts)
    rows[..., n_rows - tokens.shape[-1] :] = amounts
    return rows


def collect(rows: Tensor, tokens: Tensor) -> Tensor:
    """For every position, (..., T), the entry of its token plus that of the position in `rows`: transposes `spread`."""
    C, T = rows.shape[-1], tokens.shape[-1]
    return rows.gather(-1, tokens.expand(*rows.shape[:-1], T)).add_(rows[..., C - T :])


def softmax_backward(grad: Tensor, probabilities: Tensor) -> Tensor:
    """Gradient of a softmax's scores, from that of its probabilities over the last axis."""
    return torch._softmax_backward_data(grad, probabilities, -1, grad.dtype)


def cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cross entropy over the sequences of (..., B, N) logits, and its gradient."""
    target = labels.unsqueeze(-1)  # (..., B, 1)
    log_probabilities = logits.log_softmax(-1)
    loss = -log_probabilities.gather(-1, target).squeeze(-1).mean(-1)
    # The gradient is (probability - 1 at the label) / B.
    minus_one = torch.full_like(target, -1, dtype=logits.dtype)
    grad = log_probabilities.exp_().scatter_add_(-1, target, minus_one)
    return loss, grad.div_(labels.shape[-1])


def fused_adamw(flat: Tensor, grad: Tensor, moments: Moments, loss: Tensor, diverged_at: Tensor, count: Tensor) -> None:
    """Makes the update of `TensorKernels.adamw` on a CPU: model by model, by torch's fused kernel, in one pass.

    torch.optim.adamw.adamw gives the same bits, and takes 40 us more for each call.
    """
    steps, rates = count.float(), moments.rate_in_double.flatten().tolist()
    is_alive, is_finite = (diverged_at < 0).tolist(), loss.isfinite().tolist()
    for i, optim in enumerate(moments.optims):
        if is_alive[i] and not is_finite[i]:
            diverged_at[i] = count - 1
        elif is_alive[i]:
            torch._fused_adamw_(  # the empty list is for maxima, which `amsgrad` would need
                [flat[i]], [grad[i]], [moments.mean[i]], [moments.square[i]], [], [steps],
                lr=rates[i], beta1=optim.beta1, beta2=optim.beta2, weight_decay=optim.weight_decay,
                eps=optim.eps, amsgrad=False, maximize=False,
            )  # fmt: skip


def stacked_adamw(
    flat: Tensor, grad: Tensor, moments: Moments, loss: Tensor, diverged_at: Tensor, count: Tensor
) -> None:
    """Makes the update of `TensorKernels.adamw` on a GPU: of all models, without a branch that a CPU would wait for."""
    diverged_at.copy_(torch.where(loss.isfinite() | (diverged_at >= 0), diverged_at, count - 1))
    is_alive = diverged_at.unsqueeze(1) < 0  # (M, 1)
    # The corrections of update number `count` for moments that started at 0, (M, 1) both, in double precision.
    of_mean, of_square = (1 - moments.betas ** count.double()).split(1, 1)
    step_size, root_of_correction = (moments.rate / of_mean).to(flat.dtype), of_square.sqrt().to(flat.dtype)
    one_minus_beta1, beta2, one_minus_beta2, eps = moments.coefficients.split(1, 1)  # (M, 1) each
    grad = torch.where(is_alive, grad, 0)
    moments.mean.lerp_(grad, one_minus_beta1)
    moments.square.mul_(beta2).add_(grad.square().mul_(one_minus_beta2))
    update = moments.mean / (moments.square.sqrt().div_(root_of_correction).add_(eps))
    flat.mul_(1 - is_alive * moments.decay).sub_(update.mul_(is_alive * step_size))
