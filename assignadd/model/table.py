"""The exact answer logits of the two-layer model without ever forming the residuals of the other positions.

Layer 1 sees only W_E[token] + W_pos[position], so its scores and outputs are linear in the C = K + T embedding rows
(K tokens, T positions; 74 + 16 = 90 in the paper), and so is everything that `=` reads from other positions later:

    scores of layer 1    entries of a (C, C) table, gathered for every (query, key)
    residual of `=`      w1 @ [C OV1; E_= + P_=]: w1 says how much attention each row of the table gets
    scores of layer 2    entries of [C; C OV1] QK2 (that residual), gathered, mixed by the layer-1 patterns
    output of layer 2    w2 @ [C; C OV1] OV2

The MLP and the unembedding follow, at one position. The large matrix products and what is between products (gathers,
patterns, scatters) are done by exchangeable kernels (`kernels`). The backward pass is written out by hand; a test holds
logits and every gradient equal to the reference transformer. All functions take weights with or without the axis M: on
a CPU the plain matrix products of a single model are faster than batched ones. `heads` does the same for several heads.
docs/names.md, "Words of the fast pass", says what rows, copies, usage and aside are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Generic, NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from assignadd.config import Config
from assignadd.model.architecture import TABLE_NEEDS, lacking
from assignadd.model.kernels import kernels_for
from assignadd.model.kernels.tensor import TensorKernels
from assignadd.model.trace import LOGITS, Lazy, Trace
from assignadd.task.vocabulary import Vocabulary


def covers(config: Config) -> bool:
    """Whether the tables describe this architecture and task: the paper's, at any size, with any number of heads."""
    return config.task.file is None and not lacking(config, *TABLE_NEEDS)


class Weights(NamedTuple):
    """The weights that the tables read, or their gradients. In the compiled step of a CPU they are arrays.

    A stack has the axis M in front of these shapes. Several heads have an axis H behind that: (..., H, d, dh).
    """

    E: Tensor  # (K, d)
    pos: Tensor  # (T, d)
    Q1: Tensor  # (d, dh), as the next two
    K1: Tensor
    V1: Tensor
    O1: Tensor  # (dh, d)
    Q2: Tensor  # (d, dh), as the next two
    K2: Tensor
    V2: Tensor
    O2: Tensor  # (dh, d)
    W_in: Tensor  # (d, h)
    W_out: Tensor  # (h, d)
    U: Tensor  # (d, N)

    @classmethod
    def of(cls, named: Mapping[str, Tensor]) -> Weights:
        """The weights of a stack or of one model, from all of them by name, in the order of `weight_shapes`."""
        return cls(*[weight.squeeze(-3) if ".attn." in name else weight for name, weight in named.items()])


@dataclass(frozen=True)
class Rows:
    """Rows that residuals are sums of, for H heads: all three are views of [E; P; [E; P] OV1 of each; E_= + P_=]."""

    embeddings: Tensor  # (C, d)            [E; P]
    equal_rows: Tensor  # (H C + 1, d)      [[E; P] OV1 of each head; E_= + P_=]: of the residual of `=` after layer 1
    key_rows: Tensor  # ((1 + H) C, d)    [[E; P]; [E; P] OV1 of each head]: of the residual of any key


@dataclass(frozen=True)
class Tables(Rows):
    """What follows from the weights of one head alone."""

    queries_1: Tensor  # (C, dh)
    keys_1: Tensor  # (C, dh)
    values_1: Tensor  # (C, dh)
    QK2: Tensor  # (d, d)             W_Q W_K^T / sqrt(d_head) of layer 2
    queries_2: Tensor  # (C + 1, d)        equal_rows QK2
    scores_2: Tensor  # (2C, C + 1)       key_rows queries_2^T
    OV2: Tensor  # (d, d)             W_V W_O of layer 2
    outputs: Tensor  # (3C + 1, d)       [equal_rows; key_rows OV2]: what the residual of `=` after layer 2 is made of


