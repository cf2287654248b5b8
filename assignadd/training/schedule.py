"""What changes in training: learning rates, frozen parts, literals withheld at first, and scores added for a time."""

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

# The names of a part's weights in its layer.
WEIGHTS = {
    "QK": ("attn.W_Q", "attn.W_K", "attn.b_Q", "attn.b_K"),
    "OV": ("attn.W_V", "attn.W_O", "attn.b_V", "attn.b_O"),
    "MLP": ("mlp.",),
}


class Rates:
    """The learning rate of each model at any step. The step is a tensor, so that a CUDA graph can be replayed."""

    def __init__(self, optims: Sequence[Optim], device: torch.device):
        column = partial(torch.tensor, dtype=torch.float64, device=device)
        self._first = column([[o.lr] for o in optims])
        self._later = column([[o.lr if o.later_lr is None else o.later_lr] for o in optims])
        self._later_from = column([[o.later_from] for o in optims])
        self._warmup = column([[max(1, o.warmup)] for o in optims])
        self._weight_decay = column([[o.weight_decay] for o in optims])

    def __call__(self, step: Int[Tensor, "..."]) -> Float[Tensor, "M steps"]:
        """The rates of the update after `step` updates, or of several."""
        base = torch.where(step < self._later_from, self._first, self._later)
        return base * ((step + 1) / self._warmup).clamp(max=1)

    def write(self, step: Int[Tensor, ""], moments: Moments) -> None:
        """Writes the rates of the next update to where AdamW reads them."""
        rates = self(step)
        moments.exact_rate.copy_(rates)
        moments.rate.copy_(rates)
        moments.decay.copy_(rates * self._weight_decay)


class Frozen:
    """The weights of each model that are kept as they are, from which step and until which."""

    def __init__(self, configs: Sequence[Config], device: torch.device):
        masks = torch.stack([_frozen_weights(config) for config in configs])
        self._masks: Bool[Tensor, "M P"] = masks.to(device)
        self._from = torch.tensor([[c.optim.frozen_from] for c in configs], device=device)
        self._until = torch.tensor([[c.optim.frozen_until] for c in configs], device=device)

    def restore(self, step: Int[Tensor, ""], flat: Float[Tensor, "M P"], before: Float[Tensor, "M P"]) -> None:
        """Takes back update number `step` of the weights that are frozen then; `before` are those before it."""
        torch.where(self._masks & (self._from < step) & (step <= self._until), before, flat, out=flat)


class SlotScores:
    """Adds a number to scores of layer 1 in some steps: those of `=` for operand slots that hold variables.

    The number is constant, so that the backward pass, which reads the attention alone, stays as it is.
    """

    def __init__(self, configs: Sequence[Config], step: Int[Tensor, ""]):
        task, optims, vocabulary = configs[0].task, [c.optim for c in configs], Vocabulary(configs[0].task)
        column = partial(torch.tensor, device=step.device)
        self._step = step
        self._scores = column([o.slot_score for o in optims], dtype=torch.float64)
        self._from = column([o.slot_score_from for o in optims])
        self._until = column([o.slot_score_until for o in optims])
        self._slots = slice(task.prefix + 1, task.length - 1)
        self._first_variable = vocabulary.first_variable
        self._after_variables = vocabulary.first_variable + task.n_vars
        self._n_tokens, self._n_rows = vocabulary.size, vocabulary.size + task.length

    def add(
        self, tokens: Int[Tensor, "*M B T"], attention: Float[Tensor, "*M B T T"], usage: Float[Tensor, "*M B rows"]
    ) -> None:
        """Changes layer 1's attention, and what `=` gets of each row of the tables, to those with the added scores."""
        is_active = (self._from <= self._step) & (self._step < self._until)
        scores = torch.where(is_active, self._scores, 0).to(attention.dtype).view(-1, *[1] * (tokens.dim() - 1))
        operands = tokens[..., self._slots].long()
        is_variable = (operands >= self._first_variable) & (operands < self._after_variables)
        of_equals, used = attention[..., -1, :], usage[..., : self._n_rows]
        # A weight is multiplied by exp(score); then all are divided by their new sum.
        added = of_equals[..., self._slots] * torch.expm1(scores * is_variable)
        total = 1 + added.sum(-1, keepdim=True)
        of_equals[..., self._slots] += added
        used[..., self._n_tokens :][..., self._slots] += added
        for token, amount in zip(operands.split(1, -1), added.split(1, -1), strict=True):
            used.scatter_add_(-1, token, amount)  # one at a time: the order of two sums would not be fixed
        of_equals /= total
        used /= total


