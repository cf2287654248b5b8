"""The exact answer logits of the two-layer model without ever forming the residuals of the other positions.

Layer 1 sees only W_E[token] + W_pos[position], so its scores and outputs are linear in the C = K + T embedding rows
(K tokens, T positions; 74 + 16 = 90 in the paper), and so is everything that `=` reads from other positions later:

    scores of layer 1    entries of a (C, C) table, gathered for every (query, key)
    residual of `=`      w1 @ [C OV1; E_= + P_=]: w1 says how much attention each row of the table gets
    scores of layer 2    entries of [C; C OV1] QK2 (that residual), gathered, mixed by the layer-1 patterns
    output of layer 2    w2 @ [C; C OV1] OV2

The MLP and the unembedding follow, at one position; on a CPU the logits of its neurons come from W_out W_U, which has
fewer columns than W_out. This file has the matrix products; the large ones, and what is between products (gathers,
patterns, scatters), are done by exchangeable kernels (`kernels`). The backward pass is written out by hand; a test
holds logits and every gradient equal to the reference transformer. All functions take weights with or without a leading
axis M: on a CPU the plain matrix products of a single model are faster than batched ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from assignadd.config import Config
from assignadd.model.architecture import PAPER_NEEDS, lacking
from assignadd.model.kernels import kernels_for
from assignadd.model.kernels.tensor import TensorKernels
from assignadd.model.trace import LOGITS, Lazy, Trace
from assignadd.task.vocabulary import Vocabulary


def covers(config: Config) -> bool:
    """Whether the tables describe this architecture and task: the paper's, at any size."""
    return config.task.file is None and not lacking(config, *PAPER_NEEDS)


@dataclass(frozen=True)
class Weights:
    """The weights the tables read (or their gradients), each (..., rows, columns), without the axis of the one head."""

    E: Tensor
    pos: Tensor
    Q1: Tensor
    K1: Tensor
    V1: Tensor
    O1: Tensor
    Q2: Tensor
    K2: Tensor
    V2: Tensor
    O2: Tensor
    W_in: Tensor
    W_out: Tensor
    U: Tensor

    @classmethod
    def of(cls, named: Mapping[str, Tensor]) -> Weights:
        """The weights of the table forward among those of a stack or of one model, by name."""
        heads = [named[f"blocks.{layer}.attn.W_{letter}"].squeeze(-3) for layer in (0, 1) for letter in "QKVO"]
        ends = [named[name] for name in ("blocks.1.mlp.W_in", "blocks.1.mlp.W_out", "unembed.W_U")]
        return cls(named["embed.W_E"], named["pos_embed.W_pos"], *heads, *ends)


@dataclass(frozen=True)
class Tables:
    """What follows from the weights alone. Most are views of one matrix; its rows are named on the right."""

    embeddings: Tensor  # (C, d)     [W_E; W_pos]
    queries_1: Tensor  # (C, dh)
    keys_1: Tensor  # (C, dh)
    values_1: Tensor  # (C, dh)
    equal_rows: Tensor  # (C + 1, d)  [C OV1; E_= + P_=]: what the residual of `=` after layer 1 is made of
    both: Tensor  # (2C, d)    [C; C OV1]: what the residual of any key is made of
    QK2: Tensor
    queries_2: Tensor  # (C + 1, d)  equal_rows QK2
    scores_2: Tensor  # (2C, C + 1)
    OV2: Tensor
    outputs: Tensor  # (3C + 1, d) [equal_rows; both OV2]

    @classmethod
    def empty(cls, w: Weights) -> Tables:
        """Memory for the tables of such weights, not initialised."""
        K, d = w.E.shape[-2:]
        C, dh = K + w.pos.shape[-2], w.Q1.shape[-1]
        new, axes = w.E.new_empty, w.E.shape[:-2]
        rows = new(*axes, 4 * C + 1, d)  # [C; C OV1; E_= + P_=; [C; C OV1] OV2]
        return cls(
            embeddings=rows.narrow(-2, 0, C),
            queries_1=new(*axes, C, dh),
            keys_1=new(*axes, C, dh),
            values_1=new(*axes, C, dh),
            equal_rows=rows.narrow(-2, C, C + 1),
            both=rows.narrow(-2, 0, 2 * C),
            QK2=new(*axes, d, d),
            queries_2=new(*axes, C + 1, d),
            scores_2=new(*axes, 2 * C, C + 1),
            OV2=new(*axes, d, d),
            outputs=rows.narrow(-2, C, 3 * C + 1),
        )

    @cached_property
    def outputs_1(self) -> Tensor:
        """C OV1, (C, d)."""
        return self.equal_rows[..., :-1, :]

    @cached_property
    def constant(self) -> Tensor:
        """E_= + P_=, (1, d)."""
        return self.equal_rows[..., -1:, :]

    @cached_property
    def outputs_2(self) -> Tensor:
        """[C; C OV1] OV2, (2C, d)."""
        return self.outputs[..., self.equal_rows.shape[-2] :, :]