@dataclass(frozen=True)
class Activations:
    """What the forward pass leaves for the backward pass; each cached property is computed when it is first read."""

    tokens: Int[Tensor, "*M B T"]
    weights: Weights
    tables: Rows
    attention_1: Float[Tensor, "*M B H T T"]
    """Attention of layer 1, (query, key)."""
    attention_2: Float[Tensor, "*M B H T"]
    """Attention of `=` in layer 2 over the keys."""
    usage: Float[Tensor, "*M B rows"]
    """How much `=` uses of each row of `equal_rows` and then, for each head of layer 2, of each row of `key_rows`."""
    copied_scores: Float[Tensor, "*M B H copied_by T"]
    """The layer-2 score of each position's copy: what a key gains for each unit of its layer-1 attention to it."""
    kernels: TensorKernels

    @cached_property
    def used_by_1(self) -> Float[Tensor, "*M B rows"]:
        """How much the residual of `=` after layer 1 has of each row of `equal_rows`."""
        return self.usage[..., : self.kernels.n_used_by_1]

    @cached_property
    def resid_pre(self) -> Float[Tensor, "*M B d"]:
        """The residual of `=` after layer 1."""
        return self.used_by_1 @ self.tables.equal_rows

    @property
    def attention_output(self) -> Float[Tensor, "*M B d"]:
        """What layer 2's attention writes into the residual of `=`."""
        raise NotImplementedError

    @property
    def resid_mid(self) -> Float[Tensor, "*M B d"]:
        """The residual of `=` after layer 2's attention."""
        raise NotImplementedError

    @cached_property
    def neurons(self) -> Float[Tensor, "*M B h"]:
        """The MLP after its ReLU."""
        return self.kernels.relu_product(self.resid_mid, self.weights.W_in)

    @cached_property
    def mlp_out(self) -> Float[Tensor, "*M B d"]:
        """What the MLP writes into the residual of `=`."""
        return self.neurons @ self.weights.W_out

    @cached_property
    def resid_post(self) -> Float[Tensor, "*M B d"]:
        """The residual of `=` after the MLP."""
        on_cpu = self.resid_mid.device.type == "cpu"
        if on_cpu:  # measures read `mlp_out` too, and a pass over memory costs little
            return self.resid_mid + self.mlp_out
        return self.kernels.plus_product(self.resid_mid.clone(), self.neurons, self.weights.W_out)

    @cached_property
    def logits(self) -> Float[Tensor, "*M B N"]:
        """The answer logits, from the residual after the MLP."""
        return self.resid_post @ self.weights.U

    @cached_property
    def read_out(self) -> Float[Tensor, "*M h N"]:
        """W_out W_U: the logits that a unit of each neuron adds."""
        return self.weights.W_out @ self.weights.U

    @cached_property
    def logits_by_read_out(self) -> Float[Tensor, "*M B N"]:
        """`logits` up to rounding, by W_out W_U: fewer operations, as there are fewer answers than dimensions."""
        return self.kernels.plus_product(self.neurons @ self.read_out, self.resid_mid, self.weights.U)


@dataclass(frozen=True)
class OneHead(Activations):
    """The activations of one head in each layer."""

    tables: Tables

    @cached_property
    def attention_output(self) -> Float[Tensor, "*M B d"]:
        """What layer 2's attention writes into the residual of `=`."""
        # From row n on `outputs` is key_rows OV2, and from column n on `usage` says how much of that is used.
        n = self.kernels.n_used_by_1
        return self.usage[..., n:] @ self.tables.outputs[..., n:, :]

    @cached_property
    def resid_mid(self) -> Float[Tensor, "*M B d"]:
        """The residual of `=` after layer 2's attention, in one product with all rows that it is made of."""
        return self.kernels.product(self.usage, self.tables.outputs)


