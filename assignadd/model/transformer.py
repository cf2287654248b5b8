"""The reference transformer and its hook points: every step as the textbook has it, for every architecture.

Names and shapes of weights and hook points are those of TransformerLens, where layers count from 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, vmap

from assignadd.config import Config, Model
from assignadd.config.errors import one_of
from assignadd.model.stack import Stack, initial_stack
from assignadd.task.vocabulary import sizes_of

HookFn = Callable[[Tensor, "HookPoint"], "Tensor | None"]
NameFilter = str | Sequence[str] | Callable[[str], bool]
"""Names of hook points: a name, several, or a function that says which names are meant."""


class HookPoint(nn.Module):
    """A place to look at an activation: the identity, until functions are attached.

    Each is called as function(activation, this point) and may return a replacement for the activation, or None.
    """

    def __init__(self) -> None:
        super().__init__()
        self.name = ""
        self.functions: list[HookFn] = []

    def forward(self, activation: Tensor) -> Tensor:
        for function in self.functions:
            replacement = function(activation, self)
            activation = activation if replacement is None else replacement
        return activation


NORM_EPS = 1e-5
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "abs": torch.abs}


def _unloaded(*shape: int) -> nn.Parameter:
    """A weight without values, so that none can be used before `Transformer` loads them."""
    return nn.Parameter(torch.empty(shape, device="meta"))


def _bias(model: Model, *shape: int) -> nn.Parameter | None:
    """A bias without values; None in a model without biases."""
    return _unloaded(*shape) if model.biases else None


def plus_bias(x: Tensor, bias: Tensor | None) -> Tensor:
    """x + bias, or x in a model without biases."""
    return x if bias is None else x + bias


class Embed(nn.Module):
    """W_E: the embedding of every token."""

    def __init__(self, n_tokens: int, d: int):
        super().__init__()
        self.W_E = _unloaded(n_tokens, d)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.W_E[tokens]  # (B, T, d)


class PosEmbed(nn.Module):
    """W_pos: the embedding of every position."""

    def __init__(self, length: int, d: int):
        super().__init__()
        self.W_pos = _unloaded(length, d)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.W_pos[: tokens.shape[1]].expand(len(tokens), -1, -1)  # (B, T, d)


class Norm(nn.Module):
    """Layer norm, or RMS norm, which neither subtracts the mean nor adds a bias. `hook_normalized` is its output."""

    def __init__(self, model: Model):
        super().__init__()
        self.centred = model.norm == "layer"
        self.w = _unloaded(model.d_model)
        self.b = _unloaded(model.d_model) if self.centred else None
        self.hook_scale, self.hook_normalized = HookPoint(), HookPoint()

    def forward(self, x: Tensor) -> Tensor:
        """The normalised residual stream, (B, T, d)."""
        if self.centred:
            x = x - x.mean(-1, keepdim=True)
        scale = self.hook_scale((x.square().mean(-1, keepdim=True) + NORM_EPS).sqrt())  # (B, T, 1)
        return self.hook_normalized(plus_bias(x / scale * self.w, self.b))


def _norm(model: Model) -> nn.Module:
    """The norm that the settings ask for; a module that changes nothing where they ask for none."""
    return nn.Identity() if model.norm == "none" else Norm(model)


class Attention(nn.Module):
    """Causal attention with learned Q, K, V, O for each head; scores are divided by sqrt(d_head).

    With `last_only`, the last position is the only query.
    """

    def __init__(self, model: Model):
        super().__init__()
        H, d, dh = model.n_heads, model.d_model, model.d_head
        self.W_Q, self.W_K, self.W_V = _unloaded(H, d, dh), _unloaded(H, d, dh), _unloaded(H, d, dh)
        self.W_O = _unloaded(H, dh, d)
        self.b_Q, self.b_K, self.b_V = _bias(model, H, dh), _bias(model, H, dh), _bias(model, H, dh)
        self.b_O = _bias(model, d)
        self.hook_q, self.hook_k, self.hook_v, self.hook_z = HookPoint(), HookPoint(), HookPoint(), HookPoint()
        self.hook_attn_scores, self.hook_pattern = HookPoint(), HookPoint()

    def forward(self, x: Tensor, last_only: bool = False) -> Tensor:
        """What attention writes at each query position, (B, T or 1, d), from the residual stream (B, T, d)."""
        queries = x[:, -1:].contiguous() if last_only else x  # a product with a view is slow
        q = self.hook_q(plus_bias(torch.einsum("btd,hde->bthe", queries, self.W_Q), self.b_Q))  # (B, T or 1, H, dh)
        k = self.hook_k(plus_bias(torch.einsum("btd,hde->bthe", x, self.W_K), self.b_K))
        v = self.hook_v(plus_bias(torch.einsum("btd,hde->bthe", x, self.W_V), self.b_V))
        # The copy costs next to nothing; with a transposed view batched float32 products on ARM are 70 times slower.
        keys = k.permute(0, 2, 3, 1).contiguous()  # (B, H, dh, T)
        d_head = q.shape[-1]
        scores = q.transpose(1, 2) @ keys / math.sqrt(d_head)  # (B, H, T or 1, T)
        first_query = x.shape[1] - q.shape[1]  # its position: 0, or the last
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1 + first_query)
        scores = self.hook_attn_scores(scores.masked_fill(future, -math.inf))
        pattern = self.hook_pattern(scores.softmax(-1))
        z = self.hook_z(torch.einsum("bhqk,bkhe->bqhe", pattern, v))  # (B, T or 1, H, dh)
        return plus_bias(torch.einsum("bthe,hed->btd", z, self.W_O), self.b_O)


class MLP(nn.Module):
    """activation(x W_in + b_in) W_out + b_out, at every position."""

    def __init__(self, model: Model, width: int):
        super().__init__()
        self.W_in, self.W_out = _unloaded(model.d_model, width), _unloaded(width, model.d_model)
        self.b_in, self.b_out = _bias(model, width), _bias(model, model.d_model)
        self.activation = ACTIVATIONS[model.activation]
        self.hook_pre, self.hook_post = HookPoint(), HookPoint()

    def forward(self, x: Tensor) -> Tensor:
        """The MLP's output at every position, (B, T, d)."""
        pre = self.hook_pre(plus_bias(x @ self.W_in, self.b_in))  # (B, T, h)
        post = self.hook_post(self.activation(pre))
        return plus_bias(post @ self.W_out, self.b_out)