class LiteralsLater:
    """Draws as `Sampler` does, for each model from the step on from which it has sequences without variables.

    Before that step a row has the numbers, variables and assignments of a sampler without such sequences. Both are
    drawn at every step, so that a CUDA graph can be replayed.
    """

    def __init__(self, always: Sampler, at_first: Sampler, literals_from: Sequence[int]):
        self.task, self.seeds = always.task, always.seeds
        self._always, self._at_first = always, at_first
        self._from = torch.tensor(literals_from, device=always.seeds.device)[:, None]  # (M, 1)

    def sample(self, step: Tensor | int, rows: int) -> Batch:
        """`rows` sequences for each model and step, with the axes of `Sampler.sample`."""
        late, early = self._always.sample(step, rows), self._at_first.sample(step, rows)
        withheld = torch.as_tensor(step, device=self._from.device) < self._from  # (..., M, 1)
        tokens = torch.where(withheld.unsqueeze(-1), early.tokens, late.tokens)
        return Batch(tokens, torch.where(withheld, early.labels, late.labels))


Drawing = Sampler | UserSampler | LiteralsLater


def rates_of(configs: Sequence[Config], device: torch.device) -> Rates | None:
    """The schedules of the learning rates; None where all stay as they are."""
    optims = [c.optim for c in configs]
    return Rates(optims, device) if any(o.warmup or o.later_lr is not None for o in optims) else None


def frozen_of(configs: Sequence[Config], device: torch.device) -> Frozen | None:
    """The frozen weights; None where no model has any."""
    return Frozen(configs, device) if any(_part(c.optim) != "none" for c in configs) else None


def slot_scores_of(configs: Sequence[Config], step: Int[Tensor, ""]) -> SlotScores | None:
    """What is added to scores of layer 1 at the step that `step` holds; None where nothing ever is."""
    return SlotScores(configs, step) if any(c.optim.slot_score and c.optim.slot_score_until for c in configs) else None


def training_sampler(configs: Sequence[Config], seen: Tensor, device: torch.device) -> Drawing:
    """What draws the training sequences of these models."""
    tasks, seeds = [c.task for c in configs], [c.seed.data or 0 for c in configs]
    always = sampler_of(tasks, seen, seeds, device=device)
    literals_from = [c.optim.literals_from for c in configs]
    if not any(literals_from) or isinstance(always, UserSampler):
        return always
    at_first = Sampler(tasks, seen, seeds, device=device, literals=[first == 0 for first in literals_from])
    return LiteralsLater(always, at_first, literals_from)


def _part(optim: Optim) -> str:
    """The part that is frozen at some step, or `none`."""
    return optim.frozen if optim.frozen_until else "none"


def shapes_of_part(config: Config, part: str) -> dict[str, Shape]:
    """Name -> shape of the weights of a part of one model, such as QK1; empty for `none`."""
    if part == "none":
        return {}
    kind, layer = part[:-1], part[-1]
    prefixes = ("embed.W_E",) if part == "W_E" else tuple(f"blocks.{int(layer) - 1}.{name}" for name in WEIGHTS[kind])
    return {name: shape for name, shape in weight_shapes(config).items() if name.startswith(prefixes)}


def _frozen_weights(config: Config) -> Bool[Tensor, " P"]:
    """Which of a model's weights, in their order in memory, belong to its frozen part."""
    names = shapes_of_part(config, _part(config.optim))
    mask = torch.zeros(sum(map(math.prod, weight_shapes(config).values())), dtype=torch.bool)
    for name, weights in views(config, mask).items():
        weights.fill_(name in names)
    return mask
