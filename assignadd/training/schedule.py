"""Changes during training: of learning rates, frozen parts, literals withheld at first, scores added for a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, Optim
from assignadd.model.kernels.tensor import Moments
from assignadd.model.stack import Shape, views, weight_shapes
from assignadd.task.own import UserSampler, sampler_of
from assignadd.task.sampler import Batch, Sampler
from assignadd.task.vocabulary import Vocabulary

# How the names of the weights of a part of a network begin, after `blocks.LAYER.` for a part of a layer.
WEIGHTS = {
    "all": ("",),
    "none": (),
    "W_E": ("embed.W_E",),
    "embed": ("embed.", "pos_embed."),
    "unembed": ("unembed.",),
    "QK": ("attn.W_Q", "attn.W_K", "attn.b_Q", "attn.b_K"),
    "OV": ("attn.W_V", "attn.W_O", "attn.b_V", "attn.b_O"),
    "MLP": ("mlp.",),
}


class Rates:
    """The learning rate of each model at any step. The step is a tensor, so that a CUDA graph can be replayed.

    It is `lr`, or `later_lr` from step `later_from` on, and rises to that from 0 over the first `warmup` steps.
    """

    def __init__(self, optims: Sequence[Optim], device: torch.device):
        column = partial(torch.tensor, dtype=torch.float64, device=device)  # (M, 1)
        self.change = any(optim.warmup or optim.later_lr is not None for optim in optims)
        """Whether any rate ever changes."""
        self._first = column([[o.lr] for o in optims])
        self._later = column([[o.lr if o.later_lr is None else o.later_lr] for o in optims])
        self._later_from = column([[o.later_from] for o in optims])
        self._warmup = column([[max(1, o.warmup)] for o in optims])
        self._weight_decay = column([[o.weight_decay] for o in optims])

    def __call__(self, step: Int[Tensor, "..."]) -> Float[Tensor, "M steps"]:
        """The rate of each model at one or several steps, which count from 0."""
        base = torch.where(step < self._later_from, self._first, self._later)
        return base * ((step + 1) / self._warmup).clamp(max=1)

    def write(self, step: Int[Tensor, ""], moments: Moments) -> None:
        """Writes the rates of the next update into `moments`, where AdamW reads them, in both precisions."""
        rates = self(step)  # (M, 1), in double precision
        moments.rate_in_double.copy_(rates)
        moments.rate.copy_(rates)  # rounded to the precision of the weights
        moments.decay.copy_(rates * self._weight_decay)


class Frozen:
    """The weights of each model that do not change, from which step and until which."""

    def __init__(self, configs: Sequence[Config], device: torch.device):
        self._masks = torch.stack([_frozen_weights(config) for config in configs]).to(device)  # (M, P)
        self._from = torch.tensor([[c.optim.frozen_from] for c in configs], device=device)
        self._until = torch.tensor([[c.optim.frozen_until] for c in configs], device=device)

    def restore(self, count: Int[Tensor, ""], flat: Float[Tensor, "M P"], before: Float[Tensor, "M P"]) -> None:
        """Undoes the update of step `count - 1` in `flat` where weights are frozen; `before` has those before it."""
        # from <= count - 1 < until, for each model
        is_frozen = self._masks & (self._from < count) & (count <= self._until)  # (M, P)
        torch.where(is_frozen, before, flat, out=flat)


class SlotScores:
    """Adds a number to scores of layer 1 in some steps: those of `=` for operand slots that hold variables.

    A constant has no gradient, so the backward pass, which reads the attention alone, needs no change. The tensor
    `step` always holds the number of the current step.
    """

    def __init__(self, configs: Sequence[Config], step: Int[Tensor, ""]):
        task, optims = configs[0].task, [config.optim for config in configs]
        vocabulary = Vocabulary(task)
        per_model = partial(torch.tensor, device=step.device)  # (M,)
        self._step = step
        self._scores = per_model([o.slot_score for o in optims], dtype=torch.float64)
        self._from = per_model([o.slot_score_from for o in optims])
        self._until = per_model([o.slot_score_until for o in optims])
        self._slots = slice(task.prefix + 1, task.length - 1)  # the operands: after `+`, before `=`
        self._first_variable = vocabulary.first_variable
        self._n_tokens, self._n_rows = vocabulary.size, vocabulary.size + task.length

    def add(
        self, tokens: Int[Tensor, "*M B T"], attention: Float[Tensor, "*M B T T"], usage: Float[Tensor, "*M B rows"]
    ) -> None:
        """Changes layer 1's `attention`, and the `usage` of each table row by `=`, to those with the added scores.

        `TableForward.forward` calls it between its two layers. The first columns of `usage` are the attention of `=` to
        each row of the tables: K tokens, then T positions.
        """
        is_active = (self._from <= self._step) & (self._step < self._until)  # (M,)
        scores = torch.where(is_active, self._scores, 0).to(attention.dtype)
        scores = scores.view(-1, *[1] * (tokens.dim() - 1))  # (M, 1, 1), or (1, 1) for one model
        operands = tokens[..., self._slots].long()  # (..., B, operands)
        is_variable = operands >= self._first_variable
        # Views of the attention of `=`: to positions (..., B, T), to rows (..., B, C), to the rows of positions.
        to_positions, to_rows = attention[..., -1, :], usage[..., : self._n_rows]
        to_position_rows = to_rows[..., self._n_tokens :]
        # The softmax again: a weight w becomes w e^score = w + w expm1(score), and all, whose sum was 1, are divided by
        # the new sum. An attended position counts in the row of its token and in that of its position.
        added = to_positions[..., self._slots] * torch.expm1(scores * is_variable)  # (..., B, operands)
        total = 1 + added.sum(-1, keepdim=True)
        to_positions[..., self._slots] += added
        to_position_rows[..., self._slots] += added
        # One operand at a time: if both are one token, the order of the two sums would not be fixed.
        for token, amount in zip(operands.split(1, -1), added.split(1, -1), strict=True):
            to_rows.scatter_add_(-1, token, amount)
        to_positions /= total
        to_rows /= total


class LiteralsLater:
    """A sampler that draws as `at_first` before each model's step `literals_from`, and as `always` from then on."""

    def __init__(self, always: Sampler, at_first: Sampler, literals_from: Sequence[int]):
        self.seeds = always.seeds
        self._always, self._at_first = always, at_first
        self._from = torch.tensor(literals_from, device=always.seeds.device)[:, None]  # (M, 1)

    def sample(self, step: Tensor | int, rows: int) -> Batch:
        """`rows` sequences for each model and step, with the axes of `Sampler.sample`."""
        # Both draw at every step, so that a CUDA graph can be replayed.
        always, at_first = self._always.sample(step, rows), self._at_first.sample(step, rows)
        is_before = torch.as_tensor(step, device=self._from.device) < self._from  # (..., M, 1)
        tokens = torch.where(is_before[..., None], at_first.tokens, always.tokens)  # (..., M, B, T)
        labels = torch.where(is_before, at_first.labels, always.labels)  # (..., M, B)
        return Batch(tokens, labels)