class Block(nn.Module):
    """Attention, then an MLP where the layer has one, each added to the residual stream it reads (through its norm).

    With `replaces`, the output of the MLP replaces the residual stream instead. With `last_only`, the output is that of
    the last position alone.
    """

    def __init__(self, model: Model, width: int | None, replaces: bool = False):
        super().__init__()
        self.replaces = replaces
        self.ln1, self.attn = _norm(model), Attention(model)
        self.hook_resid_pre, self.hook_attn_out, self.hook_resid_post = HookPoint(), HookPoint(), HookPoint()
        self.mlp = None
        if width is not None:
            self.ln2, self.mlp = _norm(model), MLP(model, width)
            self.hook_resid_mid, self.hook_mlp_out = HookPoint(), HookPoint()

    def forward(self, x: Tensor, last_only: bool = False) -> Tensor:
        """The residual stream after this layer, (B, T or 1, d)."""
        x = self.hook_resid_pre(x)  # (B, T, d)
        attn_out = self.hook_attn_out(self.attn(self.ln1(x), last_only))  # (B, T or 1, d)
        x = (x[:, -1:] if last_only else x) + attn_out
        if self.mlp is not None:
            x = self.hook_resid_mid(x)
            mlp_out = self.hook_mlp_out(self.mlp(self.ln2(x)))
            x = self.after_mlp(x, mlp_out)
        return self.hook_resid_post(x)

    def after_mlp(self, resid_mid: Tensor, mlp_out: Tensor) -> Tensor:
        """The residual stream after the MLP."""
        return mlp_out if self.replaces else resid_mid + mlp_out


class Unembed(nn.Module):
    """W_U: the logits of the `n_answers` answers from the residual stream."""

    def __init__(self, model: Model, n_answers: int):
        super().__init__()
        self.W_U = _unloaded(model.d_model, n_answers)
        self.b_U = _bias(model, n_answers)

    def forward(self, x: Tensor) -> Tensor:
        return plus_bias(x @ self.W_U, self.b_U)  # (B, T, N)