@dataclass(frozen=True)
class Activations:
    """What the forward pass leaves for the backward pass; the rest is computed when it is first read."""

    tokens: Int[Tensor, "*M B T"]
    weights: Weights
    tables: Tables
    attention_1: Float[Tensor, "*M B T T"]
    """Attention of layer 1, (query, key)."""
    attention_2: Float[Tensor, "*M B T"]
    """Attention of `=` in layer 2 over the keys."""
    usage: Float[Tensor, "*M B rows"]
    """The amount of each table row in the residual of `=`: w1 for layer 1, one for the constant row, w2 for layer 2."""
    copied_scores: Float[Tensor, "*M B T"]
    """Layer-2 score that a unit of layer-1 attention to each position adds to a key."""
    kernels: TensorKernels

    @cached_property
    def resid_mid(self) -> Float[Tensor, "*M B d"]:
        return self.kernels.product(self.usage, self.tables.outputs)

    @cached_property
    def neurons(self) -> Float[Tensor, "*M B h"]:
        return self.kernels.relu_product(self.resid_mid, self.weights.W_in)

    @cached_property
    def mlp_out(self) -> Float[Tensor, "*M B d"]:
        return self.neurons @ self.weights.W_out

    @cached_property
    def resid_post(self) -> Float[Tensor, "*M B d"]:
        if self.resid_mid.device.type == "cpu":  # where measures need both, and a pass over memory costs little
            return self.resid_mid + self.mlp_out
        return self.kernels.plus_product(self.resid_mid.clone(), self.neurons, self.weights.W_out)

    @cached_property
    def logits(self) -> Float[Tensor, "*M B N"]:
        return self.resid_post @ self.weights.U

    @cached_property
    def read_out(self) -> Float[Tensor, "*M h N"]:
        """The logits that a unit of each neuron adds, W_out W_U."""
        return self.weights.W_out @ self.weights.U

    def read(self, direct: bool = True) -> Float[Tensor, "*M B N"]:
        """The logits by W_out W_U: fewer operations, as there are fewer logits than dimensions of the residual.

        Up to rounding they are `logits`; if not `direct`, the part that the neurons add.
        """
        of_neurons = self.neurons @ self.read_out
        return self.kernels.plus_product(of_neurons, self.resid_mid, self.weights.U) if direct else of_neurons


def reads_out(w: Weights, batch: int) -> bool:
    """Whether the neurons are multiplied by W_out W_U rather than by W_out, (h, N) rather than (h, d).

    W_out W_U has to be computed first: h d N more multiplications for B h (d - N) fewer, and twice that in the
    backward pass. On a GPU a product of so few columns takes no less time.
    """
    d, N = w.U.shape[-2:]
    return w.U.device.type == "cpu" and N * (d + batch) < d * batch