Drawing = Sampler | UserSampler | LiteralsLater
"""The samplers of training sequences."""


def frozen_of(configs: Sequence[Config], device: torch.device) -> Frozen | None:
    """The models' frozen weights; None where no model ever has any."""
    has_any = any(config.optim.frozen != "none" and config.optim.frozen_until for config in configs)
    return Frozen(configs, device) if has_any else None


def slot_scores_of(configs: Sequence[Config], step: Int[Tensor, ""]) -> SlotScores | None:
    """What settings add to scores of layer 1 at the step whose number `step` holds; None where they never add any."""
    has_any = any(config.optim.slot_score and config.optim.slot_score_until for config in configs)
    return SlotScores(configs, step) if has_any else None


def training_sampler(configs: Sequence[Config], seen: Tensor, device: torch.device) -> Drawing:
    """The sampler of the training sequences of these models; a model has no literals before its `literals_from`."""
    tasks = [config.task for config in configs]
    seeds = [config.seed.data or 0 for config in configs]
    always = sampler_of(tasks, seen, seeds, device=device)
    literals_from = [config.optim.literals_from for config in configs]
    if not any(literals_from) or isinstance(always, UserSampler):
        return always
    has_literals_at_first = [first_step == 0 for first_step in literals_from]  # of each model
    at_first = Sampler(tasks, seen, seeds, device=device, literals=has_literals_at_first)
    return LiteralsLater(always, at_first, literals_from)


def shapes_of_part(config: Config, part: str) -> dict[str, Shape]:
    """Name -> shape of the weights of a part of one model: such as W_E or QK1, `all` of them, or `none`."""
    kind = part.rstrip("0123456789")  # QK of QK1
    layer = part.removeprefix(kind)  # 1 of QK1; empty for a part that no layer has
    block = f"blocks.{int(layer) - 1}." if layer else ""  # blocks count from 0, layers from 1
    prefixes = tuple(block + prefix for prefix in WEIGHTS.get(kind, ()))
    return {name: shape for name, shape in weight_shapes(config).items() if name.startswith(prefixes)}


def _frozen_weights(config: Config) -> Bool[Tensor, " P"]:
    """Which of a model's weights, in their order in memory, belong to its frozen part."""
    n_weights = sum(math.prod(shape) for shape in weight_shapes(config).values())
    mask = torch.zeros(n_weights, dtype=torch.bool)
    mask_of_weight = views(config, mask)
    for name in shapes_of_part(config, config.optim.frozen):
        mask_of_weight[name].fill_(True)
    return mask