class Transformer(nn.Module):
    """One model (paper, section 3) with copies of these `weights`, by the names that `weight_shapes` gives them.

    Without `weights` it is the untrained model of seed 0.
    """

    def __init__(self, config: Config, weights: Mapping[str, Tensor] | None = None):
        super().__init__()
        self.config = config
        model, self.sizes = config.model, sizes_of(config.task)
        self.embed = Embed(self.sizes.n_tokens, model.d_model)
        self.pos_embed = PosEmbed(self.sizes.length, model.d_model)
        self.hook_embed, self.hook_pos_embed = HookPoint(), HookPoint()
        self.blocks = nn.ModuleList(Block(model, width) for width in model.d_mlp[:-1])
        self.blocks.append(Block(model, model.d_mlp[-1], replaces=not model.direct_path))
        self.ln_final = _norm(model)
        self.unembed = Unembed(model, self.sizes.n_answers)
        self.hook_points = {name: module for name, module in self.named_modules() if isinstance(module, HookPoint)}
        for name, point in self.hook_points.items():  # such as `blocks.0.attn.hook_pattern`
            point.name = name
        if weights is None:
            weights = initial_stack(config, [0]).of_model(0)
        self.load_state_dict({name: weight.detach().clone() for name, weight in weights.items()}, assign=True)

    @classmethod
    def from_stack(cls, stack: Stack, index: int) -> Transformer:
        """Model `index` of the stack as a module."""
        if not -len(stack) <= index < len(stack):
            raise ValueError(f"model {index} of a stack of {len(stack)}: expected an index from 0 to {len(stack) - 1}")
        return cls(stack.config, stack.of_model(index))

    @property
    def device(self) -> torch.device:
        """Where the weights are; tools that attach to any model read it."""
        return self.embed.W_E.device

    def forward(self, tokens: Int[Tensor, "B T"], last_only: bool = False) -> Float[Tensor, "B queries N"]:
        """Logits at every position, or with `last_only` at the last position alone, `=`.

        Nothing reads the last block's other positions then: they are left out, and its hooks see one query.
        """
        if tokens.ndim != 2 or tokens.shape[1] > self.sizes.length:
            raise ValueError(
                f"tokens have shape {tuple(tokens.shape)}: expected (B, T) with T at most {self.sizes.length}"
            )
        x = self.hook_embed(self.embed(tokens)) + self.hook_pos_embed(self.pos_embed(tokens))
        return self.from_residual(x, last_only)

    def from_residual(self, x: Float[Tensor, "B T d"], last_only: bool = False) -> Float[Tensor, "B queries N"]:
        """Logits from the residual stream before the first block."""
        for layer, block in enumerate(self.blocks, 1):
            x = block(x, last_only and layer == len(self.blocks))
        return self.unembed(self.ln_final(x))

    def answer_logits(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B N"]:
        """The logits at the last position, `=`, where the task has its answer."""
        return self(tokens)[:, -1]

    @contextmanager
    def hooks(self, fwd_hooks: Sequence[tuple[NameFilter, HookFn]]) -> Iterator[None]:
        """Within this context the functions are attached to the points they name, in the order of the pairs."""
        with ExitStack() as detach:
            for names, function in fwd_hooks:
                for name in self.matching(names):
                    functions = self.hook_points[name].functions
                    functions.append(function)
                    detach.callback(functions.remove, function)
            yield

    def run_with_hooks(self, tokens: Tensor, fwd_hooks: Sequence[tuple[NameFilter, HookFn]]) -> Tensor:
        """The logits with `fwd_hooks`, pairs of names and a function, attached for this pass only."""
        with self.hooks(fwd_hooks):
            return self(tokens)

    def run_with_cache(
        self, tokens: Tensor, names_filter: NameFilter | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The logits, and by name the (detached) activation at each hook point that `names_filter` names, all if None.

        Within `hooks`, the activation is the replacement that a hook function returned, if any did.
        """
        cache: dict[str, Tensor] = {}

        def keep(activation: Tensor, point: HookPoint) -> None:
            cache[point.name] = activation.detach()

        names = list(self.hook_points) if names_filter is None else names_filter
        return self.run_with_hooks(tokens, [(names, keep)]), cache

    def matching(self, names: NameFilter) -> list[str]:
        """The names of the hook points that are meant; a ValueError for a name of none, or a filter that none fits."""
        if callable(names):
            passing = [name for name in self.hook_points if names(name)]
            if not passing:
                raise ValueError(f"no hook point passes the filter: there are {', '.join(self.hook_points)}")
            return passing
        requested = [names] if isinstance(names, str) else list(names)
        for name in requested:
            if name not in self.hook_points:
                raise ValueError(f"no hook point {name!r}: expected {one_of(name, self.hook_points)}")
        return requested


@lru_cache(maxsize=16)
def shape_only(config: Config) -> Transformer:
    """A transformer whose weights are never read: `functional_call` replaces them by those of a model of a stack."""
    return Transformer(config)


def reference_logits(stack: Stack, tokens: Int[Tensor, "M B T"]) -> Float[Tensor, "M B *positions N"]:
    """Answer logits of every model on its own sequences, by the reference transformer; autograd differentiates them.

    They are those at the last position, or at every position for a task that has answers there.
    """
    model, everywhere = shape_only(stack.config), sizes_of(stack.config.task).everywhere

    def answer(model_weights: dict[str, Tensor], model_tokens: Tensor) -> Tensor:
        last_only = not everywhere
        logits = functional_call(model, model_weights, (model_tokens, last_only))
        return logits if everywhere else logits[:, -1]

    return vmap(answer)(dict(stack.weights), tokens)