class TableForward:
    """The forward and backward pass of one task's models on one device."""

    def __init__(self, config: Config, device: str | torch.device = "cpu", stacked: bool = False):
        self.config, vocabulary = config, Vocabulary(config.task)
        self.K, self.T = vocabulary.size, config.task.length
        self.C = self.K + self.T
        self.equals = vocabulary.equals
        self.scale = 1 / math.sqrt(config.model.d_head)
        self.kernels = kernels_for(config, torch.device(device), stacked)

    def forward(
        self,
        w: Weights,
        tokens: Int[Tensor, "*M B T"],
        tables: Tables | None = None,
        edit_layer_1: Callable[[Tensor, Tensor, Tensor], None] | None = None,
    ) -> Activations:
        """What the forward pass of these sequences leaves, through the tables of the weights or through edited ones.

        `edit_layer_1` may change layer 1's attention and what `=` gets of each row; it is called with tokens and both.
        """
        if tokens.shape[-1] != self.T:  # compiled kernels would read past the end of an array
            raise ValueError(f"tokens have shape {tuple(tokens.shape)}: expected sequences of {self.T} tokens")
        C, tables = self.C, self.begin_tables(w) if tables is None else tables
        usage = self.kernels.matrix(tokens, 3 * C + 1, tables.outputs)
        scores_1 = self._scaled(tables.queries_1, tables.keys_1.mT)
        attention_1 = self.kernels.layer_1(scores_1, tokens, usage)
        if edit_layer_1:
            edit_layer_1(tokens, attention_1, usage)
        self.kernels.join()
        scores_2 = self.kernels.matrix(tokens, 2 * C, usage)
        self.kernels.product(usage[..., : C + 1], tables.scores_2.mT, scores_2)
        attention_2, copied_scores = self.kernels.layer_2(scores_2, tokens, attention_1, usage)
        return Activations(tokens, w, tables, attention_1, attention_2, usage, copied_scores, self.kernels)

    def trace(self, w: Weights, tokens: Int[Tensor, "*M B T"], tables: Tables | None = None) -> Trace:
        """The trace of these sequences; patterns are there, other quantities are computed when they are first read."""
        activations = self.forward(w, tokens, tables)
        tables, usage = activations.tables, activations.usage
        before = self.C + 1  # rows in the residual of `=` before layer 2
        residuals = {
            "embedding": lambda: tables.constant.expand(*tokens.shape[:-1], -1),
            "attention 1": lambda: usage[..., :before] @ tables.equal_rows,
            "attention 2": lambda: activations.resid_mid,
            "MLP 2": lambda: activations.resid_post,
        }
        last = {
            "attention_output": lambda: usage[..., before:] @ tables.outputs_2,
            "preactivations": lambda: activations.resid_mid @ w.W_in,
            "neurons": lambda: activations.neurons,
            "mlp_out": lambda: activations.mlp_out,
            LOGITS: lambda: activations.logits,
        }

        @torch.no_grad()
        def all_positions(layer: int) -> Tensor:
            return self.kernels.after_layer_1(tables.embeddings, tables.outputs_1, tokens, activations.attention_1)

        patterns = activations.attention_1.unsqueeze(-3), activations.attention_2[..., None, None, :]
        return Trace(self.config, tokens, patterns, Lazy(residuals), Lazy(last), all_positions)

    def logits(self, activations: Activations) -> Float[Tensor, "*M B N"]:
        """The logits by the fewer operations: by W_out W_U, or by the residual after the MLP."""
        batch = activations.tokens.shape[-2]
        return activations.read() if reads_out(activations.weights, batch) else activations.logits

    def backward(self, w: Weights, activations: Activations, grad: Tensor, grads: Weights) -> None:
        """Writes the gradients of sum(logits * grad) for every weight into `grads` (whatever they held before)."""
        product, plus_product, aside = self.kernels.product, self.kernels.plus_product, self.kernels.product_aside
        g = grad @ w.U.mT  # (..., B, d)
        if reads_out(w, activations.tokens.shape[-2]):
            g_read_out = product(activations.neurons.mT, grad)  # (..., h, N)
            product(g_read_out, w.U.mT, grads.W_out)
            plus_product(product(w.W_out.mT, g_read_out, grads.U), activations.resid_mid.mT, grad)
            g_neurons = self.kernels.gated_product(grad, activations.read_out.mT, activations.neurons)
        else:
            aside(activations.resid_post.mT, grad, grads.U)
            product(activations.neurons.mT, g, grads.W_out)
            g_neurons = self.kernels.gated_product(g, w.W_out.mT, activations.neurons)
        aside(activations.resid_mid.mT, g_neurons, grads.W_in)
        plus_product(g, g_neurons, w.W_in.mT)
        g_usage = self.kernels.matrix(activations.tokens, 3 * self.C + 1, g)
        product(g, activations.tables.outputs.mT, g_usage)
        g_outputs = aside(activations.usage.mT, g)  # (..., 3C + 1, d)
        g_scores_1, g_scores_2 = self._attention_backward(activations, g_usage)
        self._tables_backward(w, activations.tables, g_scores_1, g_scores_2, g_outputs, grads)

    def _attention_backward(self, activations: Activations, g_usage: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of both score tables from that of the usage; only `after_layer_1_backward` may read layer 1's."""
        read = (activations.tokens, activations.attention_1, activations.attention_2)
        g_both, g_position_scores, g_passed_on = self.kernels.layer_2_backward(g_usage, *read)
        first = slice(self.C + 1)
        g_scores_2 = self.kernels.product_aside(g_both.mT, activations.usage[..., first])
        self.kernels.plus_product(g_usage[..., first], g_both, activations.tables.scores_2)
        self.kernels.join()  # g_scores_2 and the gradient of the outputs, before that of layer 1, which takes longer
        g_positions = (activations.copied_scores, g_position_scores, g_passed_on)
        return self.kernels.layer_1_backward(g_usage, *read, *g_positions), g_scores_2

    def tables(self, w: Weights) -> Tables:
        """The tables of these weights."""
        tables = self.begin_tables(w)
        self.kernels.join()
        return tables

    def begin_tables(self, w: Weights) -> Tables:
        """The tables; before `join`, only embeddings, queries_1 and keys_1 are there."""
        t, aside = Tables.empty(w), self.kernels.product_aside
        torch.cat([w.E, w.pos], -2, out=t.embeddings)
        torch.add(w.E.narrow(-2, self.equals, 1), w.pos.narrow(-2, self.T - 1, 1), out=t.constant)
        with self.kernels.aside():
            self._scaled(w.Q2, w.K2.mT, t.QK2)
        aside(t.embeddings, w.V1, t.values_1)
        aside(t.values_1, w.O1, t.outputs_1)
        aside(w.V2, w.O2, t.OV2)
        aside(t.equal_rows, t.QK2, t.queries_2)
        aside(t.both, t.OV2, t.outputs_2)
        aside(t.both, t.queries_2.mT, t.scores_2)
        torch.matmul(t.embeddings, w.Q1, out=t.queries_1)
        torch.matmul(t.embeddings, w.K1, out=t.keys_1)
        return t

    def _tables_backward(
        self, w: Weights, t: Tables, g_scores_1: Tensor, g_scores_2: Tensor, g_outputs: Tensor, grads: Weights
    ) -> None:
        """Waits for all that is begun; the gradients that it reads must be there, but for `g_scores_1`."""
        K, C, aside, plus_product = self.K, self.C, self.kernels.product_aside, self.kernels.plus_product
        with self.kernels.after_layer_1_backward():
            g_queries_1, g_keys_1 = self._scaled(g_scores_1, t.keys_1), self._scaled(g_scores_1.mT, t.queries_1)
            torch.matmul(t.embeddings.mT, g_queries_1, out=grads.Q1)
            torch.matmul(t.embeddings.mT, g_keys_1, out=grads.K1)
            g_through_scores = plus_product(g_queries_1 @ w.Q1.mT, g_keys_1, w.K1.mT)

        g_equal, g_out2 = g_outputs.split_with_sizes([C + 1, 2 * C], -2)
        g_OV2 = t.both.mT @ g_out2
        aside(g_OV2, w.O2.mT, grads.V2)
        aside(w.V2.mT, g_OV2, grads.O2)
        g_both = plus_product(g_out2 @ t.OV2.mT, g_scores_2, t.queries_2)
        g_queries_2 = g_scores_2.mT @ t.both
        g_QK2 = self._scaled(t.equal_rows.mT, g_queries_2)
        aside(g_QK2, w.K2, grads.Q2)
        aside(g_QK2.mT, w.Q2, grads.K2)
        g_equal = plus_product(g_equal, g_queries_2, t.QK2.mT)

        g_embeddings, g_outputs_1 = g_both.split_with_sizes([C, C], -2)
        g_through, g_constant = g_equal.split_with_sizes([C, 1], -2)
        g_outputs_1 += g_through
        g_embeddings[..., self.equals :: C - 1 - self.equals, :] += g_constant  # the rows of `=` and its position
        aside(t.values_1.mT, g_outputs_1, grads.O1)
        g_values_1 = g_outputs_1 @ w.O1.mT
        aside(t.embeddings.mT, g_values_1, grads.V1)
        plus_product(g_embeddings, g_values_1, w.V1.mT)
        self.kernels.join()

        torch.add(g_embeddings[..., :K, :], g_through_scores[..., :K, :], out=grads.E)
        torch.add(g_embeddings[..., K:, :], g_through_scores[..., K:, :], out=grads.pos)

    def _scaled(self, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        """a @ b / sqrt(d_head), without another pass over the product."""
        product = a.new_empty(*a.shape[:-1], b.shape[-1]) if out is None else out
        plus = product.addmm_ if a.dim() == 2 else product.baddbmm_
        return plus(a, b, beta=0, alpha=self.scale)  # with beta = 0, what the memory held is not read