def reads_out(w: Weights, batch: int) -> bool:
    """Whether the neurons are multiplied by W_out W_U rather than by W_out, (h, N) rather than (h, d).

    W_out W_U has to be computed first: h d N more multiplications for B h (d - N) fewer with B = `batch`, and twice
    that in the backward pass. On a GPU a product of so few columns takes no less time.
    """
    d, N = w.U.shape[-2:]
    return w.U.device.type == "cpu" and N * (d + batch) < d * batch  # h d N < B h (d - N)


A = TypeVar("A", bound=Activations)
R = TypeVar("R", bound=Rows)


class Forward(Generic[A, R]):
    """The forward and the backward pass of models of one configuration on one device.

    Its subclasses, for one head and for several, do the part before the last MLP: they compute tables of type `R` and
    from them activations of type `A`.
    """

    def __init__(self, config: Config, device: str | torch.device = "cpu", stacked: bool = False):
        vocabulary = Vocabulary(config.task)
        self.config = config
        self.K = vocabulary.size
        self.T = config.task.length
        self.C = self.K + self.T
        self.equals = vocabulary.equals
        self.scale = 1 / math.sqrt(config.model.d_head)
        self.kernels = kernels_for(config, torch.device(device), stacked)

    def forward(self, w: Weights, tokens: Int[Tensor, "*M B T"], tables: R | None = None) -> A:
        """The activations on these sequences, through the tables of the weights or through edited ones."""
        raise NotImplementedError

    def begin_tables(self, w: Weights) -> R:
        """The tables of these weights; before `kernels.join`, only those of layer 1's scores are complete."""
        raise NotImplementedError

    def tables(self, w: Weights) -> R:
        """The tables of these weights."""
        tables = self.begin_tables(w)
        self.kernels.join()
        return tables

    def _attention_backward(self, w: Weights, activations: A, g_resid: Tensor, grads: Weights) -> None:
        """Writes the gradients of the weights of attention and embeddings into `grads`, from that of `resid_mid`."""
        raise NotImplementedError

    def _write_embeddings(self, w: Weights, embeddings: Tensor, constant: Tensor) -> None:
        """Writes [E; P], (..., C, d), and E_= + P_=, (..., 1, d)."""
        torch.cat([w.E, w.pos], -2, out=embeddings)
        E_equals, P_last = w.E.narrow(-2, self.equals, 1), w.pos.narrow(-2, self.T - 1, 1)  # one row of each
        torch.add(E_equals, P_last, out=constant)

    def _rows_backward(self, g_key_rows: Tensor, g_equal_rows: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of the embeddings, (..., C, d), and of what layer 1 writes for them, (..., H C, d).

        They follow from those of `Rows.key_rows` and `Rows.equal_rows`, and take the memory of the first.
        """
        # key_rows = [embeddings; outputs_1], equal_rows = [outputs_1; constant]
        C = self.C
        g_embeddings, g_outputs_1 = g_key_rows.tensor_split([C], -2)  # views
        g_outputs_1 += g_equal_rows[..., :-1, :]
        # The constant is E_= + P_=: a slice of exactly these two rows, `equals` and C - 1 (the last position).
        g_constant = g_equal_rows[..., -1:, :]
        g_embeddings[..., self.equals :: C - 1 - self.equals, :] += g_constant
        return g_embeddings, g_outputs_1

    def check(self, tokens: Tensor) -> None:
        """Raises a ValueError for sequences of another length: compiled kernels would read past the end of an array."""
        if tokens.shape[-1] != self.T:
            raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected sequences of {self.T} tokens")

    def trace(self, w: Weights, tokens: Int[Tensor, "*M B T"]) -> Trace:
        """The trace of these sequences. Its patterns are computed now, the other quantities when first read."""
        activations = self.forward(w, tokens)
        tables = activations.tables
        names = ("resid_pre", "attention_output", "resid_mid", "neurons", "mlp_out", "resid_post", LOGITS)
        last: dict[str, Callable[[], Tensor]] = {name: partial(getattr, activations, name) for name in names}
        last["preactivations"] = lambda: activations.resid_mid @ w.W_in
        residuals = {
            "embedding": lambda: tables.equal_rows[..., -1:, :].expand(*tokens.shape[:-1], -1),  # E_= + P_=
            "attention 1": last["resid_pre"],
            "attention 2": last["resid_mid"],
            "MLP 2": last["resid_post"],
        }

        @torch.no_grad()
        def all_positions(layer: int) -> Tensor:
            """The residual of every position after layer 1, the only layer but the last."""
            outputs_1 = tables.equal_rows[..., :-1, :]  # without the constant: (..., H C, d)
            outputs_by_head = outputs_1.unflatten(-2, (-1, self.C))  # (..., H, C, d)
            return self.kernels.after_layer_1(tables.embeddings, outputs_by_head, tokens, activations.attention_1)

        patterns = activations.attention_1, activations.attention_2.unsqueeze(-2)  # (..., B, H, queries, T)
        return Trace(self.config, patterns, Lazy(residuals), Lazy(last), all_positions)

    def logits(self, activations: A) -> Float[Tensor, "*M B N"]:
        """The logits, through W_out W_U or through the residual after the MLP: whichever takes fewer operations."""
        batch = activations.tokens.shape[-2]
        return activations.logits_by_read_out if reads_out(activations.weights, batch) else activations.logits

    def backward(self, w: Weights, activations: A, g_logits: Tensor, grads: Weights) -> None:
        """Writes the gradient of sum(logits * g_logits) by every weight into `grads`, whatever they held before."""
        product, plus_product, aside = self.kernels.product, self.kernels.plus_product, self.kernels.product_aside
        resid_mid, neurons = activations.resid_mid, activations.neurons
        g_resid = g_logits @ w.U.mT  # (..., B, d), by the residual after the MLP
        if reads_out(w, activations.tokens.shape[-2]):  # logits = neurons (W_out U) + resid_mid U
            g_read_out = product(neurons.mT, g_logits)  # (..., h, N), of W_out U
            product(g_read_out, w.U.mT, out=grads.W_out)
            product(w.W_out.mT, g_read_out, out=grads.U)
            plus_product(grads.U, resid_mid.mT, g_logits)  # is added to grads.U
            g_neurons = self.kernels.gated_product(g_logits, activations.read_out.mT, neurons)
        else:  # logits = (resid_mid + neurons W_out) U
            aside(activations.resid_post.mT, g_logits, out=grads.U)
            product(neurons.mT, g_resid, out=grads.W_out)
            g_neurons = self.kernels.gated_product(g_resid, w.W_out.mT, neurons)
        aside(resid_mid.mT, g_neurons, out=grads.W_in)
        plus_product(g_resid, g_neurons, w.W_in.mT)  # is added to g_resid: now by resid_mid, before the MLP
        self._attention_backward(w, activations, g_resid, grads)

    def _scaled(self, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        """a @ b / sqrt(d_head), written into `out` if there is one; it takes no second pass to divide."""
        product = a.new_empty(*a.shape[:-1], b.shape[-1]) if out is None else out
        plus_product = product.addmm_ if a.dim() == 2 else product.baddbmm_
        return plus_product(a, b, beta=0, alpha=self.scale)  # with beta = 0, what the memory held is not read


class TableForward(Forward[OneHead, Tables]):
    """The pass of models with one head in each layer."""

    def forward(
        self,
        w: Weights,
        tokens: Int[Tensor, "*M B T"],
        tables: Tables | None = None,
        edit_layer_1: Callable[[Tensor, Tensor, Tensor], None] | None = None,
    ) -> OneHead:
        """The activations on these sequences, through the tables of the weights or through edited ones.

        `edit_layer_1(tokens, attention, usage)` may change layer 1's attention and what `=` gets of each row by it.
        """
        self.check(tokens)
        if tables is None:
            tables = self.begin_tables(w)
        # (..., B, 3C + 1): layer 1 fills the first C + 1 columns, layer 2 the others.
        usage = self.kernels.matrix(tokens, self.kernels.n_used, like=tables.outputs)
        scores_1 = self._scaled(tables.queries_1, tables.keys_1.mT)  # (..., C, C)
        attention_1 = self.kernels.layer_1(scores_1.unsqueeze(-3), tokens, usage)  # (..., B, 1, T, T)
        if edit_layer_1:
            edit_layer_1(tokens, attention_1.squeeze(-3), usage)
        self.kernels.join()  # the tables that `begin_tables` only began
        scores_2 = self.kernels.matrix(tokens, 2 * self.C, like=usage)  # (..., B, 2C)
        self.kernels.product(usage[..., : self.kernels.n_used_by_1], tables.scores_2.mT, out=scores_2)
        attention_2, copied_scores = self.kernels.layer_2(scores_2, tokens, attention_1, usage)
        return OneHead(tokens, w, tables, attention_1, attention_2, usage, copied_scores, self.kernels)

    def _attention_backward(self, w: Weights, activations: OneHead, g_resid: Tensor, grads: Weights) -> None:
        """Writes the gradients of all weights of attention and embeddings: `forward` from the end to the beginning."""
        # resid_mid = usage @ outputs
        g_usage = self.kernels.matrix(activations.tokens, self.kernels.n_used, like=g_resid)  # (..., B, 3C + 1)
        self.kernels.product(g_resid, activations.tables.outputs.mT, out=g_usage)
        g_outputs = self.kernels.product_aside(activations.usage.mT, g_resid)  # (..., 3C + 1, d)
        g_scores_1, g_scores_2 = self._scores_backward(activations, g_usage)
        self._tables_backward(w, activations.tables, g_scores_1, g_scores_2, g_outputs, grads)

    def _scores_backward(self, activations: OneHead, g_usage: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the gradients of both score tables, (..., C, C) and (..., 2C, C + 1).

        They follow from that of the usage, (..., B, 3C + 1), to which the part by way of layer 2's scores is added
        here. The first may not be complete yet: only work in `kernels.after_layer_1_backward` may read it.
        """
        tokens, used_by_1 = activations.tokens, activations.used_by_1
        attention_1, attention_2 = activations.attention_1, activations.attention_2
        g_row_scores, g_position_scores, g_passed_on = self.kernels.layer_2_backward(
            g_usage, tokens, attention_1, attention_2
        )
        g_scores_2 = self.kernels.product_aside(g_row_scores.mT, used_by_1)
        self.kernels.plus_product(g_usage[..., : self.kernels.n_used_by_1], g_row_scores, activations.tables.scores_2)
        # Waits for g_scores_2 and g_outputs alone: the gradient of layer 1, which takes longer, is only begun below.
        self.kernels.join()
        g_scores_1 = self.kernels.layer_1_backward(
            g_usage, tokens, attention_1, attention_2, activations.copied_scores, g_position_scores, g_passed_on
        )
        return g_scores_1.squeeze(-3), g_scores_2

    def begin_tables(self, w: Weights) -> Tables:
        """The tables of these weights, of which only queries and keys of layer 1 are complete before `kernels.join`."""
        aside, C, d = self.kernels.product_aside, self.C, w.E.shape[-1]
        new, axes = w.E.new_empty, w.E.shape[:-2]  # axes: (M,) of a stack, () of one model
        # One memory for all rows, in this order, so that each of the three tables below is a slice of it.
        rows = new(*axes, 4 * C + 1, d)
        embeddings, outputs_1, constant, outputs_2 = rows.split_with_sizes([C, C, 1, 2 * C], -2)
        key_rows = rows[..., : 2 * C, :]  # [embeddings; outputs_1]
        equal_rows = rows[..., C : 2 * C + 1, :]  # [outputs_1; constant]
        outputs = rows[..., C:, :]  # [outputs_1; constant; outputs_2]
        self._write_embeddings(w, embeddings, constant)
        QK2 = new(*axes, d, d)
        with self.kernels.aside():
            self._scaled(w.Q2, w.K2.mT, out=QK2)
        values_1 = aside(embeddings, w.V1)
        aside(values_1, w.O1, out=outputs_1)
        OV2 = aside(w.V2, w.O2)
        queries_2 = aside(equal_rows, QK2)
        aside(key_rows, OV2, out=outputs_2)
        scores_2 = aside(key_rows, queries_2.mT)
        queries_1, keys_1 = embeddings @ w.Q1, embeddings @ w.K1
        return Tables(
            embeddings, equal_rows, key_rows, queries_1, keys_1, values_1, QK2, queries_2, scores_2, OV2, outputs
        )

    def _tables_backward(
        self, w: Weights, tables: Tables, g_scores_1: Tensor, g_scores_2: Tensor, g_outputs: Tensor, grads: Weights
    ) -> None:
        """Writes the gradients of the weights of attention and embeddings into `grads`, from those of the tables.

        All are complete when it returns. `g_scores_1` may still be computed aside when it is called, the others not.
        """
        K, C = self.K, self.C
        aside, plus_product = self.kernels.product_aside, self.kernels.plus_product

        # scores_1 = queries_1 keys_1^T / sqrt(d_head)
        with self.kernels.after_layer_1_backward():
            g_queries_1 = self._scaled(g_scores_1, tables.keys_1)
            g_keys_1 = self._scaled(g_scores_1.mT, tables.queries_1)
            torch.matmul(tables.embeddings.mT, g_queries_1, out=grads.Q1)
            torch.matmul(tables.embeddings.mT, g_keys_1, out=grads.K1)
            g_embeddings_by_scores = plus_product(g_queries_1 @ w.Q1.mT, g_keys_1, w.K1.mT)

        # outputs = [equal_rows; key_rows OV2]
        g_equal_rows, g_outputs_2 = g_outputs.split_with_sizes([C + 1, 2 * C], -2)
        g_OV2 = tables.key_rows.mT @ g_outputs_2
        aside(g_OV2, w.O2.mT, out=grads.V2)
        aside(w.V2.mT, g_OV2, out=grads.O2)
        # scores_2 = key_rows queries_2^T, queries_2 = equal_rows QK2
        g_key_rows = plus_product(g_outputs_2 @ tables.OV2.mT, g_scores_2, tables.queries_2)
        g_queries_2 = g_scores_2.mT @ tables.key_rows
        g_Q2_K2_T = self._scaled(tables.equal_rows.mT, g_queries_2)  # QK2 is Q2 K2^T / sqrt(d_head)
        aside(g_Q2_K2_T, w.K2, out=grads.Q2)
        aside(g_Q2_K2_T.mT, w.Q2, out=grads.K2)
        g_equal_rows = plus_product(g_equal_rows, g_queries_2, tables.QK2.mT)

        # key_rows = [embeddings; outputs_1], equal_rows = [outputs_1; E_= + P_=]
        g_embeddings, g_outputs_1 = self._rows_backward(g_key_rows, g_equal_rows)
        # outputs_1 = embeddings V1 O1
        aside(tables.values_1.mT, g_outputs_1, out=grads.O1)
        g_values_1 = g_outputs_1 @ w.O1.mT
        aside(tables.embeddings.mT, g_values_1, out=grads.V1)
        g_embeddings = plus_product(g_embeddings, g_values_1, w.V1.mT)
        self.kernels.join()

        # embeddings = [E; P]
        torch.add(g_embeddings[..., :K, :], g_embeddings_by_scores[..., :K, :], out=grads.E)
        torch.add(g_embeddings[..., K:, :], g_embeddings_by_scores[..., K:, :], out=grads.pos)
